"""An index as the control plane shows it, in the form of the version that asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servers.pinecone.schema import Description
from servers.pinecone.store import Index
from servers.pinecone.versions import DEDICATED, speaks_schema

Json = Any

_SINCE = {
    "deletion_protection": "2024-07",
    "tags": "2024-10",
    "embed": "2025-01",
    "vector_type": "2025-01",
    "private_host": "2025-04",
}
"""The first version that shows a part of an index."""


def shown(index: Index, version: str, *, is_ready: bool = True) -> dict[str, Json]:
    """The model of an index. A new one is not ready in the answer to its creation, and is when asked for again."""
    status = {"ready": is_ready, "state": "Ready" if is_ready else "Initializing"}
    return _by_schema(index, status) if speaks_schema(version) else _by_spec(index, version, status)


def _by_schema(index: Index, status: Mapping[str, Json]) -> dict[str, Json]:
    description = index.description
    found = {
        "name": description.name,
        "host": index.host,
        "private_host": index.private_host,
        "status": status,
        "schema": {"fields": description.fields},
        "deployment": description.deployment,
        "read_capacity": _read_capacity(description),
        "deletion_protection": description.deletion_protection,
    }
    return found if description.tags is None else {**found, "tags": description.tags}


def _by_spec(index: Index, version: str, status: Mapping[str, Json]) -> dict[str, Json]:
    description = index.description
    dense = next(iter(description.dense().values()), None)
    found: dict[str, Json] = {
        "name": description.name,
        "dimension": None if dense is None else dense.dimension,
        "metric": "dotproduct" if dense is None else dense.metric,
        "host": index.host,
        "private_host": index.private_host,
        "deletion_protection": description.deletion_protection,
        "tags": description.tags,
        "embed": description.embed,
        "spec": _spec(description, version),
        "status": status,
        "vector_type": description.vector_type(),
    }
    return {name: value for name, value in found.items() if value is not None and version >= _SINCE.get(name, version)}


def _spec(description: Description, version: str) -> dict[str, Json]:
    deployment = {name: value for name, value in description.deployment.items() if name != "deployment_type"}
    if description.deployment["deployment_type"] == "pod":
        return {"pod": {**deployment, "pods": deployment["replicas"] * deployment["shards"]}}
    if version >= DEDICATED:
        deployment["read_capacity"] = _read_capacity(description)
        if description.metadata_schema is not None:
            deployment["schema"] = description.metadata_schema
    return {"byoc" if description.deployment["deployment_type"] == "byoc" else "serverless": deployment}


def _read_capacity(description: Description) -> dict[str, Json]:
    asked = description.read_capacity or {"mode": "OnDemand"}
    return {**asked, "status": {"state": "Ready"}}

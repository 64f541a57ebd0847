"""The control plane: indexes made, listed, described, configured and deleted, in the form of the version that asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from servers.pinecone.calls import ALPHA, DEDICATED, Answer, Call, plain, speaks_schema
from servers.pinecone.errors import invalid
from servers.pinecone.fields import MAX_DIMENSION, mapping, text, whole
from servers.pinecone.store import DENSE, METRICS, SPARSE, Description, Index, Project, known_model

# An index as the control plane shows it, in the form of the version that asks.


Json = Any

_SINCE = {
    "deletion_protection": "2024-07",
    "tags": "2024-10",
    "embed": "2025-01",
    "vector_type": "2025-01",
    "private_host": "2025-04",
}
"""The first version that shows a part of an index."""


def index_document(index: Index, version: str, *, is_ready: bool = True) -> dict[str, Json]:
    """The model of an index. A new one is not ready in the answer to its creation, and is when asked for again."""
    status = {"ready": is_ready, "state": "Ready" if is_ready else "Initializing"}
    return _by_schema(index, status) if speaks_schema(version) else _by_spec(index, version, status)


def _by_schema(index: Index, status: Mapping[str, Json]) -> dict[str, Json]:
    description = index.description
    members = {
        "name": description.name,
        "host": index.host,
        "private_host": index.private_host,
        "status": status,
        "schema": {"fields": description.fields},
        "deployment": description.deployment,
        "read_capacity": _capacity_json(description),
        "deletion_protection": description.deletion_protection,
    }
    return members if description.tags is None else {**members, "tags": description.tags}


def _by_spec(index: Index, version: str, status: Mapping[str, Json]) -> dict[str, Json]:
    description = index.description
    dense = next(iter(description.dense().values()), None)
    members: dict[str, Json] = {
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
    return {
        name: value for name, value in members.items() if value is not None and version >= _SINCE.get(name, version)
    }


def _spec(description: Description, version: str) -> dict[str, Json]:
    deployment = {name: value for name, value in description.deployment.items() if name != "deployment_type"}
    if version >= DEDICATED:
        deployment["read_capacity"] = _capacity_json(description)
        if description.metadata_schema is not None:
            deployment["schema"] = description.metadata_schema
    return {"serverless": deployment}


def _capacity_json(description: Description) -> dict[str, Json]:
    capacity = description.read_capacity or {"mode": "OnDemand"}
    return {**capacity, "status": {"state": "Ready"}}


# Reading what an index should be: the forms of create, create-for-model and configure, old and new.


Body = Mapping[str, Any]

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?")
_DEFAULT = {"cloud": "aws", "region": "us-east-1"}
_SEARCHED = ("dense_vector", "sparse_vector", "string")
_METADATA = ("string_list", "integer", "float", "boolean")
"""Fields that are only filtered by: declared in the alpha, found out by themselves since 2026-07."""


def from_spec(body: Body) -> Description:
    """An index by `dimension`, `metric`, `vector_type` and `spec`: every version before 2026-07."""
    spec = mapping(body.get("spec"), "spec")
    vector_type = text(body.get("vector_type"), "vector_type", default="dense")
    if vector_type == "sparse":
        if body.get("dimension") is not None:
            raise invalid("dimension: a sparse index has none")
        if text(body.get("metric"), "metric", default="dotproduct") != "dotproduct":
            raise invalid("metric: a sparse index has the metric dotproduct")
        fields: dict[str, Json] = {SPARSE: {"type": "sparse_vector"}}
    else:
        fields = {DENSE: _dense({**body, "type": "dense_vector"})}
    serverless = mapping(spec.get("serverless"), "spec.serverless")
    return Description(
        name=_name(body.get("name")),
        fields=fields,
        deployment=_deployment(serverless),
        read_capacity=_read_capacity(serverless),
        metadata_schema=serverless.get("schema"),
        **_labels(body),
    )


def from_schema(body: Body, default_name: str, *, declares_metadata: bool = False) -> Description:
    """An index by `schema` and `deployment`: 2026-07, and its alpha. An index that brings no name gets the default one."""
    types = (*_SEARCHED, *_METADATA) if declares_metadata else _SEARCHED
    given = mapping(mapping(body.get("schema"), "schema").get("fields"), "schema.fields")
    if not given:
        raise invalid("schema.fields: at least one field is wanted")
    fields = {name: _field(name, mapping(field, f"schema.fields.{name}"), types) for name, field in given.items()}
    return Description(
        name=_name(body.get("name") or default_name),
        fields=fields,
        deployment=_deployment(mapping(body.get("deployment") or _DEFAULT, "deployment")),
        read_capacity=_read_capacity(body),
        **_labels(body),
    )


def for_model(body: Body) -> Description:
    """An integrated index: the text of one field is embedded by a model."""
    embed = mapping(body.get("embed"), "embed")
    model = known_model(embed.get("model"))
    field_map = _field_map(embed.get("field_map"))
    metric = _metric(embed, default=model.metric)
    settings: dict[str, Json] = {"model": embed["model"], "metric": metric}
    if model.dimension is not None:
        settings["dimension"] = _dimension(embed.get("dimension") or model.dimension)
    settings |= {
        "vector_type": "sparse" if model.dimension is None else "dense",
        "field_map": field_map,
        "read_parameters": embed.get("read_parameters") or {"input_type": "query", "truncate": "END"},
        "write_parameters": embed.get("write_parameters") or {"input_type": "passage", "truncate": "END"},
    }
    place = {name: text(body.get(name), name) for name in ("cloud", "region")}
    return Description(
        name=_name(body.get("name")),
        fields={field_map["text"]: {"type": "semantic_text", "model": embed["model"], "metric": metric}},
        deployment={"deployment_type": "managed", **place},
        embed=settings,
        read_capacity=_read_capacity(body),
        metadata_schema=body.get("schema"),
        **_labels(body),
    )


def configured(old: Description, body: Body) -> Description:
    """An index after configure: tags merged (an empty value takes one away), protection, embedding parameters."""
    labels = _labels(body)
    tags = {**(old.tags or {}), **(labels["tags"] or {})}
    return replace(
        old,
        tags={name: value for name, value in tags.items() if value} or None,
        deletion_protection=labels["deletion_protection"] if "deletion_protection" in body else old.deletion_protection,
        embed=None if old.embed is None else {**old.embed, **_embedding(mapping(body.get("embed") or {}, "embed"))},
    )


def _embedding(embed: Body) -> dict[str, Json]:
    """What can be changed about an embedding; never its model."""
    members = {name: embed[name] for name in ("read_parameters", "write_parameters") if embed.get(name) is not None}
    return members if embed.get("field_map") is None else {**members, "field_map": _field_map(embed["field_map"])}


def _field_map(value: Json) -> dict[str, str]:
    fields = mapping(value, "embed.field_map")
    if not isinstance(fields.get("text"), str) or not fields["text"]:
        raise invalid("embed.field_map: the field for 'text' is wanted")
    return dict(fields)


def _read_capacity(body: Body) -> Body | None:
    value = body.get("read_capacity")
    return None if value is None else mapping(value, "read_capacity")


def _name(value: Json) -> str:
    name = text(value, "name")
    if not _NAME.fullmatch(name):
        raise invalid(
            "Name must have 1 to 45 characters: lower case letters, digits and hyphens, and begin and end with no hyphen"
        )
    return name


def _labels(body: Body) -> dict[str, Any]:
    protection = text(body.get("deletion_protection"), "deletion_protection", default="disabled")
    if protection not in {"enabled", "disabled"}:
        raise invalid("deletion_protection: 'enabled' or 'disabled' is wanted")
    tags = body.get("tags")
    if tags is not None and not all(isinstance(value, str) for value in mapping(tags, "tags").values()):
        raise invalid("tags: values are strings")
    return {"deletion_protection": protection, "tags": tags or None}


def _deployment(place: Body) -> dict[str, Json]:
    """Serverless alone."""
    return {"deployment_type": "managed", **{name: text(place.get(name), name) for name in ("cloud", "region")}}


def _field(name: str, field: Body, types: tuple[str, ...]) -> dict[str, Json]:
    if field.get("type") not in types:
        raise invalid(f"schema.fields.{name}.type: one of {', '.join(types)} is wanted")
    if field["type"] == "dense_vector":
        return _dense(field)
    members = dict(field)
    if field.get("embed") is not None:
        embed = mapping(field["embed"], f"schema.fields.{name}.embed")
        model = known_model(embed.get("model"))
        dimension = _dimension(embed.get("dimension") or model.dimension)
        members["embed"] = {**embed, "dimension": dimension, "metric": _metric(embed, default=model.metric)}
    return members


def _dense(field: Body) -> dict[str, Json]:
    metric = _metric(field, default="cosine")
    return {"type": "dense_vector", "dimension": _dimension(field.get("dimension")), "metric": metric}


def _metric(field: Body, *, default: str) -> str:
    metric = text(field.get("metric"), "metric", default=default)
    if metric not in METRICS:
        raise invalid(f"metric: one of {', '.join(METRICS)} is wanted")
    return metric


def _dimension(value: Json) -> int:
    return whole(value, "dimension", least=1, most=MAX_DIMENSION)


# The control plane: indexes made, listed, described, configured and deleted.


def list_indexes(project: Project, call: Call) -> Answer:
    """Every index; there are no pages."""
    return plain({"indexes": [index_document(one, call.version) for one in project.indexes.values()]})


def create(project: Project, call: Call) -> Answer:
    """Make an index in either form."""
    body = call.json()
    if speaks_schema(call.version):
        described = from_schema(body, project.unused_name(), declares_metadata=call.version == ALPHA)
    else:
        described = from_spec(body)
    made = project.add(described)
    return plain(index_document(made, call.version, is_ready=False), status=201)


def create_for_model(project: Project, call: Call) -> Answer:
    """Make an integrated index."""
    made = project.add(for_model(call.json()))
    return plain(index_document(made, call.version, is_ready=False), status=201)


def describe(project: Project, call: Call) -> Answer:
    """One index."""
    return plain(index_document(project.index(call.parameters["index"]), call.version))


def configure(project: Project, call: Call) -> Answer:
    """Change an index."""
    index = project.index(call.parameters["index"])
    index.description = configured(index.description, call.json())
    return plain(index_document(index, call.version), status=202)


def delete(project: Project, call: Call) -> Answer:
    """Delete an index; it is gone at once."""
    project.remove(call.parameters["index"])
    return Answer(status=202)

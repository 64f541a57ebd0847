""""""

from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.control import from_spec, shown
from servers.pinecone.store import Index

from support.emulated import EMBED, SERVERLESS, SPARSE_EMBED, articles, index, integrated

TAGGED: dict[str, Any] = {"name": "idx", "dimension": 3, "metric": "euclidean", "tags": {"a": "b"}}


def placed(body: dict[str, Any]) -> Index:
    return Index(description=from_spec(body), host="here", private_host="there")


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2024-04", ["name", "dimension", "metric", "host", "spec", "status"]),
        ("2024-07", ["name", "dimension", "metric", "host", "deletion_protection", "spec", "status"]),
        ("2024-10", ["name", "dimension", "metric", "host", "deletion_protection", "tags", "spec", "status"]),
        (
            "2025-01",
            ["name", "dimension", "metric", "host", "deletion_protection", "tags", "spec", "status", "vector_type"],
        ),
        (
            "2026-04",
            [
                "name",
                "dimension",
                "metric",
                "host",
                "private_host",
                "deletion_protection",
                "tags",
                "spec",
                "status",
                "vector_type",
            ],
        ),
    ],
)
def test_every_version_shows_what_its_description_has(version: str, names: list[str]) -> None:
    found = shown(placed({**TAGGED, "spec": SERVERLESS}), version)
    assert list(found) == names
    assert (found["host"], found["metric"], found["dimension"]) == ("here", "euclidean", 3)


def test_serverless_says_how_it_reads_since_2025_10() -> None:
    found = placed({**TAGGED, "spec": SERVERLESS})
    assert shown(found, "2025-04")["spec"] == SERVERLESS
    capacity = {"mode": "OnDemand", "status": {"state": "Ready"}}
    assert shown(found, "2025-10")["spec"] == {"serverless": {**SERVERLESS["serverless"], "read_capacity": capacity}}


def test_a_metadata_schema_is_shown_again() -> None:
    spec = {"serverless": {**SERVERLESS["serverless"], "schema": {"fields": {"y": {"filterable": True}}}}}
    found = shown(placed({**TAGGED, "spec": spec}), "2026-04")["spec"]["serverless"]
    assert found["schema"] == {"fields": {"y": {"filterable": True}}}


def test_pods_are_counted() -> None:
    spec = {"pod": {"environment": "e", "replicas": 2, "shards": 3}}
    pod = shown(placed({**TAGGED, "spec": spec}), "2026-04")["spec"]["pod"]
    assert pod == {"environment": "e", "pod_type": "p1.x1", "replicas": 2, "shards": 3, "pods": 6}
    byoc = shown(placed({**TAGGED, "spec": {"byoc": {"environment": "e"}}}), "2025-04")["spec"]
    assert byoc == {"byoc": {"environment": "e"}}


def test_a_sparse_index_has_no_dimension() -> None:
    found = shown(index(None), "2026-04")
    assert "dimension" not in found
    assert (found["metric"], found["vector_type"]) == ("dotproduct", "sparse")


@pytest.mark.parametrize(("embed", "kind"), [(EMBED, "dense"), (SPARSE_EMBED, "sparse")])
def test_an_integrated_index_shows_its_model(embed: dict[str, Any], kind: str) -> None:
    found = shown(integrated(embed), "2025-01")
    assert found["embed"]["model"] == embed["model"]
    assert found["vector_type"] == kind
    assert shown(integrated(embed), "2026-07")["schema"]["fields"]["text"]["type"] == "semantic_text"
    assert "embed" not in shown(integrated(embed), "2024-10")


def test_the_newest_version_shows_schema_and_deployment() -> None:
    found = shown(articles(), "2026-07", is_ready=False)
    assert list(found) == [
        "name",
        "host",
        "private_host",
        "status",
        "schema",
        "deployment",
        "read_capacity",
        "deletion_protection",
    ]
    assert found["status"] == {"ready": False, "state": "Initializing"}
    assert found["deployment"] == {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}
    assert shown(placed({**TAGGED, "spec": SERVERLESS}), "2026-07")["tags"] == {"a": "b"}


def test_documents_look_like_a_dense_index_to_an_old_client() -> None:
    found = shown(articles(), "2025-10")
    assert (found["dimension"], found["metric"], found["vector_type"]) == (2, "cosine", "dense")

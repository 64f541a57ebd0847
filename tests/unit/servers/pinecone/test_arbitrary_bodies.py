"""Whatever a body holds, a call answers or refuses; nothing else comes out of it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.calls import Call
from servers.pinecone.errors import RefusalError
from servers.pinecone.rest import CONTROL, DATA, Route
from servers.pinecone.store import Place, Project

from support.pinecone.emulator import articles, index, integrated

NAMES = [
    *(
        "topK",
        "top_k",
        "vector",
        "id",
        "sparseVector",
        "filter",
        "namespace",
        "queries",
        "vectors",
        "values",
        "indices",
    ),
    *("includeValues", "ids", "deleteAll", "setMetadata", "metadata", "query", "inputs", "text", "rerank", "fields"),
    *("score_by", "type", "field", "documents", "_id", "schema", "spec", "name", "dimension", "embed", "tags", "model"),
    *("limit", "paginationToken", "serverless", "pod", "replicas", "deployment", "field_map", "terms", "match_terms"),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "text", "dense_vector", "multilingual-e5-large", "$in", "sparse"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5).map(orjson.dumps) | st.binary(max_size=20)
VERSIONS = st.sampled_from(["2024-07", "2025-10", "2026-01.alpha", "2026-07"])


def made(route: Route[Any], target: Any, body: bytes, version: str) -> None:
    parameters = {"namespace": "ns", "index": "a"}
    try:
        said = route.verb(target, Call(version=version, parameters=parameters, body=body)).body
    except RefusalError as refusal:
        said = refusal.as_status()
    assert said == b"" or isinstance(orjson.loads(said), dict)


@pytest.mark.parametrize("route", DATA, ids=lambda route: f"{route.method} {route.path}")
@given(BODIES, VERSIONS)
def test_any_body_is_answered_or_refused_by_an_index(route: Route[Any], body: bytes, version: str) -> None:
    """A data call raises nothing but RefusalError, and what it answers is JSON."""
    for target in (index(), index(None), integrated(), articles()):
        made(route, target, body, version)


@pytest.mark.parametrize("route", CONTROL, ids=lambda route: f"{route.method} {route.path}")
@given(BODIES, VERSIONS)
def test_any_body_is_answered_or_refused_by_the_control_plane(route: Route[Any], body: bytes, version: str) -> None:
    """A control call raises nothing but RefusalError, and what it answers is JSON."""
    project = Project(lambda label: Place(label, label))
    project.add(index().description)
    made(route, project, body, version)

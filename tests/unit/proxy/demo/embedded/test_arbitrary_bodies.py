"""Whatever JSON comes in, a verb answers or refuses: the engine is never at fault, and nothing else escapes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.refusals import refusal_of
from vecsieve.proxy.demo.embedded import collections, points, searches
from vecsieve.proxy.demo.embedded import collections as embedded_collections
from vecsieve.proxy.demo.embedded import points as embedded_points
from vecsieve.proxy.demo.embedded import searches as embedded_searches
from vecsieve.proxy.demo.embedded.registry import Call, Registry, Verb
from vecsieve.proxy.demo.embedded.replies import dumps

# The words of the API, so that random bodies get past the first check.
FIELDS = st.sampled_from(
    [
        "limit",
        "top",
        "offset",
        "query",
        "nearest",
        "recommend",
        "positive",
        "negative",
        "strategy",
        "discover",
        "target",
        "context",
        "mmr",
        "diversity",
        "candidates_limit",
        "fusion",
        "rrf",
        "k",
        "weights",
        "order_by",
        "key",
        "direction",
        "start_from",
        "formula",
        "sum",
        "mult",
        "sample",
        "prefetch",
        "using",
        "filter",
        "must",
        "should",
        "must_not",
        "min_should",
        "conditions",
        "min_count",
        "match",
        "value",
        "any",
        "except",
        "text",
        "range",
        "gte",
        "lt",
        "has_id",
        "has_vector",
        "is_empty",
        "is_null",
        "nested",
        "values_count",
        "geo_radius",
        "center",
        "lon",
        "lat",
        "radius",
        "geo_polygon",
        "exterior",
        "points",
        "with_vector",
        "with_vectors",
        "with_payload",
        "include",
        "exclude",
        "score_threshold",
        "params",
        "exact",
        "hnsw_ef",
        "quantization",
        "acorn",
        "idf",
        "lookup_from",
        "collection",
        "vector",
        "indices",
        "values",
        "ids",
        "payload",
        "payloads",
        "batch",
        "operations",
        "upsert",
        "delete",
        "set_payload",
        "keys",
        "group_by",
        "group_size",
        "with_lookup",
        "searches",
        "id",
        "name",
        "relevance_feedback",
        "feedback",
        "example",
        "score",
        "naive",
        "a",
        "b",
        "c",
        "update_mode",
        "update_filter",
        "field_name",
        "field_schema",
        "type",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from([2**63, 2**64, -(2**63) - 1, 0.5, -1.5, 1e308])
    | st.sampled_from(
        [
            "",
            "sp",
            "rows",
            "c",
            "n",
            "n[]",
            "$score",
            "rrf",
            "random",
            "best_score",
            "integer",
            "5c56c793-69f3-4fbf-87e6-c4bf54c28c26",
        ]
    )
    | st.lists(st.floats(-1, 1, width=32), max_size=3)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)
BODIES = st.dictionaries(FIELDS, VALUES, max_size=5)
READS: list[Verb] = [
    searches.query,
    searches.search,
    searches.recommend,
    searches.discover,
    searches.query_batch,
    searches.search_batch,
    embedded_searches.query_groups,
    embedded_searches.search_groups,
    points.retrieve,
    points.scroll,
    points.count,
    points.facet,
]
WRITES: list[Verb] = [
    embedded_points.upsert,
    embedded_points.delete,
    embedded_points.set_payload,
    embedded_points.overwrite_payload,
    embedded_points.delete_payload,
    embedded_points.clear_payload,
    embedded_points.update_vectors,
    embedded_points.delete_vectors,
    embedded_points.batch,
    embedded_collections.create_index,
]


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    made = Registry()
    settings = {
        "vectors": {
            "": {"size": 2, "distance": "Cosine"},
            "rows": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}},
        },
        "sparse_vectors": {"sp": {}},
    }
    collections.create(made, Call({"collection": "c"}, body=settings))
    filled = [
        {
            "id": number,
            "vector": {"": [1, number], "rows": [[number, 1]], "sp": {"indices": [number], "values": [1]}},
            "payload": {"n": [number, number % 3]},
        }
        for number in range(1, 9)
    ]
    embedded_points.upsert(made, Call({"collection": "c"}, body={"points": filled}))
    yield made
    made.close()


def check(registry: Registry, verb: Verb, body: Any) -> None:
    def work() -> bytes:
        return dumps(verb(registry, Call({"collection": "c"}, body=body)))

    refused = refusal_of(work)
    assert refused is None or refused.status in {400, 404, 422, 501}, refused


@given(st.data())
def test_a_read_answers_or_refuses_any_body(registry: Registry, data: st.DataObject) -> None:
    """Every read verb, for every JSON value as its body, gives printable JSON or a client error."""
    body = data.draw(BODIES | VALUES)
    for verb in READS:
        check(registry, verb, body)


@given(st.data())
def test_a_query_of_any_shape_answers_or_refuses(registry: Registry, data: st.DataObject) -> None:
    """Every tagged query, with any content, gives printable JSON or a client error."""
    tags = [
        "nearest",
        "recommend",
        "discover",
        "context",
        "relevance_feedback",
        "order_by",
        "fusion",
        "rrf",
        "formula",
        "sample",
    ]
    query = {data.draw(st.sampled_from(tags)): data.draw(VALUES)}
    body = {"query": query, "limit": 3, "prefetch": data.draw(st.just([]) | st.just([{"query": [1, 0]}]))}
    check(registry, searches.query, body)


@given(st.data())
def test_a_filter_of_any_shape_answers_or_refuses(registry: Registry, data: st.DataObject) -> None:
    """Every condition, with any content, gives a count or a client error."""
    tests = ["match", "range", "values_count", "geo_radius", "geo_polygon", "geo_bounding_box", "is_empty", "is_null"]
    kinds = ["has_id", "has_vector", "is_empty", "is_null", "nested", "must", "min_should"]
    field = {"key": "n", data.draw(st.sampled_from(tests)): data.draw(VALUES)}
    condition = data.draw(st.just(field) | st.fixed_dictionaries({data.draw(st.sampled_from(kinds)): VALUES}))
    check(registry, points.count, {"filter": {"must": [condition]}})


@given(st.data())
def test_a_write_is_applied_or_refused_whatever_its_body(registry: Registry, data: st.DataObject) -> None:
    """Every write verb, for every body, succeeds or gives a client error, and the collection can still be read."""
    for verb in WRITES:
        check(registry, verb, data.draw(BODIES))
    check(registry, points.scroll, {"with_vector": True})


@given(BODIES | VALUES)
def test_a_collection_is_made_or_refused_whatever_its_settings(body: Any) -> None:
    """No settings leave half a collection: either it is there and described, or it is not there."""
    registry = Registry()
    try:
        call = Call({"collection": "c"}, body=body)
        refused = refusal_of(partial(collections.create, registry, call))
        assert registry.has("c") == (refused is None)
        if refused is None:
            assert dumps(collections.info(registry, call))
        else:
            assert refused.status in {400, 422, 501}
    finally:
        registry.close()

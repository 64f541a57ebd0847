"""Whatever JSON comes in, a verb answers or refuses: the engine is never at fault, and nothing else escapes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded import collections, points, searches
from servers.embedded.collections import Call, Registry, Verb
from servers.embedded.replies import dumps

from support.exchanges.any_body import BODIES, TAGS, VALUES, check, fill
from support.qdrant.refusals import refusal_of

READS: list[Verb] = [
    searches.query,
    searches.search,
    searches.query_batch,
    searches.search_batch,
    points.retrieve,
    points.scroll,
    points.count,
]
WRITES: list[Verb] = [points.upsert, points.delete, points.set_payload]


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    made = Registry()
    fill(made)
    yield made
    made.close()


@given(st.data())
def test_a_read_answers_or_refuses_any_body(registry: Registry, data: st.DataObject) -> None:
    """Every read verb, for every JSON value as its body, gives printable JSON or a client error."""
    body = data.draw(BODIES | VALUES)
    for verb in READS:
        check(registry, verb, body)


@given(st.data())
def test_a_query_of_any_shape_answers_or_refuses(registry: Registry, data: st.DataObject) -> None:
    """Every tagged query, with any content, gives printable JSON or a client error."""
    query = {data.draw(st.sampled_from(TAGS)): data.draw(VALUES)}
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

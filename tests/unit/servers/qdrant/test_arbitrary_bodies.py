"""Whatever JSON comes in, a verb of the larger server answers or refuses as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded.collections import Registry, Verb
from servers.qdrant import catalogue, points, searches
from servers.qdrant.catalogue import FullRegistry

from support.exchanges.any_body import BODIES, TAGS, VALUES, check, fill

READS: list[Verb] = [
    searches.query,
    searches.search,
    searches.recommend,
    searches.discover,
    searches.query_batch,
    searches.search_batch,
    searches.query_groups,
    searches.search_groups,
    points.retrieve,
    points.scroll,
    points.count,
    points.facet,
]
WRITES: list[Verb] = [
    points.upsert,
    points.delete,
    points.set_payload,
    points.overwrite_payload,
    points.delete_payload,
    points.clear_payload,
    points.update_vectors,
    points.delete_vectors,
    points.batch,
    catalogue.create_index,
]


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    made = FullRegistry()
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
def test_a_write_is_applied_or_refused_whatever_its_body(registry: Registry, data: st.DataObject) -> None:
    """Every write verb, for every body, succeeds or gives a client error, and the collection can still be read."""
    for verb in WRITES:
        check(registry, verb, data.draw(BODIES))
    check(registry, points.scroll, {"with_vector": True})

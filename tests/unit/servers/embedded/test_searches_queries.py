"""Queries: ids named anywhere, what has a most, and what is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from servers.embedded import collections, points, searches
from servers.embedded.fields import RefusalError

from support.qdrant.core import Core, core


@pytest.fixture(scope="module")
def filled() -> Iterator[Core]:
    with core() as made:
        for name in ("c", "other"):
            made.call(collections.create, {"vectors": {"size": 2, "distance": "Dot"}}, name=name)
        stored = [
            {
                "id": number,
                "vector": [number, 1],
                "payload": {"n": number, "at": "2024-01-01T00:00:00Z", "place": {"lon": number, "lat": 0}},
            }
            for number in range(1, 7)
        ]
        made.call(points.upsert, {"points": stored})
        made.call(points.upsert, {"points": [{"id": 3, "vector": [-1, 0]}]}, name="other")
        yield made


def ranked(filled: Core, body: dict[str, Any]) -> list[int]:
    return [point["id"] for point in filled.call(searches.query, body)["points"]]


def test_points_come_by_id_when_there_is_no_query(filled: Core) -> None:
    assert sorted(ranked(filled, {"limit": 4})) == [1, 2, 3, 4]


def test_a_point_named_in_a_query_is_not_in_its_answer(filled: Core) -> None:
    assert ranked(filled, {"query": 3}) == [6, 5, 4, 2, 1]
    assert ranked(filled, {"query": {"nearest": 3}, "filter": {"must": [{"key": "n", "range": {"lt": 5}}]}}) == [
        4,
        2,
        1,
    ]


def test_a_point_named_in_a_prefetch_is_not_in_the_answer_either(filled: Core) -> None:
    assert 6 not in ranked(filled, {"prefetch": [{"query": 6}, {"query": [1, 0]}], "query": {"fusion": "rrf"}})


def test_a_point_looked_up_elsewhere_stays_in_the_answer(filled: Core) -> None:
    body = {"query": 3, "lookup_from": {"collection": "other"}}
    assert ranked(filled, body) == [1, 2, 3, 4, 5, 6]
    assert ranked(filled, body | {"lookup_from": {"collection": "c"}}) == [6, 5, 4, 2, 1]
    with pytest.raises(RefusalError, match="Collection `none` doesn't exist"):
        ranked(filled, body | {"lookup_from": {"collection": "none"}})


def test_prefetches_end_somewhere(filled: Core) -> None:
    body: dict[str, Any] = {"query": [1, 0]}
    for _ in range(70):
        body = {"query": [1, 0], "prefetch": body}
    with pytest.raises(RefusalError, match="exceeds max depth 64"):
        ranked(filled, body)


def test_candidates_of_mmr_have_a_most(filled: Core) -> None:
    with pytest.raises(RefusalError, match="must be 16384 or smaller"):
        ranked(filled, {"query": {"nearest": [1, 0], "mmr": {"candidates_limit": 16385}}})
    with pytest.raises(RefusalError, match=r"must be from 0.0 to 1.0"):
        ranked(filled, {"query": {"nearest": [1, 0], "mmr": {"diversity": 1.5}}})


@pytest.mark.parametrize("given", [{"text": "words", "model": "m"}, {"image": "x", "model": "m"}])
def test_inference_is_refused_by_name(filled: Core, given: object) -> None:
    with pytest.raises(RefusalError, match="inference") as caught:
        ranked(filled, {"query": given})
    assert caught.value.status == 501


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ({"indices": [1, 1], "values": [1, 2]}, "must be unique"),
        ({"indices": [1], "values": [1, 2]}, "must be the same length"),
        ("nonsense", "not a valid point ID"),
        ({}, "did not match any variant"),
    ],
)
def test_a_malformed_vector_is_refused(filled: Core, vector: object, message: str) -> None:
    with pytest.raises(RefusalError, match=message):
        ranked(filled, {"query": {"nearest": vector}})


@pytest.mark.parametrize(
    "query",
    [{"recommend": {"positive": [1]}}, {"order_by": "n"}, {"formula": 1}, {"sample": "random"}, {"context": []}],
)
def test_a_variant_that_is_not_served_is_refused_by_name_at_any_level(filled: Core, query: dict[str, Any]) -> None:
    for body in ({"query": query}, {"prefetch": {"query": query}, "query": [1, 0]}):
        with pytest.raises(RefusalError, match=f"a query of the kind `{next(iter(query))}`") as caught:
            ranked(filled, body)
        assert caught.value.status == 501

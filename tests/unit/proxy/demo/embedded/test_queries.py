"""Queries of the variants that no oracle covers, ids named anywhere, and every operator of a formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from support.embedded_core import Core, core
from vecsieve.proxy.demo.embedded import collections, points, searches
from vecsieve.proxy.demo.embedded.errors import Refusal


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


def scores(filled: Core, formula: object, **more: object) -> dict[int, float]:
    body = {"prefetch": {"limit": 6}, "query": {"formula": formula, **more}, "limit": 6}
    return {point["id"]: point["score"] for point in filled.call(searches.query, body)["points"]}


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
    with pytest.raises(Refusal, match="Collection `none` doesn't exist"):
        ranked(filled, body | {"lookup_from": {"collection": "none"}})


def test_feedback_moves_the_ranking(filled: Core) -> None:
    feedback = {"target": [1, 0], "feedback": [{"example": 1, "score": 0.9}, {"example": 6, "score": 0.1}]}
    query = {"relevance_feedback": feedback | {"strategy": {"naive": {"a": 1.0, "b": 1.0, "c": 1.0}}}}
    answer = ranked(filled, {"query": query})
    assert sorted(answer) == [2, 3, 4, 5]


def test_prefetches_end_somewhere(filled: Core) -> None:
    body: dict[str, Any] = {"query": [1, 0]}
    for _ in range(70):
        body = {"query": [1, 0], "prefetch": body}
    with pytest.raises(Refusal, match="exceeds max depth 64"):
        ranked(filled, body)


def test_candidates_of_mmr_have_a_most(filled: Core) -> None:
    with pytest.raises(Refusal, match="must be 16384 or smaller"):
        ranked(filled, {"query": {"nearest": [1, 0], "mmr": {"candidates_limit": 16385}}})
    with pytest.raises(Refusal, match=r"must be from 0.0 to 1.0"):
        ranked(filled, {"query": {"nearest": [1, 0], "mmr": {"diversity": 1.5}}})


@pytest.mark.parametrize("given", [{"text": "words", "model": "m"}, {"image": "x", "model": "m"}])
def test_inference_is_refused_by_name(filled: Core, given: object) -> None:
    with pytest.raises(Refusal, match="inference") as caught:
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
    with pytest.raises(Refusal, match=message):
        ranked(filled, {"query": {"nearest": vector}})


OPERATORS: list[tuple[object, float]] = [
    (2.5, 2.5),
    ("n", 4.0),
    ({"sum": ["n", 1, 2]}, 7.0),
    ({"mult": ["n", 3]}, 12.0),
    ({"neg": "n"}, -4.0),
    ({"abs": {"neg": "n"}}, 4.0),
    ({"sqrt": "n"}, 2.0),
    ({"exp": 1}, math.e),
    ({"ln": "n"}, math.log(4)),
    ({"log10": 100}, 2.0),
    ({"pow": {"base": "n", "exponent": 2}}, 16.0),
    ({"div": {"left": "n", "right": 8}}, 0.5),
    ({"div": {"left": "n", "right": 0, "by_zero_default": 9}}, 9.0),
    ({"max": ["n", 5]}, 5.0),
    ({"min": ["n", 5]}, 4.0),
    ({"key": "n", "match": {"value": 4}}, 1.0),
    ({"lin_decay": {"x": "n", "target": 4, "scale": 2}}, 1.0),
    ({"exp_decay": {"x": "n", "target": 2, "scale": 2, "midpoint": 0.5}}, 0.5),
    ({"gauss_decay": {"x": "n", "target": 4}}, 1.0),
    ({"sum": [{"datetime_key": "at"}, {"neg": {"datetime": "2024-01-01T00:00:00Z"}}]}, 0.0),
    ({"geo_distance": {"origin": {"lon": 4, "lat": 0}, "to": "place"}}, 0.0),
]


@pytest.mark.parametrize(("formula", "expected"), OPERATORS)
def test_an_operator_computes_what_it_says(filled: Core, formula: object, expected: float) -> None:
    assert scores(filled, formula)[4] == pytest.approx(expected, rel=1e-4)


def test_a_variable_that_is_missing_takes_its_default(filled: Core) -> None:
    assert scores(filled, {"sum": ["gone", "n"]}, defaults={"gone": 10})[4] == 14.0

"""Averages, feedback, every operator of a formula, orders and samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded.engine import edge
from servers.embedded.fields import RefusalError
from servers.qdrant import catalogue, points, searches
from servers.qdrant.queries import average

from support.qdrant.core import Core, full_core

VECTORS = st.lists(st.lists(st.floats(-10, 10, width=32), min_size=3, max_size=3), min_size=1, max_size=4)


@given(VECTORS, VECTORS)
def test_dense_examples_average_to_twice_the_liked_less_the_disliked(
    liked: list[list[float]], disliked: list[list[float]]
) -> None:
    """The result is 2 × mean(positives) − mean(negatives), and mean(positives) without negatives."""
    plus, minus = np.mean(liked, axis=0), np.mean(disliked, axis=0)
    assert average(liked, []) == pytest.approx(plus.tolist(), abs=1e-4)
    assert average(liked, disliked) == pytest.approx((2 * plus - minus).tolist(), abs=1e-4)


def test_sparse_examples_average_index_by_index() -> None:
    make = edge().SparseVector
    result = average([make([1, 5], [1.0, 2.0]), make([5, 9], [4.0, 8.0])], [make([9, 11], [1.0, 3.0])])
    assert dict(zip(result.indices, result.values, strict=True)) == {1: 1.0, 5: 6.0, 9: 7.0, 11: -3.0}


def test_rows_are_put_together_and_the_disliked_ones_turned_round() -> None:
    assert average([[[1.0, 2.0]], [[3.0, 4.0]]], [[[5.0, 6.0]]]) == [[1.0, 2.0], [3.0, 4.0], [-5.0, -6.0]]


@pytest.mark.parametrize(
    ("liked", "disliked", "message"),
    [
        ([], [[1.0]], "Positive vectors should not be empty"),
        ([[1.0], [[1.0]]], [], "Can't average vectors with different types"),
        ([[1.0]], [[[1.0]]], "should be of the same type"),
    ],
)
def test_examples_that_cannot_be_averaged_are_refused(
    liked: list[object], disliked: list[object], message: str
) -> None:
    with pytest.raises(RefusalError, match=message):
        average(liked, disliked)


def test_examples_of_different_lengths_reach_the_engine_which_refuses_them() -> None:
    assert average([[1.0, 2.0], [1.0, 2.0, 3.0]], []) == [1.0, 2.0, 3.0]


@pytest.fixture(scope="module")
def filled() -> Iterator[Core]:
    with full_core() as made:
        for name in ("c", "other"):
            made.call(catalogue.create, {"vectors": {"size": 2, "distance": "Dot"}}, name=name)
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


def test_feedback_moves_the_ranking(filled: Core) -> None:
    feedback = {"target": [1, 0], "feedback": [{"example": 1, "score": 0.9}, {"example": 6, "score": 0.1}]}
    query = {"relevance_feedback": feedback | {"strategy": {"naive": {"a": 1.0, "b": 1.0, "c": 1.0}}}}
    answer = ranked(filled, {"query": query})
    assert sorted(answer) == [2, 3, 4, 5]


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


def test_an_order_has_no_scores_and_a_sample_no_offset(filled: Core) -> None:
    with pytest.raises(RefusalError, match="score_threshold with an order_by query"):
        ranked(filled, {"query": {"order_by": "n"}, "score_threshold": 1})
    with pytest.raises(RefusalError, match="score_threshold with an order_by query"):
        ranked(filled, {"prefetch": {"query": {"order_by": "n"}, "score_threshold": 1}, "query": [1, 0]})
    assert len(ranked(filled, {"query": {"sample": "random"}, "limit": 6, "offset": 5})) == 6

"""The average_vector strategy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.demo.embedded.engine import edge
from vecsieve.proxy.demo.embedded.errors import Refusal
from vecsieve.proxy.demo.embedded.queries import average

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
    with pytest.raises(Refusal, match=message):
        average(liked, disliked)


def test_examples_of_different_lengths_reach_the_engine_which_refuses_them() -> None:
    assert average([[1.0, 2.0], [1.0, 2.0, 3.0]], []) == [1.0, 2.0, 3.0]

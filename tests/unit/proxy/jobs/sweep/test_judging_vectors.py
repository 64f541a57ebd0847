"""Pairs compared one by one are as far apart as the whole matrix says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.sweep.judging import are_equal, distances, similarities
from vecsieve.proxy.selection.geometry import measure


def all_pairs(count: int) -> np.ndarray:
    return np.stack(np.triu_indices(count, 1), axis=1)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-18, 1.0, 1e18]))
def test_pairs_are_as_far_apart_as_in_the_matrix(seed: int, magnitude: bool, scale: float) -> None:
    """Invariant: the distance of each pair is the matrix's, at every length of the vectors."""
    vectors = (np.random.default_rng(seed).normal(size=(9, 5)) * scale).astype(np.float32)
    rows = all_pairs(9)
    far = distances(similarities(vectors, rows, np.ones(9, np.bool_), magnitude=magnitude))
    wanted = measure(vectors, magnitude=magnitude).distance[rows[:, 0], rows[:, 1]]
    assert far == pytest.approx(wanted, abs=5e-5)


def test_without_a_vector_or_a_direction_points_are_infinitely_far_apart() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [np.nan, 1.0]], np.float32)
    has_vector = np.array([True, False, True, True])
    found = similarities(vectors, all_pairs(4), has_vector, magnitude=False)
    assert np.isnan(found).all()
    assert np.isinf(distances(found)).all()


@pytest.mark.parametrize(
    ("other", "magnitude", "is_equal"),
    [
        ([3.0, 4.0], True, True),
        ([6.0, 8.0], True, False),
        ([6.0, 8.0], False, True),
        ([3.0, 4.001], False, False),
        ([0.0, 0.0], False, False),
        ([np.nan, 4.0], True, False),
    ],
)
def test_vectors_are_equal_but_for_rounding_and_length_where_it_does_not_matter(
    other: list[float], magnitude: bool, is_equal: bool
) -> None:
    vectors, rows = np.array([[3.0, 4.0], other], np.float32), np.array([[0, 1]])
    assert are_equal(vectors, rows, np.ones(2, np.bool_), magnitude=magnitude).tolist() == [is_equal]
    assert not are_equal(vectors, rows, np.array([True, False]), magnitude=magnitude).any()

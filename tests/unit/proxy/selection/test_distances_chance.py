"""How near two independent points are by chance, in a pool and in a neighbourhood: the law against drawn points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vecsieve.proxy.selection.distances import (
    ENOUGH_DIMENSIONS,
    FLAT,
    bare_bounds,
    nearest_by_chance,
    neighbourhoods,
)
from vecsieve.proxy.selection.values import FloatMatrix


@pytest.mark.parametrize("dimensions", [1, 2, 8, 32, 128, 384])
def test_the_share_of_drawn_pairs_within_the_bound_is_the_probability(dimensions: int) -> None:
    random = np.random.default_rng(dimensions)
    first, second = random.standard_normal((2, 40_000, dimensions), dtype=np.float32)
    squares = ((first - second) ** 2).sum(axis=1)
    within = float((squares <= nearest_by_chance(dimensions, 0.01) * np.median(squares)).mean())
    assert within == pytest.approx(0.01, rel=0.25)


@pytest.mark.parametrize(
    ("dimensions", "share"), [(1, 2.16e-11), (2, 3.61e-6), (8, 0.0244), (64, 0.392), (384, 0.706), (1536, 0.741)]
)
def test_the_bound_at_the_default_probability(dimensions: int, share: float) -> None:
    assert nearest_by_chance(dimensions, 2.5e-6) == pytest.approx(share, rel=2e-3)


@given(st.integers(1, 2000), st.floats(1e-9, 0.4), st.floats(1e-9, 0.4))
def test_more_dimensions_and_more_chance_widen_the_bound(dimensions: int, one: float, other: float) -> None:
    """The bound lies in [0, 1), grows with the probability, and never shrinks as dimensions are added."""
    low, high = sorted((one, other))
    assert 0.0 <= nearest_by_chance(dimensions, low) <= nearest_by_chance(dimensions, high) < 1.0
    assert nearest_by_chance(dimensions, low) <= nearest_by_chance(dimensions + 1, low) + 1e-12


def test_without_a_dimension_or_a_chance_only_equal_points_are_near() -> None:
    assert nearest_by_chance(0, 0.1) == nearest_by_chance(-1, 0.1) == nearest_by_chance(8, 0.0) == 0.0


def test_a_neighbourhood_reaches_to_the_eighth_nearest_of_the_first_candidates_without_the_candidate_itself() -> None:
    places = np.arange(40.0)
    apart = np.abs(places[:, None] - places[:20]).astype(np.float32)
    assert neighbourhoods(apart).tolist()[:5] == [8.0, 7.0, 6.0, 5.0, 4.0]
    assert neighbourhoods(apart)[25] == 25.0 - 12.0  # of the first twenty, of which it is none
    assert neighbourhoods(apart[30:], 30).tolist() == neighbourhoods(apart)[30:].tolist()
    assert neighbourhoods(apart[5:9], 5).tolist() == neighbourhoods(apart)[5:9].tolist()


@pytest.mark.parametrize("count", [0, 1, 16])
def test_a_small_pool_tells_no_neighbourhood(count: int) -> None:
    assert np.isinf(neighbourhoods(np.zeros((count, count), np.float32))).all()


@given(
    arrays(np.float32, 5, elements=st.floats(0.0, 10.0, width=32) | st.just(np.inf)),
    arrays(np.float32, 3, elements=st.floats(0.0, 10.0, width=32) | st.just(np.inf)),
    st.floats(0.0, 1.0) | st.just(math.inf),
)
def test_vectors_alone_must_be_nearer_than_by_chance_in_the_pool_and_in_both_neighbourhoods(
    rows: FloatMatrix, columns: FloatMatrix, largest: float
) -> None:
    """Invariant: a bound is at most the pool's and at most that of the smaller neighbourhood, unless the two are nearly equal."""
    found = bare_bounds(rows, columns, largest)
    assert found.shape == (5, 3)
    for (row, column), bound in np.ndenumerate(found):
        near = min(rows[row], columns[column])
        expected = largest if math.isinf(largest) or math.isinf(near) else min(largest, max(FLAT, largest * near))
        assert bound == pytest.approx(expected)


def test_beyond_enough_dimensions_the_bound_stays() -> None:
    assert nearest_by_chance(ENOUGH_DIMENSIONS, 1e-6) == nearest_by_chance(10 * ENOUGH_DIMENSIONS, 1e-6)

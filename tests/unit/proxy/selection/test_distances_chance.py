"""How near two independent points are by chance: the law that chance.py works out, against drawn points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.distances import ENOUGH_DIMENSIONS, nearest_by_chance


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


def test_beyond_enough_dimensions_the_bound_stays() -> None:
    assert nearest_by_chance(ENOUGH_DIMENSIONS, 1e-6) == nearest_by_chance(10 * ENOUGH_DIMENSIONS, 1e-6)

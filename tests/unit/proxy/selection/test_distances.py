"""Distances relative to a pool's own: what they are, what they are not moved by, and where float32 is not enough."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from support.selection.pools import damaged
from vecsieve.proxy.selection.distances import (
    ENOUGH_DIMENSIONS,
    FARTHEST,
    FEW_DIMENSIONS,
    FLAT,
    bare_bounds,
    cosine_distances,
    nearest_by_chance,
    neighbourhoods,
    relative_distances,
)
from vecsieve.proxy.selection.values import FloatMatrix, Metric

CHANCE = 2.5e-6


def cloud(n: int, dimensions: int, *, mean: float = 0.0, seed: int = 0) -> FloatMatrix:
    return (np.random.default_rng(seed).standard_normal((n, dimensions)) + mean).astype(np.float32)


@given(damaged(largest=60), st.sampled_from(Metric))
def test_any_pool_has_relative_distances(rows: FloatMatrix, metric: Metric) -> None:
    """Distances are symmetric, at least 0, zero on the diagonal of the usable, and infinite exactly where a side is unusable."""
    measured = relative_distances(rows, metric, chance=CHANCE)
    distances = measured.inside(0, len(rows))
    usable: npt.NDArray[np.bool_] = np.logical_and(np.isfinite(rows).all(axis=1), rows.any(axis=1))
    assert distances.usable.tolist() == usable.tolist()
    finite = distances.distance[np.ix_(usable, usable)]
    assert (finite >= 0.0).all()
    assert (finite <= FARTHEST).all()
    assert np.array_equal(finite, finite.T)
    assert not distances.distance.diagonal()[usable].any()
    apart = ~(usable[:, None] & usable[None, :]) & ~np.eye(len(rows), dtype=bool)
    assert np.isinf(distances.distance[apart]).all()


@pytest.mark.parametrize("dimensions", [3, FEW_DIMENSIONS + 1, 384])
@pytest.mark.parametrize("metric", [Metric.EUCLIDEAN, Metric.MANHATTAN])
def test_positions_are_squared_distances_over_their_median(dimensions: int, metric: Metric) -> None:
    rows = cloud(20, dimensions)
    squares = ((rows[:, None] - rows[None, :]).astype(np.float64) ** 2).sum(axis=2)
    expected = squares / np.median(squares[np.triu_indices(20, 1)])
    assert np.allclose(
        relative_distances(rows, metric, chance=CHANCE).inside(0, 20).distance, expected, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("dimensions", [3, FEW_DIMENSIONS + 1, 384])
def test_directions_are_cosine_distances_over_their_median(dimensions: int) -> None:
    rows = cloud(20, dimensions) * np.linspace(0.1, 9.0, 20, dtype=np.float32)[:, None]
    unit = rows.astype(np.float64) / np.linalg.norm(rows, axis=1)[:, None]
    cosines = 1.0 - unit @ unit.T
    measured = relative_distances(rows, Metric.COSINE, chance=CHANCE)
    assert measured.median == pytest.approx(np.median(cosines[np.triu_indices(20, 1)]), rel=1e-3)
    assert measured.display_unit == measured.unit
    assert np.allclose(measured.inside(0, 20).distance, cosines / measured.median, rtol=1e-3, atol=1e-3)


def test_of_an_unknown_metric_the_larger_distance_counts() -> None:
    rows = cloud(20, 64) * np.linspace(1.0, 2.0, 20, dtype=np.float32)[:, None]
    both, direction, position = (
        relative_distances(rows, metric, chance=CHANCE).inside(0, 20).distance
        for metric in (Metric.UNKNOWN, Metric.COSINE, Metric.EUCLIDEAN)
    )
    assert np.allclose(both, np.maximum(direction, position))


@pytest.mark.parametrize("mean", [1e3, 1e5])
def test_far_from_the_origin_distances_keep_their_digits(mean: float) -> None:
    rows = cloud(30, 64, mean=mean)
    exact = rows.astype(np.float64)
    squares = ((exact[:, None] - exact[None, :]) ** 2).sum(axis=2)
    expected = squares / np.median(squares[np.triu_indices(30, 1)])
    assert np.allclose(
        relative_distances(rows, Metric.EUCLIDEAN, chance=CHANCE).inside(0, 30).distance, expected, rtol=1e-4
    )


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("dimensions", [2, 8, 64, 1536])
def test_equal_vectors_are_at_distance_zero(metric: Metric, dimensions: int) -> None:
    rows = np.repeat(cloud(10, dimensions), 3, axis=0)
    distance = relative_distances(rows, metric, chance=CHANCE).inside(0, 30).distance
    assert not distance[0, :3].any()
    assert (distance[0, 3:] > 0.0).all()


def test_a_multiple_has_the_same_direction() -> None:
    rows = cloud(10, 64)
    rows[1] = rows[0] * 3
    assert relative_distances(rows, Metric.COSINE, chance=CHANCE).inside(0, 10).distance[0, 1] == 0.0
    assert relative_distances(rows, Metric.EUCLIDEAN, chance=CHANCE).inside(0, 10).distance[0, 1] > 0.5


def test_where_most_are_copies_a_wide_distance_gives_the_scale() -> None:
    one = cloud(1, 64)
    rows = np.concatenate((one + 1e-4 * cloud(45, 64, seed=1), cloud(5, 64, seed=2)))
    distance = relative_distances(rows, Metric.EUCLIDEAN, chance=CHANCE).inside(0, 50).distance
    assert distance[:45, :45].max() < 1e-4
    assert distance[:45, 45:].min() > 1.0


def test_without_two_candidates_there_is_no_typical_distance() -> None:
    for rows in (np.empty((0, 4), np.float32), cloud(1, 4), np.zeros((5, 4), np.float32), np.ones((5, 4), np.float32)):
        measured = relative_distances(rows, Metric.DOT, chance=CHANCE)
        assert (measured.median, measured.unit) == (0.0, 1.0)


@pytest.mark.parametrize("metric", list(Metric))
def test_blocks_are_measured_in_the_unit_of_the_first(metric: Metric) -> None:
    rows = cloud(120, 64, mean=2.0)
    measured = relative_distances(rows, metric, chance=CHANCE)
    whole = measured.inside(0, 120).distance
    others = np.array([0, 7, 49, 55], dtype=np.intp)
    assert np.allclose(measured.inside(50, 100).distance, whole[50:100, 50:100], atol=1e-4)
    assert np.allclose(measured.back(60, 120, others), whole[60:120, others], atol=1e-4)


@pytest.mark.parametrize("spanned", [1, 3, 10])
def test_a_plane_is_as_wide_as_it_is(spanned: int) -> None:
    rows = (cloud(50, spanned) @ cloud(spanned, 200, seed=1) + 1.0).astype(np.float32)
    measured = relative_distances(rows, Metric.EUCLIDEAN, chance=CHANCE)
    narrow = measured.narrowed(rows, CHANCE)
    assert narrow.largest < measured.largest
    assert narrow.largest == relative_distances(cloud(50, spanned), Metric.EUCLIDEAN, chance=CHANCE).largest
    assert measured.narrowed(rows, None) is measured


def test_copies_do_not_make_a_plane() -> None:
    rows = np.concatenate([cloud(12, 200) + 1e-3 * cloud(12, 200, seed=seed) for seed in range(4)])
    measured = relative_distances(rows, Metric.EUCLIDEAN, chance=CHANCE)
    assert measured.narrowed(rows, CHANCE) is measured


def test_fixed_cuts_are_read_in_cosine_distances() -> None:
    measured = cosine_distances(cloud(20, 8), magnitude=False)
    assert (measured.unit, measured.display_unit, measured.typical) == (1.0, 1.0, measured.median)
    assert np.allclose(measured.back(5, 10, np.arange(5)), measured.inside(0, 10).distance[5:, :5], atol=1e-5)


# How near two independent points are by chance, in a pool and in a neighbourhood: the law against drawn points.


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
    bounds = bare_bounds(rows, columns, largest)
    assert bounds.shape == (5, 3)
    for (row, column), bound in np.ndenumerate(bounds):
        near = min(rows[row], columns[column])
        expected = largest if math.isinf(largest) or math.isinf(near) else min(largest, max(FLAT, largest * near))
        assert bound == pytest.approx(expected)


def test_beyond_enough_dimensions_the_bound_stays() -> None:
    assert nearest_by_chance(ENOUGH_DIMENSIONS, 1e-6) == nearest_by_chance(10 * ENOUGH_DIMENSIONS, 1e-6)

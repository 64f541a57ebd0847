"""Distances: exact for copies, defined for every float32 row, equal to the definition everywhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.oracles import cosine_distances, length_distances
from support.selection.pools import angles, damaged, planted
from vecsieve.proxy.selection.geometry import NOISE, REMEMBERED, across, measure, pairs, rescaled, rows_of
from vecsieve.proxy.selection.values import FloatMatrix


@given(planted(largest=20))
def test_cosine_distance_is_its_definition(rows: FloatMatrix) -> None:
    # Invariant: for usable rows every distance is 1 - cosine, to float32 precision.
    assert np.allclose(
        measure(rows, magnitude=False).distance,
        np.reshape(cosine_distances(rows.tolist()), (len(rows), len(rows))),
        atol=2 * NOISE,
    )


@given(planted(largest=20), st.floats(0.1, 10.0))
def test_distance_with_length_is_its_definition(rows: FloatMatrix, factor: float) -> None:
    # Invariant: with magnitude every distance is |x - y|^2 / (|x|^2 + |y|^2), to float32 precision.
    rows[::2] *= np.float32(factor)
    assert np.allclose(
        measure(rows, magnitude=True).distance,
        np.reshape(length_distances(rows.tolist()), (len(rows), len(rows))),
        atol=2 * NOISE,
    )


@given(damaged(), st.booleans())
def test_every_float32_pool_has_distances(rows: FloatMatrix, magnitude: bool) -> None:
    # Invariant: symmetric, zero diagonal, in [0, 2] between usable rows, infinite elsewhere, never NaN.
    geometry = measure(rows, magnitude=magnitude)
    distance, usable = geometry.distance, geometry.usable
    assert np.array_equal(usable, np.isfinite(rows).all(axis=1) & (rows != 0).any(axis=1))
    assert np.array_equal(distance, distance.T)
    assert not distance.diagonal().any()
    both = usable[:, None] & usable[None, :]
    assert ((distance[both] >= 0) & (distance[both] <= 2)).all()
    assert np.isinf(distance[~both & ~np.eye(len(rows), dtype=bool)]).all()


@given(damaged(), st.booleans())
def test_distances_do_not_change_their_arguments(rows: FloatMatrix, magnitude: bool) -> None:
    # Invariant: the vectors are the caller's; not a bit of them changes.
    before = rows.tobytes()
    measure(rows, magnitude=magnitude)
    across(rows_of(rows), rows_of(rows), magnitude=magnitude)
    assert rows.tobytes() == before


@pytest.mark.parametrize("dimensions", [1, 2, 3, 17, 384, 768, 1536, 3072])
@pytest.mark.parametrize("kind", ["normal", "positive", "constant"])
def test_exact_and_scaled_copies_are_at_distance_zero(dimensions: int, kind: str) -> None:
    random = np.random.default_rng(dimensions)
    rows = {
        "normal": random.standard_normal((40, dimensions)),
        "positive": random.random((40, dimensions)),
        "constant": np.ones((40, dimensions)),
    }[kind].astype(np.float32)
    rows[[11, 39]] = rows[3]
    rows[25] = rows[3] * np.float32(0.37)
    rows[26] = rows[3] * np.float32(5.1)
    copies = [3, 11, 25, 26, 39]
    assert not measure(rows, magnitude=False).distance[np.ix_(copies, copies)].any()
    assert not across(rows_of(rows), rows_of(rows[copies]), magnitude=False)[copies].any()
    assert measure(rows, magnitude=True).distance[3, 11] == 0.0
    assert measure(rows, magnitude=True).distance[3, 26] > 0.5


@pytest.mark.parametrize("dimensions", [3, 384, 1024, 1536, 3072, 8192])
@pytest.mark.parametrize("count", [40, 200])
def test_opposite_rows_are_two_apart_and_no_more_and_scaled_ones_not_at_all(dimensions: int, count: int) -> None:
    rows = np.ones((count, dimensions), dtype=np.float32) * np.linspace(0.1, 3.0, count, dtype=np.float32)[:, None]
    rows[count // 2 :] *= -1
    distance = measure(rows, magnitude=False).distance
    opposite = distance[: count // 2, count // 2 :]
    assert opposite.max() <= 2.0
    assert opposite.min() == pytest.approx(2.0, abs=NOISE)
    assert not distance[: count // 2, : count // 2].any()


@given(planted(smallest=1, largest=20), st.integers(-100, 100), st.booleans())
def test_a_common_power_of_two_changes_nothing(rows: FloatMatrix, power: int, magnitude: bool) -> None:
    # Invariant: distances have no unit; vectors of 1e-30 and of 1e30 are compared as exactly as vectors of 1.
    moved = np.ldexp(rows, power).astype(np.float32)
    assert np.allclose(
        measure(moved, magnitude=magnitude).distance, measure(rows, magnitude=magnitude).distance, atol=2 * NOISE
    )


def test_float32_extremes_point_where_they_point() -> None:
    rows = np.array([[1e30, 2e30], [1e-30, 2e-30], [1, 2], [3e38, 3e38], [1e-45, 1e-45]], dtype=np.float32)
    distance = measure(rows, magnitude=False).distance
    assert not distance[:3, :3].any()
    assert distance[3, 4] == 0.0
    assert distance[0, 3] == pytest.approx(1 - 3 / np.sqrt(10), abs=1e-5)


def test_extreme_lengths_are_as_different_as_can_be() -> None:
    rows = np.array([[1e30, 2e30], [1e-30, 2e-30], [2e30, 4e30]], dtype=np.float32)
    distance = measure(rows, magnitude=True).distance
    assert distance[0, 1] == pytest.approx(1.0)
    assert distance[0, 2] == pytest.approx(0.2)


def test_length_counts_only_where_it_carries_meaning() -> None:
    rows = angles(0, 0) * np.array([[1.0], [2.0]], dtype=np.float32)
    assert measure(rows, magnitude=False).distance[0, 1] == 0.0
    assert measure(rows, magnitude=True).distance[0, 1] == pytest.approx(0.2)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (4, 0), (1, 3)])
def test_empty_pools_have_empty_distances(shape: tuple[int, int]) -> None:
    geometry = measure(np.ones(shape, dtype=np.float32), magnitude=True)
    assert geometry.distance.shape == (shape[0], shape[0])
    assert geometry.usable.tolist() == [shape[1] > 0] * shape[0]


@given(damaged(smallest=1), damaged(smallest=1), st.booleans())
def test_two_sides_are_compared_as_one_pool_would_be(left: FloatMatrix, right: FloatMatrix, magnitude: bool) -> None:
    # Invariant: across(a, b) is the block of measure(a + b) that compares a with b.
    d = min(left.shape[1], right.shape[1])
    a, b = left[:, :d], right[:, :d]
    whole = measure(np.concatenate((a, b)), magnitude=magnitude).distance[: len(a), len(a) :]
    assert np.allclose(across(rows_of(a), rows_of(b), magnitude=magnitude), whole, atol=2 * NOISE)


@given(damaged())
def test_rescaling_is_exact(rows: FloatMatrix) -> None:
    # Invariant: values * 2**exponents is the row again wherever the row is usable (what underflows is lost in the sum).
    safe = rescaled(rows)
    again = np.ldexp(safe.values.astype(np.float64), safe.exponents[:, None])
    assert np.allclose(again[safe.usable], rows[safe.usable].astype(np.float64), rtol=0, atol=0)
    assert not safe.values[~safe.usable].any()


@pytest.mark.parametrize("m", [0, 1, 2, 5, REMEMBERED, REMEMBERED + 1])
def test_pairs_are_the_entries_above_the_diagonal_as_a_copy_whether_remembered_or_not(m: int) -> None:
    square = np.arange(m * m, dtype=np.float32).reshape(m, m)
    for layout in (square, np.asfortranarray(square)):
        result = pairs(layout)
        assert result.tolist() == [float(square[i, j]) for i in range(m) for j in range(i + 1, m)]
        assert not np.shares_memory(result, layout)

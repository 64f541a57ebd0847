"""Maximal marginal relevance: each pick is the best by the formula, at every weight, zero and one included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.oracles import mmr as naive_mmr
from support.selection.pools import planted
from vecsieve.proxy.selection.diversifiers.mmr import mmr
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector

WEIGHTS = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def similarities(distance: FloatMatrix, scale: float | None) -> FloatMatrix:
    wide = distance.astype(np.float64)
    if scale is None:
        return np.where(np.isinf(wide), 0.0, 1.0 - wide).astype(np.float32)
    return np.maximum(0.0, 1.0 - wide / scale).astype(np.float32)


def on_a_grid(n: int, seed: int) -> tuple[FloatVector, FloatMatrix]:
    random = np.random.default_rng(seed)
    grid = np.triu(random.integers(0, 17, (n, n)) / 8, 1)
    return np.sort(random.integers(0, 9, n) / 8)[::-1], (grid + grid.T).astype(np.float32)


@given(
    st.integers(0, 14), st.integers(0, 2**32 - 1), WEIGHTS, st.sampled_from([None, 0.5, 1.0, 2.0]), st.integers(0, 16)
)
def test_picks_are_those_of_the_plain_algorithm(
    n: int, seed: int, weight: float, scale: float | None, count: int
) -> None:
    # Invariant: on a grid where float32 is exact, ties included, the same picks in the same order.
    relevance, distance = on_a_grid(n, seed)
    picks = mmr(relevance, distance, weight=weight, count=count, scale=scale)
    assert picks.tolist() == naive_mmr(relevance.tolist(), similarities(distance, scale).tolist(), weight, count)


@given(planted(smallest=1, largest=25), st.floats(0.0, 1.0), st.sampled_from([None, 0.1, 0.7]))
def test_every_pick_is_the_best_that_was_left(rows: FloatMatrix, weight: float, scale: float | None) -> None:
    # Invariant: off the grid, no candidate left beats a pick by more than float32 can tell; all are picked once.
    relevance, distance = np.linspace(1.0, 0.0, len(rows)), measure(rows, magnitude=False).distance
    picks = mmr(relevance, distance, weight=weight, count=len(rows), scale=scale).tolist()
    assert sorted(picks) == list(range(len(rows)))
    similarity = similarities(distance, scale).astype(np.float64)
    for place, pick in enumerate(picks):
        left = picks[place:]
        worst = similarity[picks[:place]].max(axis=0) if place else np.zeros(len(rows))
        values = weight * relevance - (1.0 - weight) * worst
        assert values[pick] >= values[left].max() - 1e-5


@given(planted(largest=25), st.integers(0, 30))
def test_weight_one_is_the_order_of_relevance(rows: FloatMatrix, count: int) -> None:
    # Invariant: relevance only means the order it came in.
    picks = mmr(np.linspace(1.0, 0.0, len(rows)), measure(rows, magnitude=False).distance, weight=1.0, count=count)
    assert picks.tolist() == list(range(min(count, len(rows))))


@given(planted(smallest=1, largest=25), st.sampled_from([None, 0.3]))
def test_weight_zero_starts_with_the_first(rows: FloatMatrix, scale: float | None) -> None:
    # Invariant: with nothing picked yet all are equally diverse, and the tie goes to rank 0.
    distance = measure(rows, magnitude=False).distance
    picks = mmr(np.linspace(1.0, 0.0, len(rows)), distance, weight=0.0, count=2, scale=scale)
    assert picks[0] == 0
    assert len(picks) < 2 or distance[0, picks[1]] >= min(distance[0].max(), scale or 2.0) - 1e-5


def test_an_unknown_distance_is_similarity_zero() -> None:
    distance = np.array([[0, 1.5, np.inf], [1.5, 0, np.inf], [np.inf, np.inf, 0]], dtype=np.float32)
    # 1.5 apart is similarity -0.5, which is better than the unknown one's 0.
    assert mmr(np.zeros(3), distance, weight=0.0, count=3).tolist() == [0, 1, 2]
    assert mmr(np.zeros(3), distance, weight=0.0, count=3, scale=2.0).tolist() == [0, 2, 1]


def test_in_a_pool_of_copies_only_copies_are_alike() -> None:
    distance = np.array([[0, 0, 0.2], [0, 0, 0.2], [0.2, 0.2, 0]], dtype=np.float32)
    assert mmr(np.array([1.0, 1.0, 0.9]), distance, weight=0.5, count=2, scale=0.0).tolist() == [0, 2]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_more_than_there_are_is_all_there_are(count: int) -> None:
    relevance, distance = on_a_grid(3, 0)
    assert len(mmr(relevance, distance, weight=0.5, count=count)) == min(count, 3)
    assert not len(mmr(relevance[:0], distance[:0, :0], weight=0.5, count=count))


def test_the_arguments_are_left_as_they_were() -> None:
    relevance, distance = on_a_grid(9, 1)
    before = relevance.tobytes(), distance.tobytes()
    mmr(relevance, distance, weight=0.5, count=9)
    mmr(relevance, distance, weight=0.5, count=9, scale=0.5)
    assert (relevance.tobytes(), distance.tobytes()) == before

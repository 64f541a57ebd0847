"""Greedy DPP: the same picks as maximising determinants by brute force, exact at both ends, a full page always."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.oracles import volume
from support.selection.pools import angles, damaged, planted
from vecsieve.proxy.selection.diversifiers.dpp import dpp
from vecsieve.proxy.selection.geometry import NOISE, measure
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector

DIVERSITIES = st.sampled_from([0.0, 0.1, 0.4, 0.5, 0.9, 1.0])
SCALES = st.sampled_from([None, 0.0, 0.3, 0.8])


def quality(gains: FloatVector, diversity: float) -> list[float]:
    """Chen, Zhang and Zhou's exp(alpha * z), from the definition."""
    deviation = gains.std()
    standard = (gains - gains.mean()) / deviation if deviation > 0.0 else np.zeros(len(gains))
    return list(np.exp((1.0 - diversity) / (2.0 * diversity) * standard))


def unlike(random: np.random.Generator, n: int) -> FloatMatrix:
    """Distances of rows that are linearly independent, so that no determinant is nil."""
    return measure(random.standard_normal((n, 24)).astype(np.float32), magnitude=False).distance


@given(st.integers(1, 7), st.integers(0, 2**32 - 1), st.sampled_from([0.2, 0.4, 0.5, 0.9, 1.0]), st.integers(0, 8))
def test_picks_are_those_of_maximising_the_determinant_by_brute_force(
    n: int, seed: int, diversity: float, count: int
) -> None:
    # Invariant: no candidate left would make the determinant over the picks larger, by more than NOISE is worth.
    random = np.random.default_rng(seed)
    gains, distance = np.sort(random.random(n))[::-1], unlike(random, n)
    weights, similarity = quality(gains, diversity), (1.0 - distance.astype(np.float64)).tolist()
    picks = dpp(gains, distance, diversity=diversity, count=count, scale=None).tolist()
    assert len(set(picks)) == len(picks) == min(n, count)
    for place, pick in enumerate(picks):
        before = picks[:place]
        best = max(volume(weights, similarity, [*before, i]) for i in range(n) if i not in before)
        assert volume(weights, similarity, [*before, pick]) >= best * (1.0 - 1e-3)


@given(damaged(largest=30), DIVERSITIES, SCALES, st.integers(0, 35), st.integers(0, 2**32 - 1))
def test_any_input_gives_distinct_picks_and_a_full_page(
    rows: FloatMatrix, diversity: float, scale: float | None, count: int, seed: int
) -> None:
    # Invariant: whatever the kernel lacks (copies, unknown distances, no positive definiteness), count distinct indices.
    gains = np.random.default_rng(seed).standard_normal(len(rows))
    distance = measure(rows, magnitude=True).distance
    picks = dpp(gains, distance, diversity=diversity, count=count, scale=scale).tolist()
    assert len(picks) == len(set(picks)) == min(count, len(rows))
    assert set(picks) <= set(range(len(rows)))


@given(planted(largest=25), SCALES, st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_diversity_zero_is_the_order_of_relevance(
    rows: FloatMatrix, scale: float | None, count: int, seed: int
) -> None:
    # Invariant: relevance only, and equal relevance is rank.
    gains = np.random.default_rng(seed).integers(0, 4, len(rows)) / 4.0
    picks = dpp(gains, measure(rows, magnitude=False).distance, diversity=0.0, count=count, scale=scale).tolist()
    assert picks == sorted(range(len(rows)), key=lambda i: (-gains[i], i))[:count]


@given(planted(smallest=1, largest=25), SCALES, st.integers(0, 2**32 - 1))
def test_diversity_one_does_not_look_at_relevance(rows: FloatMatrix, scale: float | None, seed: int) -> None:
    # Invariant: as long as something is unexplained the picks are the same for any gains, and the first is rank 0.
    distance = measure(rows, magnitude=False).distance
    random = np.random.default_rng(seed)
    count = 1 + int((distance[0] > 0.5).any())
    first = dpp(random.random(len(rows)), distance, diversity=1.0, count=count, scale=scale).tolist()
    assert first == dpp(random.random(len(rows)), distance, diversity=1.0, count=count, scale=scale).tolist()
    assert first[0] == 0


def test_an_exact_copy_waits_until_all_else_is_picked() -> None:
    distance = measure(angles(0, 0, 30, 60), magnitude=False).distance
    # In the plane two directions explain every other: 2 comes third by relevance alone, and the copy after 0 is not 1.
    picks = dpp(np.array([1.0, 0.99, 0.5, 0.4]), distance, diversity=0.5, count=4, scale=None).tolist()
    assert picks[0] == 0
    assert picks[1] in {2, 3}
    assert picks.index(1) == 2  # nothing is left of 1 and of the other; 1 is the more relevant


def test_more_diversity_looks_farther_down_the_ranking() -> None:
    distance = measure(angles(0, 20, 90), magnitude=False).distance
    gains = np.array([1.0, 0.9, 0.0])
    assert dpp(gains, distance, diversity=0.1, count=2, scale=None).tolist() == [0, 1]
    assert dpp(gains, distance, diversity=0.9, count=2, scale=None).tolist() == [0, 2]


def test_an_unknown_distance_is_similarity_zero() -> None:
    distance = np.array([[0, 0.5, np.inf], [0.5, 0, np.inf], [np.inf, np.inf, 0]], dtype=np.float32)
    assert dpp(np.zeros(3), distance, diversity=1.0, count=3, scale=None).tolist() == [0, 2, 1]
    assert dpp(np.zeros(3), distance, diversity=1.0, count=3, scale=1.0).tolist() == [0, 2, 1]


def test_what_an_indefinite_kernel_overdraws_counts_as_explained() -> None:
    # Similarities 1 between 0 and 1 and between 0 and 2 but none between 1 and 2: no vectors have these.
    distance = np.array([[0, 0.2, 0.2], [0.2, 0, 1], [0.2, 1, 0]], dtype=np.float32)
    similarity = 1.0 - distance.astype(np.float64)
    assert np.linalg.eigvalsh(similarity).min() < 0.0
    assert dpp(np.zeros(3), distance, diversity=1.0, count=3, scale=None).tolist() == [0, 1, 2]


def test_a_rounding_error_does_not_decide_between_equals() -> None:
    distance = np.array([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]], dtype=np.float32)
    distance[0, 1] = distance[1, 0] = 0.5 - NOISE / 10
    assert dpp(np.zeros(3), distance, diversity=1.0, count=3, scale=None).tolist() == [0, 1, 2]


@pytest.mark.parametrize("gains", [[0.0, 0.0], [1e308, -1e308], [5e-324, 0.0], [3.0, 3.0]])
def test_any_finite_gains_are_standard_scores(gains: list[float]) -> None:
    distance = measure(angles(0, 90), magnitude=False).distance
    assert dpp(np.array(gains), distance, diversity=0.5, count=2, scale=None).tolist() == [0, 1]


def test_the_arguments_are_left_as_they_were() -> None:
    random = np.random.default_rng(3)
    gains, distance = random.random(9), unlike(random, 9)
    before = gains.tobytes(), distance.tobytes()
    dpp(gains, distance, diversity=0.5, count=9, scale=None)
    dpp(gains, distance, diversity=0.5, count=9, scale=0.5)
    assert (gains.tobytes(), distance.tobytes()) == before

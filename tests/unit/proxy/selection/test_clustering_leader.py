"""The walk: what its definition gives, with cuts that grow, forbidden pairs and earlier leaders."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.selection import oracles
from vecsieve.proxy.selection.clustering import lead
from vecsieve.proxy.selection.geometry import NOISE
from vecsieve.proxy.selection.values import FloatMatrix, Indices

SEEDS = st.integers(0, 2**32 - 1)


def distances(n: int, seed: int, *, forbidden: float = 0.0) -> FloatMatrix:
    """Multiples of 1/16, so that ties are many and none is a matter of rounding."""
    random = np.random.default_rng(seed)
    upper = np.triu(random.integers(1, 17, (n, n)) / 16, 1)
    upper[np.triu(random.random((n, n)) < forbidden, 1)] = np.inf
    return (upper + upper.T).astype(np.float32)


def leading(heads: Indices) -> list[int]:
    """Who leads: whoever follows nobody else."""
    return np.flatnonzero(heads == np.arange(len(heads))).tolist()


def growing(n: int, seed: int) -> list[float]:
    return [float(value) for value in np.sort(np.random.default_rng(seed).integers(0, 17, n) / 16)]


@given(st.integers(0, 24), SEEDS, st.sampled_from([0.0, 0.1, 0.5]))
def test_everybody_follows_the_nearest_leader_that_takes_them(n: int, seed: int, forbidden: float) -> None:
    # Invariant: heads are those of the definition, whatever the cuts and whoever may not meet.
    distance, cuts = distances(n, seed, forbidden=forbidden), growing(n, seed)
    assert lead(distance, cuts).tolist() == oracles.lead(distance.tolist(), cuts)


@given(st.integers(0, 24), SEEDS, st.integers(0, 24), st.sampled_from([0.0, 0.2]))
def test_a_walk_in_two_parts_is_the_walk(n: int, seed: int, split: int, forbidden: float) -> None:
    # Invariant: leaders are the same when the first part's leaders are handed to the second, where nobody is forbidden
    # to meet a follower of the first part (which the caller has to say, for they are not handed on).
    split = min(split, n)
    distance, cuts = distances(n, seed, forbidden=forbidden), growing(n, seed)
    if forbidden:
        distance[split:, :split] = np.where(np.isinf(distance[split:, :split]), 1.0, distance[split:, :split])
        distance[:split, split:] = distance[split:, :split].T
    whole, first = lead(distance, cuts), lead(distance[:split, :split], cuts)
    leaders = leading(first)
    second = lead(distance[split:, split:], cuts, distance[np.ix_(np.arange(split, n), np.array(leaders, np.intp))])
    assert [*leaders, *(i + split for i in leading(second))] == leading(whole)
    named = [leaders[-1 - head] if head < 0 else head + split for head in second.tolist()]
    assert [*first.tolist(), *named] == whole.tolist()


@given(st.integers(1, 24), SEEDS, st.integers(0, 23))
def test_who_leads_depends_on_what_stands_before_alone(n: int, seed: int, fewer: int) -> None:
    # Invariant: the leaders of a shorter ranking are the first leaders of a longer one.
    fewer = min(fewer, n)
    distance, cuts = distances(n, seed), growing(n, seed)
    few, many = leading(lead(distance[:fewer, :fewer], cuts)), leading(lead(distance, cuts))
    assert many[: len(few)] == few


def test_the_cut_is_the_one_for_as_many_as_lead_already() -> None:
    distance = np.array([[0, 0.3, 0.3], [0.3, 0, 0.3], [0.3, 0.3, 0]], np.float32)
    assert leading(lead(distance, [9.0, 0.2, 0.2])) == [0, 1, 2]
    assert leading(lead(distance, [9.0, 0.2, 0.3])) == [0, 1]
    assert leading(lead(distance, [9.0, 0.3, 0.0])) == [0]


def test_copies_within_rounding_follow_the_better_ranked_of_two_leaders() -> None:
    distance = np.array([[0, 0.5, 0.1000001], [0.5, 0, 0.1], [0.1000001, 0.1, 0]], np.float32)
    assert lead(distance, [0.2] * 3).tolist() == [0, 1, 0]


@given(st.integers(1, 24), SEEDS, st.integers(0, 24))
def test_of_leaders_that_a_rounding_error_tells_apart_the_better_ranked_is_followed(
    n: int, seed: int, split: int
) -> None:
    """Invariant: a follower has the best-ranked of the leaders before it that are as near as the nearest, also among earlier ones."""
    jitter = np.triu(np.random.default_rng(seed).integers(-4, 5, (n, n)), 1).astype(np.float32) * np.float32(NOISE / 3)
    distance, cuts, split = distances(n, seed) + jitter + jitter.T, [0.4] * n, min(split, n)
    before = lead(distance[:split, :split], cuts)
    leaders = leading(before)
    behind = lead(distance[split:, split:], cuts, distance[split:, leaders])
    heads = [*before.tolist(), *(leaders[-1 - head] if head < 0 else split + head for head in behind.tolist())]
    assert heads == lead(distance, cuts).tolist()
    for candidate in [each for each in range(n) if heads[each] != each]:
        choices = [each for each in range(candidate) if heads[each] == each]
        apart = distance[candidate, choices]
        assert heads[candidate] == choices[int((apart <= apart.min() + np.float32(NOISE)).argmax())]


def test_nobody_leads_nobody() -> None:
    assert lead(np.empty((0, 0), np.float32), []).tolist() == []

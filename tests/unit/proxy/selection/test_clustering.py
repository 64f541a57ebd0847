"""Clusters: what greedy merging by definition gives, for each linkage, ties and infinities included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.selection import oracles
from support.selection.oracles import agglomerate, apart
from support.selection.pools import angles, damaged
from vecsieve.proxy.selection.clustering import cluster, lead, separate
from vecsieve.proxy.selection.geometry import NOISE, measure
from vecsieve.proxy.selection.policy import Linkage
from vecsieve.proxy.selection.values import FloatMatrix, Indices, best_ranked

LINKAGES = st.sampled_from(list(Linkage))
MERGING = st.sampled_from([linkage for linkage in Linkage if linkage is not Linkage.LEADER])


@given(st.integers(0, 30), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.15, 0.4, 1.0, 2.0]), MERGING)
def test_labels_are_those_of_greedy_merging(n: int, seed: int, threshold: float, linkage: Linkage) -> None:
    # Invariant: where no two distances are equal there is one greedy partition, and it is this one.
    random = np.random.default_rng(seed)
    group = random.integers(0, 1 + n // 3, n)
    values = random.random((n, n)) * np.where(group[:, None] == group[None, :], 0.3, 2.0)
    if linkage is not Linkage.SINGLE:  # which chains around an infinite distance, and is taken apart again
        values[random.random((n, n)) < 0.05] = np.inf
    upper = np.triu(values, 1).astype(np.float32)
    finite = upper[np.isfinite(upper) & (upper > 0)]
    assume(len(np.unique(finite)) == len(finite))
    distance = upper + upper.T
    labels = cluster(distance, threshold, linkage)
    assert labels.tolist() == agglomerate(distance.astype(np.float64).tolist(), threshold + NOISE, linkage.value)


@given(st.integers(0, 12), st.integers(0, 2**32 - 1), st.integers(0, 8), MERGING)
def test_with_ties_the_partition_is_one_that_greedy_merging_can_give(
    n: int, seed: int, eighths: int, linkage: Linkage
) -> None:
    # Invariant: no two clusters are within the cut; within one, all pairs (complete), their mean (average) or a chain
    # through all members (single) are.
    grid = np.random.default_rng(seed).integers(0, 9, (n, n)) / 8
    distance = np.triu(grid, 1) + np.triu(grid, 1).T
    cut = eighths / 8
    labels = cluster(distance.astype(np.float32), cut, linkage)
    clusters = [np.flatnonzero(labels == label).tolist() for label in range(labels.max(initial=-1) + 1)]
    for a, members in enumerate(clusters):
        inside = distance[np.ix_(members, members)]
        assert all(apart(distance.tolist(), members, other, linkage.value) > cut for other in clusters[a + 1 :])
        assert linkage is not Linkage.COMPLETE or (inside <= cut).all()
        pairs = inside[~np.eye(len(members), dtype=bool)]
        assert linkage is not Linkage.AVERAGE or not len(pairs) or pairs.mean() <= cut
        assert linkage is not Linkage.SINGLE or not any(agglomerate(inside.tolist(), cut, "single"))


@given(damaged(), st.floats(0.0, 2.0), LINKAGES)
def test_labels_count_up_in_order_of_best_rank(rows: FloatMatrix, threshold: float, linkage: Linkage) -> None:
    # Invariant: the first members of clusters 0, 1, 2 ... have ascending ranks, and best_ranked finds them.
    labels = cluster(measure(rows, magnitude=False).distance, threshold, linkage)
    firsts = [labels.tolist().index(label) for label in range(labels.max(initial=-1) + 1)]
    assert firsts == sorted(firsts)
    assert best_ranked(labels).tolist() == firsts


@given(damaged(), LINKAGES, st.integers(1, 4))
def test_no_cluster_holds_two_tenants_or_an_unusable_vector(rows: FloatMatrix, linkage: Linkage, tenants: int) -> None:
    # Invariant: even at the largest threshold, clusters stay within a tenant, and unusable candidates stay alone.
    geometry = measure(rows, magnitude=False)
    owner = np.arange(len(rows), dtype=np.int64) % tenants
    labels = cluster(separate(geometry.distance, owner, owner), 2.0, linkage)
    for label in range(labels.max(initial=-1) + 1):
        members = np.flatnonzero(labels == label)
        assert len(set(owner[members])) == 1
        assert len(members) == 1 or geometry.usable[members].all()
    usable = np.flatnonzero(geometry.usable)
    assert len(set(labels[usable])) == len(set(owner[usable]))


@pytest.mark.parametrize("linkage", list(Linkage))
def test_copies_merge_at_threshold_zero(linkage: Linkage) -> None:
    rows = np.random.default_rng(3).standard_normal((50, 768)).astype(np.float32)
    rows[[7, 30, 49]] = rows[2]
    labels = cluster(measure(rows, magnitude=False).distance, 0.0, linkage)
    assert labels[[7, 30, 49]].tolist() == [2, 2, 2]
    assert labels.max() == 46


def test_the_linkages_differ_on_a_chain() -> None:
    # 0, 20 and 40 degrees: neighbours are 0.060 apart, the ends 0.234, the middle and an end pair 0.147 on average.
    distance = measure(angles(0, 20.0, 40.1), magnitude=False).distance
    assert cluster(distance, 0.07, Linkage.SINGLE).tolist() == [0, 0, 0]
    assert cluster(distance, 0.07, Linkage.COMPLETE).tolist() == [0, 0, 1]
    assert cluster(distance, 0.14, Linkage.AVERAGE).tolist() == [0, 0, 1]
    assert cluster(distance, 0.15, Linkage.AVERAGE).tolist() == [0, 0, 0]
    assert cluster(distance, 0.15, Linkage.COMPLETE).tolist() == [0, 0, 1]


@pytest.mark.parametrize("threshold", [0.15, 1.0])
def test_a_distance_equal_to_the_threshold_merges(threshold: float) -> None:
    # 0.15 is no float32: stored as one it is a little more than the threshold it was meant to equal.
    distance = np.array([[0, threshold], [threshold, 0]], dtype=np.float32)
    assert cluster(distance, threshold, Linkage.AVERAGE).tolist() == [0, 0]
    assert cluster(distance, threshold - 1e-4, Linkage.AVERAGE).tolist() == [0, 1]


@pytest.mark.parametrize("n", [0, 1])
def test_a_pool_too_small_to_merge_is_its_own_clusters(n: int) -> None:
    assert cluster(np.zeros((n, n), dtype=np.float32), 2.0, Linkage.AVERAGE).tolist() == list(range(n))


def test_an_all_equal_pool_is_one_cluster() -> None:
    distance = measure(np.full((60, 5), 0.1, dtype=np.float32), magnitude=False).distance
    assert not cluster(distance, 0.0, Linkage.COMPLETE).any()


def test_labels_do_not_depend_on_candidates_that_are_far_from_all() -> None:
    near = measure(angles(0, 2, 4, 90, 91), magnitude=False).distance
    with_far = measure(angles(0, 200, 2, 4, 300, 90, 91), magnitude=False).distance
    assert cluster(near, 0.01, Linkage.AVERAGE).tolist() == [0, 0, 0, 1, 1]
    assert cluster(with_far, 0.01, Linkage.AVERAGE).tolist() == [0, 1, 0, 0, 2, 3, 3]


@given(st.integers(0, 25), st.integers(0, 2**32 - 1), st.sampled_from([0.15, 0.4, 1.0, 2.0]), LINKAGES)
def test_who_is_infinitely_far_apart_never_meets(n: int, seed: int, threshold: float, linkage: Linkage) -> None:
    # Invariant: under every linkage, also by way of a third, no cluster holds two at an infinite distance.
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((n, n)), 1)
    upper[np.triu(random.random((n, n)) < 0.1, 1)] = np.inf
    distance = (upper + upper.T).astype(np.float32)
    labels = cluster(distance, threshold, linkage)
    assert not np.isinf(distance[labels[:, None] == labels[None, :]]).any()


def test_single_linkage_is_taken_apart_in_rank_order() -> None:
    distance = np.full((3, 3), 0.1, np.float32)
    distance[0, 2] = distance[2, 0] = np.inf
    assert cluster(distance, 0.2, Linkage.SINGLE).tolist() == [0, 0, 1]


# The walk: what its definition gives, with cuts that grow, forbidden pairs and earlier leaders.

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
    after = lead(distance[split:, split:], cuts, distance[split:, leaders])
    heads = [*before.tolist(), *(leaders[-1 - head] if head < 0 else split + head for head in after.tolist())]
    assert heads == lead(distance, cuts).tolist()
    for candidate in [place for place in range(n) if heads[place] != place]:
        choices = [place for place in range(candidate) if heads[place] == place]
        apart = distance[candidate, choices]
        assert heads[candidate] == choices[int((apart <= apart.min() + np.float32(NOISE)).argmax())]


def test_nobody_leads_nobody() -> None:
    assert lead(np.empty((0, 0), np.float32), []).tolist() == []

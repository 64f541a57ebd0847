"""One entry to all diversifiers: indices into the pool, relevance read per cluster, and rank order at the relevant end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.pools import angles, damaged, pool
from vecsieve.proxy.selection.distances import CosineDistances, cosine_distances
from vecsieve.proxy.selection.diversifiers.choice import Choice, Diversifier, diversify
from vecsieve.proxy.selection.diversifiers.dpp import Dpp
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.single import expand
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, best_ranked

RELEVANT_END: list[Diversifier | None] = [
    None,
    *(Mmr(weight=1.0, is_scaled=flag) for flag in (False, True)),
    Dpp(diversity=0.0),
]
DIVERSE: list[Diversifier | None] = [
    *(Mmr(weight=0.3, is_scaled=flag) for flag in (False, True)),
    Dpp(diversity=0.9),
    Dpp(diversity=1.0),
]


def led(distance: FloatMatrix) -> Indices:
    """Labels: each candidate is with the first leader at 0.2 or less, else a leader itself."""
    leaders: list[int] = []
    labels = np.empty(len(distance), dtype=np.intp)
    for i, row in enumerate(distance):
        near = [label for label, leader in enumerate(leaders) if row[leader] <= 0.2]
        labels[i] = near[0] if near else len(leaders)
        leaders += [] if near else [i]
    return labels


def scaled_to(median: float) -> CosineDistances:
    """Distances of which only the unit is read."""
    return replace(cosine_distances(np.zeros((0, 1), np.float32), magnitude=False), median=median)


def picked(
    candidates: Candidates,
    count: int,
    diversifier: Diversifier | None,
    *,
    per_cluster: int = 1,
    last_stands: bool = False,
) -> tuple[list[int], list[int]]:
    """Picks and who could have been picked."""
    distance = measure(candidates.vectors, magnitude=False).distance
    labels = led(distance)
    standing = best_ranked(labels)
    if last_stands:
        standing = np.array([np.flatnonzero(labels == label)[-1] for label in range(len(standing))], dtype=np.intp)
    standing = expand(labels, standing, per_cluster)
    choice = Choice(candidates=candidates, standing=standing, labels=labels, distance=distance, measured=scaled_to(0.7))
    picks = diversify(choice, diversifier, count)
    return picks.tolist(), standing.tolist()


@given(damaged(largest=30), st.sampled_from([*RELEVANT_END, *DIVERSE]), st.integers(0, 35), st.integers(1, 3))
def test_any_pool_gives_distinct_representatives_and_the_right_number(
    rows: FloatMatrix, diversifier: Diversifier | None, count: int, per_cluster: int
) -> None:
    # Invariant: as many as asked for or as there are, each once, none that does not stand for a cluster.
    picks, standing = picked(pool(rows), count, diversifier, per_cluster=per_cluster)
    assert len(picks) == len(set(picks)) == min(count, len(standing))
    assert set(picks) <= set(standing)


@given(
    damaged(largest=30),
    st.sampled_from(RELEVANT_END),
    st.integers(0, 35),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_relevance_only_is_rank_order(
    rows: FloatMatrix, diversifier: Diversifier | None, count: int, per_cluster: int, last_stands: bool, rising: bool
) -> None:
    # Invariant: the order of the clusters' best ranks, whoever stands for them, whatever the scores.
    scores = np.linspace(0.0, 1.0, len(rows)) if rising else np.zeros(len(rows))
    picks, standing = picked(
        pool(rows, list(scores)), count, diversifier, per_cluster=per_cluster, last_stands=last_stands
    )
    assert picks == standing[:count]


def test_a_cluster_is_as_relevant_as_its_best_member() -> None:
    # Cluster 0 is represented by the last of the pool; at nearly relevance only it must come first all the same.
    relevant: list[Diversifier | None] = [
        Mmr(weight=0.99, is_scaled=True),
        Dpp(diversity=0.01),
    ]
    for diversifier in relevant:
        assert picked(pool(angles(0, 90, 180, 5)), 1, diversifier, last_stands=True)[0] == [3]


@pytest.mark.parametrize("diversifier", DIVERSE)
def test_every_diversifier_prefers_the_unlike(diversifier: Diversifier | None) -> None:
    # 40 degrees is another cluster, yet liker to the first than 90 is, and hardly more relevant.
    assert set(picked(pool(angles(0, 40, 90), [1.0, 0.51, 0.5]), 2, diversifier)[0]) == {0, 2}


def test_rising_scores_are_distances() -> None:
    diversifier = Dpp(diversity=0.3)
    falling = picked(pool(angles(0, 40, 90, 200), [0.9, 0.8, 0.2, 0.1]), 3, diversifier)
    assert picked(pool(angles(0, 40, 90, 200), [0.1, 0.2, 0.8, 0.9]), 3, diversifier) == falling


def test_infinitely_far_tenants_are_unlike_each_other() -> None:
    candidates = pool(angles(0, 30, 60))
    distance = measure(candidates.vectors, magnitude=False).distance
    distance[2, :2] = distance[:2, 2] = np.inf
    labels = np.arange(3, dtype=np.intp)
    choice = Choice(candidates=candidates, standing=labels, labels=labels, distance=distance, measured=scaled_to(0.5))
    assert diversify(choice, Dpp(diversity=1.0), 2).tolist() == [0, 2]

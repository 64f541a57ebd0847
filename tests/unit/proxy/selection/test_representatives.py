"""Who stands for a cluster, strategy by strategy, and the fall back to rank when a strategy sees nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.pools import angles, damaged, pool
from vecsieve.proxy.selection.clustering import cluster
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.policy import Linkage, Strategy, Tie
from vecsieve.proxy.selection.representatives import represent
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Metadata, Metric, best_ranked

# One cluster of three around 5 degrees, one alone, one of two: labels 0 0 1 0 2 2.
ROWS = angles(0, 9, 90, 5, 200, 202)
LABELS = [0, 0, 1, 0, 2, 2]


def chosen(strategy: Strategy, candidates: Candidates, *, magnitude: bool = False) -> list[int]:
    distance = measure(candidates.vectors, magnitude=magnitude).distance
    labels = np.array(LABELS, dtype=np.intp)
    standing: list[int] = represent(
        labels, lambda: distance, candidates, strategy=strategy, magnitude=magnitude
    ).tolist()
    return standing


@given(damaged(), st.sampled_from(list(Strategy)), st.booleans())
def test_each_cluster_is_represented_by_one_of_its_members(rows: FloatMatrix, strategy: Strategy, known: bool) -> None:
    # Invariant: whatever is missing or damaged, representative c is a member of cluster c.
    candidates = pool(rows, query=np.ones(rows.shape[1], dtype=np.float32) if known else None)
    distance = measure(rows, magnitude=False).distance
    labels = cluster(distance, 0.3, Linkage.AVERAGE)
    standing = represent(labels, lambda: distance, candidates, strategy=strategy, magnitude=False)
    assert labels[standing].tolist() == list(range(len(standing)))
    assert len(standing) == labels.max(initial=-1) + 1


@given(
    damaged(),
    st.sampled_from([Strategy.RANK, Strategy.LONGEST, Strategy.QUERY_CLOSEST, Strategy.CHAIN]),
)
def test_a_strategy_without_its_input_is_rank(rows: FloatMatrix, strategy: Strategy) -> None:
    # Invariant: no text lengths and no query leave nothing but the rank.
    distance = measure(rows, magnitude=False).distance
    labels = cluster(distance, 0.3, Linkage.AVERAGE)
    standing = represent(labels, lambda: distance, pool(rows), strategy=strategy, magnitude=False)
    assert standing.tolist() == best_ranked(labels).tolist()


def test_rank_is_the_best_ranked_member() -> None:
    assert chosen(Strategy.RANK, pool(ROWS)) == [0, 2, 4]


def test_centroid_is_the_member_in_the_middle() -> None:
    assert chosen(Strategy.CENTROID, pool(ROWS)) == [3, 2, 4]


@given(st.integers(0, 2**32 - 1))
def test_centroid_is_the_member_nearest_to_the_mean_of_unit_rows(seed: int) -> None:
    # Invariant: the smallest mean distance to the members is the largest cosine to their mean direction.
    rows = np.random.default_rng(seed).standard_normal((6, 8)).astype(np.float32)
    unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    picked = chosen(Strategy.CENTROID, pool(rows))[0]
    nearness = unit[[0, 1, 3]] @ unit[[0, 1, 3]].mean(axis=0)
    assert (unit[picked] @ unit[[0, 1, 3]].mean(axis=0)) == pytest.approx(nearness.max(), abs=1e-5)


def test_a_rounding_error_does_not_decide_who_stands_in_the_middle() -> None:
    # Members 0 and 1 are equally near to the third but for a rounding error in favour of the worse ranked.
    distance = np.array([[0, 0.1, 0.2], [0.1, 0, 0.2 - 3e-6], [0.2, 0.2 - 3e-6, 0]], dtype=np.float32)
    labels = np.zeros(3, dtype=np.intp)
    candidates = pool(angles(0, 1, 2))
    standing = represent(labels, lambda: distance, candidates, strategy=Strategy.CENTROID, magnitude=False)
    assert standing.tolist() == [0]


def test_hybrid_weighs_score_seven_to_three() -> None:
    # In cluster 0 scores scale to 1, s, 0 and nearness to about 0.31, 0, 1: the member in the middle wins only with a
    # score near enough to the best.
    assert chosen(Strategy.HYBRID, pool(ROWS, [1.0, 0.5, 0.4, 0.0, 0.0, 0.0])) == [0, 2, 4]
    assert chosen(Strategy.HYBRID, pool(angles(0, 4, 90, 9, 200, 202), [1.0, 0.9, 0.8, 0.0, 0.0, 0.0])) == [1, 2, 4]


def test_hybrid_reads_rising_scores_as_distances() -> None:
    assert chosen(Strategy.HYBRID, pool(ROWS, [0.0, 0.5, 0.6, 1.0, 1.0, 1.0])) == [0, 2, 4]


def test_query_closest_is_the_member_nearest_to_the_query() -> None:
    assert chosen(Strategy.QUERY_CLOSEST, pool(ROWS, query=angles(100)[0])) == [1, 2, 4]
    assert chosen(Strategy.QUERY_CLOSEST, pool(ROWS, query=angles(203)[0])) == [0, 2, 5]


def test_query_closest_minds_length_where_length_carries_meaning() -> None:
    rows = ROWS * np.array([[3], [1], [1], [1], [1], [1]], dtype=np.float32)
    candidates = pool(rows, query=angles(0)[0], metric=Metric.DOT)
    assert chosen(Strategy.QUERY_CLOSEST, candidates)[0] == 0
    assert chosen(Strategy.QUERY_CLOSEST, candidates, magnitude=True)[0] == 3


def test_longest_is_the_member_with_the_longest_text() -> None:
    lengths = np.array([10, 30, 5, 30, -1, 7], dtype=np.int64)
    assert chosen(Strategy.LONGEST, pool(ROWS, text_lengths=lengths)) == [1, 2, 5]


def test_longest_is_rank_where_no_text_is_known() -> None:
    assert chosen(Strategy.LONGEST, pool(ROWS, text_lengths=np.full(6, -1, dtype=np.int64))) == [0, 2, 4]


@pytest.mark.parametrize(
    ("scores", "standing"),
    [
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0, 2, 4]),
        ([0.0] * 6, [3, 2, 4]),
        ([0.5] * 6, [3, 2, 4]),
        ([np.nan] * 6, [3, 2, 4]),
        ([0.9, 0.8, 0.7, 0.6, np.nan, np.nan], [0, 2, 4]),
    ],
)
def test_auto_is_rank_where_scores_differ_and_centroid_where_they_do_not(
    scores: list[float], standing: list[int]
) -> None:
    assert chosen(Strategy.AUTO, pool(ROWS, scores)) == standing


def test_chain_asks_the_ties_in_each_cluster() -> None:
    known = Metadata(recency=np.array([1.0, 2.0, 0.0, 2.0, 5.0, 9.0]), sources=("a", "a", "a", "b", "a", "a"))
    candidates = pool(ROWS, metadata=known)
    distance = measure(candidates.vectors, magnitude=False).distance
    standing = represent(
        np.array(LABELS, dtype=np.intp),
        lambda: distance,
        candidates,
        strategy=Strategy.CHAIN,
        magnitude=False,
        chain=(Tie.RECENCY, Tie.AUTHORITY),
        authority=("b",),
    )
    assert standing.tolist() == [3, 2, 5]

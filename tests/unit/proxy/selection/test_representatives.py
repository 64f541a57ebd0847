"""Who stands for a cluster, strategy by strategy, and the fall back to rank when a strategy sees nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.pools import angles, damaged, pool
from vecsieve.proxy.selection.clustering import cluster
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.policy import Linkage, Strategy, Tie
from vecsieve.proxy.selection.representatives import best_of, represent
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


@pytest.mark.parametrize(
    ("strategy", "candidates", "standing"),
    [
        pytest.param(Strategy.RANK, pool(ROWS), [0, 2, 4], id="rank: the best ranked"),
        pytest.param(Strategy.CENTROID, pool(ROWS), [3, 2, 4], id="centroid: the member in the middle"),
        pytest.param(
            Strategy.HYBRID, pool(ROWS, [0.0, 0.5, 0.6, 1.0, 1.0, 1.0]), [0, 2, 4], id="rising scores are distances"
        ),
        pytest.param(Strategy.QUERY_CLOSEST, pool(ROWS, query=angles(100)[0]), [1, 2, 4], id="nearest to the query"),
        pytest.param(
            Strategy.QUERY_CLOSEST, pool(ROWS, query=angles(203)[0]), [0, 2, 5], id="nearest to another query"
        ),
        pytest.param(
            Strategy.LONGEST,
            pool(ROWS, text_lengths=np.full(6, -1, dtype=np.int64)),
            [0, 2, 4],
            id="longest: rank without texts",
        ),
        # auto is rank where scores differ, and centroid where they do not
        (Strategy.AUTO, pool(ROWS, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), [0, 2, 4]),
        (Strategy.AUTO, pool(ROWS, [0.0] * 6), [3, 2, 4]),
        (Strategy.AUTO, pool(ROWS, [0.5] * 6), [3, 2, 4]),
        (Strategy.AUTO, pool(ROWS, [np.nan] * 6), [3, 2, 4]),
        (Strategy.AUTO, pool(ROWS, [0.9, 0.8, 0.7, 0.6, np.nan, np.nan]), [0, 2, 4]),
    ],
)
def test_a_strategy_chooses(strategy: Strategy, candidates: Candidates, standing: list[int]) -> None:
    assert chosen(strategy, candidates) == standing


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


def test_query_closest_minds_length_where_length_carries_meaning() -> None:
    rows = ROWS * np.array([[3], [1], [1], [1], [1], [1]], dtype=np.float32)
    candidates = pool(rows, query=angles(0)[0], metric=Metric.DOT)
    assert chosen(Strategy.QUERY_CLOSEST, candidates)[0] == 0
    assert chosen(Strategy.QUERY_CLOSEST, candidates, magnitude=True)[0] == 3


def test_longest_is_the_member_with_the_longest_text() -> None:
    lengths = np.array([10, 30, 5, 30, -1, 7], dtype=np.int64)
    assert chosen(Strategy.LONGEST, pool(ROWS, text_lengths=lengths)) == [1, 2, 5]


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


# The chain of ties: each looks at those who were equal before it, unknown loses against known, rank has the last word.

FULL = (Tie.CITATIONS, Tie.AUTHORITY, Tie.RECENCY, Tie.SHORTER)
AUTHORITY = ("manual", "wiki")
NAN = float("nan")


def preferred(metadata: Metadata, *chain: Tie, members: object = (0, 1, 2), lengths: object = None) -> int:
    texts = None if lengths is None else np.array(lengths, dtype=np.int64)
    return best_of(np.array(members, dtype=np.intp), metadata, texts, chain, AUTHORITY)


@pytest.mark.parametrize(
    ("metadata", "tie", "expected"),
    [
        pytest.param(Metadata(citations=np.array([1, 3, 2])), Tie.CITATIONS, 1, id="more citations"),
        pytest.param(
            Metadata(citations=np.array([-1, 0, -1])), Tie.CITATIONS, 1, id="no citation, not an unknown number"
        ),
        pytest.param(Metadata(sources=("blog", "wiki", "manual")), Tie.AUTHORITY, 2, id="the source named first"),
        pytest.param(Metadata(sources=(None, "blog", None)), Tie.AUTHORITY, 1, id="a source not listed, not none"),
        pytest.param(Metadata(sources=(None, "blog", "wiki")), Tie.AUTHORITY, 2, id="a listed source"),
        pytest.param(Metadata(sources=(None, "news", "blog")), Tie.AUTHORITY, 1, id="the first of two not listed"),
        pytest.param(Metadata(recency=np.array([5.0, 7.0, NAN])), Tie.RECENCY, 1, id="the newer"),
        pytest.param(Metadata(recency=np.array([NAN, NAN, -3.0])), Tie.RECENCY, 2, id="any time, not an unknown one"),
        # a time that is no number is unknown
        (Metadata(recency=np.array([NAN, NAN, 1.0])), Tie.RECENCY, 2),
        (Metadata(recency=np.array([float("inf"), float("inf"), 1.0])), Tie.RECENCY, 2),
        (Metadata(recency=np.array([float("-inf"), float("-inf"), 1.0])), Tie.RECENCY, 2),
        # a span that is none is unknown
        (Metadata(spans=np.array([[9.0, 3.0], [0.0, 50.0], [9.0, 3.0]])), Tie.SHORTER, 1),
        (
            Metadata(spans=np.array([[float("inf"), float("inf")], [0.0, 50.0], [float("inf"), float("inf")]])),
            Tie.SHORTER,
            1,
        ),
        (Metadata(spans=np.array([[0.0, float("inf")], [0.0, 50.0], [0.0, float("inf")]])), Tie.SHORTER, 1),
    ],
)
def test_a_tie_prefers(metadata: Metadata, tie: Tie, expected: int) -> None:
    assert preferred(metadata, tie) == expected


def test_a_source_listed_twice_counts_from_its_first_place() -> None:
    sources = Metadata(sources=("wiki", "manual"))
    assert best_of(np.array([0, 1]), sources, None, (Tie.AUTHORITY,), ("manual", "wiki", "manual")) == 1


def test_the_shorter_span_wins() -> None:
    spans = np.array([[0.0, 90.0], [40.0, 80.0], [0.0, 50.0]])
    assert preferred(Metadata(spans=spans), Tie.SHORTER, lengths=[1, 9, 9]) == 1


def test_texts_are_compared_where_a_span_is_missing() -> None:
    # 30 tokens and 200 characters have no common unit: either all are compared by span, or all by text.
    spans = np.array([[0.0, 90.0], [NAN, NAN], [0.0, 50.0]])
    assert preferred(Metadata(spans=spans), Tie.SHORTER, lengths=[300, 200, 400]) == 1


def test_a_known_span_beats_none_where_no_text_is_known() -> None:
    spans = np.array([[NAN, NAN], [0.0, 90.0], [0.0, 50.0]])
    assert preferred(Metadata(spans=spans), Tie.SHORTER) == 2
    assert preferred(Metadata(spans=spans), Tie.SHORTER, lengths=[-1, -1, -1]) == 2


def test_an_unknown_text_length_loses() -> None:
    assert preferred(Metadata(), Tie.SHORTER, lengths=[-1, 500, 400]) == 2


def test_a_later_tie_speaks_only_among_the_equal() -> None:
    metadata = Metadata(citations=np.array([2, 2, 1]), recency=np.array([1.0, 2.0, 9.0]))
    assert preferred(metadata, Tie.CITATIONS, Tie.RECENCY) == 1
    assert preferred(metadata, Tie.RECENCY, Tie.CITATIONS) == 2


def test_rank_ends_the_chain_wherever_it_is_named() -> None:
    assert preferred(Metadata(recency=np.array([1.0, 2.0, 3.0])), Tie.RANK, Tie.RECENCY) == 0


@pytest.mark.parametrize("members", list(itertools.permutations([4, 1, 3])))
def test_nothing_known_is_the_best_rank(members: tuple[int, ...]) -> None:
    assert preferred(Metadata(), *FULL, members=members) == 1


@st.composite
def described(draw: st.DrawFn) -> tuple[Metadata, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    n = draw(st.integers(1, 8))
    few = st.sampled_from([NAN, 0.0, 1.0, 2.0])
    spans = np.array(draw(st.lists(st.tuples(few, few), min_size=n, max_size=n))).reshape(n, 2)
    return (
        Metadata(
            citations=np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)), dtype=np.int64),
            sources=tuple(draw(st.lists(st.sampled_from([None, "blog", *AUTHORITY]), min_size=n, max_size=n))),
            recency=np.array(draw(st.lists(few, min_size=n, max_size=n))),
            spans=spans,
        ),
        np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)), dtype=np.int64),
    )


@given(described(), st.permutations(FULL))
def test_the_order_of_the_members_does_not_matter(
    known: tuple[Metadata, np.ndarray[tuple[int], np.dtype[np.int64]]], chain: list[Tie]
) -> None:
    # Invariant: one of the members, the same whoever is named first.
    metadata, lengths = known
    members = np.arange(len(lengths), dtype=np.intp)
    best = best_of(members, metadata, lengths, tuple(chain), AUTHORITY)
    assert best in members
    assert best == best_of(members[::-1], metadata, lengths, tuple(chain), AUTHORITY)


@given(described())
def test_keeping_the_newest_is_the_chain_of_recency_alone(
    known: tuple[Metadata, np.ndarray[tuple[int], np.dtype[np.int64]]],
) -> None:
    # Invariant: nobody's time is newer than the chosen one's, and nobody of the same time ranks better.
    metadata, lengths = known
    assert metadata.recency is not None
    times = np.where(np.isnan(metadata.recency), -np.inf, metadata.recency)
    best = best_of(np.arange(len(lengths), dtype=np.intp), metadata, lengths, (Tie.RECENCY,), ())
    assert best == times.argmax()

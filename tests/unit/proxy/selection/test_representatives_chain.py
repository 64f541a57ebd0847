"""The chain of ties: each looks at those who were equal before it, unknown loses against known, rank has the last word."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.policy import Tie
from vecsieve.proxy.selection.representatives import best_of
from vecsieve.proxy.selection.values import Metadata

FULL = (Tie.CITATIONS, Tie.AUTHORITY, Tie.RECENCY, Tie.SHORTER)
AUTHORITY = ("manual", "wiki")
NAN = float("nan")


def chosen(metadata: Metadata, *chain: Tie, members: object = (0, 1, 2), lengths: object = None) -> int:
    texts = None if lengths is None else np.array(lengths, dtype=np.int64)
    return best_of(np.array(members, dtype=np.intp), metadata, texts, chain, AUTHORITY)


def test_more_citations_win() -> None:
    assert chosen(Metadata(citations=np.array([1, 3, 2])), Tie.CITATIONS) == 1


def test_no_citation_is_more_than_an_unknown_number() -> None:
    assert chosen(Metadata(citations=np.array([-1, 0, -1])), Tie.CITATIONS) == 1


def test_the_source_named_first_wins() -> None:
    assert chosen(Metadata(sources=("blog", "wiki", "manual")), Tie.AUTHORITY) == 2


def test_a_source_not_listed_comes_before_none() -> None:
    assert chosen(Metadata(sources=(None, "blog", None)), Tie.AUTHORITY) == 1
    assert chosen(Metadata(sources=(None, "blog", "wiki")), Tie.AUTHORITY) == 2


def test_two_sources_not_listed_are_equal() -> None:
    assert chosen(Metadata(sources=(None, "news", "blog")), Tie.AUTHORITY) == 1


def test_a_source_listed_twice_counts_from_its_first_place() -> None:
    sources = Metadata(sources=("wiki", "manual"))
    assert best_of(np.array([0, 1]), sources, None, (Tie.AUTHORITY,), ("manual", "wiki", "manual")) == 1


def test_newer_wins_and_an_unknown_time_loses() -> None:
    assert chosen(Metadata(recency=np.array([5.0, 7.0, NAN])), Tie.RECENCY) == 1
    assert chosen(Metadata(recency=np.array([NAN, NAN, -3.0])), Tie.RECENCY) == 2


@pytest.mark.parametrize("odd", [NAN, float("inf"), float("-inf")])
def test_a_time_that_is_no_number_is_unknown(odd: float) -> None:
    assert chosen(Metadata(recency=np.array([odd, odd, 1.0])), Tie.RECENCY) == 2


def test_the_shorter_span_wins() -> None:
    spans = np.array([[0.0, 90.0], [40.0, 80.0], [0.0, 50.0]])
    assert chosen(Metadata(spans=spans), Tie.SHORTER, lengths=[1, 9, 9]) == 1


def test_texts_are_compared_where_a_span_is_missing() -> None:
    # 30 tokens and 200 characters have no common unit: either all are compared by span, or all by text.
    spans = np.array([[0.0, 90.0], [NAN, NAN], [0.0, 50.0]])
    assert chosen(Metadata(spans=spans), Tie.SHORTER, lengths=[300, 200, 400]) == 1


def test_a_known_span_beats_none_where_no_text_is_known() -> None:
    spans = np.array([[NAN, NAN], [0.0, 90.0], [0.0, 50.0]])
    assert chosen(Metadata(spans=spans), Tie.SHORTER) == 2
    assert chosen(Metadata(spans=spans), Tie.SHORTER, lengths=[-1, -1, -1]) == 2


@pytest.mark.parametrize("odd", [[9.0, 3.0], [float("inf"), float("inf")], [0.0, float("inf")]])
def test_a_span_that_is_none_is_unknown(odd: list[float]) -> None:
    assert chosen(Metadata(spans=np.array([odd, [0.0, 50.0], odd])), Tie.SHORTER) == 1


def test_an_unknown_text_length_loses() -> None:
    assert chosen(Metadata(), Tie.SHORTER, lengths=[-1, 500, 400]) == 2


def test_a_later_tie_speaks_only_among_the_equal() -> None:
    metadata = Metadata(citations=np.array([2, 2, 1]), recency=np.array([1.0, 2.0, 9.0]))
    assert chosen(metadata, Tie.CITATIONS, Tie.RECENCY) == 1
    assert chosen(metadata, Tie.RECENCY, Tie.CITATIONS) == 2


def test_rank_ends_the_chain_wherever_it_is_named() -> None:
    assert chosen(Metadata(recency=np.array([1.0, 2.0, 3.0])), Tie.RANK, Tie.RECENCY) == 0


@pytest.mark.parametrize("members", list(itertools.permutations([4, 1, 3])))
def test_nothing_known_is_the_best_rank(members: tuple[int, ...]) -> None:
    assert chosen(Metadata(), *FULL, members=members) == 1


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

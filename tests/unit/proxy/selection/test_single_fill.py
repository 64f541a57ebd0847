"""Filling: what left without a proof, the least covered first; then what a cap held back; proven copies only where a policy repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import DEFAULT
from support.selection.pools import pool
from vecsieve.proxy.selection.grouping import Grouped, numbered
from vecsieve.proxy.selection.judging.walk import unjudged
from vecsieve.proxy.selection.single import fill
from vecsieve.proxy.selection.values import PROVEN, Link


def grouped(heads: Sequence[int], links: Sequence[Link], shares: Sequence[float]) -> Grouped:
    """A pool of which each candidate has this head, for this reason, and this share of its text on the page."""
    n = len(heads)
    walked = unjudged(n)
    walked.links = np.array(links, np.int8)
    walked.shares = np.array(shares, np.float32)
    labels, distinct = numbered(np.array(heads, np.intp))
    return Grouped(
        candidates=pool(np.eye(max(n, 1), dtype=np.float32)[:n]),
        policy=DEFAULT,
        labels=labels,
        heads=np.array(heads, np.intp),
        distinct=distinct,
        walked=walked,
        similarities=walked.shares,
        cuts=np.full(n, np.nan, np.float32),
        vectors=None,
    )


def order(*indices: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array(indices, np.intp)


N, E, D, V = Link.NONE, Link.EQUAL, Link.EDITED, Link.DISTANCE


@st.composite
def pages(draw: st.DrawFn) -> tuple[Grouped, list[int], list[int]]:
    """A pool, its page, and what caps held back: heads whose document has enough results."""
    n = draw(st.integers(1, 12))
    links = [N, *(draw(st.sampled_from([N, N, E, Link.JOINED, D, Link.REWORDED, V])) for _ in range(n - 1))]
    stands = [place for place, link in enumerate(links) if link is N]
    heads = [
        place if link is N else draw(st.sampled_from([head for head in stands if head < place]))
        for place, link in enumerate(links)
    ]
    shares = [np.nan if link is N else draw(st.sampled_from([0.2, 0.5, 0.5, 0.9, 1.0])) for link in links]
    reserve = draw(st.sets(st.sampled_from(stands))) - {0}
    return grouped(heads, links, shares), [head for head in stands if head not in reserve], sorted(reserve)


@given(pages(), st.integers(-1, 14), st.booleans())
def test_fills_are_those_of_the_plain_rule(
    drawn: tuple[Grouped, list[int], list[int]], count: int, repeats: bool
) -> None:
    # Invariant: the least covered of what is doubtful, ties by rank; then what caps held back; then, if asked for, proven copies.
    groups, kept, reserve = drawn
    links, shares = groups.links.tolist(), groups.similarities.tolist()
    left = [place for place in range(len(links)) if place not in kept and place not in reserve]
    doubtful = sorted((place for place in left if links[place] not in PROVEN), key=lambda place: (shares[place], place))
    proven = [place for place in left if links[place] in PROVEN]
    expected = [*doubtful, *reserve, *(proven if repeats else [])][: max(count, 0)]
    assert fill(groups, order(*kept), count, reserve=order(*reserve), repeats=repeats).tolist() == sorted(expected)


@given(pages(), st.integers(0, 14))
def test_a_proven_copy_never_fills_unless_a_policy_repeats(
    drawn: tuple[Grouped, list[int], list[int]], count: int
) -> None:
    # Invariant: without repeats no fill is proven, whatever is left, and the page stays short.
    groups, kept, reserve = drawn
    filled = fill(groups, order(*kept), count, reserve=order(*reserve))
    assert not groups.proven[filled].any()


@pytest.mark.parametrize("link", PROVEN)
def test_a_proven_copy_comes_in_behind_everything_else(link: Link) -> None:
    groups = grouped([0, 0, 0, 3], [N, link, V, N], [np.nan, 1.0, 0.99, np.nan])
    assert fill(groups, order(0), 1, reserve=order(3), repeats=True).tolist() == [2]
    assert fill(groups, order(0), 2, reserve=order(3), repeats=True).tolist() == [2, 3]
    assert fill(groups, order(0), 3, reserve=order(3), repeats=True).tolist() == [1, 2, 3]


def test_the_least_covered_comes_in_first() -> None:
    groups = grouped([0, 0, 0, 0], [N, D, Link.REWORDED, V], [np.nan, 0.97, 0.7, 0.9])
    assert fill(groups, order(0), 1).tolist() == [2]
    assert fill(groups, order(0), 2).tolist() == [2, 3]
    assert fill(groups, order(0), 3).tolist() == [1, 2, 3]


def test_what_is_linked_through_a_third_has_no_share_and_comes_in_first() -> None:
    groups = grouped([0, 0, 0], [N, V, V], [np.nan, 0.1, np.nan])
    assert fill(groups, order(0), 1).tolist() == [2]


def test_a_result_that_stands_for_itself_is_no_fill() -> None:
    """It was not chosen by the diversifier: it would have come in by choice."""
    assert not len(fill(grouped([0, 1], [N, N], [np.nan, np.nan]), order(0), 2))


def test_there_is_nothing_to_fill_from_an_empty_pool() -> None:
    assert not len(fill(grouped([], [], []), order(), 3))


def test_a_full_page_is_not_filled() -> None:
    groups = grouped([0, 0], [N, V], [np.nan, 0.5])
    assert not len(fill(groups, order(0), 0))
    assert not len(fill(groups, order(0), -1))

"""What was shown before stands behind what is new; each list keeps its length, and nothing else changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.searching import Run
from support.backends.toy_backend import ToyAdapter, ToyUpstream, call, families_of, ranking
from support.selection.policies import CLASSICAL, DEFAULT
from support.selection.selections import selection
from vecsieve.adapters.contract import Needs
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.context.repeats import digest, first_pages, renewed, retained_results
from vecsieve.proxy.search.fetch import plan
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.selection.policy import Short
from vecsieve.proxy.selection.values import Fate, Selection
from vecsieve.proxy.telemetry.tracing import Stopwatch

K, F, C, N = Fate.KEPT, Fate.FILLED, Fate.COLLAPSED, Fate.NOT_CHOSEN


def page(representative: Sequence[int], top_k: int) -> Selection:
    """The first representatives by rank, as selection leaves them, filled by copies."""
    leads = [row for row, stand in enumerate(representative) if row == stand]
    copies = [row for row, stand in enumerate(representative) if row != stand]
    keep = leads[:top_k]
    fills = copies[: top_k - len(keep)]
    fates = [
        K if row in keep else F if row in fills else N if row in leads else C for row in range(len(representative))
    ]
    return selection(sorted(keep + fills), representative, fates)


def stale(n: int, *rows: int) -> np.ndarray:
    flags = np.zeros(n, np.bool_)
    flags[list(rows)] = True
    return flags


@pytest.mark.parametrize(
    ("representative", "repeated", "keep"),
    [
        ([0, 1, 2, 3, 4, 5], [1], [0, 2, 3]),
        ([0, 1, 2, 3, 4, 5], [5], [0, 1, 2]),
        ([0, 1, 2, 3, 4, 5], [0, 1, 2], [3, 4, 5]),
        ([0, 1, 2, 3], [0, 1, 2], [3, 0, 1]),
        ([0, 1, 2], [0, 1, 2], [0, 1, 2]),
        ([0, 0, 2, 3, 4], [1], [2, 3, 4]),
        ([0, 0, 2, 2], [2], [0, 2, 1]),
    ],
    ids=["one", "beyond the page", "all of it", "too few new", "nothing new", "a copy of a result", "before copies"],
)
def test_what_was_shown_makes_room_for_what_is_new(
    representative: list[int], repeated: list[int], keep: list[int]
) -> None:
    renewal = renewed(page(representative, 3), stale(len(representative), *repeated), 3, DEFAULT)
    assert renewal.keep.tolist() == keep


def test_a_result_that_made_room_says_why_it_is_gone() -> None:
    whole = page([0, 1, 2, 3, 4], 3)
    renewal = renewed(whole, stale(5, 1), 3, DEFAULT)
    assert renewal.fates.tolist() == [K, Fate.EARLIER, K, K, N]
    assert whole.fates.tolist() == [K, K, K, N, N], "the selection that was given is not changed"


def test_a_page_of_which_nothing_was_shown_is_not_touched() -> None:
    whole = page([0, 1, 2, 3, 4], 3)
    assert renewed(whole, stale(5, 3, 4), 3, DEFAULT) is whole


def test_a_diversifiers_order_is_kept() -> None:
    whole = replace(page([0, 1, 2, 3, 4], 3), keep=np.array([2, 0, 1], np.intp))
    assert renewed(whole, stale(5, 0), 3, CLASSICAL).keep.tolist() == [2, 1, 3]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=20), st.integers(1, 8), st.data())
def test_a_page_keeps_its_length_and_repeats_no_candidate(families: list[int], top_k: int, data: st.DataObject) -> None:
    """Invariant: as many results as before, each once, and no shown one before a new one."""
    first: dict[int, int] = {}
    representative = [first.setdefault(family, row) for row, family in enumerate(families)]
    rows = data.draw(st.sets(st.integers(0, len(families) - 1)))
    whole = page(representative, top_k)
    renewal = renewed(whole, stale(len(families), *rows), top_k, DEFAULT)
    keep = renewal.keep.tolist()
    assert len(keep) == len(set(keep)) == len(whole.keep)
    old = {representative[row] for row in rows}
    is_old = [representative[row] in old for row in keep if representative[row] == row]
    assert is_old == sorted(is_old)
    new = {row for row in representative if row not in old}
    assert len([row for row in keep if row in new]) == min(len(new), len(whole.keep)), (
        "no new one was left out for less"
    )
    assert {int(fate) for fate in renewal.fates[keep]} <= {K, F}
    if renewal is not whole:
        assert renewal.wanting == top_k - len([row for row in keep if row in new]), (
            "a larger pool may have more that is new"
        )


@pytest.mark.parametrize(
    ("repeated", "retained", "keep"),
    [
        ([0], [0], [1, 2, 0]),
        ([0, 1], [0], [2, 3, 0]),
        ([0, 1, 2], [0, 2], [3, 0, 2]),
        ([0, 1, 2, 3, 4, 5], [1], [0, 1, 2]),
        ([0, 1, 2], [0, 1, 2], [0, 1, 2]),
    ],
    ids=["the best", "one of two", "two of three", "nothing is new", "the whole page"],
)
def test_what_is_held_stays_behind_what_is_new(repeated: list[int], retained: list[int], keep: list[int]) -> None:
    renewal = renewed(page(range(6), 3), stale(6, *repeated), 3, DEFAULT, retained=np.array(retained, np.intp))
    assert renewal.keep.tolist() == keep
    new = len(set(keep) - set(repeated))
    assert renewal.wanting == 3 - len(retained) - new


def retained_of(
    given: Sequence[int],
    scores: Sequence[float],
    *,
    repeated: Sequence[int] = (),
    most: int = 2,
    of: Selection | None = None,
) -> list[int]:
    n = len(scores)
    whole = page(range(n), 3) if of is None else of
    result = retained_results(whole, stale(n, *given), stale(n, *repeated), np.array(scores), top_k=3, most=most)
    return [int(row) for row in result]


FALLING = [1.0, 0.9, 0.4, 0.3, 0.2, 0.1]


def test_results_near_the_best_are_held() -> None:
    assert retained_of([0, 1, 2], FALLING) == [0, 1]
    assert retained_of([1, 2], FALLING) == [1], "the third is nearer to what would be new"
    assert retained_of([0, 1, 2], [1.0, 0.3, 0.3, 0.3, 0.2, 0.0]) == [0]
    assert retained_of([5], FALLING) == [], "it is not on the page"


def test_distances_fall_where_scores_rise() -> None:
    assert retained_of([0, 1, 2], [-score for score in FALLING]) == [0, 1]


def test_no_more_are_held_than_the_policy_says() -> None:
    assert retained_of([0, 1, 2], FALLING, most=1) == [0]
    assert retained_of([0, 1, 2], FALLING, most=0) == []


def test_what_an_earlier_list_of_the_request_shows_is_not_held() -> None:
    assert retained_of([0, 1], FALLING, repeated=[0]) == [1]


def test_a_copy_is_not_held_and_its_cluster_is_by_its_representative() -> None:
    whole = page([0, 0, 2, 3, 4, 5], 3)
    assert retained_of([1], FALLING, of=whole) == [0]
    filled = page([0, 0, 0], 3)
    assert retained_of([1], [1.0, 1.0, 0.5], of=filled) == [0]


@pytest.mark.parametrize("scores", [[1.0] * 6, [float("nan")] * 6], ids=["equal", "none"])
def test_without_scores_that_differ_ranks_decide(scores: list[float]) -> None:
    assert retained_of([0, 1, 2], scores) == [0, 1]


@given(st.integers(1, 12), st.integers(1, 5), st.data())
def test_a_page_that_holds_keeps_its_length_and_shows_the_new_first(n: int, top_k: int, data: st.DataObject) -> None:
    rows = data.draw(st.sets(st.integers(0, n - 1)))
    scores = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=n, max_size=n)))
    whole, most = page(range(n), top_k), data.draw(st.integers(0, top_k))
    stay = retained_results(whole, stale(n, *rows), stale(n), scores, top_k=top_k, most=most)
    keep = renewed(whole, stale(n, *rows), top_k, DEFAULT, retained=stay).keep.tolist()
    assert len(keep) == len(set(keep)) == len(whole.keep)
    assert set(stay.tolist()) <= set(keep) & rows
    assert len(stay) <= most
    assert [row in rows for row in keep] == sorted(row in rows for row in keep)


def test_a_short_page_is_filled_by_no_copy_where_the_policy_allows_it() -> None:
    chosen = replace(DEFAULT, short=Short.ALLOW)
    whole = selection([0, 2], [0, 0, 2, 2], [K, C, K, C])
    assert renewed(whole, stale(4, 0), 3, chosen).keep.tolist() == [2, 0]


def test_a_digest_tells_parts_from_one_another() -> None:
    assert digest(b"a", b"bc") != digest(b"ab", b"c")
    assert digest(b"a") == digest(b"a")
    assert len(digest()) == 8


def test_a_first_page_by_offset_is_selected_from_its_own_pool() -> None:
    searches = first_pages(lambda _: call((4, 0), (4, 4), (4, None)), Needs()).searches
    assert [search.pages for search in searches] == [False, True, False]


# Lists of one request, on the toy backend: its points have no ids, so they are told by evidence.


def policy(**members: object) -> ResolvedPolicy:
    chosen = Policies(Settings.model_validate({"policy": members})).resolve("qdrant", "c")
    return replace(chosen, is_across=True)


async def lists(chosen: ResolvedPolicy, *rankings: Sequence[int], top_k: int = 4) -> list[list[int]]:
    upstream = ToyUpstream(*map(ranking, rankings))
    search = call(*[(top_k, None)] * len(rankings))
    planned = plan(search, chosen, None)
    assert planned is not None
    ticks: Iterator[int] = itertools.count()
    attempt = Run(call=search, policy=chosen, plan=planned, watch=Stopwatch(lambda: float(next(ticks)), 0.0))
    return families_of(await attempt.improve(Searcher(ToyAdapter()), upstream.fetch))


async def test_a_later_list_shows_what_it_has_next() -> None:
    assert await lists(policy(), range(20), range(20), range(2, 20)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


async def test_the_first_list_is_as_it_would_be_alone() -> None:
    families = [0, 0, 1, 1, 2, 3, 4, 5]
    assert (await lists(policy(), families, families))[0] == (await lists(policy(), families))[0]


async def test_a_list_without_enough_of_its_own_keeps_its_length() -> None:
    assert await lists(policy(), range(6), range(6)) == [[0, 1, 2, 3], [4, 5, 0, 1]]


async def test_lists_that_share_nothing_stay() -> None:
    assert await lists(policy(), range(10), range(10, 20)) == [[0, 1, 2, 3], [10, 11, 12, 13]]


async def test_without_the_header_each_list_is_chosen_alone() -> None:
    alone = replace(policy(), is_across=False)
    assert await lists(alone, range(20), range(20)) == [[0, 1, 2, 3], [0, 1, 2, 3]]


async def test_a_list_whose_pool_was_shown_asks_for_deeper_ranks() -> None:
    pages = await lists(policy(), *[range(130)] * 12, top_k=10)
    assert sorted(itertools.chain.from_iterable(pages)) == list(range(120)), "a first pool has fifty candidates"


async def test_a_list_that_may_not_grow_fills_from_its_own_pool() -> None:
    pages = await lists(policy(fetch={"cap": 50}), *[range(130)] * 12, top_k=10)
    assert [len(set(page)) for page in pages] == [10] * 12
    assert sorted(itertools.chain.from_iterable(pages[:5])) == list(range(50))

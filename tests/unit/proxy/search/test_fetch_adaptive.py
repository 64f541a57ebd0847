"""Few candidates at first, more while pages want more, fewer when they do not; within the policy's bounds, and at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.selections import selection
from support.toy_backend import ToyAdapter, ToyUpstream, call, families_of, ranking
from vecsieve.adapters.contract import Operation, SearchCall
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.fetch import CALM, OFTEN, RECENT, START, AdaptiveFetch, Attempt, factor_at, fetch_k, plan
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.tracing import Stopwatch

EXAMPLES = settings().max_examples * 2 // 3  # each is dozens of searches
CLEAN = list(range(120))
# Ten distinct results take 31 candidates: more than the first pool of ten results (24), fewer than the next (32).
COPIED = [0] * 22 + CLEAN[1:]
FLOODED = [0] * 100 + CLEAN[1:]


def policy(**members: object) -> ResolvedPolicy:
    fetch = {"adaptive": True, **members.pop("fetch", {})}  # type: ignore[dict-item]  # - a test's own mapping
    return Policies(Settings.model_validate({"policy": {"fetch": fetch, **members}})).resolve("qdrant", "c")


def planned(
    adaptive_fetch: AdaptiveFetch, chosen: ResolvedPolicy, asked: SearchCall, cap: int | None = None
) -> Attempt:
    factor = adaptive_fetch.factor(asked.operation, chosen)
    sizes = plan(asked, chosen, cap, factor=factor)
    assert sizes is not None
    return Attempt(call=asked, policy=chosen, plan=sizes, watch=Stopwatch(lambda: 0.0), factor=factor)


def eaten(
    adaptive_fetch: AdaptiveFetch,
    chosen: ResolvedPolicy,
    families: Sequence[int],
    *,
    top_k: int = 10,
    cap: int | None = None,
) -> tuple[list[int], list[int]]:
    """One search from plan to lesson: the sizes that were asked for, the families that came back."""
    return asyncio.run(_eaten(adaptive_fetch, chosen, families, call((top_k, None)), cap))


async def _eaten(
    adaptive_fetch: AdaptiveFetch, chosen: ResolvedPolicy, families: Sequence[int], asked: SearchCall, cap: int | None
) -> tuple[list[int], list[int]]:
    attempt, upstream = planned(adaptive_fetch, chosen, asked, cap), ToyUpstream(ranking(families))
    answer = await Searcher(ToyAdapter()).improve(attempt, upstream.fetch, cap=cap)
    adaptive_fetch.learn_sizes(attempt, cap=cap)
    return [sizes[0] for sizes in upstream.asked], families_of(answer)[0]


def test_a_policy_that_is_not_adaptive_keeps_its_own_factor() -> None:
    adaptive_fetch, fixed = AdaptiveFetch(), policy(fetch={"adaptive": False})
    assert adaptive_fetch.factor(call((10, None)).operation, fixed) is None
    assert eaten(adaptive_fetch, fixed, FLOODED)[0][0] == 50
    assert len(adaptive_fetch) == 0


def test_the_first_pool_holds_two_candidates_a_result_or_the_floor() -> None:
    assert eaten(AdaptiveFetch(), policy(), CLEAN)[0] == [24]
    assert eaten(AdaptiveFetch(), policy(), CLEAN, top_k=20)[0] == [40]
    assert eaten(AdaptiveFetch(), policy(fetch={"floor": 1}), CLEAN)[0] == [20]


def test_a_page_that_its_pool_could_not_fill_makes_the_next_pool_larger() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    assert eaten(adaptive_fetch, chosen, COPIED) == ([24, 100], CLEAN[:10])
    assert eaten(adaptive_fetch, chosen, COPIED) == ([32], CLEAN[:10])


def test_a_page_that_did_not_grow_but_was_filled_with_copies_wants_more_too() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy(short="fill")
    assert eaten(adaptive_fetch, chosen, COPIED)[0] == [24]
    assert eaten(adaptive_fetch, chosen, COPIED)[0] == [32]


def test_a_flood_of_copies_leads_to_the_policys_factor_and_no_further() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy(short="fill")
    assert [eaten(adaptive_fetch, chosen, FLOODED)[0][0] for _ in range(6)] == [24, 32, 50, 50, 50, 50]


def test_a_small_collection_whose_end_was_read_wants_no_more() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    for _ in range(3):
        assert eaten(adaptive_fetch, chosen, [0, 0, 0, 1])[0] == [24]


def test_thirty_two_pages_in_a_row_that_needed_less_make_the_pool_smaller() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    eaten(adaptive_fetch, chosen, COPIED)
    sizes = [eaten(adaptive_fetch, chosen, CLEAN)[0][0] for _ in range(CALM + 1)]
    assert sizes == [32] * CALM + [24]


def test_one_page_that_needs_its_pool_begins_the_count_anew() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    eaten(adaptive_fetch, chosen, COPIED)
    for families in ([CLEAN] * (CALM - 1), [COPIED], [CLEAN] * (CALM - 1)):
        for each in families:
            assert eaten(adaptive_fetch, chosen, each)[0] == [32]
    eaten(adaptive_fetch, chosen, CLEAN)
    assert eaten(adaptive_fetch, chosen, CLEAN)[0] == [24]


def test_searches_for_which_a_step_changes_nothing_do_not_vote() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    eaten(adaptive_fetch, chosen, COPIED)
    for _ in range(2 * CALM):
        assert eaten(adaptive_fetch, chosen, CLEAN, top_k=3)[0] == [24]  # the floor, on every step
    assert eaten(adaptive_fetch, chosen, CLEAN)[0] == [32]
    for _ in range(5):
        eaten(adaptive_fetch, chosen, FLOODED, top_k=3)
    assert eaten(adaptive_fetch, chosen, CLEAN)[0] == [32]


def test_a_cap_is_kept_and_a_pool_at_its_cap_does_not_move_the_step() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy(short="fill")
    for _ in range(3):
        assert eaten(adaptive_fetch, chosen, FLOODED, cap=24)[0] == [24]
    assert eaten(adaptive_fetch, chosen, CLEAN)[0] == [24]


def test_searches_in_flight_together_move_the_step_once() -> None:
    async def together() -> None:
        adaptive_fetch, chosen, asked = AdaptiveFetch(), policy(short="fill"), call((10, None))
        attempts = [planned(adaptive_fetch, chosen, asked) for _ in range(5)]
        for attempt in attempts:
            await Searcher(ToyAdapter()).improve(attempt, ToyUpstream(ranking(FLOODED)).fetch, cap=None)
        for attempt in attempts:
            adaptive_fetch.learn_sizes(attempt, cap=None)
        assert planned(adaptive_fetch, chosen, asked).plan == (32,)

    asyncio.run(together())


def test_collections_learn_apart_and_the_one_used_longest_ago_begins_anew() -> None:
    async def learned() -> None:
        adaptive_fetch, chosen = AdaptiveFetch(entries=2), policy()

        def asked(name: str) -> SearchCall:
            return replace(call((10, None)), operation=Operation(backend="toy", name="query", collection=name))

        for name in ("a", "b"):
            await _eaten(adaptive_fetch, chosen, COPIED, asked(name), None)
        assert planned(adaptive_fetch, chosen, asked("c")).plan == (24,)
        assert planned(adaptive_fetch, chosen, asked("a")).plan == (32,)
        await _eaten(adaptive_fetch, chosen, COPIED, asked("c"), None)
        assert [planned(adaptive_fetch, chosen, asked(name)).plan for name in "abc"] == [(24,), (32,), (32,)]
        assert len(adaptive_fetch) == 2

    asyncio.run(learned())


def test_a_number_the_client_named_is_used_and_teaches_nothing() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    exact = replace(chosen, fetch=replace(chosen.fetch, exact=15))
    assert eaten(adaptive_fetch, exact, COPIED)[0] == [15]
    assert len(adaptive_fetch) == 0


@pytest.mark.parametrize("diversifier", [{"mmr": {"lambda": 0.5}}, {"diversify": "dpp"}])
def test_a_diversifier_has_the_policys_whole_pool(diversifier: dict[str, object]) -> None:
    assert eaten(AdaptiveFetch(), policy(**diversifier), CLEAN)[0] == [50]


async def test_pages_of_one_list_are_planned_as_ever_and_teach_nothing() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    asked = call((10, 0))
    attempt = planned(adaptive_fetch, chosen, asked)
    assert attempt.plan == plan(asked, chosen, None)
    await Searcher(ToyAdapter()).improve(attempt, ToyUpstream(ranking(FLOODED)).fetch, cap=None)
    adaptive_fetch.learn_sizes(attempt, cap=None)
    assert planned(adaptive_fetch, chosen, call((10, None))).plan == (24,)


async def test_a_search_that_was_not_widened_teaches_nothing() -> None:
    adaptive_fetch, chosen = AdaptiveFetch(), policy()
    attempt = planned(adaptive_fetch, chosen, call((250, None), (10, None)))
    assert attempt.plan == (None, 24)
    upstream = ToyUpstream(ranking([0] * 260), ranking(CLEAN))
    await Searcher(ToyAdapter()).improve(attempt, upstream.fetch, cap=None)
    adaptive_fetch.learn_sizes(attempt, cap=None)
    assert planned(adaptive_fetch, chosen, call((10, None))).plan == (24,)


def test_a_policy_that_asks_for_less_than_two_is_where_it_begins_and_ends() -> None:
    chosen = policy(fetch={"factor": 1.3, "floor": 1}, short="fill")
    assert [factor_at(step, chosen) for step in range(3)] == [1.3, 1.3, 1.3]
    assert [eaten(adaptive_fetch, chosen, FLOODED)[0] for adaptive_fetch in [AdaptiveFetch()] * 3] == [[16]] * 3


def test_a_reload_that_lowers_the_factor_is_obeyed_at_once_and_left_in_32_pages() -> None:
    adaptive_fetch, high, low = AdaptiveFetch(), policy(fetch={"factor": 20.0}), policy(fetch={"factor": 3.0})
    assert [fed(adaptive_fetch, high, 5, 150) for _ in range(6)] == [24, 40, 64, 80, 100, 100]
    assert [fed(adaptive_fetch, low, 10, 10) for _ in range(CALM + 1)] == [32] * CALM + [24]


def fed(adaptive_fetch: AdaptiveFetch, chosen: ResolvedPolicy, top_k: int, depth: int) -> int | None:
    """A search whose distinct page takes ``depth`` candidates, no more is selected than that; its first pool's size."""
    asked = call((top_k, None))
    factor = adaptive_fetch.factor(asked.operation, chosen)
    sizes = plan(asked, chosen, None, factor=factor)
    if sizes is None or sizes[0] is None:
        return None
    attempt = Attempt(call=asked, policy=chosen, plan=sizes, watch=Stopwatch(lambda: 0.0), factor=factor)
    last, wanting = (depth - 1, 0) if depth <= sizes[0] else (top_k - 1, 1)
    each = range(sizes[0])
    attempt.selections = (selection([*range(top_k - 1), last], each, [0] * sizes[0], wanting=wanting),)
    attempt.exhausted = (False,)
    adaptive_fetch.learn_sizes(attempt, cap=None)
    return sizes[0]


FACTORS = st.floats(1.0, 50.0, allow_nan=False)
FLOORS = st.integers(1, 200)
PAGES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 250)), max_size=60
)  # top_k, and copies above the last result


def after(pages: list[tuple[int, int]], chosen: ResolvedPolicy) -> AdaptiveFetch:
    adaptive_fetch = AdaptiveFetch()
    for top_k, copies in pages:
        fed(adaptive_fetch, chosen, top_k, top_k + copies)
    return adaptive_fetch


@given(factor=FACTORS, floor=FLOORS, pages=PAGES, top_k=st.integers(1, 250))
def test_a_first_pool_lies_between_the_smallest_and_the_policys(
    factor: float, floor: int, pages: list[tuple[int, int]], top_k: int
) -> None:
    """Invariant: never below what the first step gives for this top_k, never above what the policy gives."""
    chosen = policy(fetch={"factor": factor, "floor": floor})
    learned = after(pages, chosen).factor(call().operation, chosen)
    least, now, most = (fetch_k(top_k, policy=chosen, cap=None, factor=each) for each in (START, learned, None))
    assert learned is not None
    assert top_k <= least <= now <= most


@given(factor=FACTORS, floor=FLOORS, pages=PAGES, top_k=st.integers(1, 60), copies=st.integers(0, 250))
@settings(max_examples=EXAMPLES)
def test_the_same_search_again_and_again_comes_to_rest(
    factor: float, floor: int, pages: list[tuple[int, int]], top_k: int, copies: int
) -> None:
    """Invariant: from any history, one search repeated settles on the smallest size that fills its page, else the largest."""
    chosen = policy(fetch={"factor": factor, "floor": floor})
    adaptive_fetch = after(pages, chosen)
    sizes = [fed(adaptive_fetch, chosen, top_k, top_k + copies) for _ in range(12 * CALM)]
    possible = {fetch_k(top_k, policy=chosen, cap=None, factor=factor_at(step, chosen)) for step in range(12)} - {top_k}
    enough = [size for size in sorted(possible) if size >= top_k + copies]
    assert set(sizes[-2 * CALM :]) == {enough[0] if enough else max(possible, default=None)}


@given(pages=PAGES)
def test_the_same_history_teaches_the_same(pages: list[tuple[int, int]]) -> None:
    """Invariant: two processes that answer the same searches ask for the same sizes."""
    chosen = policy()
    runs = []
    for adaptive_fetch in (AdaptiveFetch(), AdaptiveFetch()):
        runs.append([fed(adaptive_fetch, chosen, top_k, top_k + copies) for top_k, copies in pages])
    assert runs[0] == runs[1]


def foreseen(
    adaptive_fetch: AdaptiveFetch, families: Sequence[int], asked: SearchCall, *, is_spare: bool = False
) -> tuple[list[int], list[int]]:
    """One search of a policy that is not adaptive, with what is foreseen of it: sizes asked for, families that came back."""

    async def run() -> tuple[list[int], list[int]]:
        chosen = policy(fetch={"adaptive": False})
        sizes = plan(asked, chosen, None)
        assert sizes is not None
        ahead = adaptive_fetch.ahead(asked, sizes, chosen, cap=None, is_spare=is_spare)
        attempt = Attempt(call=asked, policy=chosen, plan=sizes, watch=Stopwatch(lambda: 0.0), ahead=ahead)
        upstream = ToyUpstream(ranking(families))
        answer = await Searcher(ToyAdapter()).improve(attempt, upstream.fetch, cap=None)
        adaptive_fetch.learn_growth(attempt)
        return [sizes[0] for sizes in upstream.asked], families_of(answer)[0]

    return asyncio.run(run())


def test_the_grown_pool_is_fetched_at_once_where_one_page_in_four_wanted_it_and_there_is_no_second_read() -> None:
    adaptive_fetch, asked = AdaptiveFetch(), call((10, None))
    for _ in range(OFTEN):
        assert foreseen(adaptive_fetch, FLOODED, asked)[0] == [50, 200]
    assert foreseen(adaptive_fetch, FLOODED, asked)[0] == [200]
    assert foreseen(adaptive_fetch, FLOODED, asked, is_spare=True)[0] == [50, 200], (
        "where there is one it waits until it is wanted"
    )
    for _ in range(RECENT):
        foreseen(adaptive_fetch, CLEAN, asked)
    assert foreseen(adaptive_fetch, CLEAN, asked)[0] == [50]


def test_pages_are_fetched_as_deep_as_they_last_had_to_grow_and_less_deep_after_a_calm_while() -> None:
    adaptive_fetch, deep, asked = AdaptiveFetch(), [family for family in range(40) for _ in range(16)], call((4, 8))
    grown, pages = foreseen(adaptive_fetch, deep, asked)
    assert len(grown) > 1
    for _ in range(2):
        assert foreseen(adaptive_fetch, deep, asked) == (grown[-1:], pages)
    steps = len(grown) - 1
    for _ in range(CALM * steps):
        foreseen(adaptive_fetch, CLEAN, asked)
    assert foreseen(adaptive_fetch, CLEAN, asked)[0] == grown[:1]


@given(
    families=st.lists(st.integers(0, 20), min_size=130, max_size=400),
    top_k=st.integers(2, 12),
    offset=st.none() | st.integers(0, 12),
)
@settings(max_examples=EXAMPLES)
def test_what_is_foreseen_changes_no_answer(families: list[int], top_k: int, offset: int | None) -> None:
    """The answer of a pool fetched at once is the answer of the pool that grew to it."""
    adaptive_fetch, asked = AdaptiveFetch(), call((top_k, offset))
    grown, answer = foreseen(adaptive_fetch, families, asked)
    for _ in range(OFTEN):
        foreseen(adaptive_fetch, families, asked)
    at_once, same = foreseen(adaptive_fetch, families, asked)
    assert same == answer
    assert at_once[-1] == grown[-1]
    assert len(at_once) == 1

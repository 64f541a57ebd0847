"""How deep the pages of a collection reach is learnt from them, and asked for in the first request; less again when they need less."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.backends.searching import Run
from support.backends.toy_backend import ToyAdapter, ToyUpstream, call, families_of, ranking
from support.selection.selections import selection
from vecsieve.adapters.contract import Operation, Reply, SearchCall
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import RECENT, Depths, plan
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.pools.values import Planned, PoolSet, Selected
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.tracing import Stopwatch

EXAMPLES = settings().max_examples * 2 // 3  # each is dozens of searches
PLENTY = 10**9
CLEAN = list(range(300))
FLOODED = [0] * 100 + CLEAN[1:]  # ten different results take 109 candidates
PAGE = call((10, None))


def policy(**members: object) -> ResolvedPolicy:
    return Policies(Settings.model_validate({"policy": members})).resolve("qdrant", "c")


def prepared(
    depths: Depths, search_call: SearchCall, chosen: ResolvedPolicy, *, cap: int | None = None, room: int = PLENTY
) -> Run:
    sizes = plan(search_call, chosen, cap)
    assert sizes is not None
    first = depths.first(search_call, sizes, chosen, cap=cap, room=room)
    return Run(call=search_call, policy=chosen, plan=sizes, watch=Stopwatch(lambda: 0.0, 0.0), first=first)


def answered(
    depths: Depths,
    families: Sequence[int],
    search_call: SearchCall = PAGE,
    chosen: ResolvedPolicy | None = None,
    *,
    reads: int = 9,
    cap: int | None = None,
    room: int = PLENTY,
) -> tuple[list[list[int]], list[list[int]]]:
    """One call from plan to lesson: the sizes that were requested, the families that came back. ``reads``: the budget allows so many."""

    async def run() -> tuple[list[list[int]], list[list[int]]]:
        attempt = prepared(depths, search_call, chosen or policy(), cap=cap, room=room)
        upstream = ToyUpstream(*[ranking(families)] * len(search_call.searches))

        async def fetch(body: bytes, **_: int) -> bytes:
            if len(upstream.requested) == reads:
                raise RejectedReplyError(FailOpen.BUDGET)
            return await upstream.fetch(body)

        answer = await attempt.improve(Searcher(ToyAdapter()), fetch, cap=cap)
        depths.learn(attempt.selected, cap=cap)
        return upstream.requested, families_of(answer)

    return asyncio.run(run())


def test_a_collection_without_copies_is_asked_for_the_plan_and_not_remembered() -> None:
    depths = Depths()
    assert [answered(depths, CLEAN)[0] for _ in range(3)] == [[[50]]] * 3
    assert len(depths) == 0


def test_after_a_page_that_had_to_grow_the_next_one_is_full_with_one_read() -> None:
    depths = Depths()
    assert answered(depths, FLOODED) == ([[50], [200]], [CLEAN[:10]])
    for _ in range(RECENT):
        assert answered(depths, FLOODED, reads=1) == ([[128]], [CLEAN[:10]])


def test_where_growing_was_withheld_the_next_request_asks_for_the_grown_pool() -> None:
    depths = Depths()
    assert answered(depths, FLOODED, reads=1) == ([[50]], [[0] * 10])
    assert answered(depths, FLOODED, reads=1) == ([[200]], [CLEAN[:10]])


def test_depth_falls_again_when_pages_need_less() -> None:
    depths = Depths()
    answered(depths, FLOODED)
    assert [answered(depths, CLEAN)[0] for _ in range(RECENT)] == [[[128]]] * RECENT
    assert answered(depths, CLEAN)[0] == [[50]]


def test_depth_falls_to_what_the_last_pages_needed() -> None:
    depths, less = Depths(), [0] * 60 + CLEAN[1:]
    answered(depths, FLOODED)
    assert [answered(depths, less)[0] for _ in range(RECENT + 1)] == [[[128]]] * RECENT + [[[80]]]


def test_a_shorter_page_gets_as_much_more_and_a_longer_one_more_in_proportion() -> None:
    depths, chosen = Depths(), policy()
    answered(depths, FLOODED)
    assert [depths.of(PAGE.operation, chosen, window) for window in (1, 10, 20)] == [100, 109, 20 + 2 * 99]
    answered(depths, FLOODED, call((20, None)))
    assert [depths.of(PAGE.operation, chosen, window) for window in (20, 40)] == [119, 40 + 2 * 99]
    assert answered(depths, FLOODED, call((3, None)), reads=1) == ([[128]], [CLEAN[:3]])


def test_pages_by_offset_use_and_teach_the_same_depth_in_whole_blocks() -> None:
    depths = Depths()
    assert answered(depths, FLOODED)[0] == [[50], [200]]
    for offset in range(0, 100, 10):
        requests, pages = answered(depths, FLOODED, call((10, offset)), reads=1)
        assert pages == [CLEAN[offset : offset + 10]]
        assert [size % 50 for size in requests[0]] == [0]


def test_a_batch_is_asked_for_what_each_of_its_searches_needs() -> None:
    depths, both = Depths(), call((10, None), (4, 8))
    assert answered(depths, FLOODED, both)[1] == [CLEAN[:10], CLEAN[8:12]]
    requests, pages = answered(depths, FLOODED, both, reads=1)
    assert pages == [CLEAN[:10], CLEAN[8:12]]
    assert requests == [[128, 150]]


async def test_a_search_that_is_sent_unchanged_teaches_nothing() -> None:
    depths = Depths()
    attempt = prepared(depths, call((256, None), (10, None)), policy())
    assert attempt.planned.plan == (None, 50)
    upstream = ToyUpstream(ranking([0] * 260), ranking(CLEAN))
    await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    depths.learn(attempt.selected, cap=None)
    assert len(depths) == 0


@pytest.mark.parametrize("members", [{"short": "fill"}, {"short": "allow"}])
def test_a_policy_whose_pools_do_not_grow_keeps_to_its_plan(members: dict[str, object]) -> None:
    depths, chosen = Depths(), policy(**members)
    for _ in range(3):
        assert answered(depths, FLOODED, chosen=chosen)[0] == [[50]]
    answered(depths, FLOODED)
    assert answered(depths, FLOODED, chosen=chosen)[0] == [[50]]


def test_a_number_the_client_named_is_used_as_it_is() -> None:
    depths, chosen = Depths(), policy()
    exact = replace(chosen, exact_fetch=15)
    answered(depths, FLOODED)
    assert answered(depths, FLOODED, chosen=exact)[0] == [[15]]


@pytest.mark.parametrize("diversifier", [{"mmr": {"lambda": 0.5}}, {"dpp": 0.4}])
def test_a_diversifier_chooses_from_the_plan_where_that_is_enough(diversifier: dict[str, object]) -> None:
    depths, chosen = Depths(), policy(**diversifier)
    plain = answered(depths, CLEAN, chosen=chosen)
    assert plain[0] == [[50]]
    answered(depths, FLOODED, chosen=chosen)
    requests, page = answered(depths, CLEAN, chosen=chosen)
    assert requests[0][0] > 50
    assert page == plain[1]


def test_a_small_collection_that_was_read_to_its_end_is_not_asked_for_more() -> None:
    depths = Depths()
    for _ in range(3):
        assert answered(depths, [0, 0, 0, 1])[0] == [[50]]
    longer = [0] * 90 + [1, 2]
    answered(depths, longer)
    assert answered(depths, longer)[0] == [[100]], "92 candidates, and there are no more"


def test_caps_and_room_are_kept() -> None:
    depths = Depths()
    answered(depths, FLOODED)
    assert answered(depths, FLOODED, cap=64)[0] == [[64]]
    assert answered(depths, FLOODED, chosen=policy(fetch={"cap": 100}))[0] == [[100]]
    assert answered(depths, FLOODED, room=90, reads=1)[0] == [[90]]
    assert answered(depths, FLOODED, room=40, reads=1)[0] == [[50]], "the plan was admitted by other bounds"
    assert answered(depths, FLOODED, call((10, None), (10, None)), room=250, reads=1)[0] == [[50, 50]]


def test_collections_learn_apart_and_the_one_used_longest_ago_begins_anew() -> None:
    depths, chosen = Depths(entries=2), policy()

    def of(name: str) -> SearchCall:
        return replace(PAGE, operation=Operation(backend="toy", name="query", collection=name))

    for name in ("a", "b"):
        answered(depths, FLOODED, of(name))
    assert [prepared(depths, of(name), chosen).planned.first for name in "abc"] == [(128,), (128,), ()]
    answered(depths, CLEAN, of("a"))
    answered(depths, FLOODED, of("c"))
    assert [prepared(depths, of(name), chosen).planned.first for name in "abc"] == [(128,), (), (128,)]
    assert len(depths) == 2


def test_searches_that_demote_results_learn_apart() -> None:
    depths, chosen = Depths(), policy()
    demoting = replace(chosen, session_key=b"s")
    assert demoting.demotes != chosen.demotes
    answered(depths, FLOODED)
    assert prepared(depths, PAGE, demoting).planned.first == ()


async def test_calls_in_flight_together_teach_what_each_has_seen() -> None:
    depths, chosen = Depths(), policy()
    attempts = [prepared(depths, PAGE, chosen) for _ in range(5)]
    for attempt in attempts:
        await attempt.improve(Searcher(ToyAdapter()), ToyUpstream(ranking(FLOODED)).fetch)
    for attempt in attempts:
        depths.learn(attempt.selected, cap=None)
    assert prepared(depths, PAGE, chosen).planned.first == (128,)


CALLS = st.lists(st.tuples(st.integers(1, 60), st.none() | st.integers(0, 60), st.integers(0, 400)), max_size=60)
"""For each call its top_k, its offset, and how many copies are above its last result."""


def pool_set(planned: Planned, size: int) -> PoolSet:
    """A pool of this size, of which nothing but its size is read."""
    return PoolSet(
        planned=planned,
        call=planned.call,
        policy=planned.policy,
        is_by_texts=False,
        reply=Reply(pools=(), document=None),
        sizes=(size,),
        exhausted=(False,),
        known=(),
        rounds=1,
        reply_bytes=0,
    )


def fed(depths: Depths, chosen: ResolvedPolicy, calls: Sequence[tuple[int, int | None, int]], cap: int | None) -> None:
    """Calls whose pages take so many candidates, if so many are requested; nothing grows."""
    for top_k, offset, copies in calls:
        search_call = call((top_k, offset))
        if plan(search_call, chosen, cap) is None:
            continue
        attempt = prepared(depths, search_call, chosen, cap=cap)
        depth, (size,), first = (offset or 0) + top_k + copies, attempt.planned.plan, attempt.planned.first
        assert size is not None
        if first:
            size = first[0] if depth > min(size, first[0]) else min(size, first[0])
        last, wanting = (depth - 1, 0) if depth <= size else (0, 1)
        selections = (selection([last], range(depth), [0] * depth, wanting=wanting),)
        depths.learn(Selected(pool_set(attempt.planned, size), selections, selections), cap=cap)


@given(
    calls=CALLS, top_k=st.integers(1, 250), offset=st.none() | st.integers(0, 250), cap=st.none() | st.integers(1, 300)
)
def test_depth_is_bounded_and_never_below_what_was_asked(
    calls: list[tuple[int, int | None, int]], top_k: int, offset: int | None, cap: int | None
) -> None:
    """Invariant: window <= plan <= depth <= the caps, after any history; the same history gives the same depth."""
    chosen, search_call, depths_used = policy(), call((top_k, offset)), []
    if (planned := plan(search_call, chosen, cap)) is None:
        return
    for _ in range(2):
        fed(depths := Depths(), chosen, calls, cap)
        depths_used.append(prepared(depths, search_call, chosen, cap=cap).planned.first or planned)
    ((size,), (first,)) = depths_used[0], planned
    most = chosen.fetch.cap if offset is None else chosen.fetch.page_cap
    assert first is not None
    assert size is not None
    assert top_k + (offset or 0) <= first <= size <= max(first, min(most, cap or most))
    assert depths_used[0] == depths_used[1]


@given(calls=CALLS, top_k=st.integers(1, 60), offset=st.none() | st.integers(0, 60))
def test_after_as_many_calls_without_copies_as_are_remembered_the_plan_is_back(
    calls: list[tuple[int, int | None, int]], top_k: int, offset: int | None
) -> None:
    """Invariant: whatever was learnt is forgotten after RECENT calls whose plan was enough."""
    depths, chosen, search_call = Depths(), policy(), call((top_k, offset))
    fed(depths, chosen, calls, None)
    fed(depths, chosen, [(10, None, 0)] * RECENT, None)
    assert prepared(depths, search_call, chosen).planned.first == ()


@given(
    families=st.lists(st.integers(0, 20), min_size=130, max_size=400),
    top_k=st.integers(2, 12),
    offset=st.none() | st.integers(0, 12),
)
@settings(max_examples=EXAMPLES)
def test_a_deeper_first_request_changes_no_answer_and_saves_the_second(
    families: list[int], top_k: int, offset: int | None
) -> None:
    """Invariant: the answer of a pool that was fetched at once is that of the pool that grew, with one read."""
    depths, search_call = Depths(), call((top_k, offset))
    answer = answered(depths, families, search_call)[1]
    for _ in range(2):
        at_once, same = answered(depths, families, search_call)
        assert same == answer
        assert len(at_once) == 1

"""One search's life, over a backend small enough to see through."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.searching import Run
from support.backends.toy_backend import ToyAdapter, ToyUpstream, call, families_of, ranking
from vecsieve.adapters.contract import MalformedReplyError, Pool, Reply, Search, SearchCall
from vecsieve.config.schema import Settings
from vecsieve.proxy.runtime import loop as runtime
from vecsieve.proxy.search import searcher as search_searcher
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import needs_of, plan
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.pools import source as sources
from vecsieve.proxy.search.report import stages_of
from vecsieve.proxy.search.searcher import Searcher, untouched, whole, window
from vecsieve.proxy.selection.values import Fate, Selection, Steps
from vecsieve.proxy.telemetry.labels import FailOpen, Stage
from vecsieve.proxy.telemetry.tracing import Stopwatch


def policy(**members: object) -> ResolvedPolicy:
    settings = Settings.model_validate({"policy": members})
    return Policies(settings).resolve("qdrant", "c")


def attempt_of(search_call: SearchCall, chosen: ResolvedPolicy) -> Run:
    planned = plan(search_call, chosen, None)
    assert planned is not None
    ticks: Iterator[int] = itertools.count()
    return Run(call=search_call, policy=chosen, plan=planned, watch=Stopwatch(lambda: float(next(ticks)), 0.0))


COPIES = [0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("families", "members", "page", "rounds"),
    [
        pytest.param(COPIES, {}, [0, 1, 2, 3], 1, id="copies are replaced by what comes after them"),
        pytest.param([0] * 300, {}, [0, 0, 0, 0], 2, id="too few representatives grow the pool once and are filled up"),
        pytest.param([0] * 30 + [1, 2, 3], {}, [0, 1, 2, 3], 2, id="growing reaches what lay after a flood of copies"),
        pytest.param([0, 0, 0, 1], {}, [0, 0, 0, 1], 1, id="an exhausted pool is not read again"),
        pytest.param([0] * 300, {"short": "fill"}, [0, 0, 0, 0], 1, id="a policy may fill a short page"),
        pytest.param([0] * 300, {"short": "allow"}, [0], 1, id="a policy may allow a short page"),
    ],
)
async def test_a_pool_grows_only_where_it_may_gain(
    families: list[int], members: dict[str, str], page: list[int], rounds: int
) -> None:
    upstream = ToyUpstream(ranking(families))
    attempt = attempt_of(call((4, None)), policy(**members))
    answer = await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    assert families_of(answer) == [page]
    assert len(upstream.requested) == attempt.rounds == rounds
    sizes = [size for (size,) in upstream.requested]
    assert sizes[0] == 24
    assert sizes == sorted(set(sizes)), "each is larger than the one before"


async def test_a_clean_pool_comes_back_as_its_first_top_k() -> None:
    upstream = ToyUpstream(ranking(range(40)))
    attempt = attempt_of(call((5, None)), policy())
    answer = await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    assert families_of(answer) == [[0, 1, 2, 3, 4]]
    assert not attempt.selections[0].acted


async def test_when_growing_fails_the_smaller_pool_stands() -> None:
    upstream = ToyUpstream(ranking([0] * 30 + [1, 2, 3]))
    rounds = itertools.count()

    async def fetch(body: bytes) -> bytes:
        if next(rounds):
            raise RejectedReplyError(FailOpen.OVERFETCH_STATUS)
        return await upstream.fetch(body)

    attempt = attempt_of(call((4, None)), policy())
    answer = await attempt.improve(Searcher(ToyAdapter()), fetch)
    assert families_of(answer) == [[0, 0, 0, 0]]


async def test_pages_of_every_size_slice_one_list() -> None:
    families = [family for family in range(60) for _ in range(1 + family % 3)]
    for size in (1, 4, 7, 60):
        seen: list[int] = []
        for offset in range(0, 60, size):
            upstream = ToyUpstream(ranking(families))
            attempt = attempt_of(call((min(size, 60 - offset), offset)), policy())
            seen += families_of(await attempt.improve(Searcher(ToyAdapter()), upstream.fetch))[0]
        assert seen == list(range(60)), f"pages of {size}"


async def test_a_page_deeper_than_the_flood_keeps_growing_until_it_is_full() -> None:
    upstream = ToyUpstream(ranking([family for family in range(100) for _ in range(6)]))
    attempt = attempt_of(call((10, 50)), policy())
    answer = await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    assert families_of(answer) == [list(range(50, 60))]
    assert all(size % 50 == 0 for sizes in upstream.requested for size in sizes)


async def test_each_search_of_a_batch_is_chosen_on_its_own() -> None:
    upstream = ToyUpstream(ranking(COPIES), ranking(range(30)))
    attempt = attempt_of(call((3, None), (2, None)), policy())
    answer = await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    assert families_of(answer) == [[0, 1, 2], [0, 1]]


async def test_a_search_that_cannot_be_widened_keeps_the_backends_own_page_beside_one_that_can() -> None:
    upstream = ToyUpstream(ranking([0] * 200 + list(range(1, 100))), ranking(COPIES))
    search_call = call((256, None), (3, None))
    attempt = attempt_of(search_call, policy())
    answer = await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    first, second = families_of(answer)
    assert first == [0] * 200 + list(range(1, 57))
    assert second == [0, 1, 2]
    assert upstream.requested == [[[0, 256], 24]], "and its request as it was"


async def test_a_page_too_deep_to_widen_is_not_fetched_from_rank_0_beside_one_that_is_widened() -> None:
    upstream = ToyUpstream(ranking([family % 100 for family in range(5_000)]), ranking([0] * 40 + [1, 2]))
    searcher = Searcher(ToyAdapter())
    attempt = attempt_of(call((10, 4_000), (3, None)), policy())
    plain_page = list(range(10))
    assert families_of(await attempt.improve(searcher, upstream.fetch)) == [plain_page, [0, 1, 2]]
    assert upstream.requested == [[[4_000, 4_010], 24], [[4_000, 4_010], 100]]
    assert families_of(attempt.plain(searcher)) == [plain_page, [0, 0, 0]]


@pytest.mark.parametrize("search_call", [call((256, None)), call((10, 5000)), call((10, 1000))])
def test_a_window_beyond_the_caps_is_not_planned(search_call: SearchCall) -> None:
    assert plan(search_call, policy(), None) is None


def test_a_learned_cap_bounds_the_plan_and_forbids_it_where_nothing_is_left_to_gain() -> None:
    assert plan(call((4, None)), policy(), 10) == (10,)
    assert plan(call((10, None)), policy(), 10) is None
    assert plan(call((10, 0)), policy(), 30) is None


async def test_plain_answers_the_backends_own_page_from_what_was_fetched() -> None:
    upstream = ToyUpstream(ranking(COPIES))
    attempt = attempt_of(call((4, None)), policy())
    searcher = Searcher(ToyAdapter())
    await attempt.improve(searcher, upstream.fetch)
    assert families_of(attempt.plain(searcher)) == [[0, 0, 0, 1]]


def test_plain_has_nothing_to_say_before_anything_was_fetched() -> None:
    with pytest.raises(RejectedReplyError):
        attempt_of(call((4, None)), policy()).plain(Searcher(ToyAdapter()))


async def test_a_rejected_or_malformed_first_reply_is_the_ladders_business() -> None:
    async def rejected(body: bytes) -> bytes:
        raise RejectedReplyError(FailOpen.OVERFETCH_TIMEOUT)

    async def garbage(body: bytes) -> bytes:
        return b"<html>"

    async def too_many(body: bytes) -> bytes:
        return b"[[],[]]"

    searcher = Searcher(ToyAdapter())
    with pytest.raises(RejectedReplyError):
        await attempt_of(call((4, None)), policy()).improve(searcher, rejected)
    for fetch in (garbage, too_many):
        with pytest.raises(MalformedReplyError):
            await attempt_of(call((4, None)), policy()).improve(searcher, fetch)


async def test_every_stage_is_timed() -> None:
    upstream = ToyUpstream(ranking(COPIES))
    attempt = attempt_of(call((4, None)), policy())
    await attempt.improve(Searcher(ToyAdapter()), upstream.fetch)
    assert set(stages_of(attempt.planned.watch.marks)) == set(Stage) - {Stage.PARSE}


def test_the_vector_a_policy_names_is_kept_apart_from_the_one_learned_from_replies() -> None:
    needs = needs_of(policy(vector="mine", tenant_keys=("t",)), "learned")
    assert (needs.vector_name, needs.vector_hint, needs.payload_fields) == ("mine", "learned", ("t",))
    assert needs_of(policy(), None).vector_name is None


def test_tenant_keys_must_come_along_and_whatever_else_the_policy_reads_may() -> None:
    settings = policy(tenant_keys=("t",), text_fields=("m.text", "t", "body"))
    needs = needs_of(settings.with_texts(("page_content",)), None)
    assert (needs.payload_fields, needs.optional_fields) == (
        ("t",),
        ("m", "body", "page_content"),
    )


@pytest.mark.parametrize("search_call", [call((4, None)), call((4, 0))])
async def test_a_small_collection_that_cannot_fill_the_page_is_selected_from_once(
    search_call: SearchCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = itertools.count()
    for name in ("selecting", "paging"):
        kernel = getattr(search_searcher, name)

        def counting(*given: object, kernel: Callable[..., object] = kernel, **named: object) -> object:
            next(runs)
            return kernel(*given, **named)

        monkeypatch.setattr(search_searcher, name, counting)
    attempt = attempt_of(search_call, policy())
    answer = await attempt.improve(Searcher(ToyAdapter()), ToyUpstream(ranking([0, 0, 0, 1])).fetch)
    assert families_of(answer) == [[0, 0, 0, 1]]
    assert next(runs) == 1


async def test_a_search_that_names_its_own_most_is_widened_no_further() -> None:
    parsed = call((4, None))
    bounded = replace(parsed, searches=(replace(parsed.searches[0], most=10),))
    assert plan(bounded, policy(), None) == (10,)
    assert plan(bounded, policy(), 8) == (8,)
    assert plan(replace(parsed, searches=(replace(parsed.searches[0], most=4),)), policy(), None) is None


class Watched(ToyAdapter):
    """Notes in which thread it reads and cuts replies."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.cut: list[int] = []

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        self.read.append(threading.get_ident())
        return super().parse_reply(call, body)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        self.cut.append(threading.get_ident())
        return super().trim(call, reply, keep)


@pytest.mark.parametrize("is_large", [False, True])
async def test_large_replies_are_read_and_cut_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    upstream, adapter = ToyUpstream(ranking(COPIES)), Watched()
    whole = await attempt_of(call((4, None)), policy()).improve(
        Searcher(ToyAdapter()), ToyUpstream(ranking(COPIES)).fetch
    )
    for module in (search_searcher, sources):
        monkeypatch.setattr(module, "TURN_BYTES", 10 if is_large else 1 << 20)
    answer = await attempt_of(call((4, None)), policy()).improve(Searcher(adapter), upstream.fetch)
    assert answer == whole
    is_here = [thread == threading.get_ident() for thread in (*adapter.read, *adapter.cut)]
    assert is_here == [not is_large] * 2


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("pages", [False, True])
async def test_large_pools_are_compared_beside_the_loop_and_lists_in_steps_on_it(
    monkeypatch: pytest.MonkeyPatch, *, pages: bool, is_long: bool
) -> None:
    monkeypatch.setattr(search_searcher, "LONG_POOL", 5 if is_long else 400)
    threads: set[int] = set()

    def noting(steps: Steps[Selection]) -> StopIteration | None:
        threads.add(threading.get_ident())
        return step(steps)

    step = runtime._end
    monkeypatch.setattr(runtime, "_end", noting)
    search_call = call((4, 0 if pages else None))
    answer = await attempt_of(search_call, policy()).improve(Searcher(ToyAdapter()), ToyUpstream(ranking(COPIES)).fetch)
    assert families_of(answer) == [[0, 1, 2, 3]]
    assert (threads == {threading.get_ident()}) is (pages or not is_long)


async def test_a_large_reply_that_cannot_be_read_is_malformed_as_a_small_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fetch(body: bytes) -> bytes:
        return b"no reply" * 10

    monkeypatch.setattr(sources, "TURN_BYTES", 10)
    with pytest.raises(MalformedReplyError):
        await attempt_of(call((4, None)), policy()).improve(Searcher(ToyAdapter()), fetch)


async def test_who_goes_away_while_a_large_reply_is_read_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(ToyAdapter):
        def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
            begun.set()
            go_on.wait(60)
            return super().parse_reply(call, body)

    monkeypatch.setattr(sources, "TURN_BYTES", 10)
    attempt = attempt_of(call((4, None)), policy())
    improving = asyncio.ensure_future(attempt.improve(Searcher(Slow()), ToyUpstream(ranking(COPIES)).fetch))
    await asyncio.to_thread(begun.wait, 10)
    improving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(improving, 20)
    go_on.set()
    assert attempt.reply is None


def pool(size: int) -> Pool:
    return Pool(scores=np.zeros(size), vectors=np.zeros((size, 0), np.float32))


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_pool_that_is_the_page_is_kept_whole_and_in_order(size: int) -> None:
    selection = untouched(pool(size))
    assert selection.keep.tolist() == whole(pool(size)).tolist() == list(range(size))
    assert selection.fates.tolist() == [Fate.KEPT] * size
    assert (selection.distinct, selection.wanting, selection.acted) == (size, 0, False)


@given(size=st.integers(0, 30), offset=st.integers(0, 40), top_k=st.integers(1, 40))
def test_a_window_is_the_slice_that_was_asked_for(size: int, offset: int, top_k: int) -> None:
    """Invariant: ranks offset to offset + top_k, as far as the pool has them."""
    search = Search(top_k=top_k, offset=offset, pages=True, query=None)
    assert window(search, pool(size)).tolist() == list(range(size))[offset : offset + top_k]

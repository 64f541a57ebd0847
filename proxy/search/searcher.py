"""One search's life, free of transport: plan, widen, fetch, select, grow, trim.

The transport hands in ``fetch`` and holds the ``Attempt``: whatever has been fetched stays there, so that a lower rung
of the failure ladder can still answer from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    Adapter,
    Allowance,
    Bounds,
    FetchesVectors,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    Reply,
    Search,
    SearchCall,
)
from vecsieve.proxy.runtime import LongWork
from vecsieve.proxy.search.candidates import CALL_BYTES, from_pool
from vecsieve.proxy.search.errors import LookupFailedError, RejectedReplyError
from vecsieve.proxy.search.fetch import Attempt, Fetch, Plan, may_grow, next_size
from vecsieve.proxy.search.lookups import SendVectorFetch, VectorFetches, VectorMemory, completed, is_promising
from vecsieve.proxy.search.profiles import Scaling
from vecsieve.proxy.selection.paged import paging
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.single import selecting, unlinked
from vecsieve.proxy.selection.values import Fate, Selection
from vecsieve.proxy.telemetry.labels import FailOpen, MemoryLookup, Stage

# The client's own page out of a pool: results as the backend ranked them, nothing chosen.


def untouched(pool: Pool) -> Selection:
    """A pool that is the page itself, as a selection that did nothing."""
    each = whole(pool)
    return Selection(
        keep=each,
        labels=each,
        representative=each,
        fates=np.full(pool.size, Fate.KEPT, dtype=np.int8),
        distinct=pool.size,
        wanting=0,
        acted=False,
        threshold=0.0,
        **unlinked(pool.size),
    )


def whole(pool: Pool) -> npt.NDArray[np.intp]:
    """(n,) every candidate."""
    return np.arange(pool.size, dtype=np.intp)


def window(search: Search, pool: Pool) -> npt.NDArray[np.intp]:
    """(top_k,) the candidates at the ranks that were asked for, as far as there are any."""
    return np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size), dtype=np.intp)


# Searches that share one limit: each is judged by as many candidates as were wanted of it, however many came.
#
# So a search in a batch chooses among what it would have chosen among alone.


def truncate_pools(reply: Reply, sizes: Sequence[int]) -> Reply:
    """The reply with no more than ``sizes[i]`` candidates in pool i; 0 leaves a pool as it came."""
    if not any(0 < size < pool.size for pool, size in zip(reply.pools, sizes, strict=True)):
        return reply
    pools = (first(pool, size) if size else pool for pool, size in zip(reply.pools, sizes, strict=True))
    return replace(reply, pools=tuple(pools))


def first(pool: Pool, count: int) -> Pool:
    """The pool's first ``count`` candidates, at the ranks they have in it."""
    vectors = pool.vectors[:count]
    unusable = int(np.isnan(vectors).any(axis=1).sum()) if vectors.shape[1] else len(vectors)
    return replace(
        pool,
        scores=pool.scores[:count],
        vectors=vectors,
        fields=pool.fields[:count],
        ids=pool.ids[:count],
        unusable=unusable,
        alone=tuple(row for row in pool.alone if row < count),
    )


PAGE_ROUNDS = 4  # 50 -> 200 -> 800 -> 1000: the steps from the smallest paged pool to the default page_cap
SINGLE_ROUNDS = 1  # one page grows once: a second wait would cost more than the fill it replaces
# A reply of this size takes 3 to 8 ms to read, without pysimdjson 12: a larger one is read and cut beside the loop.
TURN_BYTES = 1 << 20
# Measuring all pairs of so many candidates takes 5 ms, and of a thousand 30: they are compared beside the loop.
LONG_POOL = 400


class Searcher:
    """Runs calls of one adapter. What a call has come to is in its Attempt; ``scaling`` remembers what pools look like,
    ``memory`` their vectors. ``work``: does what would hold the loop; whoever made it closes it.
    """

    __slots__ = ("_adapter", "_memory", "_scaling", "_work")

    def __init__(
        self,
        adapter: Adapter,
        scaling: Scaling | None = None,
        memory: VectorMemory | None = None,
        work: LongWork | None = None,
    ) -> None:
        self._adapter = adapter
        self._memory = memory
        self._work = LongWork() if work is None else work
        self._scaling = Scaling(None, None, lambda _profile, _event: None) if scaling is None else scaling

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Raises UnsupportedError for a request that is too much to be read."""
        self._adapter.check_size(operation, body, bounds)

    def read(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Parse the client's request. Raises UnsupportedError."""
        return self._adapter.parse_request(operation, body, needs)

    def lean(self, call: SearchCall, body: bytes) -> SearchCall | None:
        """The same call without vectors, where memory probably has them; None where they are to be fetched."""
        if self._memory is None or not is_promising(self._memory, call):
            return None
        lean = self.read(call.operation, body, replace(call.needs, vectors=False))
        return None if lean.document == call.document else lean  # the client itself asks for them

    async def improve(
        self,
        attempt: Attempt,
        fetch: Fetch,
        *,
        cap: int | None,
        reply_bytes: int | None = None,
        look: SendVectorFetch | None = None,
    ) -> bytes:
        """The distinct answer in the backend's own bytes. Raises RejectedReplyError or MalformedReplyError when there is none to be had.

        ``reply_bytes``: how large a reply may be, which bounds how far a pool grows; None: as large as it gets. ``look``: how to send a lookup; None where
        the transport cannot.
        """
        if look is not None and attempt.call.needs.lookups and isinstance(self._adapter, FetchesVectors):
            attempt.lookups = VectorFetches(self._adapter, look, attempt.watch)
        await self._round(attempt, fetch, _first_sizes(attempt))
        if _is_blind(attempt):
            raise RejectedReplyError(FailOpen.NO_VECTORS)
        await self._grow(attempt, fetch, cap, reply_bytes)
        self._learn(attempt)
        with attempt.watch.stage(Stage.ENCODE):
            keep = [selection.keep for selection in attempt.selections]
            return await self._work.done(partial(self._trim, attempt, keep), is_long=attempt.reply_bytes > TURN_BYTES)

    def plain(self, attempt: Attempt) -> bytes:
        """The backend's own first top_k out of the fetched pool. Raises RejectedReplyError when nothing usable was fetched."""
        if attempt.reply is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        rows = zip(attempt.call.searches, attempt.reply.pools, attempt.plan, strict=True)
        return self._trim(
            attempt,
            [whole(pool) if planned is None else window(search, pool) for search, pool, planned in rows],
        )

    def _trim(self, attempt: Attempt, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        assert attempt.reply is not None  # noqa: S101 - a round has set it, or plain() has looked
        reply = attempt.reply if attempt.lookups is None else attempt.lookups.charged(attempt.reply)
        return self._adapter.trim(attempt.call, reply, keep)

    async def _round(self, attempt: Attempt, fetch: Fetch, sizes: tuple[int, ...]) -> None:
        reply = await self._fetched(attempt, attempt.call, fetch, sizes)
        if attempt.spare is not None:
            attempt.recall = MemoryLookup.HIT if reply is not None else MemoryLookup.MISS
        if reply is None:
            assert attempt.spare is not None  # noqa: S101 - only a call that has one asks for no vectors
            attempt.stock = None  # it has no vectors
            reply = await self._fetched(attempt, attempt.spare, fetch, sizes)
            attempt.call, attempt.spare = attempt.spare, None
        assert reply is not None  # noqa: S101 - a call that asks for vectors has no use for memory
        attempt.rounds += 1
        attempt.reply, attempt.sizes, attempt.selections = _judged(reply, attempt.plan), sizes, ()
        attempt.exhausted = tuple(pool.size < size for pool, size in zip(reply.pools, sizes, strict=True))
        attempt.selections = await self._select(attempt)

    async def _fetched(self, attempt: Attempt, call: SearchCall, fetch: Fetch, sizes: tuple[int, ...]) -> Reply | None:
        """One reply; None when it came without vectors and memory lacks some. A lower rung can still answer from it."""
        reply = truncate_pools(await self._stocked(attempt, call, fetch, sizes), sizes)
        if attempt.lookups is not None:
            if attempt.reply is None:
                attempt.reply = reply  # for a lower rung, should this step break
            reply = await attempt.lookups.completed(call, reply)
        if self._memory is None:
            return reply
        known = completed(self._memory, call, reply)
        if known is None and attempt.reply is None:
            attempt.reply = reply
        return known

    async def _stocked(self, attempt: Attempt, call: SearchCall, fetch: Fetch, sizes: tuple[int, ...]) -> Reply:
        """A reply with at least as many candidates: the one that is there, or the next from upstream."""
        if attempt.stock is not None and all(has >= size for has, size in zip(attempt.stocked, sizes, strict=True)):
            return attempt.stock
        watch, asked = attempt.watch, sizes
        if attempt.ahead:
            asked = tuple(max(pair) for pair in zip(sizes, attempt.ahead, strict=True))
        with watch.stage(Stage.REWRITE):
            body = self._adapter.widen(call, asked)
        with watch.stage(Stage.UPSTREAM):
            fetched = await fetch(body)
        attempt.fetched_bytes += len(fetched)
        attempt.reply_bytes = len(fetched)
        with watch.stage(Stage.DECODE):
            read = partial(self._adapter.parse_reply, call, fetched)
            reply = await self._work.done(read, is_long=len(fetched) > TURN_BYTES)
        if len(reply.pools) != len(call.searches):
            raise MalformedReplyError(f"{len(reply.pools)} result lists for {len(call.searches)} searches")
        attempt.stock, attempt.stocked = reply, asked
        return reply

    async def _grow(self, attempt: Attempt, fetch: Fetch, cap: int | None, reply_bytes: int | None) -> None:
        """Fetch more while a page is wanting; when that is impossible, settle with what there is."""
        limit = PAGE_ROUNDS if any(search.pages for search in attempt.call.searches) else SINGLE_ROUNDS
        for _ in range(limit):
            sizes = _within(attempt, self._grown(attempt, cap), reply_bytes)
            if sizes == attempt.sizes:
                break
            attempt.wanted += 1
            try:
                await self._round(attempt, fetch, sizes)
            except (RejectedReplyError, MalformedReplyError, LookupFailedError):
                break  # the smaller pool is whole and selected: growing was only an attempt to do better
        await self._settle(attempt)

    def _grown(self, attempt: Attempt, cap: int | None) -> tuple[int, ...]:
        rows = zip(attempt.call.searches, attempt.selections, attempt.sizes, attempt.exhausted, strict=True)
        return tuple(
            next_size(search, size, attempt.policy, cap)
            if selection.wanting and not exhausted and may_grow(search, attempt.policy)
            else size
            for search, selection, size, exhausted in rows
        )

    async def _settle(self, attempt: Attempt) -> None:
        """Decide the pages that growing could not fill with what there is. Everything else is decided already:
        a single page is filled as it is selected, and an exhausted pool was read to its end.
        """
        assert attempt.reply is not None  # noqa: S101 - a round has set it
        rows = zip(attempt.call.searches, attempt.reply.pools, attempt.selections, attempt.exhausted, strict=True)
        settled: list[Selection] = []
        allowance = Allowance(CALL_BYTES)
        for search, pool, selection, exhausted in rows:
            if search.pages and selection.wanting and not exhausted:
                await asyncio.sleep(0)
                settled.append(await self._select_one(attempt, search, pool, allowance, exhausted=True))
            else:
                settled.append(selection)
        attempt.selections = tuple(settled)

    async def _select(self, attempt: Attempt) -> tuple[Selection, ...]:
        """Select of each search's pool, a turn of the loop for each: a batch must not hold it as long as all of them take."""
        assert attempt.reply is not None  # noqa: S101 - the round that calls this has just set it
        rows = zip(attempt.call.searches, attempt.reply.pools, attempt.exhausted, attempt.plan, strict=True)
        selections: list[Selection] = []
        allowance = Allowance(CALL_BYTES)
        for search, pool, exhausted, planned in rows:
            if selections:
                await asyncio.sleep(0)
            if planned is None:
                selections.append(untouched(pool))
            else:
                selections.append(await self._select_one(attempt, search, pool, allowance, exhausted=exhausted))
        return tuple(selections)

    async def _select_one(
        self, attempt: Attempt, search: Search, pool: Pool, allowance: Allowance, *, exhausted: bool
    ) -> Selection:
        policy = attempt.policy
        with attempt.watch.stage(Stage.DECODE):
            read = partial(
                from_pool, pool, search, tenant_keys=policy.tenant_keys, fields=policy.fields, allowance=allowance
            )
            candidates = await self._work.done(read, is_long=attempt.reply_bytes > TURN_BYTES)
        chosen, scale = self._scaled(attempt, pool)
        if search.pages:
            top_k, offset = search.top_k, search.offset
            steps = paging(candidates, top_k=top_k, offset=offset, policy=chosen, exhausted=exhausted, scale=scale)
            return await self._work.finished(steps, attempt.watch.stage(Stage.CLUSTER), is_long=False)
        laps = attempt.watch.laps()
        steps = selecting(candidates, top_k=search.top_k, policy=chosen, scale=scale, lap=laps.over)
        return await self._work.finished(steps, laps, is_long=pool.size > LONG_POOL)

    def _scaled(self, attempt: Attempt, pool: Pool) -> tuple[Policy, float | None]:
        """The policy to select by, and the typical distance to read its threshold at. A threshold that the request itself
        named is read as it names it.
        """
        policy = attempt.policy
        if not policy.is_profiled:
            return policy.selection, None
        collection, dimension = attempt.call.operation.collection, pool.vectors.shape[1]
        found = self._scaling.of(collection, pool.compared_by, policy.selection, dimension=dimension)
        return found.policy, found.scale

    def _learn(self, attempt: Attempt) -> None:
        """Once a call, from the pools as they were last fetched: what a pool grew from is a part of it."""
        assert attempt.reply is not None  # noqa: S101 - a round has set it
        collection = attempt.call.operation.collection
        for pool, selection, planned in zip(attempt.reply.pools, attempt.selections, attempt.plan, strict=True):
            if planned is not None:
                dimension = pool.vectors.shape[1]
                median, size = selection.median, pool.size
                self._scaling.saw(collection, pool.compared_by, dimension=dimension, median=median, size=size)


def _within(attempt: Attempt, sizes: tuple[int, ...], reply_bytes: int | None) -> tuple[int, ...]:
    """The sizes to grow to, by what the last reply took for each candidate; those there are where that would be too much."""
    assert attempt.reply is not None  # noqa: S101 - a round has set it
    if reply_bytes is None:
        return sizes
    had = sum(pool.size for pool in (attempt.stock or attempt.reply).pools)
    room = had * reply_bytes // max(attempt.reply_bytes, 1)
    if sum(sizes) <= room:
        return sizes
    if len(sizes) == 1 and not attempt.call.searches[0].pages:
        return (max(room, attempt.sizes[0]),)
    return attempt.sizes


def _judged(reply: Reply, planned: Plan) -> Reply:
    """The reply without a complaint about vectors that were never asked for: those of searches sent as they came."""
    pools = zip(reply.pools, planned, strict=True)
    return replace(reply, pools=tuple(replace(pool, unusable=0) if size is None else pool for pool, size in pools))


def _is_blind(attempt: Attempt) -> bool:
    """Whether there are candidates, and not one with a vector or a text to compare."""
    if attempt.reply is None:
        return False
    pools = [pool for pool, size in zip(attempt.reply.pools, attempt.plan, strict=True) if size is not None]
    if not any(pool.size for pool in pools) or any(pool.unusable < pool.size for pool in pools):
        return False
    keys = len(attempt.policy.tenant_keys)
    return not any(any(fields[keys:]) for pool in pools for fields in pool.fields)


def _first_sizes(attempt: Attempt) -> tuple[int, ...]:
    # 0, not the page's end: a page at rank 100,000 would come with all that lies before it, and with its vectors.
    return tuple(0 if planned is None else planned for planned in attempt.plan)

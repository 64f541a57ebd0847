"""Selects from the pools of one search, grows them while a page is short, and writes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    Adapter,
    Allowance,
    FetchesVectors,
    MalformedReplyError,
    NotesResults,
    Pool,
    Search,
)

from ..runtime.loop import LongWork
from ..selection.paged import paging
from ..selection.single import selecting, unlinked
from ..selection.values import Fate, Selection
from ..telemetry.labels import CollapsedIn, FailOpen, Stage
from .candidates import CALL_BYTES, Record, candidates_of, records_of
from .collections.profiles import Scaling
from .collections.statements import PoolStatements
from .collections.texts import CollectionTexts
from .context.answer import surround
from .context.repeats import renew
from .errors import LookupFailedError, RejectedReplyError
from .fetch import next_size
from .memory.pages import Page, Pages, page_key
from .memory.points import FeatureMemory, Rows
from .memory.recall import Recall
from .pools.lookups import SendVectorFetch, VectorFetches
from .pools.source import LONG_POOL, TURN_BYTES, Division, Send, Source, SourceServices
from .pools.values import Planned, PoolSet, Selected
from .report import collapsed_notes


def untouched(pool: Pool) -> Selection:
    """The selection of a whole pool."""
    rows = whole(pool)
    return Selection(
        keep=rows,
        labels=rows,
        representative=rows,
        fates=np.full(pool.size, Fate.KEPT, dtype=np.int8),
        distinct=pool.size,
        wanting=0,
        acted=False,
        threshold=0.0,
        **unlinked(pool.size),
    )


def whole(pool: Pool) -> npt.NDArray[np.intp]:
    """(n,) all candidates."""
    return np.arange(pool.size, dtype=np.intp)


def window(search: Search, pool: Pool) -> npt.NDArray[np.intp]:
    """(top_k,) the candidates at the requested ranks, or as many as there are."""
    return np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size), dtype=np.intp)


PAGE_ROUNDS = 4  # 50 -> 200 -> 800 -> 1000: the steps from the smallest paged pool to the default page_cap
SINGLE_ROUNDS = 1  # one page grows once: a second wait would cost more than its results are worth


_KEEP = attrgetter("keep")


class Answer(NamedTuple):
    """``is_noted``: the body itself lists the copies of its results."""

    body: bytes
    is_noted: bool


class Searcher:
    """Runs calls of one adapter. ``scaling``, ``memory``, ``texts``: learned from earlier pools; ``work``: runs long steps in a thread; its
    creator closes it. ``recall``: what memory has, None without one.
    """

    __slots__ = ("_adapter", "_pages", "_scaling", "_services", "_work", "recall")

    def __init__(
        self,
        adapter: Adapter,
        scaling: Scaling | None = None,
        memory: FeatureMemory | None = None,
        work: LongWork | None = None,
        texts: CollectionTexts | None = None,
    ) -> None:
        self._adapter = adapter
        self.recall = None if memory is None else Recall(memory)
        self._pages = Pages()
        self._work = LongWork() if work is None else work
        self._services = SourceServices(adapter, CollectionTexts() if texts is None else texts, self._work, self.recall)
        self._scaling = Scaling(None, None, lambda _profile, _event: None) if scaling is None else scaling

    def source(
        self,
        planned: Planned,
        send: Send,
        *,
        look: SendVectorFetch | None = None,
        division: Division | None = None,
    ) -> Source:
        """The source of a plan's pools. ``look``: sends a vector fetch; None if the transport cannot. ``division``: None for no fusion."""
        adapter, lookups = self._adapter, None
        if look is not None and planned.call.needs.lookups and isinstance(adapter, FetchesVectors):
            lookups = VectorFetches(adapter, look, planned.watch)
        return Source(planned, send, self._services, lookups=lookups, division=division)

    async def select(self, source: Source, *, cap: int | None, reply_bytes: int | None = None) -> Selected:
        """What the answer is made of. Raises RejectedReplyError or MalformedReplyError.

        ``cap``: as for ``plan``. ``reply_bytes``: the largest reply, which bounds the growth of a pool; None: unbounded.
        """
        # 0, not the page's end: a page at rank 100,000 would fetch everything before it, vectors included.
        planned, sizes = source.planned, tuple([size or 0 for size in source.planned.plan])
        selected = await self._round(source, tuple(map(min, sizes, planned.first)) if planned.first else sizes)
        if not selected.pools.is_by_texts and _is_blind(selected.pools):
            raise RejectedReplyError(FailOpen.NO_VECTORS)
        for selection in selected.unbudgeted:
            if selection.wanting:
                selected = await self._grow(source, selected, cap, reply_bytes)
                break
        # Learn once per call, from the last pools, which contain the earlier ones.
        collection, pools = planned.call.operation.collection, selected.pools
        for pool, selection, size in zip(pools.reply.pools, selected.selections, planned.plan, strict=True):
            if size is not None and selection.median > 0.0 and (vector := pool.compared_by) is not None:
                dimension = pool.vectors.shape[1]
                self._scaling.observe(collection, vector, dimension=dimension, median=selection.median, size=pool.size)
        if pools.policy.is_surrounded:
            selected = await surround(selected, self._work, is_long=pools.reply_bytes > TURN_BYTES)
        source.selected = selected
        return selected

    async def answer(self, source: Source, selected: Selected) -> Answer:
        """The selected results in the backend's own bytes."""
        watch, adapter, pools = source.planned.watch, self._adapter, selected.pools
        since, is_long = watch.clock(), pools.reply_bytes > TURN_BYTES
        trim = partial(self._trim, source, pools, [*map(_KEEP, selected.selections)])
        body = await self._work.done(trim, is_long=True) if is_long else trim()
        is_noted = pools.policy.collapsed_in is CollapsedIn.PAYLOAD and isinstance(adapter, NotesResults)
        if is_noted and isinstance(adapter, NotesResults):
            noted = partial(adapter.noted, pools.call, body, collapsed_notes(selected))
            body = await self._work.done(noted, is_long=is_long)
        watch.marks.append((Stage.ENCODE, since, watch.clock()))
        return Answer(body, is_noted)

    def plain(self, source: Source) -> bytes:
        """The backend's own first top_k of the last pools. Raises RejectedReplyError when nothing usable was fetched."""
        pools = source.last
        if pools is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        rows = zip(pools.call.searches, pools.reply.pools, pools.planned.plan, strict=True)
        keep = [whole(pool) if planned is None else window(search, pool) for search, pool, planned in rows]
        return self._trim(source, pools, keep)

    def _trim(self, source: Source, pools: PoolSet, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        reply = pools.reply if source.lookups is None else source.lookups.charged(pools.reply)
        return self._adapter.trim(pools.call, reply, keep)

    async def _round(self, source: Source, sizes: tuple[int, ...]) -> Selected:
        selected = await self._selected(await source.pool(sizes))
        if not selected.pools.policy.demotes:
            return selected
        if source.recollect is not None:
            selected = replace(
                selected, given=await source.recollect()
            )  # as late as possible: the searches of a question come at once
        return await renew(selected, self._work)

    async def _grow(self, source: Source, selected: Selected, cap: int | None, reply_bytes: int | None) -> Selected:
        """Fetch larger pools while a page is short; then complete it from what there is."""
        searches, plan = selected.pools.call.searches, tuple([size or 0 for size in source.planned.plan])
        left = PAGE_ROUNDS if any(search.pages for search in searches) else SINGLE_ROUNDS
        while left:
            pools = selected.pools
            sizes = _grown(selected, source.stocked)  # what came with the first request costs no read
            if sizes == pools.sizes:
                planned = _grown(selected, plan)
                if planned == sizes:
                    rows, left = zip(searches, sizes, strict=True), left - 1
                    planned = _grown(selected, [next_size(*row, pools.policy, cap) for row in rows])
                sizes = _within(source, pools, planned, reply_bytes)
                source.is_grown |= sizes != pools.sizes
            if sizes == pools.sizes:
                break
            try:
                selected = await self._round(source, sizes)
            except (RejectedReplyError, MalformedReplyError, LookupFailedError):
                break  # the smaller pool is complete and selected from: growing was only an attempt to improve
        return await self._settled(selected)

    async def _settled(self, selected: Selected) -> Selected:
        """The pages that growing could not fill are completed. Other searches are done: a single page is filled when it is selected, and an
        exhausted pool was read completely.
        """
        pools = selected.pools
        settled: list[Selection] = []
        allowance = Allowance(CALL_BYTES)
        rows = zip(pools.call.searches, selected.selections, pools.exhausted, strict=True)
        for place, (search, selection, exhausted) in enumerate(rows):
            if search.pages and selection.wanting and not exhausted:
                await asyncio.sleep(0)
                settled.append((await self._select_one(pools, place, allowance, exhausted=True)).selection)
            else:
                settled.append(selection)
        was, chosen = selected, tuple(settled)
        if was.unbudgeted is was.selections:
            return replace(was, selections=chosen, unbudgeted=chosen)
        selected = replace(was, selections=chosen)
        is_same = all(new is old for new, old in zip(settled, was.selections, strict=True))
        return selected if is_same else await renew(selected, self._work)

    async def _selected(self, pools: PoolSet) -> Selected:
        """Select from each search's pool, one turn of the loop each, so that a batch does not block the loop."""
        planned = pools.planned
        selections: list[Selection] = []
        allowance = Allowance(CALL_BYTES)
        rows = zip(pools.call.searches, pools.reply.pools, pools.exhausted, planned.plan, strict=True)
        for place, (search, pool, exhausted, size) in enumerate(rows):
            if selections:
                await asyncio.sleep(0)
            if size is None:
                selections.append(untouched(pool))
                continue
            known = pools.known[place] if pools.known else None
            scale = None if known is None else self._scale(pools, pool)
            key = page_key(pools, search, pool, known, scale)
            chosen = None if key is None else self._pages.get(key, pool)
            if chosen is None:
                page = await self._select_one(pools, place, allowance, exhausted=exhausted)
                chosen = page.selection
                if key is not None:
                    is_repeated = planned.repeat is not None and planned.repeat.is_known
                    self._pages.made(key, page, is_repeated=is_repeated)
            selections.append(chosen)
        pages = tuple(selections)
        return Selected(pools, pages, pages)

    async def _select_one(self, pools: PoolSet, place: int, allowance: Allowance, *, exhausted: bool) -> Page:
        """The selection from a pool, with the payloads on which it depends."""
        search, watch, policy = pools.call.searches[place], pools.planned.watch, pools.policy
        since = watch.clock()
        pool, records, rows = await self._read(pools, place)
        candidates = candidates_of(pool, search, records, fields=policy.fields, allowance=allowance, rows=rows)
        watch.marks.append((Stage.DECODE, since, watch.clock()))
        since, scale = watch.clock(), self._scale(pools, pool)
        top_k, chosen = search.top_k, policy.selection
        if search.pages:
            offset = search.offset
            steps = paging(candidates, top_k=top_k, offset=offset, policy=chosen, exhausted=exhausted, scale=scale)
        else:
            # Results that were shown make room for any other of the pool.
            steps = selecting(candidates, top_k=top_k, policy=chosen, scale=scale, whole=policy.demotes)
        selection = await self._work.finished(steps, is_long=not search.pages and pool.size > LONG_POOL)
        watch.marks.append((Stage.SELECT, since, watch.clock()))
        statements = candidates.statements
        return Page(selection, statements.evidence if isinstance(statements, PoolStatements) else ())

    async def _read(self, pools: PoolSet, place: int) -> tuple[Pool, Sequence[Record], Rows | None]:
        """A search's pool, a record of each payload, and what memory knows of its rows. A pool that came with vectors is learned, and has the rows
        that a later search will recall.
        """
        pool, policy = pools.reply.pools[place], pools.policy
        rows = pools.known[place] if pools.known else None
        read = partial(records_of, pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
        records = read() if pools.reply_bytes <= TURN_BYTES else await self._work.done(read, is_long=True)
        if rows is None and self.recall is not None and pool.unusable < pool.size <= LONG_POOL:
            rows = self.recall.learnt(pools.planned, pools.call.searches[place], pool, rounds=pools.rounds)
            pool = pool if rows is None else replace(pool, vectors=rows.rows)
        return pool, records, rows

    def _scale(self, pools: PoolSet, pool: Pool) -> float | None:
        """The distance at which the policy's threshold is evaluated; None where texts decide. A threshold that the request named is not changed."""
        policy, dimension = pools.policy, pool.vectors.shape[1]
        if pools.is_by_texts or not policy.is_profiled or pool.compared_by is None:
            return None
        return self._scaling.of(pools.planned.collection, pool.compared_by, policy.selection, dimension=dimension)


def _grown(selected: Selected, larger: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the next round: larger ones for pages that are short. A pool that is exhausted does not grow."""
    pools = selected.pools
    rows = zip(selected.unbudgeted, pools.sizes, pools.exhausted, larger, strict=True)
    return tuple(
        max(more, size) if selection.wanting and not exhausted else size for selection, size, exhausted, more in rows
    )


def _within(source: Source, pools: PoolSet, sizes: tuple[int, ...], reply_bytes: int | None) -> tuple[int, ...]:
    """The sizes to grow to, limited by the bytes per candidate of the last reply; the current sizes if growing would exceed the bound."""
    if reply_bytes is None:
        return sizes
    had = sum(pool.size for pool in (source.stock or pools.reply).pools)
    room = had * reply_bytes // max(source.reply_bytes, 1)
    if sum(sizes) <= room:
        return sizes
    if len(sizes) == 1 and not pools.call.searches[0].pages:
        return (max(room, pools.sizes[0]),)
    return pools.sizes


def _is_blind(pools: PoolSet) -> bool:
    """Whether there are candidates, but none has a vector or a text to compare."""
    widened = [pool for pool, size in zip(pools.reply.pools, pools.planned.plan, strict=True) if size is not None]
    if not any(pool.size for pool in widened) or any(pool.unusable < pool.size for pool in widened):
        return False
    keys = len(pools.policy.tenant_keys)
    return not any(any(fields[keys:]) for pool in widened for fields in pool.fields)

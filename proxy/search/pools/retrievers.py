"""Policy ``per_retriever``: copies are removed from each list of a fusion before the lists are fused.

    widened request ─► its searches ─► database ─► lists ─► copies out of each ─► fused as the database fuses ─► one reply

The searches are one batch, or parallel requests. All but the first count as our own reads. The lists of a request are fetched once: a
larger pool is a longer part of the same fusion.

The result has the form of the database's reply to the widened request, so the following steps are the usual ones: copies are removed from
the fused list as well, and the answer is trimmed from it. A fusion that cannot be divided exactly is sent undivided.

A copy that no list keeps is placed behind all others, with the database's own fused score if it is lower than theirs; it fills pages that
would be short. If no list has a copy, the result is the database's own fusion, bit for bit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import orjson

from vecsieve.adapters.contract import Adapter, Allowance, MalformedReplyError, Pool, Reply, Search, SearchCall
from vecsieve.adapters.fused_scores import Ranked, dbsf, joined, rrf, weighted
from vecsieve.adapters.fusions import (
    SAME,
    Divided,
    DividesFusions,
    Ending,
    Fusion,
    Method,
    Undivided,
    UndividedError,
)

from ...runtime.loop import LongWork
from ...selection.policy import Caps, Order, Short
from ...selection.single import selecting
from ...telemetry.labels import FusionOutcome, ReadKind
from ...telemetry.metrics import Metrics
from ..budgets import ReadBudget
from ..candidates import CALL_BYTES, candidates_of, records_of
from ..collections.profiles import Scaling
from ..policy import ResolvedPolicy
from .source import LONG_POOL, TURN_BYTES

_NO_CAPS = Caps(per_cluster=1, per_document=None, per_source=None)

Rows = Sequence[int]
"""Places in a list, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The lists of a divided fusion. ``distinct``: for each list, the places of its representatives; ``is_long``: whether the replies were
    large.
    """

    replies: tuple[Reply, ...]
    distinct: tuple[Rows, ...]
    is_long: bool

    @property
    def pools(self) -> list[Pool]:
        """The lists, in the order of the fusion."""
        return [pool for reply in self.replies for pool in reply.pools]


class Send(Protocol):
    """Sends a widened request, or another one to a path with this ``ending``; returns the body of a success. ``further``: as for ``Source``."""

    async def __call__(self, body: bytes, *, ending: Ending = SAME, further: ReadKind | None = None) -> bytes: ...


class Retrievers:
    """Fetches the pools of fusions. ``scaling``, ``work``, ``reads``: those of the process."""

    __slots__ = ("_reads", "_scaling", "adapter", "metrics", "work")

    def __init__(self, adapter: Adapter, metrics: Metrics, scaling: Scaling, work: LongWork, reads: ReadBudget) -> None:
        self.adapter, self.metrics, self.work = adapter, metrics, work
        self._scaling, self._reads = scaling, reads

    def divided(self, adapter: DividesFusions, call: SearchCall, body: bytes, *, is_new: bool) -> Divided | None:
        """The division of a request; None if it is no fusion, or must not be divided, which is counted. ``is_new``: its lists are to be fetched."""
        try:
            divided = adapter.divided(call, body)
            if divided is None or not is_new:
                return divided
            further = len(divided.parts) - 1
            if further and not self._reads.take(call.operation, ReadKind.RETRIEVERS, further):
                raise UndividedError(Undivided.WITHHELD)  # noqa: TRY301 - counted with the others
        except UndividedError as verdict:
            self.metrics.fusions_total.labels(verdict.reason).inc()
            return None
        self.metrics.fusions_total.labels(FusionOutcome.DIVIDED).inc()
        return divided

    async def distinct(
        self, call: SearchCall, policy: ResolvedPolicy, lists: Sequence[tuple[Search, Pool]], *, is_long: bool
    ) -> list[Rows]:
        """For each list, the places of its representatives."""
        allowance = Allowance(CALL_BYTES)
        of_lists = replace(
            policy.selection, order=Order.BACKEND, diversifier=None, caps=_NO_CAPS, short=Short.ALLOW
        )  # the page's own selection comes after the fusion
        (page,) = call.searches
        distinct: list[Rows] = []
        for search, pool in lists:
            if distinct:
                await asyncio.sleep(0)
            read = partial(records_of, pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
            records = await self.work.done(read, is_long=is_long)
            candidates = candidates_of(pool, search, records, fields=policy.fields, allowance=allowance)
            scale = None
            if policy.is_profiled:
                collection = call.operation.collection
                scale = self._scaling.of(collection, pool.compared_by, of_lists, dimension=pool.vectors.shape[1])
            steps = selecting(candidates, top_k=page.offset + page.top_k, policy=of_lists, scale=scale, whole=True)
            selection = await self.work.finished(steps, is_long=pool.size > LONG_POOL)
            distinct.append(np.flatnonzero(selection.representative == np.arange(pool.size)).tolist())
        return distinct


class FusionDivision:
    """The lists of one search's fusion, fetched once. ``is_divided``: they were requested, so the bytes are not those of one search.
    ``has_copies``: some of them had copies.
    """

    __slots__ = ("_lists", "_retrievers", "_send", "has_copies", "is_divided")

    def __init__(self, retrievers: Retrievers, send: Send) -> None:
        self._retrievers, self._send = retrievers, send
        self._lists: Lists | None = None
        self.is_divided = self.has_copies = False

    async def fetch(self, call: SearchCall, policy: ResolvedPolicy, body: bytes, *, further: ReadKind | None) -> bytes:
        """The reply to a widened request; copies are removed from the lists of a fusion. Raises what ``send`` raises, and MalformedReplyError."""
        adapter, retrievers, divided = self._retrievers.adapter, self._retrievers, None
        if not isinstance(adapter, DividesFusions):
            return await self._send(body, further=further)
        divided = retrievers.divided(adapter, call, body, is_new=self._lists is None)
        if divided is None:
            return await self._send(body, further=further)
        if self._lists is None:
            self._lists = await self._fetched(call, policy, divided, further)
        lists = self._lists
        self.has_copies = any(len(rows) < pool.size for rows, pool in zip(lists.distinct, lists.pools, strict=True))
        return await retrievers.work.done(partial(_fused, adapter, divided, lists), is_long=lists.is_long)

    async def _fetched(
        self, call: SearchCall, policy: ResolvedPolicy, divided: Divided, further: ReadKind | None
    ) -> Lists:
        """The lists, each parsed and without its copies."""
        retrievers, self.is_divided = self._retrievers, True
        bodies = await _all_sent(divided, self._send, further)
        is_long = sum(map(len, bodies)) > TURN_BYTES
        replies: list[Reply] = []
        for part, fetched in zip(divided.parts, bodies, strict=True):
            read = partial(retrievers.adapter.parse_reply, part.call, fetched)
            replies.append(await retrievers.work.done(read, is_long=is_long))
        pools = [pool for reply in replies for pool in reply.pools]
        searches = [search for part in divided.parts for search in part.call.searches]
        if len(pools) != len(searches):
            raise MalformedReplyError(f"{len(pools)} lists for {len(searches)} searches")
        if any(len(pool.ids) < pool.size for pool in pools):
            raise MalformedReplyError("a list has results without ids")
        lists = list(zip(searches, pools, strict=True))
        distinct = await retrievers.distinct(call, policy, lists, is_long=is_long)
        return Lists(replies=tuple(replies), distinct=tuple(distinct), is_long=is_long)


async def _all_sent(divided: Divided, send: Send, further: ReadKind | None) -> list[bytes]:
    """The replies to all parts, which are sent in parallel. The first failure cancels the others. ``further``: of them together."""
    first, *others = [part.body for part in divided.parts]
    if not others:
        return [await send(first, ending=divided.ending, further=further)]
    sending = [
        asyncio.create_task(send(first, ending=divided.ending, further=further), name="vecsieve-retriever-0"),
        *[
            asyncio.create_task(send(body, ending=divided.ending), name=f"vecsieve-retriever-{place}")
            for place, body in enumerate(others, 1)
        ],
    ]
    try:
        return await asyncio.gather(*sending)
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


def _fused(adapter: DividesFusions, divided: Divided, lists: Lists) -> bytes:
    """Raises MalformedReplyError."""
    pools, fusion, distinct = lists.pools, divided.fusion, lists.distinct
    where = {key: (place, row) for place, pool in reversed(list(enumerate(pools))) for row, key in enumerate(pool.ids)}
    every = [range(pool.size) for pool in pools]
    try:
        whole = _merged(fusion, pools, every)
        is_clean = all(len(rows) == pool.size for rows, pool in zip(distinct, pools, strict=True))
        ranked = whole if is_clean else joined(_merged(fusion, pools, distinct), whole)
    except ValueError as error:  # a score that is no number
        raise MalformedReplyError(str(error)) from None
    if fusion.threshold is not None:
        least = np.float32(fusion.threshold)
        ranked = [pair for pair in ranked if pair[1] >= least]
    return adapter.fused(divided, lists.replies, [(*where[key], score) for key, score in ranked[: fusion.limit]])


def _merged(fusion: Fusion, pools: Sequence[Pool], rows: Sequence[Rows]) -> Ranked[bytes]:
    """The fusion of these rows of each list. Raises ValueError."""
    keys = [[pool.ids[row] for row in kept] for pool, kept in zip(pools, rows, strict=True)]
    is_double, by = fusion.is_double, orjson.loads if fusion.is_by_id else None
    if fusion.method is Method.RRF:
        return rrf(keys, k=fusion.k, weights=fusion.weights, is_double=is_double, by=by)
    scores = [pool.scores[list(kept)].tolist() for pool, kept in zip(pools, rows, strict=True)]
    lists = list(zip(keys, scores, strict=True))
    if fusion.method is Method.DBSF:
        return dbsf(lists)
    weights, metrics = fusion.weights or (1.0,) * len(lists), fusion.metrics
    return weighted(lists, weights=weights, metrics=metrics, is_normed=fusion.is_normed, is_double=is_double, by=by)

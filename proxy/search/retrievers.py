"""Policy ``per_retriever``: each list of a fusion is rid of its copies before the lists are fused.

    widened request ─► batch of its searches ─► database ─► lists ─► copies out of each ─► fused as the database fuses ─► one reply

What comes out has the form of the database's reply to the widened request, so everything behind it is as ever: the fused list is rid of
copies once more, and the answer is cut from it. A fusion that cannot be divided exactly is sent undivided.

A copy that no list keeps comes behind all others, with the database's own fused score where it is lower than theirs: it fills a page
that would be short. Where no list has a copy the result is the database's own fusion, bit for bit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from vecsieve.adapters.contract import Adapter, Allowance, MalformedReplyError, Pool, Reply
from vecsieve.adapters.fusions import Divided, DividesFusions, Fusion, Method, UndividedError
from vecsieve.proxy.process.runtime import LongWork
from vecsieve.proxy.search.candidates import CALL_BYTES, candidates_of, records_of
from vecsieve.proxy.search.collections.profiles import Scaling
from vecsieve.proxy.search.fetch import Attempt
from vecsieve.proxy.search.searcher import LONG_POOL, TURN_BYTES
from vecsieve.proxy.selection.fusion import Ranked, dbsf, joined, rrf
from vecsieve.proxy.selection.policy import Caps, Order, Short, When
from vecsieve.proxy.selection.single import selecting
from vecsieve.proxy.telemetry.labels import FusionOutcome, Stage
from vecsieve.proxy.telemetry.metrics import Metrics

_NO_CAPS = Caps(per_cluster=1, per_document=None, per_source=None)

Rows = Sequence[int]
"""Places in a list, ascending."""


class Send(Protocol):
    """Sends a widened request, or with ``suffix`` the batch of its path, and returns the body of a success."""

    async def __call__(self, body: bytes, *, suffix: str = "") -> bytes: ...


class Retrievers:
    """Fetches the pools of fusions. ``scaling``, ``work``: the process's."""

    __slots__ = ("_adapter", "_metrics", "_scaling", "_work")

    def __init__(self, adapter: Adapter, metrics: Metrics, scaling: Scaling, work: LongWork) -> None:
        self._adapter = adapter
        self._metrics = metrics
        self._scaling = scaling
        self._work = work

    async def fetch(self, attempt: Attempt, body: bytes, send: Send) -> bytes:
        """The reply to a widened request, with lists rid of copies where it fuses lists. Raises what ``send`` raises, and
        MalformedReplyError.
        """
        adapter = self._adapter
        if not isinstance(adapter, DividesFusions):
            return await send(body)
        try:
            divided = adapter.divided(attempt.call, body)
        except UndividedError as verdict:
            self._metrics.fused(verdict.reason)
            divided = None
        if divided is None:
            return await send(body)
        self._metrics.fused(FusionOutcome.DIVIDED)
        attempt.is_divided = True
        fetched = await send(divided.body, suffix=divided.suffix)
        is_long = len(fetched) > TURN_BYTES
        with attempt.watch.stage(Stage.DECODE):
            reply = await self._work.done(partial(adapter.parse_reply, divided.call, fetched), is_long=is_long)
        distinct = await self._distinct(attempt, divided, reply, is_long=is_long)
        if any(len(rows) < pool.size for rows, pool in zip(distinct, reply.pools, strict=True)):
            # The copies stand behind the first top_k, so the gate would not see them; and fused scores, which are made of ranks, say
            # nothing of how near two results are, while the lists' own scores have been asked.
            chosen = replace(attempt.policy.selection, when=When.ALWAYS)
            attempt.policy = replace(attempt.policy, selection=chosen)
        with attempt.watch.stage(Stage.ENCODE):
            return await self._work.done(partial(_fused, adapter, divided, reply, distinct), is_long=is_long)

    async def _distinct(self, attempt: Attempt, divided: Divided, reply: Reply, *, is_long: bool) -> list[Rows]:
        """Of each list the places of those who stand for themselves."""
        policy, allowance = attempt.policy, Allowance(CALL_BYTES)
        of_lists = replace(
            policy.selection, order=Order.BACKEND, diversifier=None, caps=_NO_CAPS, short=Short.ALLOW
        )  # the page's own selection comes after the fusion
        (page,) = attempt.call.searches
        distinct: list[Rows] = []
        for search, pool in zip(divided.call.searches, reply.pools, strict=True):
            if distinct:
                await asyncio.sleep(0)
            with attempt.watch.stage(Stage.DECODE):
                read = partial(records_of, pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
                records = await self._work.done(read, is_long=is_long)
                candidates = candidates_of(pool, search, records, fields=policy.fields, allowance=allowance)
            chosen, scale = of_lists, None
            if policy.is_profiled:
                collection = attempt.call.operation.collection
                chosen, scale = self._scaling.of(
                    collection, pool.compared_by, of_lists, dimension=pool.vectors.shape[1]
                )
            steps = selecting(candidates, top_k=page.offset + page.top_k, policy=chosen, scale=scale)
            timed = attempt.watch.stage(Stage.CLUSTER)
            selection = await self._work.finished(steps, timed, is_long=pool.size > LONG_POOL)
            distinct.append(np.flatnonzero(selection.representative == np.arange(pool.size)).tolist())
        return distinct


def _fused(adapter: DividesFusions, divided: Divided, reply: Reply, distinct: Sequence[Rows]) -> bytes:
    """Raises MalformedReplyError."""
    pools, fusion = reply.pools, divided.fusion
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
    return adapter.fused(reply, [(*where[key], score) for key, score in ranked[: fusion.limit]])


def _merged(fusion: Fusion, pools: Sequence[Pool], rows: Sequence[Rows]) -> Ranked[bytes]:
    """The fusion of these rows of each list. Raises ValueError."""
    keys = [[pool.ids[row] for row in kept] for pool, kept in zip(pools, rows, strict=True)]
    if fusion.method is Method.RRF:
        return rrf(keys, k=fusion.k, weights=fusion.weights)
    scores = [pool.scores[list(kept)].tolist() for pool, kept in zip(pools, rows, strict=True)]
    return dbsf(list(zip(keys, scores, strict=True)))

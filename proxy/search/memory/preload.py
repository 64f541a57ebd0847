"""Fills the feature memory at the start: all points of the collections that `memory.preload` names, with a credential of VecSieve's own.

Each point comes from a search restricted to ids, with its version and a score, and is learned like those of any search: nothing is
remembered that a client's search could not have returned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import (
    Adapter,
    ListsPoints,
    MalformedReplyError,
    Named,
    Question,
    RequestHead,
    UnsupportedError,
)

from ..candidates import records_of
from ..collections.texts import CollectionTexts
from ..errors import LostReplyError, RefusedReplyError
from ..fetch import needs_of
from ..policy import ResolvedPolicy
from .points import FeatureMemory
from .shelves import Key, Points

PAGE = 50  # points per page: as many as a search returns, so that reading them occupies the loop no longer
WAIT_SECONDS = 1.0  # seconds to wait while there is no room for own work
RETRY_SECONDS = (1.0, 5.0, 30.0, 120.0)  # seconds: a sidecar may start before its database
LOGGER = logging.getLogger("vecsieve.memory")

Send = Callable[[Question], Awaitable[bytes]]
"""Sends an own read; returns the body of a successful reply. Raises LostReplyError or RefusedReplyError."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where points come from. ``policy``: of a collection. ``texts``: learned from its points, too. ``has_room``: whether the process may do own work."""

    adapter: Adapter
    send: Send
    policy: Callable[[str], ResolvedPolicy]
    texts: CollectionTexts
    has_room: Callable[[], bool]


class Preload:
    """One task per process. ``points_per_second``: at most, on average. ``learnt``: points so far."""

    __slots__ = ("_memory", "_pause", "_source", "_task", "learnt")

    def __init__(self, memory: FeatureMemory, source: Source, *, points_per_second: float) -> None:
        self._memory = memory
        self._source = source
        self._pause = PAGE / points_per_second
        self._task: asyncio.Task[None] | None = None
        self.learnt = 0

    def start(self, collections: Sequence[str]) -> None:
        """Read these collections, one after another."""
        self._task = asyncio.create_task(self.read(collections), name="vecsieve-preload")

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def read(self, collections: Sequence[str]) -> None:
        """Read them until memory is full. A collection that cannot be read is skipped; searches fill it in later."""
        for collection in collections:
            before = self.learnt
            for pause in (*RETRY_SECONDS, None):
                error = await self._tried(collection)
                if error is None or pause is None or not _may_pass(error):
                    break
                await asyncio.sleep(pause)
            if error is not None:
                # A collection's name may be confidential.
                LOGGER.warning("memory.preload: a collection could not be read: %s", type(error).__name__)
            LOGGER.info("memory.preload: %d points of a collection are known", self.learnt - before)

    async def _tried(self, collection: str) -> Exception | None:
        """Why a collection could not be read completely; None if it was."""
        try:
            await self._read(collection)
        except (LostReplyError, RefusedReplyError, MalformedReplyError, UnsupportedError) as error:
            return error
        return None

    async def _read(self, collection: str) -> None:
        """Read one collection. If all its points are known, its first search relies on memory."""
        source, policy = self._source, self._source.policy(collection)
        lists = source.adapter
        if not isinstance(lists, ListsPoints) or policy.mode == "off" or policy.tenant_keys:
            return  # with tenants, a point's payload values can differ between searches
        for vector in lists.named_vectors(await source.send(lists.describing(collection))):
            if policy.vector not in {None, vector.name}:
                continue
            await self._read_vector(collection, policy, lists, vector)
        if not self._memory.is_nearly_full:
            self._memory.filled(collection)

    async def _read_vector(self, collection: str, policy: ResolvedPolicy, lists: ListsPoints, vector: Named) -> None:
        source, after = self._source, b""
        while not self._memory.is_nearly_full:
            if not source.has_room():
                await asyncio.sleep(WAIT_SECONDS)
                continue
            page = lists.listed(await source.send(lists.listing(collection, after=after, count=PAGE)))
            if page.ids:
                await self._learn(collection, policy, lists, vector, page.ids)
            if not page.after or page.after == after:
                break
            after = page.after
            await asyncio.sleep(self._pause)

    async def _learn(
        self, collection: str, policy: ResolvedPolicy, lists: ListsPoints, vector: Named, ids: Sequence[bytes]
    ) -> None:
        """Learn the points of a page as from a client's search."""
        adapter, question = self._source.adapter, lists.searching(collection, vector, ids)
        operation = adapter.classify(RequestHead(method=question.method, path=question.target))
        assert operation is not None  # noqa: S101 - the adapter wrote the request
        texts = self._source.texts
        plan = texts.plan(policy, collection)
        needs = needs_of(plan.policy, None, texts=plan)
        call = adapter.parse_request(operation, question.body, needs)
        widened = adapter.widen(call, (call.searches[0].top_k,))
        reply = await self._source.send(Question(method=question.method, target=question.target, body=widened))
        policy, read = texts.judged(collection, plan, call.needs, adapter.parse_reply(call, reply))
        (pool,), (search,) = read.pools, call.searches
        if search.query is None or not pool.size or len(pool.versions) != pool.size or pool.unusable == pool.size:
            return
        names = tuple([b"%s@%s" % pair for pair in zip(pool.ids, pool.versions, strict=True)])
        records = None if pool.is_cut else records_of(pool, tenant_keys=(), fields=policy.fields)
        key = Key(search.partition, pool.compared_by or "", vector.dimension, policy.fields)
        points = Points(names, search.query, pool.scores)
        before = self._memory.points
        self._memory.learn(collection, key, points, pool.vectors, records, counts=False)
        self.learnt += max(0, self._memory.points - before)


def _may_pass(error: Exception) -> bool:
    """Whether a retry may succeed: the database did not answer, or is not ready."""
    return isinstance(error, LostReplyError) or (isinstance(error, RefusedReplyError) and error.is_server_error)

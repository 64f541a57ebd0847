"""The pools of one search, behind one verb: `await source.pool(sizes)`.

    widened request ─► direct or divided ─► reply ─┬─ memory has its vectors, or they are fetched
                                                   └─ texts decide, or vectors do

A source keeps what has come: the last pools are what a fallback answers from, and a larger reply in stock serves the next round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from vecsieve.adapters.contract import Adapter, MalformedReplyError, Pool, Reply, SearchCall

from ...runtime.loop import LongWork
from ...selection.policy import When
from ...telemetry.labels import MemoryRecall, ReadKind, Stage
from ..candidates import Columns
from ..collections.paths import is_doubtful
from ..collections.texts import CollectionTexts, fields_of, read_pools, with_fields
from ..errors import LookupFailedError, RejectedReplyError
from ..memory.points import Rows
from ..memory.recall import Recall
from ..policy import ResolvedPolicy
from .lookups import VectorFetches
from .values import Plan, Planned, PoolSet, Selected

# A reply of this size takes 3 to 8 ms to read, 12 without pysimdjson: a larger one is read and trimmed in a thread.
TURN_BYTES = 1 << 20
# All distances between this many candidates take 5 ms, between a thousand 30 ms: more are compared in a thread.
LONG_POOL = 400


class Send(Protocol):
    async def __call__(self, body: bytes, *, further: ReadKind | None = None) -> bytes:
        """Send a widened request and return the body of a 2xx answer; raise RejectedReplyError for everything else. ``further``: what it counts as
        where it is not the first.
        """
        ...


class Division(Protocol):
    """Fetches the lists of a fusion one by one. ``has_copies``: the lists had copies, which are behind the first results of the fusion.
    ``is_divided``: lists were requested.
    """

    @property
    def has_copies(self) -> bool: ...
    @property
    def is_divided(self) -> bool: ...

    async def fetch(self, call: SearchCall, policy: ResolvedPolicy, body: bytes, *, further: ReadKind | None) -> bytes:
        """As ``Send``."""
        ...


class SourceServices(NamedTuple):
    """What all sources of a transport share. ``memory``: None without one."""

    adapter: Adapter
    texts: CollectionTexts
    work: LongWork
    memory: Recall | None


class Source:
    """Fetches the pools of one search.

    ``planned``: its plan; ``call``, ``policy``, ``is_by_texts``: as the pools have shown them so far. ``last``: pools to answer from if the rest
    fails. ``selected``: what the answer is made of. ``lookups``: fetches vectors by id, None if not needed. ``recollect``: reads digests of
    results of the session's earlier turns; None without one. ``recall``: how much memory had. ``is_grown``: a larger pool was requested than at first; ``is_divided``: the lists of a fusion
    were. ``stock``: the
    last reply, with ``stocked`` candidates per search.
    """

    __slots__ = (
        "_adapter",
        "_division",
        "_memory",
        "_send",
        "_spare",
        "_texts",
        "_work",
        "call",
        "fetched_bytes",
        "is_by_texts",
        "is_divided",
        "is_grown",
        "last",
        "lookups",
        "planned",
        "policy",
        "recall",
        "recollect",
        "reply_bytes",
        "rounds",
        "selected",
        "stock",
        "stocked",
    )

    def __init__(
        self,
        planned: Planned,
        send: Send,
        services: SourceServices,
        *,
        lookups: VectorFetches | None = None,
        division: Division | None = None,
    ) -> None:
        self._adapter, self._texts, self._work, self._memory = services
        self._send, self._division, self.lookups = send, division, lookups
        self.planned, self.call, self.policy, self._spare = planned, planned.call, planned.policy, planned.spare
        self.is_by_texts, self.is_grown, self.is_divided = planned.is_by_texts, False, False
        self.recollect: Callable[[], Awaitable[frozenset[bytes]]] | None = None
        self.last: PoolSet | None = None
        self.selected: Selected | None = None
        self.recall: MemoryRecall | None = None
        self.stock: Reply | None = None
        self.stocked: tuple[int, ...] = ()
        self.rounds = self.fetched_bytes = self.reply_bytes = 0

    async def pool(self, sizes: tuple[int, ...]) -> PoolSet:
        """Pools of at least these sizes, with the vectors and texts that the policy needs. Raises RejectedReplyError, MalformedReplyError or
        LookupFailedError.
        """
        known: tuple[Rows | None, ...] = ()
        reply = await self._completed(sizes)
        if self._memory is not None and self._spare is not None and not self.is_by_texts:
            whole = self._memory.recalled(self.planned, reply, rounds=self.rounds)
            self.recall = MemoryRecall.NONE if whole is None else MemoryRecall.WHOLE
            if whole is None:
                self.call, self._spare, self.stock = self._spare(), None, None
                reply = await self._completed(sizes)
            else:
                reply, known = whole
        reply = await self._with_texts(reply)
        if self.is_by_texts and _lacks_texts(self.policy, self.planned.plan, reply):
            self._texts.lacking(self.planned.collection)
            self.is_by_texts = False
            if self._spare is not None:
                reply = await self._with_vectors(self._spare, reply, sizes)
        if self.policy.unproven and (doubtful := _doubtful(self.call, self.policy, self.planned.plan, reply)):
            reply = await self._confirmed(reply, doubtful, sizes)
        self.rounds += 1
        if None in self.planned.plan:
            reply = _judged(reply, self.planned.plan)
        return self._keep(reply, sizes, known)

    def _keep(self, reply: Reply, sizes: tuple[int, ...], known: tuple[Rows | None, ...]) -> PoolSet:
        """From now on a fallback can answer from this reply."""
        self.last = PoolSet(
            planned=self.planned,
            call=self.call,
            policy=self.policy,
            is_by_texts=self.is_by_texts,
            reply=reply,
            sizes=sizes,
            exhausted=tuple([pool.size < size for pool, size in zip(reply.pools, sizes, strict=True)]),
            known=known,
            rounds=self.rounds,
            reply_bytes=self.reply_bytes,
        )
        if self.planned.grant is not None:
            self.planned.grant.has_pool = True
        return self.last

    async def _completed(self, sizes: tuple[int, ...]) -> Reply:
        """One reply, from which a fallback can answer if the next step fails."""
        reply = truncate_pools(await self._reply(sizes), sizes)
        if self.last is None and (self.lookups is not None or self._spare is not None):
            self._keep(reply, sizes, ())
        if self.lookups is None or (self.is_by_texts and not self.call.needs.vectors):
            return reply
        return await self.lookups.completed(self.call, reply)

    async def _reply(self, sizes: tuple[int, ...]) -> Reply:
        """A reply with at least ``sizes`` candidates: the one in stock, or the next from upstream."""
        if self.stock is not None and all(has >= size for has, size in zip(self.stocked, sizes, strict=True)):
            return self.stock
        call, watch, first = self.call, self.planned.watch, self.planned.first
        requested = tuple(map(max, sizes, first)) if first else sizes
        since = watch.clock()
        body = self._adapter.widen(call, requested)
        watch.marks.append((Stage.REWRITE, since, watch.clock()))
        if call.needs.whole:
            self._texts.looking(self.planned.collection)
        further = None if self.last is None else ReadKind.GROW if self.is_grown else ReadKind.RECALL
        since = watch.clock()
        try:
            if self._division is None:
                fetched = await self._send(body, further=further)
            else:
                fetched = await self._division.fetch(call, self.policy, body, further=further)
        finally:
            watch.marks.append((Stage.UPSTREAM, since, watch.clock()))
        self.is_divided = self._division is not None and self._division.is_divided
        if self._division is not None and self._division.has_copies:
            # Copies are behind the first top_k, so the gate would not see them. Fused scores are made of ranks and do not show how close
            # two results are; the lists' own scores were already used for that.
            self.policy = replace(self.policy, selection=replace(self.policy.selection, when=When.ALWAYS))
        self.fetched_bytes += len(fetched)
        self.reply_bytes = len(fetched)
        since, read = watch.clock(), partial(self._adapter.parse_reply, call, fetched)
        reply = read() if len(fetched) <= TURN_BYTES else await self._work.done(read, is_long=True)
        watch.marks.append((Stage.DECODE, since, watch.clock()))
        if len(reply.pools) != len(call.searches):
            raise MalformedReplyError(f"{len(reply.pools)} result lists for {len(call.searches)} searches")
        self.stock, self.stocked = reply, requested
        return reply

    async def _with_texts(self, reply: Reply) -> Reply:
        """The reply with the fields that the policy reads, once the first pools have shown where the texts are."""
        needs, texts, planned = self.call.needs, self._texts, self.planned
        is_read = planned.is_look or (not self.is_by_texts and texts.is_open(self.policy, planned.collection))
        if needs.values and is_read and not self.rounds:
            watch = planned.watch
            since, read = watch.clock(), partial(read_pools, reply.pools, needs)
            reading = await self._work.done(read, is_long=self.reply_bytes > TURN_BYTES)
            watch.marks.append((Stage.DECODE, since, watch.clock()))
            self.policy = self.policy.with_texts(texts.learn(planned.collection, reading, is_look=needs.whole))
        return with_fields(reply, needs, self.policy)

    async def _confirmed(self, reply: Reply, doubtful: Sequence[int], sizes: tuple[int, ...]) -> Reply:
        """The reply judged by the texts that its own vectors confirm; by none without vectors."""
        if self.is_by_texts and self._spare is not None:
            self._texts.lacking(self.planned.collection)
            self.is_by_texts = False
            reply = await self._with_vectors(self._spare, reply, sizes)
        needs, pools = self.call.needs, [reply.pools[place] for place in doubtful]
        paths: tuple[str, ...] = ()
        if any(pool.vectors.shape[1] for pool in pools):
            read = partial(read_pools, pools, needs)
            reading = await self._work.done(read, is_long=self.reply_bytes > TURN_BYTES)
            paths = self._texts.learn(self.planned.collection, reading, is_look=needs.whole)
        self.policy = self.policy.with_texts(paths)
        return with_fields(reply, needs, self.policy)

    async def _with_vectors(self, spare: Callable[[], SearchCall], reply: Reply, sizes: tuple[int, ...]) -> Reply:
        """The reply with vectors, once a result without a text has come: only vectors decide about it. Further searches of the collection ask for
        them at once. Without a budget for another read such results stay.
        """
        lean, self.call, self._spare, self.stock = self.call, spare(), None, None
        try:
            return with_fields(await self._completed(sizes), self.call.needs, self.policy)
        except (RejectedReplyError, MalformedReplyError, LookupFailedError):
            self.call = lean
            return reply


def truncate_pools(reply: Reply, sizes: Sequence[int]) -> Reply:
    """The reply with at most ``sizes[i]`` candidates in pool i; 0 leaves a pool unchanged.

    Searches of a batch may share one limit: each is judged by as many candidates as it would have got on its own.
    """
    for pool, size in zip(reply.pools, sizes, strict=True):
        if 0 < size < pool.size:
            break
    else:
        return reply
    pools = (first(pool, size) if size else pool for pool, size in zip(reply.pools, sizes, strict=True))
    return replace(reply, pools=tuple(pools))


def first(pool: Pool, count: int) -> Pool:
    """The pool's first ``count`` candidates."""
    vectors = pool.vectors[:count]
    unusable = int(np.isnan(vectors).any(axis=1).sum()) if vectors.shape[1] else len(vectors)
    return replace(
        pool,
        scores=pool.scores[:count],
        vectors=vectors,
        fields=pool.fields[:count],
        ids=pool.ids[:count],
        versions=pool.versions[:count],
        unusable=unusable,
        alone=tuple(row for row in pool.alone if row < count),
    )


def _judged(reply: Reply, planned: Plan) -> Reply:
    """The reply, ignoring missing vectors of searches that were sent unchanged."""
    pools = zip(reply.pools, planned, strict=True)
    return replace(reply, pools=tuple(replace(pool, unusable=0) if size is None else pool for pool, size in pools))


_TEXT_STARTS = frozenset({b'"', b"{"})


def _lacks_texts(policy: ResolvedPolicy, plan: Plan, reply: Reply) -> bool:
    """Whether a result of a search that was widened has no text where the policy looks for it."""
    places = policy.text_places
    for pool, size in zip(reply.pools, plan, strict=True):
        if size is None or not len(pool.scores):
            continue
        if not pool.fields:
            return True
        for row in pool.fields:
            for place in places:
                # A string, or what may have one inside.
                if (raw := row[place]) is not None and raw[:1] in _TEXT_STARTS and raw != b'""':
                    break
            else:
                return True
    return False


def _doubtful(call: SearchCall, policy: ResolvedPolicy, plan: Plan, reply: Reply) -> list[int]:
    """The searches whose pools speak against the texts that other pools of the collection have shown under an unknown name."""
    if fields_of(call.needs) != policy.keys:  # this pool was read
        return []
    places: list[int] = []
    for place, (pool, size) in enumerate(zip(reply.pools, plan, strict=True)):
        columns = Columns(policy.keys, pool.fields).present(policy.unproven) if size is not None and pool.fields else []
        if any(is_doubtful(column, pool.scores) for column in columns):
            places.append(place)
    return places

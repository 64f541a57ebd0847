"""Recent pools, kept to select from again: by another policy, and to say in words why results left or stay.

A pool is taken after its answer, in the thread for long work: after a first hundred at most one in five seconds. It is selected from twice then, by its
own policy and with rewordings, so that also without a person looking a metric says what preset `meaning` would remove beyond the proof.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool, Search
from vecsieve.config.presets import PRESETS

from ..runtime.loop import LongWork
from ..search.candidates import candidates_of, records_of
from ..search.collections.statements import PoolStatements
from ..search.policy import ResolvedPolicy
from ..search.pools.values import Selected
from ..selection.paged import paging
from ..selection.policy import Policy
from ..selection.reading.text import UNREAD, Text, text_of
from ..selection.single import selecting
from ..selection.values import Candidates, FloatMatrix, Indices, Link, Selection, Steps
from ..telemetry.tracing import Clock

MOST_POOLS = 1000
MOST_BYTES = 8 * 1024 * 1024  # 40 candidates with 1,000 characters and 384 dimensions take 75 kB
LARGEST_POOL = 100  # candidates
MOST_WAITING = 8  # replies that are held meanwhile
LARGEST_REPLY = 1 << 20  # a larger reply takes too long to read again
BURST, PER_SECOND = 100, 0.2
# Characters of a sentence of 40 words.
LONGEST_SENTENCE = 800
# What preset meaning allows.
_DOUBT = PRESETS["meaning"]["rewordings"]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a pool. ``keep``: as in Selection. ``filled``: copies among the results. ``reworded``: results of the database's own page that left
    because others say them in other words.
    """

    keep: Indices
    filled: int
    reworded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPool:
    """``bare``: the candidates without vectors and texts. ``vectors``: (n, d) float16, each row divided by its ``scales``: (n, 1). ``texts``: as strings; "" for one that
    was not read. ``offset``: of a page of one list, else None. ``now``: the page by its own policy. ``statement_bytes``: of what the payloads say besides texts.
    """

    top_k: int
    offset: int | None
    policy: Policy
    bare: Candidates
    texts: tuple[str | None, ...] | None
    vectors: npt.NDArray[np.float16]
    scales: FloatMatrix
    now: Page
    statement_bytes: int

    @property
    def results(self) -> int:
        """The results of the database's own page."""
        return max(0, min(self.top_k, len(self.scales) - (self.offset or 0)))

    @property
    def has_vectors(self) -> bool:
        """Whether the search fetched vectors: where texts decide it need not."""
        return bool(np.isfinite(self.scales).any())

    @property
    def size_bytes(self) -> int:
        """Approximate memory use."""
        known = self.bare.metadata
        texts = sum(sys.getsizeof(text) + 8 for text in self.texts or () if text is not None)
        names = sum(
            len(name) + 60 for names in (known.documents, known.sources) for name in names or () if name is not None
        )
        return 1500 + self.statement_bytes + texts + names + self.vectors.nbytes + 100 * len(self.scales)

    def candidates(self) -> Candidates:
        """The candidates, with texts and vectors."""
        texts = None if self.texts is None else tuple(map(_text, self.texts))
        vectors = self.vectors.astype(np.float32) * self.scales
        return replace(self.bare, vectors=vectors, metadata=replace(self.bare.metadata, texts=texts))


def _text(raw: str | None) -> Text | None:
    """The text again. No text of a point is empty: an empty one stands for one that was not read."""
    return None if raw is None else text_of(raw) if raw else UNREAD


def keeping(candidates: Candidates, *, top_k: int, policy: Policy, offset: int | None) -> Steps[KeptPool]:
    """Keep a pool: select from it by its own policy, and pack it."""
    with np.errstate(invalid="ignore"):
        scales = np.abs(candidates.vectors).max(axis=1, initial=0.0, keepdims=True).astype(np.float32)
    scales = np.where(scales > 0.0, scales, np.float32(np.nan))  # no direction: unusable, and so are rows of NaN
    known, statements = candidates.metadata, candidates.statements
    selection = yield from choosing(candidates, top_k=top_k, policy=policy, offset=offset)
    return KeptPool(
        top_k=top_k,
        offset=offset,
        policy=policy,
        bare=replace(
            candidates,
            scores=candidates.scores.copy(),  # it may be a view of a larger array
            vectors=np.empty((candidates.size, 0), np.float32),
            squares=None,
            metadata=replace(known, texts=None),
        ),
        texts=None if known.texts is None else tuple(None if text is None else text.raw for text in known.texts),
        vectors=(candidates.vectors / scales).astype(np.float16),
        scales=scales,
        now=page_of(selection, top_k, offset),
        statement_bytes=statements.detach() if isinstance(statements, PoolStatements) else 0,
    )


def choosing(candidates: Candidates, *, top_k: int, policy: Policy, offset: int | None) -> Steps[Selection]:
    """Select a page as a search would, with nothing more to fetch."""
    if offset is None:
        return (yield from selecting(candidates, top_k=top_k, policy=policy))
    return (yield from paging(candidates, top_k=top_k, offset=offset, policy=policy, exhausted=True))


def page_of(selection: Selection, top_k: int, offset: int | None) -> Page:
    """What is kept of a selection."""
    start = offset or 0
    links = selection.links[start : start + top_k]
    has_left = np.isin(np.arange(start, start + len(links)), selection.keep, invert=True)
    stands = selection.representative[selection.keep] == selection.keep
    return Page(
        selection.keep, int(np.count_nonzero(~stands)), int(np.count_nonzero(has_left & (links == Link.REWORDED)))
    )


def with_rewordings(candidates: Candidates, policy: Policy, end: int) -> tuple[Candidates, Policy] | None:
    """The pool and the policy that also removes rewordings up to rank ``end``; None if it does already, or the pool lacks texts or vectors for it.

    Long texts behind are not read: they are no sentences, and change nothing before them.
    """
    known, vectors = candidates.metadata, candidates.vectors
    has_both = known.texts is not None and policy.texts is not None and bool(np.isfinite(vectors).any())
    if known.texts is None or not has_both or policy.rewordings is not None or not isinstance(_DOUBT, float):
        return None
    texts = tuple(
        UNREAD if text is not None and place >= end and len(text.raw) > LONGEST_SENTENCE else text
        for place, text in enumerate(known.texts)
    )
    return replace(candidates, metadata=replace(known, texts=texts)), replace(policy, rewordings=_DOUBT)


def taking(
    candidates: Candidates, *, top_k: int, policy: Policy, offset: int | None
) -> Steps[tuple[KeptPool, int | None]]:
    """Keep a pool, and count the results that preset `meaning` would remove beyond the proof; None if that cannot be known."""
    kept = yield from keeping(candidates, top_k=top_k, policy=policy, offset=offset)
    other = with_rewordings(candidates, policy, (offset or 0) + top_k)
    if other is None:
        return kept, None
    yield
    selection = yield from choosing(other[0], top_k=top_k, policy=other[1], offset=offset)
    return kept, page_of(selection, top_k, offset).reworded


@dataclass(frozen=True, slots=True)
class Sampled:
    """``number``: of the search in Recent, 0 without one."""

    collection: str
    number: int
    pool: KeptPool


class _Waiting(NamedTuple):
    search: Search
    pool: Pool
    policy: ResolvedPolicy
    collection: str
    number: int


Count = Callable[[int, int], None]
"""Counts the results of a sampled search's own page that are rewordings, and all of them."""


def uncounted(_reworded: int, _results: int) -> None:
    """Count nothing."""


class Pools:
    """The last pools, bounded in number and bytes. ``keep``: whether any are kept. Create it inside the event loop; close it.

    ``clock``: monotonic seconds. ``work``: closed after this object.
    """

    __slots__ = (
        "_allowed",
        "_at",
        "_bytes",
        "_clock",
        "_count",
        "_kept",
        "_most_bytes",
        "_task",
        "_waiting",
        "_work",
        "keep",
    )

    def __init__(
        self, *, keep: bool, clock: Clock, work: LongWork, most_bytes: int = MOST_BYTES, count: Count = uncounted
    ) -> None:
        self.keep = keep
        self._work = work
        self._clock = clock
        self._count = count
        self._most_bytes = most_bytes
        self._kept: deque[Sampled] = deque()
        self._bytes = 0
        self._allowed, self._at = float(BURST), clock()
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    def offer(self, selected: Selected, number: int) -> None:
        """Take the pools of an improved answer if there is room. Returns at once."""
        pools = selected.pools
        if pools.reply_bytes > LARGEST_REPLY or not self.is_due(pools.policy):
            return
        self._allowed -= 1.0
        rows = zip(pools.call.searches, pools.reply.pools, pools.planned.plan, strict=True)
        for search, pool, planned in rows:
            if planned is not None and 1 < pool.size <= LARGEST_POOL:
                copied = replace(pool, vectors=pool.vectors.copy())  # the feature memory may reuse them
                collection = pools.call.operation.collection
                self._waiting.append(_Waiting(search, copied, pools.policy, collection, number))
                if self._task is None or self._task.done():
                    self._task = asyncio.get_running_loop().create_task(self._take())
                return  # one search represents a batch

    def resize(self, *, keep: bool) -> None:
        self.keep = keep
        if not keep:
            self._kept.clear()
            self._bytes = 0

    def kept(self) -> list[Sampled]:
        """All kept pools, newest first."""
        return list(reversed(self._kept))

    def numbered(self, number: int) -> KeptPool | None:
        """The pool of this search, if it was taken."""
        return next((search.pool for search in reversed(self._kept) if search.number == number), None)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    async def close(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def is_due(self, policy: ResolvedPolicy) -> bool:
        """Whether the next offered pool is taken: to be kept, or in shadow mode to be counted."""
        if not (self.keep or policy.mode == "shadow"):
            return False
        now = self._clock()
        self._allowed = min(float(BURST), self._allowed + (now - self._at) * PER_SECOND)
        self._at = now
        return self._allowed >= 1.0 and len(self._waiting) < MOST_WAITING

    async def _take(self) -> None:
        """Take one pool after another, beside the loop."""
        while self._waiting:
            search, pool, policy, collection, number = self._waiting.popleft()
            await asyncio.sleep(0)
            records = records_of(pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
            candidates = candidates_of(pool, search, records, fields=policy.fields)
            offset = search.offset if search.pages else None
            steps = taking(candidates, top_k=search.top_k, policy=policy.selection, offset=offset)
            del pool, records, candidates
            with suppress(TimeoutError):  # the thread has more urgent work: this pool is not taken
                kept, reworded = await self._work.finished(steps, is_long=True)
                if reworded is not None:
                    self._count(reworded, kept.results)
                self._add(Sampled(collection, number, kept))

    def _add(self, sampled: Sampled) -> None:
        if not self.keep:
            return
        self._kept.append(sampled)
        self._bytes += sampled.pool.size_bytes
        while self._kept and (len(self._kept) > MOST_POOLS or self._bytes > self._most_bytes):
            self._bytes -= self._kept.popleft().pool.size_bytes

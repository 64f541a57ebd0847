"""Recent pools kept to try other policies on: a sample of the searches, taken after their answers.

Taking a pool compares all of its pairs: 13 to 21 ms for 40 candidates with texts, in the thread for long work. So after a first hundred at
most one in five seconds is taken: less than half a percent of a core. Texts, vectors and payloads are then dropped (rejudging.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from vecsieve.adapters.contract import Pool, Search

from ..runtime.loop import LongWork
from ..search.candidates import Record, candidates_of, records_of
from ..search.fetch import Attempt
from ..search.policy import ResolvedPolicy
from ..telemetry.tracing import Clock
from .rejudging import KeptPool, keeping

MOST_POOLS = 1000
MOST_BYTES = 8 * 1024 * 1024  # a pool of 40 takes 7.4 kB, one of 100 takes 38
LARGEST_POOL = 100  # candidates
MOST_WAITING = 8  # replies that are held meanwhile
LARGEST_REPLY = 1 << 20  # a larger reply takes too long to read again
BURST, PER_SECOND = 100, 0.2


@dataclass(frozen=True, slots=True)
class Sampled:
    """``number``: of the search in Recent, 0 without one."""

    collection: str
    number: int
    pool: KeptPool


class _Waiting(NamedTuple):
    """``records``: the payload records of the feature memory; None if the pool has them itself."""

    search: Search
    pool: Pool
    records: tuple[Record, ...] | None
    policy: ResolvedPolicy
    collection: str
    number: int


class Pools:
    """The last pools, bounded in number and bytes. ``keep``: whether any are taken. Create it inside the event loop; close it.

    ``clock``: monotonic seconds. ``work``: closed after this object.
    """

    __slots__ = ("_allowed", "_at", "_bytes", "_clock", "_held", "_most_bytes", "_task", "_waiting", "_work", "keep")

    def __init__(self, *, keep: bool, clock: Clock, work: LongWork, most_bytes: int = MOST_BYTES) -> None:
        self.keep = keep
        self._work = work
        self._clock = clock
        self._most_bytes = most_bytes
        self._held: deque[Sampled] = deque()
        self._bytes = 0
        self._allowed, self._at = float(BURST), clock()
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    def offer(self, attempt: Attempt, number: int) -> None:
        """Take the pools of an improved answer if there is room. Returns at once."""
        has_lost_rows = attempt.asked is not None and not attempt.known
        if attempt.reply is None or has_lost_rows or attempt.reply_bytes > LARGEST_REPLY or not self._may():
            return
        rows = zip(attempt.call.searches, attempt.reply.pools, attempt.plan, strict=True)
        for place, (search, pool, planned) in enumerate(rows):
            if planned is not None and 1 < pool.size <= LARGEST_POOL:
                known = attempt.known[place] if attempt.known else None
                records = None if known is None else known.records
                rows_own = replace(pool, vectors=pool.vectors.copy())  # the feature memory may reuse them
                collection = attempt.call.operation.collection
                self._waiting.append(_Waiting(search, rows_own, records, attempt.policy, collection, number))
                if self._task is None or self._task.done():
                    self._task = asyncio.get_running_loop().create_task(self._take())
                return  # one search represents a batch

    def resize(self, *, keep: bool) -> None:
        self.keep = keep
        if not keep:
            self._held.clear()
            self._bytes = 0

    def held(self) -> list[Sampled]:
        """All kept pools, newest first."""
        return list(reversed(self._held))

    def numbered(self, number: int) -> KeptPool | None:
        """The pool of this search, if it was taken."""
        return next((each.pool for each in reversed(self._held) if each.number == number), None)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    async def close(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _may(self) -> bool:
        is_due = self.is_due()
        self._allowed -= is_due
        return is_due

    def is_due(self) -> bool:
        """Whether the next offered pool is taken."""
        if not self.keep:
            return False
        now = self._clock()
        self._allowed = min(float(BURST), self._allowed + (now - self._at) * PER_SECOND)
        self._at = now
        return self._allowed >= 1.0 and len(self._waiting) < MOST_WAITING

    async def _take(self) -> None:
        """Take one pool after another, beside the loop."""
        while self._waiting:
            search, pool, records, policy, collection, number = self._waiting.popleft()
            await asyncio.sleep(0)
            if records is None:
                records = records_of(pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
            candidates = candidates_of(pool, search, records, fields=policy.fields)
            offset = search.offset if search.pages else None
            steps = keeping(candidates, top_k=search.top_k, policy=policy.selection, offset=offset)
            del pool, records, candidates
            with suppress(TimeoutError):  # the thread has more urgent work: this pool is not taken
                kept = await self._work.finished(steps, nullcontext(), is_long=True)
                self._add(Sampled(collection, number, kept))

    def _add(self, sampled: Sampled) -> None:
        if not self.keep:
            return
        self._held.append(sampled)
        self._bytes += sampled.pool.size_bytes
        while self._held and (len(self._held) > MOST_POOLS or self._bytes > self._most_bytes):
            self._bytes -= self._held.popleft().pool.size_bytes

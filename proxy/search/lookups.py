"""The second step of one call, free of transport: the lookups that bring vectors a search could not.

Whatever fails in it, the reply stays what it was, and its texts are compared as if nobody had tried.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    FetchesVectors,
    Found,
    Lookup,
    MalformedReplyError,
    Pool,
    Reply,
    Search,
    SearchCall,
)
from vecsieve.proxy.search.errors import LookupFailedError
from vecsieve.proxy.selection.text.memo import Memo
from vecsieve.proxy.telemetry.labels import Stage, VectorFetchOutcome
from vecsieve.proxy.telemetry.tracing import Stopwatch

SendVectorFetch = Callable[[Lookup], Awaitable[bytes]]
"""Sends a lookup and returns the body of a 2xx answer; raises LookupFailedError for everything else."""


class VectorFetches:
    """The lookups of one call. What an earlier round found is not asked for again.

    ``looked``: what became of them, None while there were none. ``read_units`` and ``fetched_bytes``: what they cost.
    """

    __slots__ = ("_asked", "_found", "_look", "_step", "_watch", "fetched_bytes", "looked", "read_units")

    def __init__(self, step: FetchesVectors, look: SendVectorFetch, watch: Stopwatch) -> None:
        self._step = step
        self._look = look
        self._watch = watch
        self._asked: set[str] = set()
        self._found: list[Found] = []
        self.looked: VectorFetchOutcome | None = None
        self.read_units = 0
        self.fetched_bytes = 0

    async def completed(self, call: SearchCall, reply: Reply) -> Reply:
        """The reply with its candidates' vectors, or as it is when they cannot be had.

        Raises LookupFailedError where an earlier round had vectors: what was selected by them is better than what texts select.
        """
        if self.looked not in {None, VectorFetchOutcome.FOUND}:
            return reply
        had = self.looked
        try:
            return await self._joined(call, reply)
        except LookupFailedError as failure:
            self.looked = failure.looked
        except MalformedReplyError:
            self.looked = VectorFetchOutcome.MALFORMED
        if had is not None:
            raise LookupFailedError(self.looked)
        return reply

    def charged(self, reply: Reply) -> Reply:
        """The reply whose answer names what the client is billed for the lookups as well."""
        return self._step.charged(reply, self.read_units) if self.read_units else reply

    async def _joined(self, call: SearchCall, reply: Reply) -> Reply:
        for lookup in self._step.lookups(call, reply, self._asked):
            with self._watch.stage(Stage.UPSTREAM):
                body = await self._look(lookup)
            self.fetched_bytes += len(body)
            with self._watch.stage(Stage.DECODE):
                found = self._step.found(lookup, body)
            self.read_units += found.read_units
            self._asked.update(lookup.ids)
            self._found.append(found)
            self.looked = VectorFetchOutcome.FOUND
        if not self._found:
            return reply
        with self._watch.stage(Stage.DECODE):
            return self._step.joined(reply, self._found)


# Vectors of earlier replies, so that a pool need not bring them again: 21 kB each at 1536 dimensions, billed.
#
# A search is sent without asking for vectors only while nearly all pools of its collection could have been selected from
# memory. A pool with an unknown record is fetched anew with its vectors: one more read, counted as a miss.
#
# What is held may be old: a write that passes here clears its collection, one that goes past it is noticed when the next
# reply brings another vector, at the latest when the entries expire. An old vector may decide who is a copy; never what a
# result says.

ENTRY_SECONDS = 600.0  # a record written past us is compared by its old vector for that long at most
QUIET_SECONDS = 60.0  # after a write: reads may still show what was before it, and long writes are still under way
WINDOW = 8  # pools
PROMISING = 7  # of those: each miss is a second read, so about one search in eight is read twice at most
COLLECTIONS = 1024

Matrix = npt.NDArray[np.float32]
_Key = tuple[int, bytes, bytes]  # generation, partition, record
_Held = tuple[Matrix, float]  # (d,), and when it expires


@dataclass(slots=True)
class _Collection:
    generation: int
    quiet_until: float = float("-inf")
    whole: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))


class VectorMemory:
    """At most ``limit_bytes``, the vector used longest ago leaves first; 0: remembers nothing. ``clock``: monotonic seconds.

    ``partition``: what part of a collection an id is unique in, such as a namespace.
    """

    __slots__ = ("_clock", "_collections", "_generations", "_held")

    def __init__(self, limit_bytes: int, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._generations = count()
        self._collections: OrderedDict[str, _Collection] = OrderedDict()
        self._held = Memo[_Key, _Held](limit_bytes, _size)

    def is_promising(self, collection: str) -> bool:
        """Whether a pool of this collection can probably be selected from memory."""
        state = self._collections.get(collection)
        return state is not None and not self._is_quiet(state) and sum(state.whole) >= PROMISING

    def recall(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> Matrix | None:
        """(n, d), n > 0: the vectors of these records; None when one of them is not known. Counted as a pool either way."""
        state = self._collection(collection)
        rows = self._rows(state, partition, ids)
        known = [row for row in rows if row is not None]
        is_whole = _is_whole(rows) and not self._is_quiet(state)
        state.whole.append(is_whole)
        return np.stack(known) if is_whole else None

    def remember(self, collection: str, partition: bytes, ids: Sequence[bytes], vectors: Matrix) -> None:
        """Hold a pool's vectors, (n, d) for n ids; rows that are not finite are not held. Counted: were all known before?"""
        state = self._collection(collection)
        if self._is_quiet(state):
            return
        rows = self._rows(state, partition, ids)
        if any(row is not None and not np.array_equal(row, new) for row, new in zip(rows, vectors, strict=True)):
            self.forget(collection)  # somebody writes past us: other entries may be as old as this one
            return
        state.whole.append(_is_whole(rows))
        expires = self._clock() + ENTRY_SECONDS
        for name, new in zip(ids, vectors, strict=True):
            if bool(np.isfinite(new).all()):
                # A copy: a row of the reply's matrix would keep all of it.
                self._held.keep((state.generation, partition, name), (new.copy(), expires))

    def forget(self, collection: str | None) -> None:
        """Records of this collection, or of any, are being written: hold nothing of it, and for a while nothing new."""
        for name in list(self._collections) if collection is None else [collection]:
            state = self._collection(name)
            # What an older generation held is found no more, and leaves as the longest unused.
            state.generation = next(self._generations)
            state.quiet_until = self._clock() + QUIET_SECONDS
            state.whole.clear()

    def _is_quiet(self, state: _Collection) -> bool:
        return self._clock() < state.quiet_until

    def _collection(self, name: str) -> _Collection:
        state = self._collections.get(name)
        if state is None:
            state = self._collections[name] = _Collection(next(self._generations))
        self._collections.move_to_end(name)
        while len(self._collections) > COLLECTIONS:
            self._collections.popitem(last=False)
        return state

    def _rows(self, state: _Collection, partition: bytes, ids: Sequence[bytes]) -> list[Matrix | None]:
        now = self._clock()
        held = (self._held.get((state.generation, partition, name)) for name in ids)
        return [None if each is None or now >= each[1] else each[0] for each in held]


def _is_whole(rows: Sequence[Matrix | None]) -> bool:
    """Whether all are known, and make one matrix."""
    shapes = {None if row is None else row.shape for row in rows}
    return len(shapes) == 1 and None not in shapes


def _size(key: _Key, held: _Held) -> int:
    return int(held[0].nbytes) + len(key[1]) + len(key[2])


# Pools that came without vectors, completed from memory; pools that brought theirs, remembered.


def is_promising(memory: VectorMemory, call: SearchCall) -> bool:
    """Whether the call's pools can probably be selected from memory, so that their vectors need not be fetched."""
    if not memory.is_promising(call.operation.collection):
        return False
    # Of a search by anything else, the matrix is made for one pool: a sparse vector's columns mean nothing in another.
    return all(search.query is not None for search in call.searches)


def completed(memory: VectorMemory, call: SearchCall, reply: Reply) -> Reply | None:
    """The reply with a vector for every candidate as far as the call asked for none; None when memory lacks one."""
    pools = [_completed(memory, call, *row) for row in zip(call.searches, reply.pools, strict=True)]
    whole = tuple(pool for pool in pools if pool is not None)
    return replace(reply, pools=whole) if len(whole) == len(pools) else None


def _completed(memory: VectorMemory, call: SearchCall, search: Search, pool: Pool) -> Pool | None:
    collection = call.operation.collection
    if search.query is None or not pool.size or len(pool.ids) != pool.size:
        return pool
    dimension = len(search.query)
    if pool.unusable < pool.size:
        if pool.vectors.shape[1] == dimension:
            memory.remember(collection, search.partition, pool.ids, pool.vectors)
        return pool
    if call.needs.vectors:
        return pool
    vectors = memory.recall(collection, search.partition, pool.ids)
    if vectors is None or vectors.shape[1] != dimension:
        return None
    # The unnamed vector: what backends have whose vectors are remembered.
    return replace(pool, vectors=vectors, unusable=0, compared_by="")

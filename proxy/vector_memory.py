"""Vectors of earlier replies, so that a pool need not bring them again: 21 kB each at 1536 dimensions, billed.

A search is sent without asking for vectors only while nearly all pools of its collection could have been selected from
memory. A pool with an unknown record is fetched anew with its vectors: one more read, counted as a miss.

What is held may be old: a write that passes here clears its collection, one that goes past it is noticed when the next
reply brings another vector, at the latest when the entries expire. An old vector may decide who is a copy; never what a
result says.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.text.memo import Memo

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

"""The bytes of widened replies that one process holds: bounded, because so many searches say little of so many megabytes.

A search that would exceed the bound passes through at once: nobody waits here. What a reply will be is estimated from the
last one of its collection, corrected when its length is known and as it arrives, and given back when its search has ended. What turns out not to fit is
dropped at once, and the client's own request goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.learned import ENTRIES, Expiring
from vecsieve.proxy.stopwatch import Clock

# Of a candidate whose vector's length is not known: the text of 1,200 numbers and a payload.
CANDIDATE_BYTES = 16 * 1024
# Of one whose vector's length is known, beside the vector: identifier, score, and a passage of text.
PAYLOAD_BYTES = 2 * 1024
# Bytes of one number of a vector: float32 as text, with its comma; float32 over gRPC.
TEXT_NUMBER_BYTES, BINARY_NUMBER_BYTES = 12, 4
LEARNED_SECONDS = 600.0  # payloads grow slowly

Changed = Callable[[int], None]
"""Hears of so many bytes more, or fewer."""


class Hold:
    """What one search holds, or expects to. ``came`` and ``fits`` are told of one reply after the other."""

    __slots__ = ("_expected", "_held", "_kept")

    def __init__(self, held: HeldBytes, expected: int) -> None:
        self._held = held
        self._expected = expected
        self._kept = 0
        held.change(expected)

    def fits(self, size: int) -> bool:
        """Whether a reply of at least ``size`` bytes, which is arriving, may be held."""
        more = self._kept + size - self._expected
        if more <= 0:
            return True
        if not self._held.has_room(more, beside=self._expected):
            return False
        self._expect(self._kept + size)
        return True

    def came(self, size: int) -> None:
        """A reply is here, whole."""
        self._kept += size
        self._expect(self._kept)

    def release(self) -> None:
        """The search has ended."""
        self._expect(0)
        self._kept = 0

    def _expect(self, size: int) -> None:
        self._held.change(size - self._expected)
        self._expected = size


class HeldBytes:
    """Of one process. ``reply_bytes``: how large one reply may be. ``clock``: monotonic seconds."""

    __slots__ = ("_changed", "_limit", "_per_candidate", "_total", "reply_bytes")

    def __init__(self, limit_bytes: int, *, reply_bytes: int, changed: Changed, clock: Clock) -> None:
        self._limit = limit_bytes
        self.reply_bytes = reply_bytes
        self._changed = changed
        self._total = 0
        self._per_candidate = Expiring[int](entries=ENTRIES, clock=clock)

    @property
    def total(self) -> int:
        """What all searches hold or expect."""
        return self._total

    def candidate_bytes(self, operation: Operation, *, vector_bytes: int | None) -> int:
        """What a candidate is expected to take: as many as in the collection's last reply, else what its vector tells.

        ``vector_bytes``: of a vector like the one that is searched by; None where the request carries none.
        """
        known = self._per_candidate.get(_key(operation))
        if known is not None:
            return known
        return CANDIDATE_BYTES if vector_bytes is None else vector_bytes + PAYLOAD_BYTES

    def hold(self, sizes: Sequence[int | None], candidate_bytes: int) -> Hold | None:
        """Expect a reply with so many candidates per search; None when there is no room for it. Whoever holds must release."""
        expected = sum(size for size in sizes if size is not None) * candidate_bytes
        return Hold(self, expected) if self.has_room(expected, beside=0) else None

    def learn(self, operation: Operation, sizes: Sequence[int | None], reply_bytes: int) -> None:
        """Remember what a reply with so many candidates came to."""
        candidates = sum(size for size in sizes if size is not None)
        if candidates and reply_bytes:
            self._per_candidate.put(_key(operation), -(-reply_bytes // candidates), seconds=LEARNED_SECONDS)

    def has_room(self, more: int, *, beside: int) -> bool:
        """Whether so many more may be held. One search alone always may, or a bound below one reply would end selection.

        ``beside``: of what is held, the asking search's own.
        """
        return self._total == beside or self._total + more <= self._limit

    def change(self, more: int) -> None:
        """So many more are held, or fewer."""
        self._total += more
        self._changed(more)


def _key(operation: Operation) -> tuple[str, str]:
    return operation.backend, operation.collection

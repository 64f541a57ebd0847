"""The last searches, explained: a ring that is bounded in number and in bytes, kept in memory only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from vecsieve.proxy.explain import Record

# A record of a page of 10 out of 50 has about 6 kB; one of 1000 candidates 130 kB, and a thousand of those no room.
MOST_BYTES = 4 * 1024 * 1024


class Recent:
    """``keep``: how many, 0 = off. ``now``: seconds since the epoch, as records show when they were made."""

    __slots__ = ("_bytes", "_held", "_most_bytes", "_now", "_number", "keep")

    def __init__(self, keep: int, *, now: Callable[[], float], most_bytes: int = MOST_BYTES) -> None:
        self.keep = keep
        self._now = now
        self._most_bytes = most_bytes
        self._held: deque[bytes] = deque()
        self._bytes = 0
        self._number = 0

    def add(self, record: Record) -> None:
        """Hold the record in place of the oldest; one that is larger than all room there is is only counted."""
        self._number += 1
        self._hold(b'{"number":%d,"at":%.3f,%b' % (self._number, self._now(), record.as_json()[1:]))

    def resize(self, keep: int) -> None:
        """Hold that many from now on; 0 forgets all."""
        self.keep = keep
        self._shrink()

    def as_json(self) -> bytes:
        """All records, the newest first. ``keep`` says whether none are wanted or none were made."""
        return b'{"keep":%d,"records":[%b]}\n' % (self.keep, b",".join(reversed(self._held)))

    def _hold(self, record: bytes) -> None:
        self._held.append(record)
        self._bytes += len(record)
        self._shrink()

    def _shrink(self) -> None:
        while self._held and (len(self._held) > self.keep or self._bytes > self._most_bytes):
            self._bytes -= len(self._held.popleft())

"""What the processes of one proxy tell each other: a page of numbers that parent and children share.

Memory instead of messages: writing a number can neither block nor fail, so a stuck worker is seen by what it no longer
writes. Every number is one aligned machine word, written by one process.
"""

from __future__ import annotations

import mmap
from enum import IntEnum

WORD = 8
FIELDS = 4  # per place: process id, phase, restarts, heartbeat
PID, PHASE, RESTARTS, HEARTBEAT = range(FIELDS)


class Phase(IntEnum):
    """What a place's process is doing."""

    EMPTY = 0  # there is none: it ended, and the next one is due
    STARTING = 1
    READY = 2


class Board:
    """Numbers per place, 0 at first. Made before the first fork; heartbeats are milliseconds of the monotonic clock."""

    __slots__ = ("_memory", "_words", "places")

    def __init__(self, places: int) -> None:
        self.places = places
        self._memory = mmap.mmap(-1, (1 + places * FIELDS) * WORD)
        self._words = memoryview(self._memory).cast("q")

    @property
    def is_draining(self) -> bool:
        """Whether the whole proxy was told to stop."""
        return self._words[0] != 0

    def drain(self) -> None:
        """Say that the whole proxy was told to stop."""
        self._words[0] = 1

    def begin(self, place: int, pid: int, *, now_ms: int) -> None:
        """A process took the place."""
        self._put(place, PID, pid)
        self._put(place, HEARTBEAT, now_ms)

    def set_phase(self, place: int, phase: Phase) -> None:
        """What the place's process is doing now."""
        self._put(place, PHASE, phase)

    def beat(self, place: int, now_ms: int) -> None:
        """The place's loop runs."""
        self._put(place, HEARTBEAT, now_ms)

    def count_restart(self, place: int) -> None:
        """The place is filled anew."""
        self._put(place, RESTARTS, self.restarts(place) + 1)

    def pid(self, place: int) -> int:
        """The process in the place, or the last one that was."""
        return self._get(place, PID)

    def phase(self, place: int) -> Phase:
        """What the place's process is doing."""
        return Phase(self._get(place, PHASE))

    def restarts(self, place: int) -> int:
        """How often the place was filled anew."""
        return self._get(place, RESTARTS)

    def heartbeat_ms(self, place: int) -> int:
        """When the place's loop last ran."""
        return self._get(place, HEARTBEAT)

    def _put(self, place: int, field: int, number: int) -> None:
        self._words[1 + place * FIELDS + field] = number

    def _get(self, place: int, field: int) -> int:
        return self._words[1 + place * FIELDS + field]

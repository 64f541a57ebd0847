"""How long the event loop takes for one turn now: the first sign that this process has more work than time.

A slow database leaves turns short, however many requests wait for it; too much work of our own makes every turn long,
because each request that is under way wants a piece of it. A request takes some ten turns from its connection to its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

# The least of three counts, as CoDel (RFC 8289) takes the least delay of an interval: one large decode is no standing queue.
TURNS = 3
FORGOTTEN_SECONDS = 0.25  # what was measured longer ago says nothing of now

Soon = Callable[[Callable[[], None]], object]
"""Runs something at the loop's next turn."""


class Turns:
    """Measures turns while it is told that there is something to do. ``clock``: monotonic seconds."""

    __slots__ = ("_clock", "_last", "_measured_at", "_soon", "_started")

    def __init__(self, clock: Callable[[], float], soon: Soon) -> None:
        self._clock = clock
        self._soon = soon
        self._last: deque[float] = deque((0.0,) * TURNS, maxlen=TURNS)
        self._measured_at = clock()
        self._started: float | None = None

    @property
    def lag_seconds(self) -> float:
        """What the last turns took at least; 0 when they are long ago."""
        if self._clock() - self._measured_at > FORGOTTEN_SECONDS + self._last[-1]:
            return 0.0
        return min(self._last)

    def measure(self) -> None:
        """Measure the turn that begins now, unless one is being measured."""
        if self._started is None:
            self._started = self._clock()
            self._soon(self._turned)

    def _turned(self) -> None:
        assert self._started is not None  # noqa: S101 - only ``measure`` asks for this call
        now = self._clock()
        if now - self._measured_at > FORGOTTEN_SECONDS + self._last[-1]:
            self._last.extend((0.0,) * TURNS)
        self._last.append(now - self._started)
        self._measured_at, self._started = now, None

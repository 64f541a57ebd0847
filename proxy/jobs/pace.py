"""How fast a job may ask: at most so many requests a second, evenly spread, so that a live database hardly notices."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Call ``wait`` before each request. ``requests_per_second``: above zero; None: no limit.

    Evenly spread instead of a bucket that may be emptied at once: the burst is what a live database would feel.
    """

    __slots__ = ("_clock", "_interval_seconds", "_next", "_sleep")

    def __init__(
        self,
        requests_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_seconds = 0.0 if requests_per_second is None else 1.0 / requests_per_second
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    def wait(self) -> None:
        """Return when the next request may go out. Time that was not used is not saved up."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
        self._next = max(self._next, now) + self._interval_seconds

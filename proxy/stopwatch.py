"""Where one call's time went, by stage. The clock is handed in; a stage entered twice adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vecsieve.proxy.labels import Stage

Clock = Callable[[], float]
"""Monotonic seconds."""


class Stopwatch:
    """Adds up seconds per stage, in the order in which stages were first entered."""

    __slots__ = ("_clock", "_seconds", "started")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[Stage, float] = {}
        self.started = clock()

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Time the block, also when it raises."""
        start = self._clock()
        try:
            yield
        finally:
            self._add(stage, self._clock() - start)

    @contextmanager
    def laps(self) -> Iterator[Callable[[str], None]]:
        """Hand out a function that ends a lap under a stage's name; what follows the last lap is not timed."""
        last = self._clock()

        def lap(name: str) -> None:
            nonlocal last
            now = self._clock()
            self._add(Stage(name), now - last)
            last = now

        yield lap

    def restart(self) -> None:
        """Count the elapsed time from now; the stages so far stay."""
        self.started = self._clock()

    def elapsed(self) -> float:
        """Seconds since the watch was made."""
        return self._clock() - self.started

    def seconds(self, stage: Stage) -> float:
        """Seconds spent in a stage so far."""
        return self._seconds.get(stage, 0.0)

    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """Every stage entered, with its seconds."""
        return tuple(self._seconds.items())

    def _add(self, stage: Stage, seconds: float) -> None:
        self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

"""Where one call's time went, by stage. The clock is handed in; a stage entered twice adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vecsieve.proxy.labels import Stage

Clock = Callable[[], float]
"""Monotonic seconds."""


class Timed:
    """A block that is timed. A class, because a generator costs three times as much and a search has five blocks."""

    __slots__ = ("_clock", "_seconds", "_stage", "_start")

    def __init__(self, stage: Stage, seconds: dict[Stage, float], clock: Clock) -> None:
        self._stage = stage
        self._seconds = seconds
        self._clock = clock
        self._start = 0.0

    def __enter__(self) -> None:
        """The time counts from here."""
        self._start = self._clock()

    def __exit__(self, *failure: object) -> None:
        """To here, whatever ended the block."""
        spent = self._clock() - self._start
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + spent


class Stopwatch:
    """Adds up seconds per stage, in the order in which stages were first entered."""

    __slots__ = ("_clock", "_seconds", "started")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[Stage, float] = {}
        self.started = clock()

    def stage(self, stage: Stage) -> Timed:
        """Time the block, also when it raises."""
        return Timed(stage, self._seconds, self._clock)

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

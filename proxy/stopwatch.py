"""Where one call's time went, by stage. The clock is handed in; a stage entered twice adds up."""

from __future__ import annotations

from collections.abc import Callable

from vecsieve.proxy.labels import Stage

Clock = Callable[[], float]
"""Monotonic seconds."""

Mark = tuple[Stage, float, float]
"""When a stage was entered and left, by the clock."""

MOST_MARKS = 64  # a batch of a hundred searches enters four hundred stages: those that come later are only added up


class Timed:
    """A block that is timed. A class, because a generator costs three times as much and a search has five blocks."""

    __slots__ = ("_clock", "_marks", "_seconds", "_stage", "_start")

    def __init__(self, stage: Stage, seconds: dict[Stage, float], marks: list[Mark] | None, clock: Clock) -> None:
        self._stage = stage
        self._seconds = seconds
        self._marks = marks
        self._clock = clock
        self._start = 0.0

    def __enter__(self) -> None:
        """The time counts from here."""
        self._start = self._clock()

    def __exit__(self, *failure: object) -> None:
        """To here, whatever ended the block."""
        ended = self._clock()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + (ended - self._start)
        if self._marks is not None and len(self._marks) < MOST_MARKS:
            self._marks.append((self._stage, self._start, ended))


class Laps:
    """Blocks of one after another's stages: a stage may end in a later block than it began in. Between them nothing counts."""

    __slots__ = ("_add", "_clock", "_last", "_seconds")

    def __init__(self, add: Callable[[Stage, float, float], None], clock: Clock) -> None:
        self._add = add
        self._clock = clock
        self._last = 0.0
        self._seconds = 0.0  # of the present stage, in blocks before this one

    def __enter__(self) -> Callable[[str], None]:
        """The time counts from here. Hands out ``over``."""
        self._last = self._clock()
        return self.over

    def __exit__(self, *failure: object) -> None:
        """To here."""
        self._seconds += self._clock() - self._last

    def over(self, name: str) -> None:
        """The stage of this name is over, and the next begins."""
        now = self._clock()
        self._add(Stage(name), self._last - self._seconds, now)
        self._last, self._seconds = now, 0.0


class Stopwatch:
    """Adds up seconds per stage, in the order in which stages were first entered.

    ``keeps_marks``: also remembers when each was entered and left, which nobody but a trace wants to know.
    """

    __slots__ = ("_clock", "_marks", "_seconds", "started")

    def __init__(self, clock: Clock, *, keeps_marks: bool = False) -> None:
        self._clock = clock
        self._seconds: dict[Stage, float] = {}
        self._marks: list[Mark] | None = [] if keeps_marks else None
        self.started = clock()

    def stage(self, stage: Stage) -> Timed:
        """Time the block, also when it raises."""
        return Timed(stage, self._seconds, self._marks, self._clock)

    def laps(self) -> Laps:
        """Time blocks in which stages end one after another; what follows the last one is not timed."""
        return Laps(self._add, self._clock)

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

    def marks(self) -> tuple[Mark, ...]:
        """The first times that stages were entered and left, where they are kept."""
        return () if self._marks is None else tuple(self._marks)

    def _add(self, stage: Stage, started: float, ended: float) -> None:
        self._seconds[stage] = self._seconds.get(stage, 0.0) + (ended - started)
        if self._marks is not None and len(self._marks) < MOST_MARKS:
            self._marks.append((stage, started, ended))

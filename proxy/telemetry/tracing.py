"""What the planes tell of a request so that it can be traced, and the way of a process that traces nothing.

    begin ─► Trace ─► leg ─► Leg, one per request to the database ── its traceparent goes out with it
                  ─► staged, the parts of the work between
                  ─► end, once

Whoever implements this never raises, never waits, and learns nothing of a request but what stands here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self

from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen, Outcome, Stage

# Which trace a request belongs to, by W3C's traceparent. Nothing but 32 hexadecimal digits, and the two ids as numbers, ever comes out.
#
# Only a trace that its sender records: an exemplar must lead somewhere. The header itself goes on to the database untouched, unless
# this process records a span of its own between the two (proxy/telemetry/spans.py).

NAME = "traceparent"
SAMPLED = 0x01
# What is passed on of the flags: recorded, and (level 2 of the recommendation) that the trace's id is random. The others have
# no meaning yet, and a sender of version 00 must set them to zero.
KNOWN_FLAGS = 0x03
# Version ff and ids of zeros are invalid; versions after 00 may say more behind the flags.
_FORM = re.compile(
    r"(?:00|(?P<later>(?!00|ff)[0-9a-f]{2}))"
    r"-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?(later)(?:-.*)?)"
)


@dataclass(frozen=True, slots=True)
class Parent:
    """A well-formed traceparent: ids as numbers, and the flags that are passed on."""

    trace_id: int
    span_id: int
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Whether its sender records the trace."""
        return bool(self.flags & SAMPLED)


def parent_of(values: Sequence[str]) -> Parent | None:
    """The parent in a request's traceparent fields; None unless there is exactly one, and well formed."""
    found = _FORM.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        return None
    return Parent(int(found["trace"], 16), int(found["span"], 16), int(found["flags"], 16) & KNOWN_FLAGS)


def sampled_trace_id(values: Sequence[str]) -> str | None:
    """The id in a request's traceparent fields; None unless there is exactly one, well formed, of a recorded trace."""
    found = parent_of(values)
    return None if found is None or not found.is_sampled else f"{found.trace_id:032x}"


def written(trace_id: int, span_id: int, flags: int) -> str:
    """The field that names a span as the parent of what follows."""
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"


# Where one call's time went, by stage. The clock is handed in; a stage entered twice adds up.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How a request ended. ``status``: HTTP's; None over gRPC, or when the client got none. ``code``: gRPC's alone."""

    method: str
    outcome: Outcome
    status: int | None = None
    code: int | None = None
    fail_open: FailOpen | None = None
    candidates: int | None = None
    collapsed: int | None = None


class Leg(AbstractContextManager["Leg"], Protocol):
    """One request to the database, for as long as its answer lasts."""

    @property
    def traceparent(self) -> str | None:
        """What to send as traceparent; None: what the client sent, or nothing."""
        ...

    def __enter__(self) -> Self:
        """It goes out now."""
        ...

    def answered(self, status: int) -> None:
        """The head of an HTTP answer has come."""
        ...

    def ended(self, code: int) -> None:
        """A gRPC call has ended so."""
        ...

    def cut(self) -> None:
        """The answer had begun, and was not whole."""
        ...


class Trace(Protocol):
    """One client's request."""

    @property
    def trace_id(self) -> str | None:
        """32 hexadecimal digits when it is recorded, else None."""
        ...

    def classified(self, operation: str) -> None:
        """It is a ranked search."""
        ...

    def leg(self, kind: AttemptKind, method: str, origin: Origin | None) -> Leg:
        """A request to the database, still to be entered. ``origin``: None where the settings' upstream is meant."""
        ...

    def staged(self, marks: Iterable[Mark]) -> None:
        """These parts of the work took place."""
        ...

    def end(self, finish: Finish) -> None:
        """The client has its answer. Legs of a measurement beside it may still follow."""
        ...


class Tracing(Protocol):
    """One process's tracing."""

    def begin(self, parents: Sequence[str]) -> Trace:
        """A request with these traceparent fields has come."""
        ...

    async def close(self) -> None:
        """Hand over what is held, for a bounded time."""
        ...


class _UntracedLeg:
    traceparent = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        return None

    def answered(self, status: int) -> None:
        """Nothing is kept."""

    def ended(self, code: int) -> None:
        """Nothing is kept."""

    def cut(self) -> None:
        """Nothing is kept."""


class _Untraced:
    trace_id = None

    def classified(self, operation: str) -> None:
        """Nothing is kept."""

    def leg(self, _kind: AttemptKind, _method: str, _origin: Origin | None) -> Leg:
        return UNTOLD

    def staged(self, marks: Iterable[Mark]) -> None:
        """Nothing is kept."""

    def end(self, finish: Finish) -> None:
        """Nothing is kept."""


UNTOLD: Leg = _UntracedLeg()
"""A request to the database that nobody records."""

UNTRACED: Trace = _Untraced()
"""A request that is not recorded: what it carries goes on byte for byte."""


class NoTracing:
    """Tracing that is off: every request is untraced."""

    def begin(self, _parents: Sequence[str]) -> Trace:
        """Untraced."""
        return UNTRACED

    async def close(self) -> None:
        """Nothing is held."""


NO_TRACING: Tracing = NoTracing()
"""The way of a process that traces nothing."""

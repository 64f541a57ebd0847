"""The tracing interface of the planes, the stopwatch of stages, and disabled tracing.

    begin ─► Trace ─► leg ─► Leg, one per request to the database ── its traceparent goes out with it
                  ─► staged, the parts of the work between
                  ─► end, once

An implementation never raises and never waits; it gets no other data of a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self

from ..runtime.addresses import Origin
from .labels import AttemptKind, FailOpen, Outcome, Stage

# W3C's traceparent. The header is forwarded untouched unless this process records a span between client and database
# (proxy/telemetry/spans.py). Exemplars take ids of sampled traces only, so that each leads to a recorded trace.

NAME = "traceparent"
SAMPLED = 0x01
# The flags that are passed on: sampled, and (level 2 of the recommendation) random trace id. The others have no meaning yet, and
# a sender of version 00 must set them to zero.
KNOWN_FLAGS = 0x03
# Version ff and ids of zeros are invalid; versions after 00 may append fields.
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
        return bool(self.flags & SAMPLED)


def parent_of(values: Sequence[str]) -> Parent | None:
    """The parent of a request; None unless it has exactly one well-formed traceparent."""
    match = _FORM.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        return None
    return Parent(int(match["trace"], 16), int(match["span"], 16), int(match["flags"], 16) & KNOWN_FLAGS)


def sampled_trace_id(values: Sequence[str]) -> str | None:
    """The trace id of a request with exactly one well-formed, sampled traceparent, else None."""
    parent = parent_of(values)
    return None if parent is None or not parent.is_sampled else f"{parent.trace_id:032x}"


def written(trace_id: int, span_id: int, flags: int) -> str:
    """The traceparent that names a span as the parent."""
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"


Clock = Callable[[], float]
"""Monotonic seconds."""

Mark = tuple[Stage, float, float]
"""When a stage was entered and left, by the clock."""

MOST_MARKS = 64  # a batch of a hundred searches enters four hundred stages: later ones are only added up


class Stopwatch:
    """Adds up seconds per stage, in the order in which stages first ended. ``clock``: monotonic seconds. ``started``: by the clock.

    ``keeps_marks``: also keep when each was entered and left, for a trace. A call per stage and no context manager: a search has ten stages.
    """

    __slots__ = ("_marks", "_seconds", "clock", "started")

    def __init__(self, clock: Clock, *, keeps_marks: bool = False) -> None:
        self.clock = clock
        self._seconds: dict[Stage, float] = {}
        self._marks: list[Mark] | None = [] if keeps_marks else None
        self.started = clock()

    def add(self, stage: Stage, started: float) -> None:
        """A stage ends that began then, by ``clock``."""
        ended = self.clock()
        self._seconds[stage] = self._seconds.get(stage, 0.0) + (ended - started)
        if self._marks is not None and len(self._marks) < MOST_MARKS:
            self._marks.append((stage, started, ended))

    def restart(self) -> None:
        """Count the elapsed time from now; the stages stay."""
        self.started = self.clock()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    def seconds(self, stage: Stage) -> float:
        return self._seconds.get(stage, 0.0)

    def stages(self) -> tuple[tuple[Stage, float], ...]:
        return tuple(self._seconds.items())

    def marks(self) -> tuple[Mark, ...]:
        """The first MOST_MARKS marks, if they are kept."""
        return () if self._marks is None else tuple(self._marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How a request ended. ``status``: of HTTP; None over gRPC, or if the client got none. ``code``: of gRPC."""

    method: str
    outcome: Outcome
    status: int | None = None
    code: int | None = None
    fail_open: FailOpen | None = None
    candidates: int | None = None
    collapsed: int | None = None


class Leg(AbstractContextManager["Leg"], Protocol):
    """One request to the database, until the end of its answer."""

    @property
    def traceparent(self) -> str | None:
        """The traceparent to send; None: leave the client's."""

    def __enter__(self) -> Self:
        """The request is sent now."""

    def answered(self, status: int) -> None:
        """The head of an HTTP answer arrived."""

    def ended(self, code: int) -> None:
        """A gRPC call ended with this code."""

    def cut(self) -> None:
        """The answer began and was incomplete."""


class Trace(Protocol):
    """One client's request."""

    @property
    def trace_id(self) -> str | None:
        """32 hexadecimal digits if the request is recorded, else None."""

    def classified(self, operation: str) -> None:
        """The request is a ranked search."""

    def leg(self, kind: AttemptKind, method: str, origin: Origin | None) -> Leg:
        """A request to the database, not entered yet. ``origin``: None for the settings' upstream."""

    def staged(self, marks: Iterable[Mark]) -> None:
        """Add the stages of the work."""

    def end(self, finish: Finish) -> None:
        """The client has its answer. Legs of a shadow measurement may follow."""


class Tracing(Protocol):
    def begin(self, parents: Sequence[str]) -> Trace:
        """Start the trace of a request with these traceparent fields."""

    async def close(self) -> None:
        """Send what is queued, for a bounded time."""


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
"""A request to the database that is not recorded."""

UNTRACED: Trace = _Untraced()
"""A request that is not recorded."""


class NoTracing:
    """Disabled tracing."""

    def begin(self, _parents: Sequence[str]) -> Trace:
        return UNTRACED

    async def close(self) -> None:
        """Nothing is queued."""


NO_TRACING: Tracing = NoTracing()
"""For a process without tracing."""

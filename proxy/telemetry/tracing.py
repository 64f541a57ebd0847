"""The tracing interface of the planes, and the stopwatch of stages.

    begin ─► Trace ─► leg ─► Leg, one per request to the database ── its traceparent goes out with it
                  ─► ended, with the leg
                  ─► staged, the parts of the work between
                  ─► end, once

An implementation never raises and never waits; it gets no other data of a request. A request that is not recorded has no trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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


@dataclass(slots=True)
class Stopwatch:
    """When each stage of a search began and ended. ``started``: by the clock. A stage is one append to ``marks``: a search has ten of them."""

    clock: Clock
    started: float
    marks: list[Mark] = field(default_factory=list)


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


@dataclass(slots=True)
class Leg:
    """One request to the database, until the end of its answer. ``traceparent``: to send; None: leave the client's. ``status``: of an HTTP
    answer whose head arrived; ``code``: of a gRPC call that ended. ``is_cut``: the answer began and was incomplete.
    """

    traceparent: str | None = None
    status: int | None = None
    code: int | None = None
    is_cut: bool = False


class Trace(Protocol):
    """One client's request that is recorded. ``trace_id``: 32 hexadecimal digits. ``operation``: of a ranked search."""

    trace_id: str
    operation: str | None

    def leg(self, kind: AttemptKind, method: str, origin: Origin | None) -> Leg:
        """A request to the database that begins now. ``origin``: None for the settings' upstream."""

    def ended(self, leg: Leg) -> None:
        """The request to the database has ended."""

    def staged(self, marks: Sequence[Mark]) -> None:
        """Add the stages of the work."""

    def end(self, finish: Finish) -> None:
        """The client has its answer. Legs of a shadow measurement may follow."""


class Tracing(Protocol):
    def begin(self, parents: Sequence[str]) -> Trace | None:
        """Start the trace of a request with these traceparent fields; None if it is not recorded."""

    async def close(self) -> None:
        """Send what is queued, for a bounded time."""

"""What the planes tell of a request so that it can be traced, and the way of a process that traces nothing.

    begin ─► Trace ─► leg ─► Leg, one per request to the database ── its traceparent goes out with it
                  ─► staged, the parts of the work between
                  ─► end, once

Whoever implements this never raises, never waits, and learns nothing of a request but what stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self

from vecsieve.proxy.labels import AttemptKind, FailOpen, OperationName, Outcome
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.stopwatch import Mark


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

    def classified(self, operation: OperationName) -> None:
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

    def classified(self, operation: OperationName) -> None:
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

"""Tracing that is on: which requests are recorded, and the spans they leave.

A request whose traceparent says that its trace is recorded is; one that says it is not, is not; one without is by chance,
at the settings' ratio. What is not recorded is not touched: its headers go on byte for byte. So does a traceparent that
is not well formed; the span of such a request begins a trace of its own, which the database does not hear of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Protocol, Self

from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.grpc.status import Code
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen, Outcome, Stage
from vecsieve.proxy.telemetry.tracing import SAMPLED, UNTRACED, Clock, Finish, Leg, Mark, Trace, parent_of, written

# The only thing that leaves a process as a trace: numbers, flags and members of closed sets.
#
# Rule of this file: no field holds text. Names and addresses are looked up behind it, in tables that the settings alone
# make, so whatever a request says, a path, a collection, a key, a query, an exception's message, cannot be exported.


class Kind(Enum):
    """What a span is about."""

    REQUEST = "request"  # a client's
    LEG = "leg"  # one of ours to the database
    STAGE = "stage"  # a part of the work between


class Method(StrEnum):
    """HTTP's methods, as OpenTelemetry closes the set (RFC 9110 and PATCH, RFC 5789)."""

    GET = "GET"
    HEAD = "HEAD"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"
    CONNECT = "CONNECT"
    OPTIONS = "OPTIONS"
    TRACE = "TRACE"
    PATCH = "PATCH"
    OTHER = "_OTHER"

    @classmethod
    def of(cls, name: str) -> Method:
        """The member called ``name``; OTHER for every name that is not in the set."""
        return _METHODS.get(name, cls.OTHER)


_METHODS: Mapping[str, Method] = {member.value: member for member in Method}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span. ``host``: the place of the address among those the settings name; None for every other."""

    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int | None
    flags: int
    started_ns: int
    ended_ns: int
    is_failed: bool = False
    method: Method | None = None
    operation: str | None = None
    attempt: AttemptKind | None = None
    stage: Stage | None = None
    status: int | None = None
    code: Code | None = None
    host: int | None = None
    is_tls: bool | None = None
    outcome: Outcome | None = None
    fail_open: FailOpen | None = None
    candidates: int | None = None
    collapsed: int | None = None


def known_status(status: int | None) -> int | None:
    """A status of three digits; None for what is none."""
    return status if status is not None and 100 <= status <= 999 else None


def known_code(code: int | None) -> Code | None:
    """A status of gRPC; numbers it does not know are UNKNOWN, as its clients take them."""
    if code is None:
        return None
    return Code(code) if 0 <= code <= Code.UNAUTHENTICATED else Code.UNKNOWN


# A server's codes that are its own failures; the others are its client's (OpenTelemetry's conventions for gRPC).
_SERVER_FAILURES = frozenset(
    {Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED, Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS}
)


class Exporting(Protocol):
    """Where spans go."""

    def emit(self, span: Span) -> None:
        """Take a span that ended; at once, and without fail."""
        ...

    async def close(self) -> None:
        """Hand over what is held, for a bounded time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Records. ``ratio``: of requests without a parent. ``origins``: those that the settings name; of no other an address is told.

    ``clock``: monotonic seconds, the one that stages are timed by; ``wall``: nanoseconds since the epoch.
    """

    exporting: Exporting
    ratio: float
    origins: tuple[Origin, ...]
    clock: Clock
    wall: Callable[[], int]
    chance: random.Random

    def begin(self, parents: Sequence[str]) -> Trace:
        """Record the request, or leave it alone."""
        parent = parent_of(parents) if parents else None
        if parent is not None:
            ids = _Ids(parent.trace_id, self._id(64), parent.span_id, parent.flags)
            return _Recorded(self, ids, is_told=True) if parent.is_sampled else UNTRACED
        if self.chance.random() >= self.ratio:
            return UNTRACED
        return _Recorded(self, _Ids(self._id(128), self._id(64), None, SAMPLED), is_told=not parents)

    def below(self, ids: _Ids) -> _Ids:
        """Ids for a child of a span."""
        return _Ids(ids.trace_id, self._id(64), ids.span_id, ids.flags)

    async def close(self) -> None:
        """Hand over what is held, for a bounded time."""
        await self.exporting.close()

    def _id(self, bits: int) -> int:
        return self.chance.getrandbits(bits) or 1  # W3C forbids 0


@dataclass(frozen=True, slots=True)
class _Ids:
    """Where a span stands in its trace."""

    trace_id: int
    span_id: int
    parent_id: int | None
    flags: int


class _Recorded:
    """One recorded request. ``is_told``: whether the database hears of it. ``at``: nanoseconds since the epoch at a time of the clock."""

    __slots__ = ("_at", "_ns", "_recording", "ids", "is_told", "operation", "trace_id")

    def __init__(self, recording: Recording, ids: _Ids, *, is_told: bool) -> None:
        self._recording = recording
        self._at, self._ns = recording.clock(), recording.wall()
        self.ids = ids
        self.is_told = is_told
        self.operation: str | None = None
        self.trace_id = f"{ids.trace_id:032x}"

    def at(self, seconds: float) -> int:
        return self._ns + int((seconds - self._at) * 1e9)

    def classified(self, operation: str) -> None:
        self.operation = operation

    def leg(self, kind: AttemptKind, method: str, origin: Origin | None) -> Leg:
        return _RecordedLeg(self._recording, self, kind, Method.of(method), origin)

    def staged(self, marks: Iterable[Mark]) -> None:
        for stage, started, ended in marks:
            if stage is Stage.UPSTREAM:
                continue  # its legs say it better
            ids = self._recording.below(self.ids)
            self._recording.exporting.emit(
                Span(
                    kind=Kind.STAGE,
                    trace_id=ids.trace_id,
                    span_id=ids.span_id,
                    parent_id=ids.parent_id,
                    flags=ids.flags,
                    started_ns=self.at(started),
                    ended_ns=self.at(ended),
                    stage=stage,
                )
            )

    def end(self, finish: Finish) -> None:
        status, code = known_status(finish.status), known_code(finish.code)
        is_unanswered = finish.status is None and finish.code is None
        self._recording.exporting.emit(
            Span(
                kind=Kind.REQUEST,
                trace_id=self.ids.trace_id,
                span_id=self.ids.span_id,
                parent_id=self.ids.parent_id,
                flags=self.ids.flags,
                started_ns=self._ns,
                ended_ns=self.at(self._recording.clock()),
                is_failed=is_unanswered or (status or 0) >= 500 or code in _SERVER_FAILURES,
                method=Method.of(finish.method),
                operation=self.operation,
                status=status,
                code=code,
                outcome=finish.outcome,
                fail_open=finish.fail_open,
                candidates=finish.candidates,
                collapsed=finish.collapsed,
            )
        )


class _RecordedLeg:
    """One request to the database. Failed unless an answer came that is none of an error."""

    __slots__ = (
        "_code",
        "_ids",
        "_is_cut",
        "_kind",
        "_method",
        "_origin",
        "_recording",
        "_started",
        "_status",
        "_trace",
    )

    def __init__(
        self, recording: Recording, trace: _Recorded, kind: AttemptKind, method: Method, origin: Origin | None
    ) -> None:
        self._recording, self._trace = recording, trace
        self._kind, self._method = kind, method
        self._origin = recording.origins[0] if origin is None else origin
        self._ids = recording.below(trace.ids)
        self._started = 0.0
        self._status: int | None = None
        self._code: int | None = None
        self._is_cut = False

    @property
    def traceparent(self) -> str | None:
        ids = self._ids
        return written(ids.trace_id, ids.span_id, ids.flags) if self._trace.is_told else None

    def answered(self, status: int) -> None:
        self._status = status

    def ended(self, code: int) -> None:
        self._code = code

    def cut(self) -> None:
        self._is_cut = True

    def __enter__(self) -> Self:
        self._started = self._recording.clock()
        return self

    def __exit__(self, *_failure: object) -> None:
        status, code = known_status(self._status), known_code(self._code)
        is_fine = (status is not None and status < 400) or code is Code.OK
        origins = self._recording.origins
        self._recording.exporting.emit(
            Span(
                kind=Kind.LEG,
                trace_id=self._ids.trace_id,
                span_id=self._ids.span_id,
                parent_id=self._ids.parent_id,
                flags=self._ids.flags,
                started_ns=self._trace.at(self._started),
                ended_ns=self._trace.at(self._recording.clock()),
                is_failed=self._is_cut or not is_fine,
                method=self._method,
                operation=self._trace.operation,
                attempt=self._kind,
                status=status,
                code=code,
                host=origins.index(self._origin) if self._origin in origins else None,
                is_tls=self._origin.scheme == "https",
            )
        )

"""Tracing enabled: which requests are recorded, and their spans.

The sampled flag of a request's traceparent decides; without a traceparent the settings' ratio does. The headers of an unrecorded request
are forwarded byte for byte. So is a malformed traceparent; the span of such a request starts its own trace, and the database gets no
traceparent of it.

No field of a span holds text: spans are numbers, flags and members of closed sets. Names and addresses are looked up in tables made from
the settings. So no path, collection, key, query or exception message can be exported.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Protocol

from ..runtime.addresses import Origin
from .labels import AttemptKind, FailOpen, Outcome, Stage
from .tracing import SAMPLED, Clock, Finish, Leg, Mark, Trace, parent_of, written

MOST_MARKS = 64  # a batch of a hundred searches enters four hundred stages


class Code(IntEnum):
    """Status codes of gRPC (google/rpc/code.proto). Other numbers count as UNKNOWN."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Kind(Enum):
    """The kind of a span."""

    REQUEST = "request"  # a request of a client
    LEG = "leg"  # a request to the database
    STAGE = "stage"  # a stage of a search


class Method(StrEnum):
    """HTTP methods, the closed set of OpenTelemetry (RFC 9110, and PATCH of RFC 5789)."""

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
        """OTHER for every name outside the set."""
        return _METHODS.get(name, cls.OTHER)


_METHODS: Mapping[str, Method] = {member.value: member for member in Method}


@dataclass(frozen=True, slots=True)
class Ids:
    """The position of a span in its trace."""

    trace_id: int
    span_id: int
    parent_id: int | None
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span. ``host``: the index of its address among those of the settings; None for every other."""

    kind: Kind
    ids: Ids
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
    """None for a number that is no status of three digits."""
    return status if status is not None and 100 <= status <= 999 else None


def known_code(code: int | None) -> Code | None:
    """UNKNOWN for numbers outside the set, as gRPC clients map them."""
    if code is None:
        return None
    return Code(code) if 0 <= code <= Code.UNAUTHENTICATED else Code.UNKNOWN


# Codes that are failures of the server; the others are failures of the client (OpenTelemetry's conventions for gRPC).
_SERVER_FAILURES = frozenset(
    {Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED, Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS}
)


class Exporting(Protocol):
    """Where spans go."""

    def emit(self, span: Span) -> None:
        """Take an ended span; never blocks, never raises."""

    async def close(self) -> None:
        """Send what is queued, for a bounded time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Records requests. ``ratio``: the sampled share of requests without a parent. ``origins``: those of the settings; other
    addresses are not exported.

    ``clock``: monotonic seconds, as for stages; ``wall``: nanoseconds since the epoch.
    """

    exporting: Exporting
    ratio: float
    origins: tuple[Origin, ...]
    clock: Clock
    wall: Callable[[], int]
    chance: random.Random

    def begin(self, parents: Sequence[str]) -> Trace | None:
        """Record the request if it is sampled."""
        parent = parent_of(parents) if parents else None
        if parent is not None:
            ids = Ids(parent.trace_id, self._id(64), parent.span_id, parent.flags)
            return _Recorded(self, ids, is_propagated=True) if parent.is_sampled else None
        if self.chance.random() >= self.ratio:
            return None
        return _Recorded(self, Ids(self._id(128), self._id(64), None, SAMPLED), is_propagated=not parents)

    def below(self, ids: Ids) -> Ids:
        """Ids for a child span."""
        return Ids(ids.trace_id, self._id(64), ids.span_id, ids.flags)

    async def close(self) -> None:
        """Send what is queued, for a bounded time."""
        await self.exporting.close()

    def _id(self, bits: int) -> int:
        return self.chance.getrandbits(bits) or 1  # W3C forbids 0


@dataclass(slots=True, kw_only=True)
class _RecordedLeg(Leg):
    """``started``: by the clock."""

    ids: Ids
    kind: AttemptKind
    method: Method
    origin: Origin
    started: float


class _Recorded:
    """One recorded request. ``is_propagated``: whether the database gets a traceparent. ``at``: a time of the clock in nanoseconds since the epoch."""

    __slots__ = ("_at", "_ns", "_recording", "ids", "is_propagated", "operation", "trace_id")

    def __init__(self, recording: Recording, ids: Ids, *, is_propagated: bool) -> None:
        self._recording = recording
        self._at, self._ns = recording.clock(), recording.wall()
        self.ids = ids
        self.is_propagated = is_propagated
        self.operation: str | None = None
        self.trace_id = f"{ids.trace_id:032x}"

    def at(self, seconds: float) -> int:
        return self._ns + int((seconds - self._at) * 1e9)

    def leg(self, kind: AttemptKind, method: str, origin: Origin | None) -> Leg:
        recording, ids = self._recording, self._recording.below(self.ids)
        return _RecordedLeg(
            written(ids.trace_id, ids.span_id, ids.flags) if self.is_propagated else None,
            ids=ids,
            kind=kind,
            method=Method.of(method),
            origin=recording.origins[0] if origin is None else origin,
            started=recording.clock(),
        )

    def ended(self, leg: Leg) -> None:
        """It failed unless a whole success answered."""
        assert isinstance(leg, _RecordedLeg)  # noqa: S101 - `leg` has made it
        status, code = known_status(leg.status), known_code(leg.code)
        is_fine = (status is not None and status < 400) or code is Code.OK
        origins = self._recording.origins
        self._recording.exporting.emit(
            Span(
                kind=Kind.LEG,
                ids=leg.ids,
                started_ns=self.at(leg.started),
                ended_ns=self.at(self._recording.clock()),
                is_failed=leg.is_cut or not is_fine,
                method=leg.method,
                operation=self.operation,
                attempt=leg.kind,
                status=status,
                code=code,
                host=origins.index(leg.origin) if leg.origin in origins else None,
                is_tls=leg.origin.scheme == "https",
            )
        )

    def staged(self, marks: Sequence[Mark]) -> None:
        for stage, started, ended in marks[:MOST_MARKS]:
            if stage is Stage.UPSTREAM:
                continue  # its legs are spans already
            self._recording.exporting.emit(
                Span(
                    kind=Kind.STAGE,
                    ids=self._recording.below(self.ids),
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
                ids=self.ids,
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

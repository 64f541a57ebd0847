"""Which requests are recorded, and their spans; and the stopwatch of stages.

    begin ─► Trace ─► leg ─► Leg, one per request to the database ── its traceparent goes out with it
                  ─► ended, with the leg
                  ─► staged, the parts of the work between
                  ─► end, once

The sampled flag of a request's traceparent decides; without a traceparent the settings' ratio does. The headers of an unrecorded request
are forwarded byte for byte. So is a malformed traceparent; the span of such a request starts its own trace, and the database gets no
traceparent of it. Nothing here raises or waits. A request that is not recorded has no trace.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..runtime.addresses import Origin
from .labels import AttemptKind, FailOpen, Outcome, Stage
from .spans import (
    OTHER_METHOD,
    SERVER_FAILURES,
    Code,
    Exporting,
    Ids,
    Kind,
    Span,
    known_code,
    known_method,
    known_status,
)

# W3C's traceparent. The header is forwarded untouched unless this process records a span between client and database. Exemplars take ids of sampled traces only, so that each leads to a recorded trace.

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


@dataclass(slots=True)
class Leg:
    """One request to the database, until the end of its answer. ``traceparent``: to send; None: leave the client's. ``status``: of an HTTP
    answer whose head arrived; ``code``: of a gRPC call that ended. ``is_cut``: the answer began and was incomplete.
    """

    traceparent: str | None = None
    status: int | None = None
    code: int | None = None
    is_cut: bool = False


MOST_MARKS = 64  # a batch of a hundred searches enters four hundred stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """Records requests. ``ratio``: the sampled share of requests without a parent. ``origins``: those of the settings, the upstream first; the hosts of
    others are not exported: they may contain the name of an index.

    ``clock``: monotonic seconds, as for stages; ``wall``: nanoseconds since the epoch.
    """

    exporting: Exporting
    ratio: float
    backend: str
    origins: tuple[Origin, ...]
    clock: Clock
    wall: Callable[[], int]
    chance: random.Random

    def begin(self, parents: Sequence[str]) -> Trace | None:
        """Record the request if it is sampled."""
        parent = parent_of(parents) if parents else None
        if parent is not None:
            ids = Ids(parent.trace_id, self._id(64), parent.span_id, parent.flags)
            return Trace(self, ids, is_propagated=True) if parent.is_sampled else None
        if self.chance.random() >= self.ratio:
            return None
        return Trace(self, Ids(self._id(128), self._id(64), None, SAMPLED), is_propagated=not parents)

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
    method: str
    origin: Origin
    started: float


class Trace:
    """One recorded request. ``trace_id``: 32 hexadecimal digits. ``operation``: of a ranked search. ``is_propagated``: whether the database gets a
    traceparent. ``at``: a time of the clock in nanoseconds since the epoch.
    """

    __slots__ = ("_at", "_ns", "_tracing", "ids", "is_propagated", "operation", "trace_id")

    def __init__(self, tracing: Tracing, ids: Ids, *, is_propagated: bool) -> None:
        self._tracing = tracing
        self._at, self._ns = tracing.clock(), tracing.wall()
        self.ids = ids
        self.is_propagated = is_propagated
        self.operation: str | None = None
        self.trace_id = f"{ids.trace_id:032x}"

    def at(self, seconds: float) -> int:
        return self._ns + int((seconds - self._at) * 1e9)

    def leg(self, kind: AttemptKind, method: str, origin: Origin | None) -> Leg:
        """A request to the database that begins now. ``origin``: None for the settings' upstream."""
        tracing, ids = self._tracing, self._tracing.below(self.ids)
        return _RecordedLeg(
            written(ids.trace_id, ids.span_id, ids.flags) if self.is_propagated else None,
            ids=ids,
            kind=kind,
            method=known_method(method),
            origin=tracing.origins[0] if origin is None else origin,
            started=tracing.clock(),
        )

    def ended(self, leg: Leg) -> None:
        """The request to the database has ended. It failed unless a whole success answered."""
        assert isinstance(leg, _RecordedLeg)  # noqa: S101 - `leg` has made it
        status, code = known_status(leg.status), known_code(leg.code)
        is_fine = (status is not None and status < 400) or code is Code.OK
        tracing, origin = self._tracing, leg.origin
        tracing.exporting.emit(
            Span(
                kind=Kind.LEG,
                name=_name(leg.method, leg.kind),
                ids=leg.ids,
                started_ns=self.at(leg.started),
                ended_ns=self.at(tracing.clock()),
                is_failed=leg.is_cut or not is_fine,
                attributes=_attributes(
                    leg.method,
                    status,
                    code,
                    {
                        "server.address": origin.host if origin in tracing.origins else None,
                        "url.scheme": "https" if origin.scheme == "https" else "http",
                        "db.system.name": tracing.backend,
                        "db.operation.name": self.operation,
                    },
                ),
            )
        )

    def staged(self, marks: Sequence[Mark]) -> None:
        """Add the stages of the work."""
        for stage, started, ended in marks[:MOST_MARKS]:
            if stage is Stage.UPSTREAM:
                continue  # its legs are spans already
            self._tracing.exporting.emit(
                Span(
                    kind=Kind.STAGE,
                    name=stage.value,
                    ids=self._tracing.below(self.ids),
                    started_ns=self.at(started),
                    ended_ns=self.at(ended),
                    attributes={},
                )
            )

    def end(
        self,
        *,
        method: str,
        outcome: Outcome,
        status: int | None = None,
        code: int | None = None,
        fail_open: FailOpen | None = None,
        candidates: int | None = None,
        collapsed: int | None = None,
    ) -> None:
        """The client has its answer. Legs of a shadow measurement may follow. ``status``: of HTTP; None over gRPC, or if the client got none.
        ``code``: of gRPC.
        """
        is_unanswered = status is None and code is None
        known, known_as, known_by = known_status(status), known_code(code), known_method(method)
        self._tracing.exporting.emit(
            Span(
                kind=Kind.REQUEST,
                name=_name(known_by, self.operation),
                ids=self.ids,
                started_ns=self._ns,
                ended_ns=self.at(self._tracing.clock()),
                is_failed=is_unanswered or (known or 0) >= 500 or known_as in SERVER_FAILURES,
                attributes=_attributes(
                    known_by,
                    known,
                    known_as,
                    {
                        "db.operation.name": self.operation,
                        "vecsieve.outcome": outcome.value,
                        "vecsieve.candidates": candidates,
                        "vecsieve.collapsed": collapsed,
                        "vecsieve.fail_open.reason": None if fail_open is None else fail_open.value,
                    },
                ),
            )
        )


def _name(method: str, about: str | None) -> str:
    """Of low cardinality, as the conventions demand."""
    known = "HTTP" if method == OTHER_METHOD else method
    return known if about is None else f"{known} {about}"


def _attributes(
    method: str, status: int | None, code: Code | None, others: Mapping[str, str | int | None]
) -> dict[str, str | int]:
    """Those that are known."""
    answer = {"http.response.status_code": status, "rpc.grpc.status_code": None if code is None else int(code)}
    values = {"http.request.method": method, **answer, **others}
    return {name: value for name, value in values.items() if value is not None}

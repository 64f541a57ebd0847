"""The values of a span.

Its name and the texts of its attributes are members of closed sets, operations of the backend's row, or addresses of the settings (tracing.py). So no
path, collection, key, query or exception message can be exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Protocol


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


# HTTP methods, the closed set of OpenTelemetry (RFC 9110, and PATCH of RFC 5789).
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
OTHER_METHOD = "_OTHER"


@dataclass(frozen=True, slots=True)
class Ids:
    """The position of a span in its trace."""

    trace_id: int
    span_id: int
    parent_id: int | None
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span. ``attributes``: named by OpenTelemetry's conventions."""

    kind: Kind
    name: str
    ids: Ids
    started_ns: int
    ended_ns: int
    is_failed: bool = False
    attributes: Mapping[str, str | int]


def known_method(name: str) -> str:
    return name if name in METHODS else OTHER_METHOD


def known_status(status: int | None) -> int | None:
    """None for a number that is no status of three digits."""
    return status if status is not None and 100 <= status <= 999 else None


def known_code(code: int | None) -> Code | None:
    """UNKNOWN for numbers outside the set, as gRPC clients map them."""
    if code is None:
        return None
    return Code(code) if 0 <= code <= Code.UNAUTHENTICATED else Code.UNKNOWN


# Codes that are failures of the server; the others are failures of the client (OpenTelemetry's conventions for gRPC).
SERVER_FAILURES = frozenset(
    {Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED, Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS}
)


class Exporting(Protocol):
    """Where spans go."""

    def emit(self, span: Span) -> None:
        """Take an ended span; never blocks, never raises."""

    async def close(self) -> None:
        """Send what is queued, for a bounded time."""

"""The only thing that leaves a process as a trace: numbers, flags and members of closed sets.

Rule of this file: no field holds text. Names and addresses are looked up behind it, in tables that the settings alone
make, so whatever a request says, a path, a collection, a key, a query, an exception's message, cannot be exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from vecsieve.proxy.grpc.codes import Code
from vecsieve.proxy.labels import AttemptKind, FailOpen, OperationName, Outcome, Stage


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
    operation: OperationName | None = None
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

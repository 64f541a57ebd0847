"""The status codes of gRPC, and the HTTP status that says the same, for counting (google/rpc/code.proto)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class Code(IntEnum):
    """How a call ended. A server may send other numbers; they count as UNKNOWN."""

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


_HTTP: Mapping[int, int] = MappingProxyType(
    {
        Code.OK: 200,
        Code.CANCELLED: 499,
        Code.UNKNOWN: 500,
        Code.INVALID_ARGUMENT: 400,
        Code.DEADLINE_EXCEEDED: 504,
        Code.NOT_FOUND: 404,
        Code.ALREADY_EXISTS: 409,
        Code.PERMISSION_DENIED: 403,
        Code.RESOURCE_EXHAUSTED: 429,
        Code.FAILED_PRECONDITION: 400,
        Code.ABORTED: 409,
        Code.OUT_OF_RANGE: 400,
        Code.UNIMPLEMENTED: 501,
        Code.INTERNAL: 500,
        Code.UNAVAILABLE: 503,
        Code.DATA_LOSS: 500,
        Code.UNAUTHENTICATED: 401,
    }
)


def http_status(code: int) -> int:
    """The HTTP status of a code."""
    return _HTTP.get(code, 500)

"""What refusals for want of quota have in common: a status over HTTP, a code over gRPC."""

from __future__ import annotations

TOO_MANY_REQUESTS = 429
RESOURCE_EXHAUSTED = 8

# What the libraries of gRPC call exhausted where a message is too long for one of its ends (grpc-go and the C core;
# grpc-java): nobody's quota, and the client's own search may well fit.
_OVERSIZED = (b"larger than max", b"exceeds maximum size")


def is_too_many(status: int) -> bool:
    """Whether an HTTP status says so."""
    return status == TOO_MANY_REQUESTS


def is_exhausted(code: int, details: bytes) -> bool:
    """Whether a gRPC status says so."""
    return code == RESOURCE_EXHAUSTED and not is_oversized(code, details)


def is_oversized(code: int, details: bytes) -> bool:
    """Whether a gRPC status says that a message is too long."""
    return code == RESOURCE_EXHAUSTED and any(words in details for words in _OVERSIZED)

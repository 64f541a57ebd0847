"""Metadata of calls: which keys are forwarded. Keys keep their number of values and their order.

gRPC's core consumes `grpc-trace-bin` and `grpc-tags-bin`, so these cannot be forwarded. It also delivers values that it
refuses to send (anything but printable ASCII under a key without `-bin`): a request with one is refused, because its
meaning cannot be guessed; a reply loses the value and not the answer, which may be that of a write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vecsieve.proxy.search.policy import is_override
from vecsieve.proxy.telemetry.tracing import NAME as TRACE_PARENT

Pairs = tuple[tuple[str, str | bytes], ...]

# HTTP/2's and gRPC's keys of one connection, encoding or deadline: each hop sets its own. `user-agent` is
# the channel's, and `host` what an HTTP/1.1 client would have sent for the authority, which is the upstream's own.
HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "grpc-accept-encoding",
        "grpc-encoding",
        "grpc-internal-encoding-request",
        "grpc-message",
        "grpc-previous-rpc-attempts",
        "grpc-status",
        "grpc-timeout",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
_UNSENDABLE = re.compile(r"[^\x20-\x7e]")


def for_upstream(metadata: Iterable[tuple[str, str | bytes]]) -> Pairs:
    """A client's metadata as sent upstream; see `is_sendable`."""
    return tuple([pair for pair in metadata if pair[0] not in HOP_BY_HOP and not is_override(pair[0])])


def for_client(metadata: Iterable[tuple[str, str | bytes]]) -> Pairs:
    """Upstream's metadata, initial or trailing, as sent to the client."""
    return tuple([(key, value) for key, value in metadata if key not in HOP_BY_HOP and _is_sendable(value)])


def trace_parents(metadata: Iterable[tuple[str, str | bytes]]) -> list[str]:
    return [str(value) for key, value in metadata if key == TRACE_PARENT]


def traced(metadata: Pairs, traceparent: str | None) -> Pairs:
    """The metadata with this traceparent in place of the client's; unchanged for None."""
    if traceparent is None:
        return metadata
    if not any(key == TRACE_PARENT for key, _ in metadata):
        return (*metadata, (TRACE_PARENT, traceparent))
    return tuple((key, traceparent if key == TRACE_PARENT else value) for key, value in metadata)


def is_sendable(metadata: Pairs) -> bool:
    """Whether every value can be forwarded byte for byte."""
    return all(_is_sendable(value) for _, value in metadata)


def _is_sendable(value: str | bytes) -> bool:
    return isinstance(value, bytes) or _UNSENDABLE.search(value) is None

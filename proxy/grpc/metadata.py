"""Metadata of calls: what passes, what stays on one hop, in the number its values came in and each key's in their order.

gRPC's core reads `grpc-trace-bin` and `grpc-tags-bin` itself and shows them to nobody, so these two cannot pass. It also
brings values that it refuses to send (anything but printable ASCII under a key without `-bin`): a request with one is
refused, because what it means cannot be guessed; a reply loses the value and not the answer, which may be that of a write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vecsieve.proxy.search.policy import is_override
from vecsieve.proxy.telemetry.tracing import NAME as TRACE_PARENT
from vecsieve.proxy.telemetry.tracing import sampled_trace_id

Pairs = tuple[tuple[str, str | bytes], ...]

# What HTTP/2 and gRPC say about one connection, one encoding or one deadline: each hop says it for itself. `user-agent` is
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
    """A client's metadata as the database gets it; see `is_sendable`."""
    return tuple([pair for pair in metadata if pair[0] not in HOP_BY_HOP and not is_override(pair[0])])


def for_client(metadata: Iterable[tuple[str, str | bytes]]) -> Pairs:
    """The database's metadata, initial or trailing, as the client gets it."""
    return tuple([(key, value) for key, value in metadata if key not in HOP_BY_HOP and _is_sendable(value)])


def trace_parents(metadata: Iterable[tuple[str, str | bytes]]) -> list[str]:
    """Every traceparent of a call."""
    return [str(value) for key, value in metadata if key == TRACE_PARENT]


def traced(metadata: Pairs, traceparent: str | None) -> Pairs:
    """The metadata with this traceparent in the place of the client's, or last; untouched without one to set."""
    if traceparent is None:
        return metadata
    if not any(key == TRACE_PARENT for key, _ in metadata):
        return (*metadata, (TRACE_PARENT, traceparent))
    return tuple((key, traceparent if key == TRACE_PARENT else value) for key, value in metadata)


def trace_id(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """The recorded trace that a call belongs to, None where it belongs to none."""
    return sampled_trace_id(trace_parents(metadata))


def is_sendable(metadata: Pairs) -> bool:
    """Whether every value can be passed on byte for byte."""
    return all(_is_sendable(value) for _, value in metadata)


def _is_sendable(value: str | bytes) -> bool:
    return isinstance(value, bytes) or _UNSENDABLE.search(value) is None

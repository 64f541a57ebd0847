"""How a call ended: an answer, or a failure and the source of its words. And which keys of metadata are forwarded.

Values and tables only. The database's words are forwarded unchanged. The core's own words are forwarded too, because a client would have
got them from its own core, unless they name addresses behind us.

Keys keep their number of values and their order. gRPC's core consumes `grpc-trace-bin` and `grpc-tags-bin`, so these cannot be forwarded.
It also delivers values that it refuses to send (anything but printable ASCII under a key without `-bin`). A request with such a value is
refused, because its meaning cannot be guessed; a reply loses the value and not the answer, which may be that of a write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import grpc

from vecsieve.adapters.contract import NativeAnswer

from ..search.errors import ORIGIN, WORDING, FailureKind, Trouble, trouble_of
from ..search.policy import is_override
from ..telemetry.labels import LocalError, Origin
from ..telemetry.metrics import Metrics
from ..telemetry.spans import Code
from ..telemetry.tracing import NAME as TRACE_PARENT

Pairs = tuple[tuple[str, str | bytes], ...]

# Keys of HTTP/2 and gRPC for one connection, encoding or deadline: each hop sets its own. `user-agent` is the channel's; `host` is what an
# HTTP/1.1 client would send as authority, and ours is the upstream's.
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


def traced(metadata: Pairs, traceparent: str) -> Pairs:
    """The metadata with this traceparent in place of the client's."""
    if not any(key == TRACE_PARENT for key, _ in metadata):
        return (*metadata, (TRACE_PARENT, traceparent))
    return tuple((key, traceparent if key == TRACE_PARENT else value) for key, value in metadata)


def is_sendable(metadata: Pairs) -> bool:
    """Whether every value can be forwarded byte for byte."""
    return all(_is_sendable(value) for _, value in metadata)


def _is_sendable(value: str | bytes) -> bool:
    return isinstance(value, bytes) or _UNSENDABLE.search(value) is None


STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
UNSENDABLE_WORDS = "A metadata value is not printable ASCII text, which cannot be passed on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended: one message and status 0, or another status. ``initial``, ``trailing``: metadata for the client.

    ``kind``: how the exchange failed, as far as the words show; None if the status is the database's own. ``is_local``: the message or the words are ours.
    """

    message: bytes = b""
    code: int = Code.OK
    details: str = ""
    initial: Pairs = ()
    trailing: Pairs = ()
    kind: FailureKind | None = None
    is_local: bool = False

    @property
    def body_bytes(self) -> int:
        return len(self.message)

    @property
    def is_success(self) -> bool:
        return self.code == Code.OK

    @property
    def status_code(self) -> grpc.StatusCode:
        return STATUS_CODES[self.code]


# The words of the core (grpcio 1.66 to 1.85) if no peer has answered; first match wins. Since 1.8x only the words tell a status of the core
# from one that came over the wire.
_WORDS: tuple[tuple[grpc.StatusCode, str, FailureKind], ...] = (
    (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", FailureKind.CONNECT),
    (grpc.StatusCode.UNAVAILABLE, "errors resolving ", FailureKind.DNS),
    (grpc.StatusCode.UNAVAILABLE, "DNS resolution failed", FailureKind.DNS),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", FailureKind.TIMEOUT),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Stream removed (Deadline Exceeded)", FailureKind.TIMEOUT),
    (grpc.StatusCode.UNAVAILABLE, "Stream removed", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "Socket closed", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "Connection reset by peer", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "Cancelling all calls", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "GOAWAY received", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "recvmsg:", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "sendmsg:", FailureKind.RESET),
)
_HANDSHAKE = ("handshake", "certificate", "verification")


def failure_of(error: grpc.aio.AioRpcError, *, is_connected: bool) -> Outcome:
    """``is_connected``: whether there is a connection, so that the words are a peer's."""
    details = error.details() or ""
    kind = _kind_of(error.code(), details)
    if kind in {FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS}:
        if not is_connected:
            return unreachable(kind)
        kind = None
    code: int = error.code().value[0]
    initial, trailing = for_client(error.initial_metadata() or ()), for_client(error.trailing_metadata() or ())
    return Outcome(code=code, details=details, initial=initial, trailing=trailing, kind=kind)


def unreachable(kind: FailureKind) -> Outcome:
    """No connection, in our own words: the core's name the addresses that were tried."""
    return local_failure(Code.UNAVAILABLE, WORDING[trouble_of(kind)][1], kind)


def local_failure(code: int, words: str, kind: FailureKind | None = None) -> Outcome:
    return Outcome(code=code, details=words, trailing=(ORIGIN,), kind=kind, is_local=True)


# Status 0 without a message, which no client accepts as an answer.
NO_MESSAGE = local_failure(Code.INTERNAL, WORDING[trouble_of(FailureKind.PROTOCOL)][1], FailureKind.PROTOCOL)
# The request's metadata cannot be forwarded unchanged.
UNSENDABLE = local_failure(Code.INVALID_ARGUMENT, UNSENDABLE_WORDS)
OVERLOADED = local_failure(Code.UNAVAILABLE, WORDING[Trouble.OVERLOADED][1])


def local_answer(native: NativeAnswer | None) -> Outcome:
    """An answer of ours: its status is a code, its body the message, or the details of a failure."""
    if native is None:
        return NO_MESSAGE
    if native.status != Code.OK:
        return local_failure(native.status, native.body.decode(errors="replace"))
    return Outcome(message=native.body, trailing=(ORIGIN,), is_local=True)


def _kind_of(code: grpc.StatusCode, details: str) -> FailureKind | None:
    kind = next((kind for of, words, kind in _WORDS if of is code and details.startswith(words)), None)
    if kind is FailureKind.CONNECT and any(word in details.lower() for word in _HANDSHAKE):
        return FailureKind.TLS
    return kind


# The equivalent HTTP statuses, for counting.
HTTP_STATUSES: Mapping[int, int] = MappingProxyType(
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


def upstream_failed(metrics: Metrics, outcome: Outcome) -> None:
    """Count a failed exchange with the database; a status of the database's own is none."""
    if outcome.kind is not None:
        metrics.upstream_errors_total.labels(outcome.kind).inc()


def answered_locally(metrics: Metrics, outcome: Outcome) -> None:
    """Count a failure that the client gets and that is not the database's own status."""
    if outcome.kind is not None:
        metrics.local_errors_total.labels(LocalError.NO_UPSTREAM).inc()
    elif outcome.is_local and not outcome.is_success:
        metrics.local_errors_total.labels(LocalError.BAD_REQUEST).inc()


def speaker(outcome: Outcome | None) -> Origin:
    """Who ended the call: a broken connection counts as ours, whatever words the core has for it."""
    is_ours = outcome is not None and (outcome.is_local or outcome.kind is not None)
    return Origin.PROXY if is_ours else Origin.UPSTREAM

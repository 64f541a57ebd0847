"""The exceptions of the data plane, by who is at fault, and the answers that VecSieve makes of them.

    Exception
     ├─ UpstreamExchangeError     no reply of the database, or not to the end; .kind
     ├─ UpstreamReplyError        a reply that selection cannot use
     │   ├─ LostReplyError        it did not arrive, or may not be held; .reason
     │   ├─ RefusedReplyError     the database refused the widened request; .status
     │   ├─ PassedReplyError      the client gets it as it is
     │   ├─ RejectedReplyError    the widened request gave nothing to select from; .reason
     │   ├─ LookupFailedError     the second request gave no vectors; .outcome
     │   └─ MalformedReplyError   its bytes cannot be read (adapters/contract.py)
     │       └─ DeclinedError     a refusal that the transport calls a success
     └─ ClientBodyError           the client's request body; .fault

None carries text for a client or a log: a library's message may hold a URL or a header value.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from vecsieve.adapters.contract import UpstreamReplyError

from ..telemetry.labels import FailOpen, VectorFetchOutcome


class FailureKind(StrEnum):
    """How an exchange with the database failed. A closed set: each member is a metric label."""

    CONNECT = "connect"  # no connection, refused or timed out: nothing was sent
    DNS = "dns"
    TLS = "tls"
    TIMEOUT = "timeout"  # connected, then silent, stalled, or past the deadline
    RESET = "reset"  # closed or reset before a complete reply head
    TRUNCATED = "truncated"  # closed, reset or misframed within the reply's body
    PROTOCOL = "protocol"  # bytes that are no valid HTTP reply


class UpstreamExchangeError(Exception):
    """``cause``: a sentence for our own log."""

    def __init__(self, kind: FailureKind, cause: str = "") -> None:
        super().__init__(kind.value)
        self.kind = kind
        self.cause = cause


_CAUSES: dict[FailureKind, str] = {
    FailureKind.CONNECT: "no connection",
    FailureKind.DNS: "the name is unknown (DNS)",
    FailureKind.TLS: "the TLS handshake failed, or the certificate is not trusted",
    FailureKind.RESET: "connection closed",
    FailureKind.TRUNCATED: "the answer ended early",
    FailureKind.PROTOCOL: "the answer is not valid HTTP. Is it the port for REST, and is its URL https://…?",
}


# By OpenSSL's codes of verification (x509_vfy.h).
_UNTRUSTED = "its certificate is of no trusted authority; upstream.ca_file names others"
_OF_CERTIFICATES = {
    **dict.fromkeys((18, 19, 20, 21), _UNTRUSTED),
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}
# What a server without TLS causes, by OpenSSL's version.
_PLAINTEXT = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})


def words_of_tls(error: ssl.SSLError) -> str:
    """What went wrong in a handshake, in fixed words: a library's own may hold a name."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _OF_CERTIFICATES.get(error.verify_code, "its certificate is not trusted")
    reason = error.reason or ""
    if reason in _PLAINTEXT:
        return "it answers without TLS: is its URL http://…?"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason):
        return "it refused the handshake: does it require a client's certificate (upstream.client_certificate)?"
    return "the TLS handshake failed"


def cause_of(kind: FailureKind, place: str, *, number: int | None = None, words: str = "") -> str:
    """A sentence on a failed exchange. ``place``: the database's address. ``number``: the system's error number, if known. ``words``: the
    cause, where it is known better.

    The system's words for the number are used, never a library's message, which may hold a header.
    """
    if not words:
        words = os.strerror(number).lower() if number is not None and number > 0 else _CAUSES.get(kind, "")
    match trouble_of(kind):
        case Trouble.NO_UPSTREAM:
            return f"VecSieve cannot reach the database at {place}: {words}"
        case Trouble.UPSTREAM_TIMEOUT:
            return f"the database at {place} did not answer in time"
        case _:
            return f"the database at {place} broke off its answer: {words}"


class LostReplyError(UpstreamReplyError):
    """A widened request got no readable reply. ``received_bytes``: how much of it was dropped."""

    def __init__(self, reason: FailOpen, *, received_bytes: int = 0) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.received_bytes = received_bytes


class RefusedReplyError(UpstreamReplyError):
    """Upstream answered a widened request with an error.

    ``status``, ``words``: as the dialect reads them. ``is_server_error``: upstream's own failure. ``may_be_size``: the error can be caused
    by too many candidates.
    """

    def __init__(self, status: int, words: bytes, *, is_server_error: bool, may_be_size: bool) -> None:
        super().__init__(status)
        self.status = status
        self.words = words
        self.is_server_error = is_server_error
        self.may_be_size = may_be_size


class PassedReplyError(UpstreamReplyError):
    """Upstream's answer to the widened request is passed to the client unchanged."""


class RejectedReplyError(UpstreamReplyError):
    """The reply to the widened request has nothing to select from."""

    def __init__(self, reason: FailOpen) -> None:
        super().__init__(reason.value)
        self.reason = reason


class LookupFailedError(UpstreamReplyError):
    def __init__(self, outcome: VectorFetchOutcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class ClientFault(StrEnum):
    """How the client's side failed. A closed set: each member is a metric label."""

    GONE = "gone"
    TOO_SLOW = "too_slow"
    MALFORMED = "malformed"


class ClientBodyError(Exception):
    def __init__(self, fault: ClientFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


T = TypeVar("T")


async def first_success(
    attempts: Sequence[Callable[[], Awaitable[T]]], failed: Callable[[Exception], None]
) -> T | None:
    """Return the result of the first attempt that does not raise; None when all raise. ``failed``: called with each exception.

    The request fence: parsing hostile bytes can raise RecursionError or MemoryError as well as ValueError. Cancellation passes through. No
    attempt may have sent a byte to the client, because the next one answers the same request.
    """
    for attempt in attempts:
        try:
            return await attempt()
        except Exception as error:  # noqa: BLE001 - the fence: whatever broke in our part, a lower attempt answers
            failed(error)
    return None


class Trouble(StrEnum):
    """Why the proxy answers itself. A closed set: each member is a metric label."""

    MALFORMED = "malformed"
    HEAD_TOO_LARGE = "head_too_large"
    HEAD_TIMEOUT = "head_timeout"
    BODY_TIMEOUT = "body_timeout"
    TARGET = "target"
    CONNECT_METHOD = "connect_method"
    VERSION = "version"
    TRANSFER_CODING = "transfer_coding"
    TWO_FRAMINGS = "two_framings"
    OLD_CHUNKED = "old_chunked"
    HEADER_BYTES = "header_bytes"
    NO_INDEX = "no_index"
    HOST_REFUSED = "host_refused"
    WRONG_PATH = "wrong_path"
    INFLATES = "inflates"
    OVERLOADED = "overloaded"
    NO_UPSTREAM = "no_upstream"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_BROKE = "upstream_broke"
    INTERNAL = "internal"


WORDING: dict[Trouble, tuple[int, str]] = {
    Trouble.MALFORMED: (400, "The request is not valid HTTP/1.1"),
    Trouble.HEAD_TOO_LARGE: (431, "The request head is too large"),
    Trouble.HEAD_TIMEOUT: (408, "The request head did not arrive in time"),
    Trouble.BODY_TIMEOUT: (408, "The request body stopped arriving"),
    Trouble.TARGET: (400, "The request target must be a path"),
    Trouble.CONNECT_METHOD: (405, "CONNECT is not supported"),
    Trouble.VERSION: (505, "Only HTTP/1.0 and HTTP/1.1 are supported"),
    Trouble.TRANSFER_CODING: (501, "No transfer coding other than chunked is supported"),
    Trouble.TWO_FRAMINGS: (400, "The request has both Content-Length and Transfer-Encoding"),
    Trouble.OLD_CHUNKED: (400, "HTTP/1.0 has no chunked bodies"),
    Trouble.HEADER_BYTES: (400, "A header field is not UTF-8 text"),
    Trouble.NO_INDEX: (
        404,
        "No index is set for this path: give --index-host, or use the host describe_index returns here",
    ),
    Trouble.HOST_REFUSED: (
        403,
        "This host may not be reached from here: see pinecone.allowed_hosts; https, port 443 only",
    ),
    Trouble.WRONG_PATH: (404, "No path begins like this: an index is at /_i/<its host>, or at / with --index-host"),
    Trouble.INFLATES: (413, "The decompressed message is too large"),
    Trouble.OVERLOADED: (503, "Too many requests are in flight"),
    Trouble.NO_UPSTREAM: (502, "The database cannot be reached"),
    Trouble.UPSTREAM_TIMEOUT: (504, "The database did not answer in time"),
    Trouble.UPSTREAM_BROKE: (502, "The database broke off its answer"),
    Trouble.INTERNAL: (500, "The proxy failed"),
}
ORIGIN = ("x-vecsieve-origin", "proxy")


def trouble_of(cause: FailureKind | ClientFault) -> Trouble:
    match cause:
        case FailureKind.CONNECT | FailureKind.DNS | FailureKind.TLS:
            return Trouble.NO_UPSTREAM
        case FailureKind.TIMEOUT:
            return Trouble.UPSTREAM_TIMEOUT
        case FailureKind.RESET | FailureKind.TRUNCATED | FailureKind.PROTOCOL:
            return Trouble.UPSTREAM_BROKE
        case ClientFault.TOO_SLOW:
            return Trouble.BODY_TIMEOUT
        case ClientFault.MALFORMED | ClientFault.GONE:
            return Trouble.MALFORMED

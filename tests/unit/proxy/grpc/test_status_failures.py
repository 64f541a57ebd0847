from __future__ import annotations

import grpc
import pytest

from vecsieve.proxy.grpc.status import NO_MESSAGE, UNSENDABLE, Outcome, failure_of, unreachable
from vecsieve.proxy.search.errors import FailureKind

ORIGIN = (("x-vecsieve-origin", "proxy"),)
ADDRESSES = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:6334: "
LOCAL = {
    ADDRESSES + "Failed to connect to remote host: Connection refused": FailureKind.CONNECT,
    ADDRESSES + "connection attempt timed out before receiving SETTINGS frame": FailureKind.CONNECT,
    ADDRESSES
    + "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED": FailureKind.TLS,
    ADDRESSES
    + "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed.": FailureKind.TLS,
    ADDRESSES + "Handshake read failed (Socket closed)": FailureKind.TLS,
    "errors resolving db.internal:6334: [field:hostname lookup error:address lookup failed]": FailureKind.DNS,
    "DNS resolution failed for db.internal:6334: C-ares status is not ARES_SUCCESS": FailureKind.DNS,
}
BROKEN = {
    (grpc.StatusCode.UNAVAILABLE, "Socket closed"): FailureKind.RESET,
    (grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)"): FailureKind.RESET,
    (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer"): FailureKind.RESET,
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"): FailureKind.TIMEOUT,
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Stream removed (Deadline Exceeded)"): FailureKind.TIMEOUT,
    (grpc.StatusCode.DEADLINE_EXCEEDED, "the search took too long"): None,
    (grpc.StatusCode.UNAVAILABLE, "try again"): None,
    (grpc.StatusCode.INVALID_ARGUMENT, "Socket closed"): None,
    (grpc.StatusCode.NOT_FOUND, ""): None,
}


def error(code: grpc.StatusCode, details: str | None) -> grpc.aio.AioRpcError:
    initial, trailing = grpc.aio.Metadata(("i", "1"), ("te", "x")), grpc.aio.Metadata(("t", "1"), ("t-bin", b"\0"))
    return grpc.aio.AioRpcError(code, initial, trailing, details)


@pytest.mark.parametrize(("details", "kind"), LOCAL.items())
def test_no_connection_is_told_in_our_words_without_addresses(details: str, kind: FailureKind) -> None:
    failure = failure_of(error(grpc.StatusCode.UNAVAILABLE, details), is_connected=False)
    assert failure == unreachable(kind)
    assert (failure.code, failure.details, failure.trailing) == (14, "The database cannot be reached", ORIGIN)
    assert failure.is_local


@pytest.mark.parametrize("details", LOCAL)
def test_the_same_words_over_a_connection_that_stands_are_the_databases(details: str) -> None:
    failure = failure_of(error(grpc.StatusCode.UNAVAILABLE, details), is_connected=True)
    assert (failure.details, failure.kind, failure.is_local) == (details, None, False)


@pytest.mark.parametrize("is_connected", [False, True])
@pytest.mark.parametrize(("code", "details"), BROKEN)
def test_everything_else_passes_as_it_came(code: grpc.StatusCode, details: str, *, is_connected: bool) -> None:
    failure = failure_of(error(code, details), is_connected=is_connected)
    assert failure.kind is BROKEN[code, details]
    assert (failure.status_code, failure.details) == (code, details)
    assert (failure.initial, failure.trailing) == ((("i", "1"),), (("t", "1"), ("t-bin", b"\0")))
    assert not failure.is_local


@pytest.mark.parametrize(
    ("failure", "code", "kind"),
    [
        (NO_MESSAGE, grpc.StatusCode.INTERNAL, FailureKind.PROTOCOL),
        (UNSENDABLE, grpc.StatusCode.INVALID_ARGUMENT, None),
    ],
)
def test_our_own_answers_say_whose_they_are(failure: Outcome, code: grpc.StatusCode, kind: FailureKind | None) -> None:
    assert (failure.status_code, failure.kind, failure.trailing, failure.is_local) == (code, kind, ORIGIN, True)
    assert failure.details


def test_success_and_size_are_read_alike_from_answers_and_failures() -> None:
    assert (Outcome(message=b"12").is_success, Outcome(message=b"12").body_bytes) == (True, 2)
    assert (NO_MESSAGE.is_success, NO_MESSAGE.body_bytes) == (False, 0)

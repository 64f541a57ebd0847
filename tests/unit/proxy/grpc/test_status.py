from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.deploy.expositions import value
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.proxy.grpc.status import (
    HOP_BY_HOP,
    HTTP_STATUSES,
    NO_MESSAGE,
    UNSENDABLE,
    Outcome,
    Pairs,
    answered_locally,
    failure_of,
    for_client,
    for_upstream,
    is_sendable,
    local_answer,
    local_failure,
    speaker,
    trace_parents,
    traced,
    unreachable,
    upstream_failed,
)
from vecsieve.proxy.search.errors import FailureKind
from vecsieve.proxy.telemetry.labels import LocalError, Origin, UpstreamError
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.spans import Code
from vecsieve.proxy.telemetry.tracing import sampled_trace_id


def test_the_codes_are_those_of_the_library() -> None:
    assert {code.name: code.value for code in Code} == {code.name: code.value[0] for code in grpc.StatusCode}


# google/rpc/code.proto, "HTTP Mapping" of each.
@pytest.mark.parametrize(
    ("code", "status"),
    [(0, 200), (1, 499), (3, 400), (4, 504), (5, 404), (7, 403), (8, 429), (12, 501), (13, 500), (14, 503), (16, 401)],
)
def test_each_counts_as_the_status_that_says_the_same(code: int, status: int) -> None:
    assert HTTP_STATUSES[code] == status


REFUSED = Outcome(code=Code.NOT_FOUND, details="no collection")
BROKEN = Outcome(code=Code.UNAVAILABLE, details="Socket closed", kind=FailureKind.RESET)


def counts(registry: CollectorRegistry, name: str, kinds: type[LocalError | UpstreamError]) -> dict[str, float]:
    counted = {kind.value: value(registry, name, backend="qdrant", kind=kind.value) for kind in kinds}
    return {kind: count for kind, count in counted.items() if count}


@pytest.mark.parametrize(
    ("failure", "kinds"),
    [
        (REFUSED, {}),
        (BROKEN, {"reset": 1}),
        (NO_MESSAGE, {"protocol": 1}),
        (UNSENDABLE, {}),
        (local_failure(Code.INTERNAL, "ours"), {}),
        *((unreachable(kind), {kind.value: 1}) for kind in (FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS)),
    ],
)
def test_what_broke_on_the_way_is_an_error_of_upstreams(failure: Outcome, kinds: dict[str, float]) -> None:
    upstream_failed(Metrics(registry := CollectorRegistry(), backend="qdrant"), failure)
    assert counts(registry, "upstream_errors_total", UpstreamError) == kinds
    assert counts(registry, "local_errors_total", LocalError) == {}


@pytest.mark.parametrize(
    ("failure", "kinds"),
    [
        (REFUSED, {}),
        (BROKEN, {"no_upstream": 1}),
        (NO_MESSAGE, {"no_upstream": 1}),
        (unreachable(FailureKind.CONNECT), {"no_upstream": 1}),
        (UNSENDABLE, {"bad_request": 1}),
    ],
)
def test_what_a_client_gets_instead_of_an_answer_is_an_error_of_ours(failure: Outcome, kinds: dict[str, float]) -> None:
    answered_locally(Metrics(registry := CollectorRegistry(), backend="qdrant"), failure)
    assert counts(registry, "local_errors_total", LocalError) == kinds


def test_every_way_to_fail_has_a_name_in_the_metrics() -> None:
    for kind in FailureKind:
        upstream_failed(
            Metrics(registry := CollectorRegistry(), backend="qdrant"),
            Outcome(code=Code.UNAVAILABLE, details="", kind=kind),
        )
        assert sum(counts(registry, "upstream_errors_total", UpstreamError).values()) == 1, kind


@pytest.mark.parametrize(
    ("outcome", "origin"),
    [
        (None, Origin.UPSTREAM),
        (Outcome(message=b"the database's"), Origin.UPSTREAM),
        (
            local_answer(NativeAnswer(status=Code.OK, content_type="", body=b"a write of which nothing is left")),
            Origin.PROXY,
        ),
        (REFUSED, Origin.UPSTREAM),
        (BROKEN, Origin.PROXY),
        (NO_MESSAGE, Origin.PROXY),
        (UNSENDABLE, Origin.PROXY),
    ],
)
def test_the_database_speaks_only_where_it_was_heard(outcome: Outcome | None, origin: Origin) -> None:
    assert speaker(outcome) is origin


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
BROKEN_CALL = {
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
@pytest.mark.parametrize(("code", "details"), BROKEN_CALL)
def test_everything_else_passes_as_it_came(code: grpc.StatusCode, details: str, *, is_connected: bool) -> None:
    failure = failure_of(error(code, details), is_connected=is_connected)
    assert failure.kind is BROKEN_CALL[code, details]
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


KEYS = st.sampled_from(["a", "b", "api-key", "te", "user-agent", "grpc-timeout", "host", "x-vecsieve-mode", "grpc-foo"])
TEXTS = st.sampled_from(["", "1", " a ", "a,b", "grüße", "a\tb", "\x7f", "~"])
PAIRS = st.lists(st.tuples(KEYS, TEXTS) | st.tuples(st.just("x-bin"), st.binary(max_size=4)), max_size=12)


@given(PAIRS)
def test_what_passes_keeps_its_order_and_its_values(pairs: list[tuple[str, str | bytes]]) -> None:
    """Either side's list is a subsequence of what came, and nothing in it belongs to the hop."""
    for passed in (for_upstream(pairs), for_client(pairs)):
        remaining = iter(pairs)
        assert all(pair in remaining for pair in passed)
        assert not {key for key, _ in passed} & HOP_BY_HOP


@given(PAIRS)
def test_upstream_gets_everything_else_but_our_own_keys(pairs: list[tuple[str, str | bytes]]) -> None:
    """Nothing is lost on the way up but the hop's keys and x-vecsieve-*: what cannot be sent is refused, not dropped."""
    expected = [
        pair for pair in pairs if pair[0] not in {"te", "user-agent", "grpc-timeout", "host", "x-vecsieve-mode"}
    ]
    assert list(for_upstream(pairs)) == expected


@given(PAIRS)
def test_a_client_is_never_given_what_cannot_be_sent(pairs: list[tuple[str, str | bytes]]) -> None:
    """All that passes down is sendable, and all that is sendable and not the hop's passes."""
    passed = for_client(pairs)
    assert is_sendable(passed)
    assert list(passed) == [pair for pair in pairs if pair[0] not in HOP_BY_HOP and is_sendable((pair,))]


@given(st.text(max_size=8))
def test_sendable_text_is_printable_ascii(value: str) -> None:
    """True exactly for characters from space to tilde; bytes of a -bin key always pass."""
    assert is_sendable((("a", value),)) is all(" " <= character <= "~" for character in value)
    assert is_sendable((("a-bin", value.encode()),))


@pytest.mark.parametrize("key", ["grpc-status-details-bin", "grpc-retry-pushback-ms", "date", "server", "retry-after"])
def test_what_the_database_says_of_the_call_passes(key: str) -> None:
    pairs: Pairs = ((key, b"1" if key.endswith("-bin") else "1"),)
    assert for_client(pairs) == pairs


def test_a_call_belongs_to_the_recorded_trace_it_names() -> None:
    parent = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    assert sampled_trace_id(trace_parents([("a", "1"), parent, ("x-bin", b"1")])) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert sampled_trace_id(trace_parents([parent, parent])) is None
    assert trace_parents([]) == []
    assert for_upstream([parent]) == (parent,), "it goes on untouched"


def test_our_own_keys_stay_here_whatever_their_case() -> None:
    assert for_upstream([("X-VecSieve-Mode", "off"), ("x-vecsieve-unknown", "1"), ("a", "1")]) == (("a", "1"),)


NEW = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(PAIRS, st.integers(0, 12))
def test_a_traceparent_is_replaced_where_it_stands_or_comes_last(
    pairs: list[tuple[str, str | bytes]], place: int
) -> None:
    """Every other pair stays as it is and where it is; without one to set, the very metadata."""
    before, after = tuple(pairs[:place]), tuple(pairs[place:])
    old = (*before, ("traceparent", "00-a-b-01"), *after)
    assert traced(old, NEW) == (*before, ("traceparent", NEW), *after)
    assert traced((*before, *after), NEW) == (*before, *after, ("traceparent", NEW))


def test_every_traceparent_of_a_call_is_found() -> None:
    assert trace_parents((("a", "1"), ("traceparent", "x"), ("b", "2"), ("traceparent", "y"))) == ["x", "y"]

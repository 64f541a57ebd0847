"""What is exported of a span is named by OpenTelemetry's conventions and takes its values from closed sets and the settings."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.backends import BACKENDS
from vecsieve.proxy.telemetry.labels import OTHER, AttemptKind, FailOpen, Outcome, Stage
from vecsieve.proxy.telemetry.otel import SpanWords
from vecsieve.proxy.telemetry.spans import Code, Ids, Kind, Method, Span

WORDS = SpanWords("qdrant", ("db.internal", "grpc.internal"))
OPERATIONS = (*BACKENDS["qdrant"].operations, OTHER)
REQUEST = Span(
    kind=Kind.REQUEST,
    ids=Ids(1, 2, 3, 1),
    started_ns=0,
    ended_ns=1,
    method=Method.POST,
    operation="query_batch",
    status=200,
    outcome=Outcome.FAIL_OPEN,
    fail_open=FailOpen.OVERFETCH_TIMEOUT,
    candidates=0,
    collapsed=0,
)
LEG = replace(
    REQUEST,
    kind=Kind.LEG,
    attempt=AttemptKind.REPLAY,
    host=0,
    is_tls=True,
    outcome=None,
    fail_open=None,
    candidates=None,
    collapsed=None,
)
NAMES = {
    "http.request.method",
    "http.response.status_code",
    "rpc.grpc.status_code",
    "server.address",
    "url.scheme",
    "db.system.name",
    "db.operation.name",
    "vecsieve.outcome",
    "vecsieve.candidates",
    "vecsieve.collapsed",
    "vecsieve.fail_open.reason",
}
SPANS = st.builds(
    Span,
    kind=st.sampled_from(Kind),
    ids=st.builds(
        Ids,
        trace_id=st.integers(1, 2**128 - 1),
        span_id=st.integers(1, 2**64 - 1),
        parent_id=st.none() | st.integers(1, 2**64 - 1),
        flags=st.integers(0, 3),
    ),
    started_ns=st.integers(0),
    ended_ns=st.integers(0),
    is_failed=st.booleans(),
    method=st.none() | st.sampled_from(Method),
    operation=st.none() | st.sampled_from(OPERATIONS),
    attempt=st.none() | st.sampled_from(AttemptKind),
    stage=st.none() | st.sampled_from(Stage),
    status=st.none() | st.integers(100, 999),
    code=st.none() | st.sampled_from(Code),
    host=st.sampled_from([None, 0, 1]),
    is_tls=st.none() | st.booleans(),
    outcome=st.none() | st.sampled_from(Outcome),
    fail_open=st.none() | st.sampled_from(FailOpen),
    candidates=st.none() | st.integers(0),
    collapsed=st.none() | st.integers(0),
)


def test_a_request_is_called_by_its_method_and_operation() -> None:
    assert WORDS.name(REQUEST) == "POST query_batch"
    assert WORDS.name(replace(REQUEST, operation=None)) == "POST"
    assert WORDS.name(replace(REQUEST, operation=None, method=Method.OTHER)) == "HTTP", "as the conventions say"


def test_a_leg_is_called_by_which_attempt_it_is_and_a_stage_by_its_name() -> None:
    assert WORDS.name(LEG) == "POST replay"
    assert WORDS.name(replace(REQUEST, kind=Kind.STAGE, stage=Stage.DECODE)) == "decode"
    assert WORDS.attributes(replace(REQUEST, kind=Kind.STAGE, stage=Stage.DECODE)) == {}


def test_a_request_says_what_became_of_it_and_zero_is_not_absent() -> None:
    assert WORDS.attributes(REQUEST) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "db.operation.name": "query_batch",
        "vecsieve.outcome": "fail_open",
        "vecsieve.candidates": 0,
        "vecsieve.collapsed": 0,
        "vecsieve.fail_open.reason": "overfetch_timeout",
    }


def test_a_leg_says_where_it_went_as_far_as_the_settings_name_it() -> None:
    said = WORDS.attributes(LEG)
    assert (said["server.address"], said["url.scheme"], said["db.system.name"]) == ("db.internal", "https", "qdrant")
    assert "server.address" not in WORDS.attributes(replace(LEG, host=None))
    assert WORDS.attributes(replace(LEG, status=None, code=Code.OK, host=1))["rpc.grpc.status_code"] == 0


@given(SPANS)
def test_every_word_of_any_span_is_known_beforehand(span: Span) -> None:
    """For any span: names of the list, and texts that stand in an enumeration, in the settings, or are a scheme or a backend."""
    known = set(OPERATIONS) | {
        member.value for kind in (Method, Outcome, FailOpen, AttemptKind, Stage) for member in kind
    }
    said = WORDS.attributes(span)
    assert said.keys() <= NAMES
    texts = {value for value in said.values() if isinstance(value, str)} | set(WORDS.name(span).split())
    assert texts <= known | {"db.internal", "grpc.internal", "http", "https", "qdrant", "HTTP"}

"""Which requests are recorded, what their spans say of parents and times, and what the database is told."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen, Outcome, Stage
from vecsieve.proxy.telemetry.spans import (
    METHODS,
    OTHER_METHOD,
    Code,
    Ids,
    Kind,
    Span,
    known_code,
    known_method,
    known_status,
)
from vecsieve.proxy.telemetry.tracing import MOST_MARKS, Leg, Trace, Tracing, parent_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
DATABASE, OTHER = Origin("http", "db:6333"), Origin("https", "index-of-a-tenant.example")
WALL_NS = 1_700_000_000_000_000_000
FINE: dict[str, Any] = {"method": "POST", "outcome": Outcome.DEDUP, "status": 200}


@dataclass
class Kept:
    """Spans in a list."""

    spans: list[Span] = field(default_factory=list)
    is_closed: bool = False

    def emit(self, span: Span) -> None:
        self.spans.append(span)

    async def close(self) -> None:
        self.is_closed = True


class Recorder:
    """A recording, its clock, and what it recorded."""

    def __init__(self, ratio: float = 1.0) -> None:
        self.clock, self.kept = ManualClock(50.0), Kept()
        self.recording = Tracing(
            exporting=self.kept,
            ratio=ratio,
            backend="qdrant",
            origins=(DATABASE,),
            clock=self.clock,
            wall=lambda: WALL_NS,
            chance=random.Random(7),
        )

    def begin(self, *parents: str) -> Trace:
        trace = self.recording.begin(parents)
        assert trace is not None
        return trace


@contextmanager
def leg_of(trace: Trace, kind: AttemptKind, method: str, origin: Origin | None) -> Iterator[Leg]:
    """A request to the database, as the planes send it."""
    leg = trace.leg(kind, method, origin)
    try:
        yield leg
    finally:
        trace.ended(leg)


def test_a_request_of_a_recorded_trace_is_recorded_below_its_parent() -> None:
    recorder = Recorder(ratio=0.0)
    trace = recorder.begin(SAMPLED)
    assert trace.trace_id == TRACE
    trace.end(**FINE)
    (span,) = recorder.kept.spans
    assert (f"{span.ids.trace_id:032x}", f"{span.ids.parent_id:016x}", span.ids.flags) == (TRACE, PARENT, 1)


def test_a_request_of_a_trace_that_nobody_records_is_left_alone_whatever_the_ratio() -> None:
    assert Recorder(ratio=1.0).recording.begin([UNSAMPLED]) is None


@pytest.mark.parametrize(("ratio", "least", "most"), [(0.0, 0, 0), (0.25, 400, 600), (1.0, 2000, 2000)])
def test_of_requests_without_a_parent_the_ratio_is_recorded(ratio: float, least: int, most: int) -> None:
    recorder = Recorder(ratio)
    traces = [recorder.recording.begin([]) for _ in range(2000)]
    recorded = [trace for trace in traces if trace is not None]
    assert least <= len(recorded) <= most
    assert len({trace.trace_id for trace in recorded}) == len(recorded)


@pytest.mark.parametrize("parents", [["x"], [SAMPLED, SAMPLED], [SAMPLED.upper()], [""], [f"ff-{TRACE}-{PARENT}-01"]])
def test_a_broken_traceparent_is_no_parent_and_stays_as_it_is(parents: list[str]) -> None:
    recorder = Recorder()
    trace = recorder.begin(*parents)
    with leg_of(trace, AttemptKind.ORIGINAL, "GET", None) as leg:
        assert leg.traceparent is None, "the database gets what the client sent"
    trace.end(**FINE)
    assert trace.trace_id != TRACE
    (request,) = [span for span in recorder.kept.spans if span.kind is Kind.REQUEST]
    assert request.ids.parent_id is None
    assert Recorder(ratio=0.0).recording.begin(parents) is None


def test_the_database_is_told_of_the_leg_and_not_of_the_request() -> None:
    recorder = Recorder()
    trace = recorder.begin(SAMPLED)
    parents = []
    for kind in (AttemptKind.OVERFETCH, AttemptKind.REPLAY):
        with leg_of(trace, kind, "POST", None) as leg:
            parents.append(parent_of([leg.traceparent or ""]))
    trace.end(**FINE)
    *legs, request = recorder.kept.spans
    assert [span.name for span in legs] == ["POST overfetch", "POST replay"]
    assert [span.ids.parent_id for span in legs] == [request.ids.span_id] * 2
    assert [(parent.trace_id, parent.span_id) for parent in parents if parent] == [
        (span.ids.trace_id, span.ids.span_id) for span in legs
    ]
    assert len({span.ids.span_id for span in recorder.kept.spans}) == 3


@given(st.integers(0, 255))
def test_the_parents_flags_go_on_as_far_as_they_are_known(flags: int) -> None:
    """For any flags of a recorded trace: sampled and random go on, nothing else does."""
    trace = Recorder().begin(f"00-{TRACE}-{PARENT}-{flags | 1:02x}")
    with leg_of(trace, AttemptKind.ORIGINAL, "GET", None) as leg:
        assert leg.traceparent is not None
        assert leg.traceparent.endswith(f"-{(flags | 1) & 3:02x}")


def test_times_are_those_of_the_clock_from_one_look_at_the_wall() -> None:
    recorder = Recorder()
    trace = recorder.begin()
    recorder.clock.now += 1.0
    with leg_of(trace, AttemptKind.ORIGINAL, "GET", None):
        recorder.clock.now += 2.0
    trace.staged([(Stage.DECODE, 53.0, 53.5), (Stage.UPSTREAM, 51.0, 53.0)])
    recorder.clock.now += 1.0
    trace.end(**FINE)
    times = {
        span.kind: ((span.started_ns - WALL_NS) / 1e9, (span.ended_ns - WALL_NS) / 1e9) for span in recorder.kept.spans
    }
    assert times == {Kind.REQUEST: (0.0, 4.0), Kind.LEG: (1.0, 3.0), Kind.STAGE: (3.0, 3.5)}


def test_stages_are_children_of_the_request_and_waiting_is_none_of_them() -> None:
    recorder = Recorder()
    trace = recorder.begin()
    trace.staged([(stage, 51.0, 52.0) for stage in Stage])
    trace.end(**FINE)
    *stages, request = recorder.kept.spans
    assert [span.name for span in stages] == [stage for stage in Stage if stage is not Stage.UPSTREAM]
    assert not any(span.attributes for span in stages)
    assert {span.ids.parent_id for span in stages} == {request.ids.span_id}


def test_an_address_is_told_only_of_an_origin_that_the_settings_name() -> None:
    recorder = Recorder()
    trace = recorder.begin()
    for origin in (None, DATABASE, OTHER):
        with leg_of(trace, AttemptKind.ORIGINAL, "GET", origin):
            pass
    assert [(span.attributes.get("server.address"), span.attributes["url.scheme"]) for span in recorder.kept.spans] == [
        ("db", "http"),
        ("db", "http"),
        (None, "https"),
    ]


@pytest.mark.parametrize(
    ("status", "code", "is_cut", "failed"),
    [
        (200, None, False, False),
        (302, None, False, False),
        (404, None, False, True),
        (503, None, False, True),
        (200, None, True, True),
        (None, 0, False, False),
        (None, 5, False, True),
        (None, 99, False, True),
        (None, None, False, True),
    ],
)
def test_a_leg_fails_unless_it_was_answered_well_and_whole(
    status: int | None, code: int | None, is_cut: bool, failed: bool
) -> None:
    recorder = Recorder()
    with leg_of(recorder.begin(), AttemptKind.ORIGINAL, "GET", None) as leg:
        leg.status, leg.code, leg.is_cut = status, code, is_cut
    (span,) = recorder.kept.spans
    assert (span.is_failed, span.attributes.get("http.response.status_code")) == (failed, status)
    assert span.attributes.get("rpc.grpc.status_code") == (
        None if code is None else Code.UNKNOWN if code == 99 else code
    )


def test_a_leg_that_raises_is_recorded_and_the_error_goes_on() -> None:
    recorder = Recorder()
    with pytest.raises(ValueError, match="secret"), leg_of(recorder.begin(), AttemptKind.ORIGINAL, "GET", None):
        raise ValueError("secret")
    (span,) = recorder.kept.spans
    assert span.is_failed


@pytest.mark.parametrize(
    ("status", "code", "failed"),
    [
        (200, None, False),
        (404, None, False),
        (500, None, True),
        (None, 0, False),
        (None, 5, False),
        (None, 14, True),
        (None, None, True),
    ],
)
def test_a_request_fails_by_the_servers_fault_and_not_by_its_clients(
    status: int | None, code: int | None, failed: bool
) -> None:
    recorder = Recorder()
    recorder.begin().end(method="POST", outcome=Outcome.PASSTHROUGH, status=status, code=code)
    (span,) = recorder.kept.spans
    assert span.is_failed is failed


def test_a_request_says_what_selection_did() -> None:
    recorder = Recorder()
    trace = recorder.begin()
    trace.operation = "query"
    trace.end(
        method="BREW",
        outcome=Outcome.FAIL_OPEN,
        status=20000,
        fail_open=FailOpen.MEMORY,
        candidates=24,
        collapsed=0,
    )
    (span,) = recorder.kept.spans
    assert span.name == "HTTP query", "as the conventions say"
    assert span.attributes == {
        "http.request.method": OTHER_METHOD,
        "db.operation.name": "query",
        "vecsieve.outcome": "fail_open",
        "vecsieve.candidates": 24,
        "vecsieve.collapsed": 0,
        "vecsieve.fail_open.reason": "memory",
    }


def test_a_leg_says_where_it_went_and_which_attempt_it_is() -> None:
    recorder = Recorder()
    trace = recorder.begin()
    trace.operation = "query"
    with leg_of(trace, AttemptKind.REPLAY, "POST", None) as leg:
        leg.status = 200
    (span,) = recorder.kept.spans
    assert span.name == "POST replay"
    assert span.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "db",
        "url.scheme": "http",
        "db.system.name": "qdrant",
        "db.operation.name": "query",
    }


@given(st.text(), st.none() | st.integers(), st.none() | st.integers(), st.text())
def test_no_text_of_a_request_is_in_a_span(method: str, status: int | None, code: int | None, host: str) -> None:
    """For any method, status, code and address of an index: texts are of closed sets, of the settings, or a scheme."""
    recorder = Recorder()
    trace = recorder.begin()
    with leg_of(trace, AttemptKind.ORIGINAL, method, Origin("https", f"{host}.example")) as leg:
        leg.status, leg.code = status, code
    trace.end(method=method, outcome=Outcome.BYPASS, status=status, code=code)
    known = {*METHODS, OTHER_METHOD, "HTTP", "https", "qdrant", *AttemptKind, *Outcome}
    for span in recorder.kept.spans:
        assert {
            *span.name.split(),
            *(attribute for attribute in span.attributes.values() if isinstance(attribute, str)),
        } <= known


async def test_closing_hands_over() -> None:
    recorder = Recorder()
    await recorder.recording.close()
    assert recorder.kept.is_closed


SPAN = Span(kind=Kind.REQUEST, name="GET", ids=Ids(1, 2, None, 1), started_ns=3, ended_ns=4, attributes={})


def test_a_span_cannot_be_changed_or_given_more() -> None:
    with pytest.raises(FrozenInstanceError):
        SPAN.name = "/secret"  # type: ignore[misc]  # - the point of the test
    with pytest.raises((AttributeError, TypeError)):
        SPAN.path = "/secret"  # type: ignore[attr-defined]  # - the point of the test


@given(st.text() | st.sampled_from([*METHODS, "get", "PURGE"]))
def test_a_method_is_known_by_its_exact_name_or_is_other(name: str) -> None:
    """For any text: a member of the set, other unless it is spelt as RFC 9110 does."""
    assert known_method(name) == (name if name in METHODS else OTHER_METHOD)


@given(st.none() | st.integers())
def test_a_status_has_three_digits_or_is_none(status: int | None) -> None:
    """For any number: itself when it is a status, else None."""
    result = known_status(status)
    assert result is None or (result == status and len(str(result)) == 3)


@given(st.integers())
def test_a_code_is_one_of_grpcs_seventeen(code: int) -> None:
    """For any number: the code of that number, UNKNOWN where there is none."""
    assert known_code(code) == (code if 0 <= code <= 16 else Code.UNKNOWN)
    assert known_code(None) is None


def test_the_stages_of_one_request_are_bounded() -> None:
    recorder = Recorder()
    recorder.begin().staged([(Stage.DECODE, 51.0, 52.0)] * (2 * MOST_MARKS))
    assert len(recorder.kept.spans) == MOST_MARKS

"""The access log says what happened in closed sets and numbers, every trouble and a share of the rest."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.reports import FIGURES, REPORT
from support.process.lines import RememberedLines
from vecsieve.proxy.telemetry.labels import FailOpen, Origin, Outcome
from vecsieve.proxy.telemetry.log import Access, AccessLog, Ended

ACCESS = Access(
    request_id="0123456789abcdef",
    operation="query",
    backend="qdrant",
    outcome=Outcome.DEDUP,
    seconds=0.0114,
    ended=Ended(
        method="POST",
        origin=Origin.UPSTREAM,
        status=200,
        request_bytes=900,
        response_bytes=3000,
        is_relayed=False,
        is_loopback=True,
        is_reused=False,
    ),
    report=REPORT._replace(searches=1, top_k=8),
)


def changed(**fields: Any) -> Access:
    ended = {name: fields.pop(name) for name in Ended._fields if name in fields}
    return ACCESS._replace(ended=ACCESS.ended._replace(**ended), **fields)


def logged(*accesses: Access, share: float = 1.0) -> list[dict[str, object]]:
    sink = RememberedLines()
    log = AccessLog(sink, share=share, wall_clock=lambda: 1_700_000_000.25)
    for access in accesses:
        log.write(access)
    return sink.objects


def test_a_search_is_logged_with_its_figures() -> None:
    assert logged(ACCESS) == [
        {
            "ts": "2023-11-14T22:13:20.250Z",
            "level": "info",
            "msg": "access",
            "request_id": "0123456789abcdef",
            "method": "POST",
            "operation": "query",
            "backend": "qdrant",
            "status": 200,
            "origin": "upstream",
            "outcome": "dedup",
            "duration_ms": 11.4,
            "request_bytes": 900,
            "response_bytes": 3000,
            "peer_is_loopback": True,
            "connection_is_reused": False,
            "reason": None,
            "upstream_ms": 10.0,
            "added_ms": 1.4,
            "searches": 1,
            "top_k": 8,
            "candidates": 50,
            "collapsed": 12,
            "returned": 8,
        }
    ]


def test_a_request_that_is_no_search_has_no_figures() -> None:
    [line] = logged(changed(report=None, operation="other", outcome=Outcome.PASSTHROUGH))
    assert not {"candidates", "reason", "added_ms"} & set(line)


def test_what_nobody_knows_is_null() -> None:
    report = REPORT._replace(searches=None, top_k=None)
    [line] = logged(changed(is_loopback=None, is_reused=None, report=report))
    unknown = {name for name, value in line.items() if value is None}
    assert unknown == {"peer_is_loopback", "connection_is_reused", "searches", "top_k", "reason"}


def test_a_request_whose_client_has_gone_was_answered_by_nobody() -> None:
    [line] = logged(changed(status=None, report=None))
    assert (line["status"], line["origin"]) == (None, None)


@pytest.mark.parametrize(
    "trouble",
    [
        changed(status=None),
        changed(status=500),
        changed(status=503),
        changed(status=404, origin=Origin.PROXY),
        changed(outcome=Outcome.FAIL_OPEN, report=REPORT._replace(fail_open=FailOpen.MALFORMED)),
    ],
)
def test_every_trouble_is_logged_as_a_warning_though_no_success_is(trouble: Access) -> None:
    lines = logged(ACCESS, trouble, ACCESS, trouble, share=0.0)
    assert [line["level"] for line in lines] == ["warning", "warning"]


def test_a_success_of_the_proxys_own_is_a_success() -> None:
    """A feed that repeats itself has its copies left out, write by write."""
    success = changed(origin=Origin.PROXY)
    assert not logged(success, success, share=0.0)
    assert [line["level"] for line in logged(success, share=1.0)] == ["info"]


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 429, 499])
def test_what_the_database_refuses_is_logged_each_time_and_is_no_warning(status: int) -> None:
    lines = logged(ACCESS, changed(status=status), ACCESS, share=0.0)
    assert [(line["level"], line["status"]) for line in lines] == [("info", status)]


def test_the_reason_of_a_fail_open_is_in_the_line() -> None:
    report = REPORT._replace(outcome=Outcome.FAIL_OPEN, fail_open=FailOpen.MALFORMED)
    [line] = logged(changed(outcome=Outcome.FAIL_OPEN, report=report))
    assert line["reason"] == "malformed"


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.01, 10), (0.25, 250), (0.5, 500), (1.0, 1000)])
def test_the_share_of_successes_is_kept_exactly(share: float, expected: int) -> None:
    assert abs(len(logged(*[ACCESS] * 1000, share=share)) - expected) <= 1


@given(st.text(max_size=100))
def test_no_method_of_a_clients_invention_reaches_the_log(method: str) -> None:
    """Invariant: the method is one of eight words or _OTHER."""
    [line] = logged(changed(method=method))
    assert line["method"] in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "_OTHER"}


def test_no_line_can_grow_beyond_its_bound_by_what_a_request_is() -> None:
    most = 10**15
    figures = FIGURES._replace(candidates=most, collapsed=most, returned=most)
    report = REPORT._replace(
        figures=(figures,),
        searches=most,
        top_k=most,
        total_seconds=1e9,
        upstream_seconds=1e8,
        added_seconds=9e8,
        fail_open=FailOpen.NOT_FOUND_VECTOR,
    )
    longest = changed(
        seconds=1e9,
        request_bytes=most,
        response_bytes=most,
        operation="documents_search",
        report=report,
    )
    sink = RememberedLines()
    AccessLog(sink, share=1.0).write(longest)
    assert len(sink.lines[0]) <= 1024, "half of what a line may be"


@pytest.mark.parametrize(
    ("least", "count"), [(logging.DEBUG, 2), (logging.INFO, 2), (logging.WARNING, 1), (logging.ERROR, 0)]
)
def test_the_access_log_has_no_line_below_its_level(least: int, count: int) -> None:
    sink = RememberedLines()
    log = AccessLog(sink, share=1.0, least=least)
    log.write(ACCESS)
    log.write(changed(status=502, origin=Origin.PROXY))
    assert len(sink.objects) == count

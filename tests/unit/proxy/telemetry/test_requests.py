"""What a request came to is counted once, when it ends, whatever its transport."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from support.backends.toy_backend import ToyUpstream, ranking
from support.backends.toy_exchange import ToyExchange, policy, prepared, toys
from support.deploy.expositions import value
from support.jobs.reports import REPORT
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Operation, Reason
from vecsieve.proxy.search.pools.values import Selected
from vecsieve.proxy.search.report import figures
from vecsieve.proxy.telemetry.labels import (
    Bypass,
    FailOpen,
    Origin,
    Outcome,
    OverrideName,
    Shed,
)
from vecsieve.proxy.telemetry.log import Access, Ended
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Figures, Report
from vecsieve.proxy.telemetry.requests import RequestRecorder

SEARCH = Operation(backend="qdrant", name="query", collection="secret")
FINE = Ended(
    method="POST",
    status=200,
    origin=Origin.UPSTREAM,
    request_bytes=10,
    response_bytes=100,
    is_relayed=True,
    is_loopback=True,
    is_reused=True,
)


class Counting:
    """A tally, its clock, and what it wrote."""

    def __init__(self) -> None:
        self.registry, self.log, self.clock = CollectorRegistry(), list[Access](), ManualClock(10.0)
        self.recorder = RequestRecorder(Metrics(self.registry, backend="qdrant"), log=self.log.append, clock=self.clock)

    def count(self, name: str, **labels: str) -> float:
        return value(self.registry, name, **labels)

    def requests(self, operation: str, outcome: str) -> float:
        return self.count("requests_total", backend="qdrant", operation=operation, outcome=outcome)


@pytest.fixture
def counting() -> Counting:
    return Counting()


def test_a_request_is_in_flight_from_its_beginning_to_its_end(counting: Counting) -> None:
    record = counting.recorder.begin()
    assert counting.recorder.requests_in_flight == 1
    counting.clock.advance(0.25)
    counting.recorder.end(record, FINE)
    assert counting.recorder.requests_in_flight == 0
    (entry,) = counting.log
    assert (entry.seconds, entry.ended.status, entry.ended.is_loopback, entry.ended.is_reused) == (
        0.25,
        200,
        True,
        True,
    )
    assert (entry.ended.request_bytes, entry.ended.response_bytes) == (10, 100)


def test_a_request_of_a_recorded_trace_is_what_its_histograms_lead_to(counting: Counting) -> None:
    record = counting.recorder.begin(["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])
    record.reported(REPORT)
    counting.recorder.end(record, FINE)
    leading = [
        (sample.name, sample.exemplar.labels)
        for family in counting.registry.collect()
        for sample in family.samples
        if sample.exemplar is not None
    ]
    assert leading == [
        ("vecsieve_request_duration_seconds_bucket", {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}),
        ("vecsieve_added_latency_seconds_bucket", {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}),
    ]


def test_every_request_has_an_id_of_its_own_that_the_log_says(counting: Counting) -> None:
    records = [counting.recorder.begin() for _ in range(100)]
    for record in records:
        counting.recorder.end(record, FINE)
    ids = [entry.request_id for entry in counting.log]
    assert ids == [record.request_id for record in records]
    assert len(set(ids)) == 100
    assert all(re.fullmatch(r"[0-9a-f]{16}", identifier) for identifier in ids)


@pytest.mark.parametrize("is_relayed", [True, False])
def test_bytes_of_a_relayed_answer_came_from_upstream_and_others_are_counted_where_they_were_read(
    counting: Counting, is_relayed: bool
) -> None:
    counting.recorder.end(counting.recorder.begin(), FINE._replace(is_relayed=is_relayed))
    assert counting.count("upstream_response_bytes_total", backend="qdrant") == (100 if is_relayed else 0)
    assert counting.count("client_response_bytes_total", backend="qdrant") == 100


@pytest.mark.parametrize(
    ("status", "origin", "errors"),
    [(500, Origin.UPSTREAM, 1), (503, Origin.UPSTREAM, 1), (502, Origin.PROXY, 0), (404, Origin.UPSTREAM, 0), (None, Origin.UPSTREAM, 0)],
)  # fmt: skip
def test_a_server_error_is_upstreams_where_upstream_spoke(
    counting: Counting, status: int | None, origin: Origin, errors: int
) -> None:
    counting.recorder.end(counting.recorder.begin(), FINE._replace(status=status, origin=origin))
    assert counting.count("upstream_errors_total", backend="qdrant", kind="5xx") == errors
    assert (counting.log[0].ended.status, counting.log[0].ended.origin) == (status, origin)


@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize("reason", FailOpen)
def test_a_search_that_its_database_refuses_did_not_fall_back_unless_the_error_is_ours(
    counting: Counting, reason: FailOpen, is_sent: bool
) -> None:
    record, ended = counting.recorder.begin(), list[Report | None]()
    record.watch = lambda _status, _seconds, report: ended.append(report)
    record.classified(SEARCH)
    record.failed_open(reason)
    if is_sent:
        record.reported(REPORT._replace(outcome=Outcome.FAIL_OPEN, fail_open=reason, figures=()))
    record.is_refused = True
    counting.recorder.end(record, FINE._replace(status=404))
    is_ours = reason is FailOpen.INTERNAL
    assert counting.count("fail_open_total", backend="qdrant", reason=reason) == is_ours
    assert counting.count("bypass_total", backend="qdrant", reason="refused") == (not is_ours)
    (entry,) = counting.log
    assert entry.report is not None
    assert entry.report.reason == ("internal" if is_ours else "refused")
    assert ended == [entry.report]
    assert entry.is_trouble is is_ours


@pytest.mark.parametrize("reason", [*Bypass, Reason.ORDERING_CHOSEN])
def test_a_search_that_was_left_alone_counts_with_its_reason(counting: Counting, reason: Bypass | Reason) -> None:
    record = counting.recorder.begin()
    record.classified(SEARCH)
    record.bypassed(reason)
    counting.clock.advance(0.5)
    counting.recorder.end(record, FINE)
    assert counting.requests("query", "bypass") == 1
    assert counting.count("bypass_total", backend="qdrant", reason=reason.value) == 1
    report = counting.log[0].report
    assert report is not None
    assert (report.bypass, report.added_seconds) == (reason, 0.0)


@pytest.mark.parametrize("reason", FailOpen)
def test_a_search_that_failed_before_its_pool_counts_with_its_reason(counting: Counting, reason: FailOpen) -> None:
    record = counting.recorder.begin()
    record.classified(SEARCH)
    record.failed_open(reason)
    counting.recorder.end(record, FINE)
    assert counting.count("fail_open_total", backend="qdrant", reason=reason.value) == 1
    assert counting.requests("query", "fail_open") == 1


def test_a_shadowed_search_leaves_its_figures_to_the_measurement(counting: Counting) -> None:
    record = counting.recorder.begin()
    record.classified(SEARCH)
    record.shadowed()
    counting.recorder.end(record, FINE)
    assert counting.requests("query", "shadow") == 1
    assert counting.count("searches_total", backend="qdrant", outcome="shadow") == 0


def test_nothing_of_the_collection_is_logged(counting: Counting) -> None:
    record = counting.recorder.begin()
    record.classified(SEARCH)
    record.bypassed(Bypass.DISABLED)
    counting.recorder.end(record, FINE)
    assert "secret" not in repr(counting.log)


def test_what_was_shed_refused_or_overridden_counts_by_its_name(counting: Counting) -> None:
    record = counting.recorder.begin()
    record.shed(Shed.MEMORY)
    record.bad_request()
    record.overridden([OverrideName.LINKAGE, OverrideName.MODE])
    assert counting.count("requests_shed_total", reason="memory") == 1
    for kind in ("shed", "bad_request"):
        assert counting.count("local_errors_total", backend="qdrant", kind=kind) == 1
    for header in ("linkage", "mode"):
        assert counting.count("overrides_total", header=header) == 1
    assert record.outcome is Outcome.BYPASS


async def measured(families: list[int], **members: object) -> Selected:
    around = toys()
    exchange = ToyExchange(policy=policy(**members), upstream=ToyUpstream(ranking(families)))
    source = prepared(around, exchange)
    await around.service.measure(exchange, source)
    assert source.selected is not None
    return source.selected


def figures_of(selected: Selected, *, is_widened: bool = True) -> Figures:
    pools, (selection,) = selected.pools, selected.selections
    (search,), (pool,) = pools.call.searches, pools.reply.pools
    return figures(search, pool, selection, 24 if is_widened else None, policy=pools.policy)


async def test_a_page_without_copies_is_not_changed() -> None:
    row = figures_of(await measured(list(range(20))))
    assert (row.changed, row.proven, row.judged, row.arrived) == (False, 0, 0, 0)


async def test_a_copy_leaves_for_a_result_from_below() -> None:
    row = figures_of(await measured([0, 0, 1, 2, 3, 4, 5]))
    assert (row.changed, row.proven + row.judged, row.arrived) == (True, 1, 1)


async def test_on_a_short_page_copies_leave_for_nothing() -> None:
    row = figures_of(await measured([0] * 20, short="allow"))
    assert (row.changed, row.arrived) == (True, 0)
    assert row.proven + row.judged == row.short


async def test_the_same_results_in_another_order_are_a_change() -> None:
    selected = await measured(list(range(20)))
    (selection,) = selected.selections
    turned = replace(selected, selections=(replace(selection, keep=np.flip(selection.keep)),))
    row = figures_of(turned)
    assert (row.changed, row.proven, row.judged, row.arrived) == (True, 0, 0, 0)


async def test_a_search_that_was_sent_unchanged_is_not_changed() -> None:
    assert not figures_of(await measured([0, 0, 1, 2, 3, 4, 5]), is_widened=False).changed


def test_a_measurement_counts_its_figures_and_what_it_would_have_changed(counting: Counting) -> None:
    row = REPORT.figures[0]._replace(changed=True, proven=2, judged=1, saved_tokens=40)
    counting.recorder.measured(REPORT._replace(outcome=Outcome.SHADOW, figures=(row,)))
    assert counting.count("searches_total", backend="qdrant", outcome="shadow") == 1
    labels = {"backend": "qdrant", "outcome": "shadow"}
    assert counting.count("answers_changed_total", **labels) == 1
    assert counting.count("results_replaced_total", **labels, evidence="proven") == 2
    assert counting.count("results_replaced_total", **labels, evidence="judged") == 1
    assert counting.count("tokens_saved_total", **labels) == 40
    assert counting.count("answers_changed_total", backend="qdrant", outcome="dedup") == 0

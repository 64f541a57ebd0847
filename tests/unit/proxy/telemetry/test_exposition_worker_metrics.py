"""Workers' files: counters continue across restarts, gauges do not, and the number of files stays."""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry

from support.deploy.expositions import Exposed, exposed
from support.jobs.reports import REPORT
from vecsieve.proxy.telemetry.exposition import (
    WorkerFiles,
    exposition,
    forget_gauges,
    make_directory,
    remove_directory,
    shared_registry,
)
from vecsieve.proxy.telemetry.labels import BreakerState, Origin, Outcome, Stage
from vecsieve.proxy.telemetry.metrics import Metrics

TRACES = (None, None, None, None, "4bf92f3577b34da6a3ce929d0e0e4736")
REQUEST = {"backend": "qdrant", "operation": "query", "outcome": "dedup"}


def worker(directory: Path, place: int) -> Metrics:
    return Metrics(CollectorRegistry(), backend="qdrant", store=WorkerFiles(directory, place))


def work(directory: Path, place: int, settings: str = "aaaa") -> None:
    metrics = worker(directory, place)
    metrics.built(version="1", parser="c")
    metrics.in_flight.labels("requests").inc(2)
    metrics.candidates.observe(50)
    metrics.config_taken(settings, at=1000.0 + place)
    if place:
        metrics.config_refused()
        metrics.breaker_is(BreakerState.OPEN)
    metrics.process_resident_memory_bytes.set(1000 + place)
    for trace_id in TRACES:
        metrics.request_done(
            "query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=0.002, trace_id=trace_id
        )


def scrape(directory: Path) -> Exposed:
    return exposed(exposition(shared_registry(directory, backend="qdrant")))


def test_what_two_workers_count_adds_up(tmp_path: Path) -> None:
    work(tmp_path, 0)
    work(tmp_path, 1)
    samples = scrape(tmp_path)
    assert samples.value("vecsieve_requests_total", REQUEST) == 10
    assert samples.value("vecsieve_in_flight", {"kind": "requests"}) == 4
    assert samples.value("vecsieve_candidates_count", {"backend": "qdrant"}) == 2
    assert samples.value("vecsieve_candidates_sum", {"backend": "qdrant"}) == 100
    assert samples.value("vecsieve_process_resident_memory_bytes", {"worker": "w0"}) == 1000
    assert samples.value("vecsieve_process_resident_memory_bytes", {"worker": "w1"}) == 1001
    assert samples.value("vecsieve_config_last_reload_successful") == 0, "one worker has refused"
    assert samples.value("vecsieve_config_last_reload_timestamp_seconds") == 1001
    assert samples.value("vecsieve_breaker_state", {"state": "open"}) == 1
    assert samples.series <= 640
    assert "_created" not in samples.text


def test_every_series_of_one_process_is_there_with_several_too(tmp_path: Path) -> None:
    work(tmp_path, 0)
    samples = scrape(tmp_path)
    assert samples.value("vecsieve_fail_open_total", {"backend": "qdrant", "reason": "breaker"}) == 0
    assert samples.value("vecsieve_telemetry_dropped_total", {"kind": "log"}) == 0


def test_a_restarted_worker_continues_its_counters_and_not_its_gauges(tmp_path: Path) -> None:
    work(tmp_path, 0)
    files = sorted(file.name for file in tmp_path.iterdir())
    for restart in range(2, 4):
        forget_gauges(tmp_path, 0)
        work(tmp_path, 0)
        samples = scrape(tmp_path)
        assert samples.value("vecsieve_requests_total", REQUEST) == 5 * restart
        assert samples.value("vecsieve_in_flight", {"kind": "requests"}) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == files


def test_forgetting_one_workers_gauges_leaves_the_others_and_what_it_counted(tmp_path: Path) -> None:
    for place in (1, 11):
        work(tmp_path, place)
    forget_gauges(tmp_path, 1)
    forget_gauges(tmp_path, 7)
    samples = scrape(tmp_path)
    assert samples.value("vecsieve_requests_total", REQUEST) == 10
    assert samples.value("vecsieve_in_flight", {"kind": "requests"}) == 2
    assert samples.label_values("vecsieve_process_resident")["worker"] == {"w11"}
    assert samples.value("vecsieve_config_info", {"hash": "aaaa"}) == 1


def test_when_every_worker_has_ended_its_counts_are_left(tmp_path: Path) -> None:
    work(tmp_path, 0)
    forget_gauges(tmp_path, 0)
    samples = scrape(tmp_path)
    assert samples.value("vecsieve_requests_total", REQUEST) == 5
    assert samples.value("vecsieve_config_last_reload_successful") == 0
    assert samples.label_values("vecsieve_config_info") == {}


def test_what_a_killed_worker_counted_is_not_lost(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        worker(tmp_path, 0).stage_duration_seconds.labels(Stage.DECODE).observe(0.001)
        os._exit(9)  # nothing is flushed, closed or called
    os.waitpid(child, 0)
    assert scrape(tmp_path).value("vecsieve_stage_duration_seconds_count", {"stage": "decode"}) == 1


def test_a_scrape_of_one_worker_says_what_its_own_registry_says(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant", store=WorkerFiles(tmp_path, 0))
    metrics.request_done("query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=0.002)
    metrics.config_taken("aaaa", at=1000.0)
    assert exposition(shared_registry(tmp_path, backend="qdrant")) == _with_memory(exposition(registry))


def _with_memory(scrape: bytes) -> bytes:
    """Only with several workers is each one's memory shown."""
    before, kind, after = scrape.partition(b"# TYPE vecsieve_process_resident_memory_bytes gauge\n")
    assert kind
    return before + kind + b'vecsieve_process_resident_memory_bytes{worker="w0"} 0.0\n' + after


def test_rules_that_the_settings_name_are_counted_by_every_worker(tmp_path: Path) -> None:
    for place in range(2):
        files = WorkerFiles(tmp_path, place)
        metrics = Metrics(CollectorRegistry(), backend="qdrant", rules=("tickets",), store=files)
        metrics.search_done(REPORT._replace(rule="tickets"))
    samples = exposed(exposition(shared_registry(tmp_path, backend="qdrant", rules=("tickets",))))
    assert samples.value("vecsieve_rule_searches_total", {"rule": "tickets"}) == 2


def test_settings_that_two_workers_hold_differently_are_both_shown(tmp_path: Path) -> None:
    work(tmp_path, 0, "aaaa")
    work(tmp_path, 1, "bbbb")
    assert scrape(tmp_path).label_values("vecsieve_config_info")["hash"] == {"aaaa", "bbbb"}


def test_the_directory_is_new_private_and_goes_away_with_its_files() -> None:
    one, other = make_directory(), make_directory()
    assert one != other
    assert one.stat().st_mode & 0o777 == 0o700
    (one / "w0.numbers").touch()
    for directory in (one, other):
        remove_directory(directory)
        remove_directory(directory)
        assert not directory.exists()

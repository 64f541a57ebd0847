"""What a scrape contains beside the instruments, and how single samples are read back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.deploy.expositions import Exposed, exposed
from support.jobs.reports import REPORT
from vecsieve.proxy.admin.inspector import read_cost
from vecsieve.proxy.telemetry.exposition import (
    CONTENT_TYPE,
    OPEN_CONTENT_TYPE,
    Samples,
    WorkerFiles,
    forget_gauges,
    metrics_directory,
    process_registry,
    scrape,
    shared_registry,
)
from vecsieve.proxy.telemetry.labels import BreakerState, Origin, Outcome, Stage
from vecsieve.proxy.telemetry.metrics import Metrics


def test_a_process_that_serves_alone_shows_its_memory_and_its_collections() -> None:
    samples = exposed(generate_latest(process_registry()))
    assert samples.total("process_resident_memory_bytes") > 1_000_000
    assert samples.total("python_gc_collections_total") >= 0
    assert "python_gc_collections_total" in samples.text


def test_the_format_is_the_one_without_surprises() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# EOF" not in generate_latest(process_registry())


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    "accept", [PROMETHEUS_2, "Application/OpenMetrics-Text", "text/plain, application/openmetrics-text;q=0.1"]
)
def test_who_reads_open_metrics_gets_it(accept: str) -> None:
    scraped = scrape(process_registry(), accept)
    assert scraped.content_type == OPEN_CONTENT_TYPE == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert scraped.body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/plain;version=0.0.4", "application/openmetrics-text;q=0.00", ";;,,", "application/json"]
)
def test_everybody_else_gets_the_plain_text(accept: str) -> None:
    registry = process_registry()
    Metrics(registry, backend="qdrant")
    scraped = scrape(registry, accept)
    assert scraped.content_type == CONTENT_TYPE
    assert b"# EOF" not in scraped.body
    assert b"vecsieve_requests_total{" in scraped.body


def test_both_formats_say_the_same() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant")
    metrics.request_done("query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=0.02, trace_id=TRACE)
    metrics.config_taken("aaaa", at=1000.0)
    metrics.config_taken("bbbb", at=2000.0)

    def samples(families: Iterable[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    assert samples(opened_families(registry)) == samples(exposed(generate_latest(registry)).families)


def opened_families(registry: CollectorRegistry) -> Iterable[Metric]:
    families: Iterable[Metric] = text_string_to_metric_families(  # type: ignore[no-untyped-call]  # - half typed
        scrape(registry, PROMETHEUS_2).body.decode()
    )
    return families


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_bucket_leads_to_a_trace_in_open_metrics_alone() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant")
    metrics.request_done("query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=0.02, trace_id=TRACE)
    metrics.request_done("query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=7.0)
    metrics.search_done(REPORT, trace_id=TRACE)
    leading = [
        (sample.name, sample.exemplar.labels, sample.exemplar.value)
        for family in opened_families(registry)
        for sample in family.samples
        if sample.exemplar is not None
    ]
    assert leading == [
        ("vecsieve_request_duration_seconds_bucket", {"trace_id": TRACE}, 0.02),
        ("vecsieve_added_latency_seconds_bucket", {"trace_id": TRACE}, pytest.approx(REPORT.added_seconds)),
    ]
    assert TRACE.encode() not in generate_latest(registry)


def test_a_shared_registry_wants_its_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a directory"):
        shared_registry(tmp_path / "missing", backend="qdrant")
    assert generate_latest(shared_registry(tmp_path, backend="qdrant")) == b""


def test_a_file_that_a_starting_worker_has_not_filled_yet_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "w0.numbers").touch()
    assert generate_latest(shared_registry(tmp_path, backend="qdrant")) == b""


def test_samples_are_summed_by_a_label_and_over_all() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant")
    metrics.tokens_saved_total.labels("dedup").inc(3)
    metrics.tokens_saved_total.labels("shadow").inc(4)
    samples = Samples(registry)
    assert samples.by("tokens_saved_total", "outcome") == {"dedup": 3, "shadow": 4}
    assert (samples.total("tokens_saved_total"), samples.total("tokens_saved_total", but="shadow")) == (7, 3)
    assert (samples.total("no_such_total"), samples.quantile("no_such_seconds", 0.5)) == (0, None)


@pytest.mark.parametrize(
    ("observed", "share", "expected"),
    [
        ([], 0.5, None),
        ([0.0003, 0.0004], 0.5, 0.00025),  # in the first bucket, which begins at 0
        ([0.0008] * 4, 0.25, 0.000625),  # a quarter of the way from 0.0005 to 0.001
        ([0.0003, 0.0008, 100.0, 100.0], 0.99, 0.25),  # beyond the last bound: that bound
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(
    observed: list[float], share: float, expected: float | None
) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant")
    for seconds in observed:
        metrics.added_latency_seconds.labels("query").observe(seconds)
    assert Samples(registry).quantile("added_latency_seconds", share) == pytest.approx(expected)
    times = read_cost(registry)["added_ms"]
    assert isinstance(times, dict)
    assert (times["count"], times["p50"] is None) == (len(observed), expected is None)
    if share == 0.5 and expected is not None:
        assert (times["p50"], times["mean"]) == (0.25, 0.35)


# Workers' files: counters continue across restarts, gauges do not, and the number of files stays.

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


def exposed_in(directory: Path) -> Exposed:
    return exposed(generate_latest(shared_registry(directory, backend="qdrant")))


def test_what_two_workers_count_adds_up(tmp_path: Path) -> None:
    work(tmp_path, 0)
    work(tmp_path, 1)
    samples = exposed_in(tmp_path)
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
    samples = exposed_in(tmp_path)
    assert samples.value("vecsieve_fail_open_total", {"backend": "qdrant", "reason": "breaker"}) == 0
    assert samples.value("vecsieve_telemetry_dropped_total", {"kind": "log"}) == 0


def test_a_restarted_worker_continues_its_counters_and_not_its_gauges(tmp_path: Path) -> None:
    work(tmp_path, 0)
    files = sorted(file.name for file in tmp_path.iterdir())
    for restart in range(2, 4):
        forget_gauges(tmp_path, 0)
        work(tmp_path, 0)
        samples = exposed_in(tmp_path)
        assert samples.value("vecsieve_requests_total", REQUEST) == 5 * restart
        assert samples.value("vecsieve_in_flight", {"kind": "requests"}) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == files


def test_forgetting_one_workers_gauges_leaves_the_others_and_what_it_counted(tmp_path: Path) -> None:
    for place in (1, 11):
        work(tmp_path, place)
    forget_gauges(tmp_path, 1)
    forget_gauges(tmp_path, 7)
    samples = exposed_in(tmp_path)
    assert samples.value("vecsieve_requests_total", REQUEST) == 10
    assert samples.value("vecsieve_in_flight", {"kind": "requests"}) == 2
    assert samples.label_values("vecsieve_process_resident")["worker"] == {"w11"}
    assert samples.value("vecsieve_config_info", {"hash": "aaaa"}) == 1


def test_when_every_worker_has_ended_its_counts_are_left(tmp_path: Path) -> None:
    work(tmp_path, 0)
    forget_gauges(tmp_path, 0)
    samples = exposed_in(tmp_path)
    assert samples.value("vecsieve_requests_total", REQUEST) == 5
    assert samples.value("vecsieve_config_last_reload_successful") == 0
    assert samples.label_values("vecsieve_config_info") == {}


def test_what_a_killed_worker_counted_is_not_lost(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        worker(tmp_path, 0).stage_duration_seconds.labels(Stage.DECODE).observe(0.001)
        os._exit(9)  # nothing is flushed, closed or called
    os.waitpid(child, 0)
    assert exposed_in(tmp_path).value("vecsieve_stage_duration_seconds_count", {"stage": "decode"}) == 1


def test_a_scrape_of_one_worker_says_what_its_own_registry_says(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant", store=WorkerFiles(tmp_path, 0))
    metrics.request_done("query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=0.002)
    metrics.config_taken("aaaa", at=1000.0)
    assert generate_latest(shared_registry(tmp_path, backend="qdrant")) == _with_memory(generate_latest(registry))


def _with_memory(exposed_in: bytes) -> bytes:
    """Only with several workers is each one's memory shown."""
    before, kind, after = exposed_in.partition(b"# TYPE vecsieve_process_resident_memory_bytes gauge\n")
    assert kind
    return before + kind + b'vecsieve_process_resident_memory_bytes{worker="w0"} 0.0\n' + after


def test_rules_that_the_settings_name_are_counted_by_every_worker(tmp_path: Path) -> None:
    for place in range(2):
        files = WorkerFiles(tmp_path, place)
        metrics = Metrics(CollectorRegistry(), backend="qdrant", rules=("tickets",), store=files)
        metrics.search_done(REPORT._replace(rule="tickets"))
    samples = exposed(generate_latest(shared_registry(tmp_path, backend="qdrant", rules=("tickets",))))
    assert samples.value("vecsieve_rule_searches_total", {"rule": "tickets"}) == 2


def test_settings_that_two_workers_hold_differently_are_both_shown(tmp_path: Path) -> None:
    work(tmp_path, 0, "aaaa")
    work(tmp_path, 1, "bbbb")
    assert exposed_in(tmp_path).label_values("vecsieve_config_info")["hash"] == {"aaaa", "bbbb"}


def test_the_directory_is_new_private_and_goes_away_with_its_files() -> None:
    with metrics_directory() as one, metrics_directory() as other:
        assert one != other
        assert Path(one).stat().st_mode & 0o777 == 0o700
        (Path(one) / "w0.numbers").touch()
    assert not Path(one).exists()
    assert not Path(other).exists()

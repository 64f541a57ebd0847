"""What a scrape contains beside the instruments, and how single samples are read back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.deploy.expositions import exposed
from support.jobs.reports import REPORT
from vecsieve.proxy.admin.inspector import read_cost
from vecsieve.proxy.telemetry.exposition import (
    CONTENT_TYPE,
    OPEN_CONTENT_TYPE,
    Samples,
    exposition,
    process_registry,
    scrape,
    shared_registry,
)
from vecsieve.proxy.telemetry.labels import Origin, Outcome
from vecsieve.proxy.telemetry.metrics import Metrics


def test_a_process_that_serves_alone_shows_its_memory_and_its_collections() -> None:
    samples = exposed(exposition(process_registry()))
    assert samples.total("process_resident_memory_bytes") > 1_000_000
    assert samples.total("python_gc_collections_total") >= 0
    assert "python_gc_collections_total" in samples.text


def test_the_format_is_the_one_without_surprises() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# EOF" not in exposition(process_registry())


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

    assert samples(opened_families(registry)) == samples(exposed(exposition(registry)).families)


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
    assert TRACE.encode() not in exposition(registry)


def test_a_shared_registry_wants_its_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a directory"):
        shared_registry(tmp_path / "missing", backend="qdrant")
    assert exposition(shared_registry(tmp_path, backend="qdrant")) == b""


def test_a_file_that_a_starting_worker_has_not_filled_yet_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "w0.numbers").touch()
    assert exposition(shared_registry(tmp_path, backend="qdrant")) == b""


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

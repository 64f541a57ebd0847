"""Instruments made from their lines of the catalogue: the right kind, bound where the backend alone tells them apart."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from vecsieve.adapters.backends import BACKENDS
from vecsieve.proxy.telemetry.catalogue import BACKEND, CounterSpec, GaugeSpec, HistogramSpec, Label, Spec
from vecsieve.proxy.telemetry.metrics import instrument

KIND = Label("kind", ("a", "b"))
HELP = "What the tests count."


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def samples(registry: CollectorRegistry) -> set[str]:
    lines = generate_latest(registry).decode().splitlines()
    return {line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#") and "_created" not in line}


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (CounterSpec("things_total", HELP), Counter),
        (GaugeSpec("things", HELP), Gauge),
        (HistogramSpec("things_seconds", HELP, (1.0,)), Histogram),
    ],
)
def test_each_line_becomes_an_instrument_of_its_kind(registry: CollectorRegistry, spec: Spec, kind: type) -> None:
    assert isinstance(instrument(spec, registry, BACKENDS["qdrant"]), kind)


def test_an_instrument_told_apart_by_the_backend_alone_needs_no_label_to_count(registry: CollectorRegistry) -> None:
    counter = instrument(CounterSpec("things_total", HELP, (BACKEND,)), registry, BACKENDS["milvus"])
    assert isinstance(counter, Counter)
    counter.inc()
    assert samples(registry) == {'vecsieve_things_total{backend="milvus"}'}


def test_every_series_of_a_counter_exists_before_the_first_event(registry: CollectorRegistry) -> None:
    instrument(CounterSpec("things_total", HELP, (BACKEND, KIND)), registry, BACKENDS["qdrant"])
    assert samples(registry) == {f'vecsieve_things_total{{backend="qdrant",kind="{kind}"}}' for kind in "ab"}


def test_a_labelled_histogram_has_no_series_before_its_first_observation(registry: CollectorRegistry) -> None:
    histogram = instrument(HistogramSpec("things_seconds", HELP, (1.0,), (KIND,)), registry, BACKENDS["qdrant"])
    assert samples(registry) == set()
    assert isinstance(histogram, Histogram)
    histogram.labels("a").observe(0.5)
    assert 'vecsieve_things_seconds_count{kind="a"}' in samples(registry)


def test_a_label_whose_values_are_not_known_yet_has_no_series(registry: CollectorRegistry) -> None:
    instrument(GaugeSpec("things", HELP, (Label("worker"),)), registry, BACKENDS["qdrant"])
    assert samples(registry) == set()

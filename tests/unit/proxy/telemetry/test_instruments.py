"""Metrics are declared once: the attribute of a class is the name, the declaration and, on an instance, the instrument."""

from __future__ import annotations

import math
import threading
from itertools import product

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics

from vecsieve.adapters.backends import BACKENDS
from vecsieve.proxy.telemetry.instruments import (
    BACKEND,
    Counter,
    CounterSpec,
    Domain,
    Gauge,
    GaugeSpec,
    Histogram,
    HistogramSpec,
    Info,
    InfoSpec,
    Instruments,
    Label,
    WorkerGaugeSpec,
)
from vecsieve.proxy.telemetry.metrics import Metrics

KIND = Label("kind", ("a", "b"))
FEWER = Label("kind", ("a", "b"), lambda backend: ("a",) if backend.name == "milvus" else ("a", "b"))
HELP = "What the tests count."


class Toys(Instruments):
    """One of each kind."""

    broken_total = CounterSpec(HELP, BACKEND)
    sold_total = CounterSpec(HELP, BACKEND, KIND)
    lost_total = CounterSpec(HELP, FEWER)
    on_shelf = GaugeSpec(HELP, mode="livemax")
    on_floor = WorkerGaugeSpec(HELP)
    play_seconds = HistogramSpec(HELP, (1.0,), KIND)
    nap_seconds = HistogramSpec(HELP, (0.5, 2.0))
    maker = InfoSpec(HELP, Label("name"), Label("town"))
    swept_total = CounterSpec(HELP, is_threaded=True)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def samples(registry: CollectorRegistry, name: str) -> set[str]:
    lines = generate_latest(registry).decode().splitlines()
    return {line.rsplit(" ", 1)[0] for line in lines if line.startswith(f"vecsieve_{name}")}


def test_each_declaration_becomes_an_instrument_of_its_kind(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("qdrant"))
    assert isinstance(toys.sold_total, Counter)
    assert isinstance(toys.on_shelf, Gauge)
    assert isinstance(toys.play_seconds, Histogram)
    assert isinstance(toys.maker, Info)


def test_the_declaration_is_read_from_the_class(registry: CollectorRegistry) -> None:
    assert Toys.sold_total.name == "sold_total"
    assert Toys.sold_total.labels == (BACKEND, KIND)
    assert [spec.name for spec in Toys.declared()][:3] == ["broken_total", "sold_total", "lost_total"]


def test_a_declaration_is_all_that_a_new_metric_needs(registry: CollectorRegistry) -> None:
    class More(Metrics):
        toys_total = CounterSpec(HELP, BACKEND)

    more = More(registry, backend="chroma")
    more.toys_total.inc()
    assert More.declared() == (*Metrics.declared(), More.toys_total)
    assert registry.get_sample_value("vecsieve_toys_total", {"backend": "chroma"}) == 1


def test_an_instrument_told_apart_by_the_backend_alone_needs_no_label_to_count(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("milvus"))
    toys.broken_total.inc()
    assert samples(registry, "broken_total") == {'vecsieve_broken_total{backend="milvus"}'}


def test_every_series_of_a_counter_exists_before_the_first_event(registry: CollectorRegistry) -> None:
    Toys(registry, Domain.of("qdrant"))
    assert samples(registry, "sold") == {f'vecsieve_sold_total{{backend="qdrant",kind="{kind}"}}' for kind in "ab"}


@pytest.mark.parametrize(("backend", "kinds"), [("qdrant", "ab"), ("milvus", "a")])
def test_a_label_has_the_values_of_the_backend_alone(registry: CollectorRegistry, backend: str, kinds: str) -> None:
    Toys(registry, Domain.of(backend))
    assert samples(registry, "lost") == {f'vecsieve_lost_total{{kind="{kind}"}}' for kind in kinds}


def test_a_series_that_its_backend_is_not_expected_to_have_is_shown_once_it_counts(registry: CollectorRegistry) -> None:
    Toys(registry, Domain.of("milvus")).lost_total.labels("b").inc()
    assert samples(registry, "lost") == {f'vecsieve_lost_total{{kind="{kind}"}}' for kind in "ab"}


def test_values_that_the_settings_name_have_series_too(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("milvus", kind=("c", "d")))
    toys.lost_total.labels("d").inc()
    assert samples(registry, "lost") == {f'vecsieve_lost_total{{kind="{kind}"}}' for kind in "acd"}
    assert ("d" in toys.lost_total, "e" in toys.lost_total) == (True, False)


def test_a_labelled_histogram_has_no_series_before_its_first_observation(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("qdrant"))
    assert samples(registry, "play") == set()
    toys.play_seconds.labels("a").observe(0.5)
    assert 'vecsieve_play_seconds_count{kind="a"}' in samples(registry, "play")


def test_what_tells_the_workers_apart_has_no_series_in_a_process_of_its_own(registry: CollectorRegistry) -> None:
    Toys(registry, Domain.of("qdrant")).on_floor.set(3)
    assert samples(registry, "on_floor") == set()


def test_of_words_the_last_are_shown(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("qdrant"))
    assert samples(registry, "maker") == set()
    toys.maker.set("Ole", "Billund")
    toys.maker.set("Gottfred", "Billund")
    assert registry.get_sample_value("vecsieve_maker", {"name": "Gottfred", "town": "Billund"}) == 1
    assert len(samples(registry, "maker")) == 1


def test_values_that_were_not_declared_are_refused(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("qdrant"))
    with pytest.raises(KeyError):
        toys.sold_total.labels("c")


def test_no_addition_of_another_thread_is_lost(registry: CollectorRegistry) -> None:
    toys = Toys(registry, Domain.of("qdrant"))

    def sweep() -> None:
        for _ in range(20_000):
            toys.swept_total.inc()

    threads = [threading.Thread(target=sweep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.get_sample_value("vecsieve_swept_total") == 80_000


BOUNDS = sorted({bound for spec in Metrics.declared() if isinstance(spec, HistogramSpec) for bound in spec.buckets})
AMOUNTS = st.one_of(st.sampled_from(BOUNDS), st.floats(0, 1e9), st.integers(0, 10**6))
EVENTS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000), AMOUNTS), max_size=30)


@given(st.sampled_from(tuple(BACKENDS)), EVENTS)
def test_a_scrape_is_what_the_librarys_own_instruments_would_show(
    backend: str, events: list[tuple[int, int, float]]
) -> None:
    """Invariant: after any events both formats have the lines of the library's instruments, each one byte for byte."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    metrics, library = Metrics(ours, backend=backend), Library(theirs, backend)
    counted = [spec for spec in Metrics.declared() if isinstance(spec, CounterSpec | GaugeSpec | HistogramSpec)]
    library.gauges["breaker_state"].labels("closed").set(1)
    library.gauges["canary_state"].labels("none").set(1)
    are_all_expected = True
    for which, place, amount in events:
        spec = counted[which % len(counted)]
        series = list(spec.series(Domain.of(backend)))
        if not series or isinstance(spec, WorkerGaugeSpec):
            continue
        values = series[place % len(series)]
        instrument = getattr(metrics, spec.name)
        one = instrument if spec.labels in ((), (BACKEND,)) else instrument.labels(*values[BACKEND in spec.labels :])
        library.record(spec, values, amount)
        expected = product(*(label.values_for(BACKENDS[backend]) for label in spec.labels))
        are_all_expected = are_all_expected and values in expected and not isinstance(spec, HistogramSpec)
        if isinstance(one, Histogram):
            one.observe(amount)
        else:
            one.inc(amount)
    scraped, reference = generate_latest(ours), generate_latest(theirs)
    if are_all_expected:
        assert scraped == reference
    # The library shows a histogram's series, and those that were not expected, in the order in which they were first recorded.
    assert sorted(scraped.splitlines()) == sorted(reference.splitlines())
    opened = [sorted(open_metrics(collector_registry).splitlines()) for collector_registry in (ours, theirs)]  # type: ignore[no-untyped-call]  # - half typed
    assert opened[0] == opened[1]


class Library:
    """The same declarations as the library's own instruments."""

    def __init__(self, registry: CollectorRegistry, backend: str) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # - the library is half typed
        self.counters: dict[str, prometheus_client.Counter] = {}
        self.gauges: dict[str, prometheus_client.Gauge] = {}
        self.histograms: dict[str, prometheus_client.Histogram] = {}
        for spec in Metrics.declared():
            name, names = f"vecsieve_{spec.name}", [label.name for label in spec.labels]
            made: prometheus_client.Counter | prometheus_client.Gauge
            if isinstance(spec, HistogramSpec):
                histogram = prometheus_client.Histogram(
                    name, spec.help, names, registry=registry, buckets=(*spec.buckets, math.inf)
                )
                self.histograms[spec.name] = histogram
                if spec.labels == (BACKEND,):
                    histogram.labels(backend)
                continue
            if isinstance(spec, CounterSpec):
                made = self.counters[spec.name] = prometheus_client.Counter(name, spec.help, names, registry=registry)
            else:
                made = self.gauges[spec.name] = prometheus_client.Gauge(name, spec.help, names, registry=registry)
            if names and not isinstance(spec, InfoSpec):
                for values in product(*(label.values_for(BACKENDS[backend]) for label in spec.labels)):
                    if values:
                        made.labels(*values)

    def record(self, spec: CounterSpec | GaugeSpec | HistogramSpec, values: tuple[str, ...], amount: float) -> None:
        if isinstance(spec, HistogramSpec):
            histogram = self.histograms[spec.name]
            (histogram.labels(*values) if values else histogram).observe(amount)
        elif isinstance(spec, CounterSpec):
            counter = self.counters[spec.name]
            (counter.labels(*values) if values else counter).inc(amount)
        else:
            gauge = self.gauges[spec.name]
            (gauge.labels(*values) if values else gauge).inc(amount)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_narrowed_values_of_a_label_are_among_its_values(backend: str) -> None:
    for spec in Metrics.declared():
        for label in spec.labels:
            assert set(label.values_for(BACKENDS[backend])) <= set(label.values)

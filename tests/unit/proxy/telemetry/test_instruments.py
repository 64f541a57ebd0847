"""Metrics are declared once: the attribute of a class is the name, the declaration and, on an instance, the instrument."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from vecsieve.adapters.backends import BACKENDS
from vecsieve.proxy.telemetry.instruments import BACKEND, CounterSpec, GaugeSpec, HistogramSpec, Instruments, Label
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
    on_floor = GaugeSpec(HELP, Label("worker"))
    play_seconds = HistogramSpec(HELP, (1.0,), KIND)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def samples(registry: CollectorRegistry, name: str) -> set[str]:
    lines = generate_latest(registry).decode().splitlines()
    return {line.rsplit(" ", 1)[0] for line in lines if line.startswith(f"vecsieve_{name}")}


def test_each_declaration_becomes_an_instrument_of_its_kind(registry: CollectorRegistry) -> None:
    toys = Toys(registry, backend="qdrant")
    assert isinstance(toys.sold_total, Counter)
    assert isinstance(toys.on_shelf, Gauge)
    assert isinstance(toys.play_seconds, Histogram)


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
    toys = Toys(registry, backend="milvus")
    toys.broken_total.inc()
    assert samples(registry, "broken_total") == {'vecsieve_broken_total{backend="milvus"}'}


def test_every_series_of_a_counter_exists_before_the_first_event(registry: CollectorRegistry) -> None:
    Toys(registry, backend="qdrant")
    assert samples(registry, "sold") == {f'vecsieve_sold_total{{backend="qdrant",kind="{kind}"}}' for kind in "ab"}


@pytest.mark.parametrize(("backend", "kinds"), [("qdrant", "ab"), ("milvus", "a")])
def test_a_label_has_the_values_of_the_backend_alone(registry: CollectorRegistry, backend: str, kinds: str) -> None:
    Toys(registry, backend=backend)
    assert samples(registry, "lost") == {f'vecsieve_lost_total{{kind="{kind}"}}' for kind in kinds}


def test_a_labelled_histogram_has_no_series_before_its_first_observation(registry: CollectorRegistry) -> None:
    toys = Toys(registry, backend="qdrant")
    assert samples(registry, "play") == set()
    toys.play_seconds.labels("a").observe(0.5)
    assert 'vecsieve_play_seconds_count{kind="a"}' in samples(registry, "play")


def test_a_label_whose_values_are_not_known_yet_has_no_series(registry: CollectorRegistry) -> None:
    Toys(registry, backend="qdrant")
    assert samples(registry, "on_floor") == set()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_narrowed_values_of_a_label_are_among_its_values(backend: str) -> None:
    for spec in Metrics.declared():
        for label in spec.labels:
            assert set(label.values_for(BACKENDS[backend])) <= set(label.values)

"""One instrument of the client library made from its line of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from vecsieve.proxy.metrics_catalogue import (
    BACKEND,
    PREFIX,
    CounterSpec,
    GaugeSpec,
    HistogramSpec,
    Label,
    Spec,
    values_of,
)


def instrument(spec: Spec, registry: CollectorRegistry, backend: str) -> Counter | Gauge | Histogram:
    """The instrument, bound where the backend is its only label, and with all its series where they are few."""
    made = _unbound(spec, registry)
    if [label.name for label in spec.labels] == [BACKEND.name]:
        return made.labels(backend)
    if not isinstance(spec, HistogramSpec):
        for values in _combinations(spec.labels, backend):
            made.labels(*values)
    return made


def _unbound(spec: Spec, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name = PREFIX + spec.name
    labels = [label.name for label in spec.labels]
    match spec:
        case CounterSpec():
            return Counter(name, spec.help, labels, registry=registry)
        case GaugeSpec():
            return Gauge(name, spec.help, labels, registry=registry, multiprocess_mode=spec.mode)
        case HistogramSpec():
            return Histogram(name, spec.help, labels, registry=registry, buckets=spec.buckets)


def _combinations(labels: tuple[Label, ...], backend: str) -> Iterator[tuple[str, ...]]:
    if not labels:
        return iter(())  # it has one series already
    return product(*(values_of(label, backend) for label in labels))

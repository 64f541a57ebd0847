"""How a metric is declared: a class attribute that names it, describes it and is the variable that records it.

    class Metrics(Instruments):
        refetch_total = CounterSpec("Calls whose pool was grown.", BACKEND)

    metrics.refetch_total.inc()

The attribute's name is the metric's name without the prefix. On the class it is the declaration, on an instance the instrument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Generic, Literal, Self, TypeVar, overload

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from vecsieve.adapters.backends import BACKENDS, Backend

PREFIX = "vecsieve_"

Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)
GaugeMode = Literal["livesum", "livemax", "livemin"]
"""How a gauge of several workers becomes one number."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label and every value it may take; no values where they are not known before the process runs.

    ``narrow``: the values in a process that speaks to this backend, where they are fewer: series of what it never does would be dead.
    """

    name: str
    values: tuple[str, ...] = ()
    narrow: Callable[[Backend], tuple[str, ...]] | None = None

    @classmethod
    def of(
        cls, name: str, *sets: Iterable[StrEnum], narrow: Callable[[Backend], tuple[str, ...]] | None = None
    ) -> Label:
        """The label whose values are the members of closed sets."""
        return cls(name, tuple(member.value for each in sets for member in each), narrow)

    def values_for(self, backend: Backend) -> tuple[str, ...]:
        """The values the label may take in a process that speaks to this backend."""
        return self.values if self.narrow is None else self.narrow(backend)


BACKEND = Label("backend", tuple(BACKENDS), lambda backend: (backend.name,))


class Spec(ABC, Generic[Instrument]):
    """One metric. ``help``: what it counts, in a sentence. ``labels``: in the order in which they are recorded."""

    name: str

    def __init__(self, text: str, *labels: Label) -> None:
        self.help = text
        self.labels = labels

    def __set_name__(self, owner: type[Instruments], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, metrics: None, owner: type[Instruments]) -> Self: ...
    @overload
    def __get__(self, metrics: Instruments, owner: type[Instruments]) -> Instrument: ...
    def __get__(self, metrics: Instruments | None, owner: type[Instruments]) -> Self | Instrument:
        if metrics is None:
            return self
        raise AttributeError(self.name)  # an instance holds its instruments itself, which go before this

    def made(self, registry: CollectorRegistry, backend: Backend) -> Instrument:
        """The instrument, bound where the backend is its only label, and with all its series where they are few."""
        made = self._unbound(PREFIX + self.name, [label.name for label in self.labels], registry)
        if self.labels == (BACKEND,):
            return made.labels(backend.name)
        for values in self._series(backend):
            made.labels(*values)
        return made

    def _series(self, backend: Backend) -> Iterator[tuple[str, ...]]:
        if not self.labels:
            return iter(())  # it has one series already
        return product(*(label.values_for(backend) for label in self.labels))

    @abstractmethod
    def _unbound(self, name: str, labels: list[str], registry: CollectorRegistry) -> Instrument: ...


class CounterSpec(Spec[Counter]):
    """A counter. All its series exist at 0 from the start, so that the first event is an increase."""

    def _unbound(self, name: str, labels: list[str], registry: CollectorRegistry) -> Counter:
        return Counter(name, self.help, labels, registry=registry)


class GaugeSpec(Spec[Gauge]):
    """A gauge; ``mode`` says how workers add up."""

    def __init__(self, text: str, *labels: Label, mode: GaugeMode = "livesum") -> None:
        super().__init__(text, *labels)
        self.mode = mode

    def _unbound(self, name: str, labels: list[str], registry: CollectorRegistry) -> Gauge:
        return Gauge(name, self.help, labels, registry=registry, multiprocess_mode=self.mode)


class HistogramSpec(Spec[Histogram]):
    """A histogram. Series with labels other than the backend appear with their first observation."""

    def __init__(self, text: str, buckets: tuple[float, ...], *labels: Label) -> None:
        super().__init__(text, *labels)
        self.buckets = buckets

    def _series(self, backend: Backend) -> Iterator[tuple[str, ...]]:
        return iter(())

    def _unbound(self, name: str, labels: list[str], registry: CollectorRegistry) -> Histogram:
        return Histogram(name, self.help, labels, registry=registry, buckets=self.buckets)


AnySpec = CounterSpec | GaugeSpec | HistogramSpec


class Instruments:
    """The instruments of one process, made from the declarations of its class. ``backend``: the one this process speaks.

    An instrument whose only label is the backend is bound to it: ``metrics.candidates.observe(50)``.
    """

    backend: str

    def __init__(self, registry: CollectorRegistry, *, backend: str) -> None:
        # 43 of 228 lines of a scrape were `_created` timestamps that nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # - the library is half typed
        vars(self)["backend"] = backend
        for spec in self.declared():
            vars(self)[spec.name] = spec.made(registry, BACKENDS[backend])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: instruments are made once and not exchanged")

    @classmethod
    def declared(cls) -> tuple[AnySpec, ...]:
        """Every declaration, in the order of a scrape."""
        return tuple(
            spec for each in reversed(cls.__mro__) for spec in vars(each).values() if isinstance(spec, AnySpec)
        )

"""A metric is declared as a class attribute, which names it, describes it and is the variable that records it.

    class Metrics(Instruments):
        refetch_total = CounterSpec("Calls whose pool was grown.", BACKEND)

    metrics.refetch_total.inc()

The attribute has the metric's name without the prefix. On the class it is the declaration, on an instance the instrument.

An instrument adds to a number in a list. A search records thirty of them, and the library's own instruments, with a lock and a dictionary
for each, cost as much as its answer's header and framing together. A scrape reads the list. With several workers the list is a shared file
(exposition.py).
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress, product
from typing import Generic, Literal, Protocol, Self, TypeAlias, TypeVar, overload

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from vecsieve.adapters.backends import BACKENDS, Backend

PREFIX = "vecsieve_"

GaugeMode = Literal["livesum", "livemax", "livemin", "each"]
"""How the gauges of several workers are merged; ``each``: not at all, with a label for the worker."""

Numbers: TypeAlias = "list[float] | memoryview[float]"
"""The numbers of one process; each series has its own."""

Words = Mapping[str, tuple[str, ...]]
"""The label values of each series that is described by words, by the metric's name."""


class Store(Protocol):
    """Stores the numbers of a process."""

    def numbers(self, count: int) -> Numbers:
        """A list of this many numbers: 0, or those of the previous process."""

    def say(self, words: Words) -> None:
        """Store the words, which are few and seldom change."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label and all its values; none if they are unknown before the process runs.

    ``narrow``: the values in a process for one backend, if they are fewer: other series stay 0 and are not shown.
    """

    name: str
    values: tuple[str, ...] = ()
    narrow: Callable[[Backend], tuple[str, ...]] | None = None

    @classmethod
    def of(
        cls, name: str, *sets: Iterable[StrEnum], narrow: Callable[[Backend], tuple[str, ...]] | None = None
    ) -> Label:
        """A label whose values are the members of closed sets."""
        return cls(name, tuple(member.value for enumeration in sets for member in enumeration), narrow)

    def values_for(self, backend: Backend) -> tuple[str, ...]:
        """The values that are shown in a process for this backend."""
        return self.values if self.narrow is None else self.narrow(backend)


BACKEND = Label("backend", tuple(BACKENDS), lambda backend: (backend.name,))


@dataclass(frozen=True, slots=True)
class Domain:
    """The label values of one process. ``named``: values that the settings add to a label, by its name."""

    backend: Backend
    named: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, backend: str, **named: Iterable[str]) -> Domain:
        """Raises KeyError for an unknown backend."""
        return cls(BACKENDS[backend], {name: tuple(values) for name, values in named.items()})

    def initial(self, label: Label) -> tuple[str, ...]:
        """The values of the series that exist from the start."""
        return (*label.values_for(self.backend), *self.named.get(label.name, ()))

    def recorded(self, label: Label) -> tuple[str, ...]:
        """All values that may be recorded, those that are shown first."""
        initial = self.initial(label)
        return initial if label == BACKEND else tuple(dict.fromkeys((*initial, *label.values)))


class Instrument:
    """One series, or all series of a metric, from which ``labels`` selects one."""

    __slots__ = ("_at", "_numbers", "_series")

    def __init__(self, numbers: Numbers, at: int) -> None:
        self._numbers = numbers
        self._at = at
        self._series: dict[tuple[str, ...], Self] = {}

    def labels(self, *values: str) -> Self:
        """The series with these label values, without the backend's. Raises KeyError for values that were not declared."""
        return self._series[values]

    def __contains__(self, value: str) -> bool:
        """Whether there is a series with this one label value."""
        return (value,) in self._series

    def has(self, series: dict[tuple[str, ...], Self]) -> None:
        self._series = series


class Counter(Instrument):
    __slots__ = ()

    def inc(self, amount: float = 1) -> None:
        self._numbers[self._at] += amount


class ThreadedCounter(Counter):
    """A counter that several threads add to."""

    __slots__ = ("_lock",)

    def __init__(self, numbers: Numbers, at: int) -> None:
        super().__init__(numbers, at)
        self._lock = threading.Lock()

    def inc(self, amount: float = 1) -> None:
        with self._lock:
            super().inc(amount)


class Gauge(Counter):
    __slots__ = ()

    def set(self, value: float) -> None:
        self._numbers[self._at] = value


class Histogram(Instrument):
    """A count for each bucket, then one for values beyond the last bound, then the sum of all values."""

    __slots__ = ("_bounds", "_exemplars", "_sum_at")

    def __init__(self, numbers: Numbers, at: int, bounds: tuple[float, ...], exemplars: dict[int, Exemplar]) -> None:
        super().__init__(numbers, at)
        self._bounds = bounds
        self._sum_at = at + len(bounds) + 1
        self._exemplars = exemplars

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """``trace_id``: of a recorded trace, to which the bucket's exemplar leads."""
        numbers, at = self._numbers, self._at + bisect_left(self._bounds, value)
        numbers[at] += 1
        numbers[self._sum_at] += value
        if trace_id is not None:
            self._exemplars[at] = Exemplar({"trace_id": trace_id}, value, time.time())


class Info:
    """A series of value 1 that is described by its labels: only the last one is shown."""

    __slots__ = ("_name", "_say", "_words")

    def __init__(self, name: str, words: dict[str, tuple[str, ...]], say: Callable[[Words], None]) -> None:
        self._name = name
        self._words = words
        self._say = say

    def set(self, *values: str) -> None:
        self._words[self._name] = values
        self._say(self._words)


InstrumentT = TypeVar("InstrumentT", Counter, Gauge, Histogram, Info)


@dataclass(frozen=True, slots=True)
class Storage:
    """Data of a process beside its declarations."""

    domain: Domain
    numbers: Numbers
    words: dict[str, tuple[str, ...]]
    exemplars: dict[int, Exemplar]
    say: Callable[[Words], None]


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers and words of one process, or of all workers together; ``by_worker``: numbers of single workers, by their names."""

    numbers: Numbers
    words: Mapping[str, Iterable[tuple[str, ...]]]
    exemplars: Mapping[int, Exemplar]
    by_worker: Mapping[str, Numbers]


class Spec(ABC, Generic[InstrumentT]):
    """One metric. ``help``: what it counts, in a sentence. ``labels``: in the order in which they are recorded."""

    name: str
    kind: str
    width = 1
    """How many numbers a series has."""

    def __init__(self, text: str, *labels: Label) -> None:
        self.help = text
        self.labels = labels

    def __set_name__(self, owner: type[Instruments], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, metrics: None, owner: type[Instruments]) -> Self: ...
    @overload
    def __get__(self, metrics: Instruments, owner: type[Instruments]) -> InstrumentT: ...
    def __get__(self, metrics: Instruments | None, owner: type[Instruments]) -> Self | InstrumentT:
        if metrics is None:
            return self
        raise AttributeError(
            self.name
        )  # an instance holds its instruments in its own __dict__, which is searched first

    def series(self, domain: Domain) -> tuple[tuple[str, ...], ...]:
        """The label values of every series that a process may record."""
        return tuple(product(*(domain.recorded(label) for label in self.labels)))

    def read(self, reading: Reading, domain: Domain, at: int) -> Metric:
        """The samples. ``at``: the index of the first series' numbers."""
        name = PREFIX + self.name
        metric = Metric(name.removesuffix("_total") if self.kind == "counter" else name, self.help, self.kind)
        names = [label.name for label in self.labels]
        initial = set(product(*(domain.initial(label) for label in self.labels)))
        for place, values in enumerate(self.series(domain)):
            begins = at + place * self.width
            if values in initial or any(reading.numbers[begins : begins + self.width]):
                self._sampled(metric, dict(zip(names, values, strict=True)), reading, begins)
        return metric

    @abstractmethod
    def instrument(self, storage: Storage, at: int) -> InstrumentT:
        """The instrument. ``at``: as for ``read``."""

    def _sampled(self, metric: Metric, labels: dict[str, str], reading: Reading, at: int) -> None:
        metric.add_sample(PREFIX + self.name, labels, reading.numbers[at])


Numbered = TypeVar("Numbered", Counter, Gauge, Histogram)


class NumberSpec(Spec[Numbered]):
    """A metric whose series are all known from the start."""

    def instrument(self, storage: Storage, at: int) -> Numbered:
        parent = self._one(storage, at)  # of a metric with one series: its instrument
        free = [label != BACKEND for label in self.labels]
        parent.has(
            {
                tuple(compress(values, free)): self._one(storage, at + place * self.width)
                for place, values in enumerate(self.series(storage.domain))
            }
        )
        return parent

    @abstractmethod
    def _one(self, storage: Storage, at: int) -> Numbered: ...


class CounterSpec(NumberSpec[Counter]):
    """A counter. All series exist at 0 from the start, so that the first event is an increase. ``is_threaded``: several threads
    add to it.
    """

    kind = "counter"

    def __init__(self, text: str, *labels: Label, is_threaded: bool = False) -> None:
        super().__init__(text, *labels)
        self._class = ThreadedCounter if is_threaded else Counter

    def _one(self, storage: Storage, at: int) -> Counter:
        return self._class(storage.numbers, at)


class GaugeSpec(NumberSpec[Gauge]):
    """A gauge; ``mode``: how workers are merged."""

    kind = "gauge"

    def __init__(self, text: str, *labels: Label, mode: GaugeMode = "livesum") -> None:
        super().__init__(text, *labels)
        self.mode = mode

    def _one(self, storage: Storage, at: int) -> Gauge:
        return Gauge(storage.numbers, at)


class WorkerGaugeSpec(GaugeSpec):
    """A gauge of each worker, with a label for the worker; a process that serves alone does not show it."""

    def __init__(self, text: str) -> None:
        super().__init__(text, Label("worker"), mode="each")

    def series(self, domain: Domain) -> tuple[tuple[str, ...], ...]:
        return ((),)

    def instrument(self, storage: Storage, at: int) -> Gauge:
        return self._one(storage, at)

    def read(self, reading: Reading, domain: Domain, at: int) -> Metric:
        metric = Metric(PREFIX + self.name, self.help, self.kind)
        for worker, numbers in reading.by_worker.items():
            metric.add_sample(PREFIX + self.name, {"worker": worker}, numbers[at])
        return metric


class HistogramSpec(NumberSpec[Histogram]):
    """A histogram. Series with labels other than the backend appear with their first observation."""

    kind = "histogram"

    def __init__(self, text: str, buckets: tuple[float, ...], *labels: Label) -> None:
        super().__init__(text, *labels)
        self.buckets = buckets
        self.width = len(buckets) + 2
        self._bounds = tuple(floatToGoString(bound) for bound in (*buckets, math.inf))  # type: ignore[no-untyped-call]  # - the library is half typed

    def _one(self, storage: Storage, at: int) -> Histogram:
        return Histogram(storage.numbers, at, self.buckets, storage.exemplars)

    def _sampled(self, metric: Metric, labels: dict[str, str], reading: Reading, at: int) -> None:
        name, count = PREFIX + self.name, 0.0
        if self.labels not in {(), (BACKEND,)} and not any(reading.numbers[at : at + self.width - 1]):
            return
        for place, bound in enumerate(self._bounds, at):
            count += reading.numbers[place]
            exemplar = reading.exemplars.get(place)
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count, exemplar=exemplar)
        metric.add_sample(f"{name}_count", labels, count)
        metric.add_sample(f"{name}_sum", labels, reading.numbers[at + self.width - 1])


class InfoSpec(Spec[Info]):
    """A gauge of 1 that is described by its labels; their values are known when the process runs."""

    kind = "gauge"
    width = 0

    def instrument(self, storage: Storage, at: int) -> Info:
        return Info(self.name, storage.words, storage.say)

    def read(self, reading: Reading, domain: Domain, at: int) -> Metric:
        metric = Metric(PREFIX + self.name, self.help, self.kind)
        names = [label.name for label in self.labels]
        for values in reading.words.get(self.name, ()):
            metric.add_sample(PREFIX + self.name, dict(zip(names, values, strict=True)), 1.0)
        return metric


AnySpec = CounterSpec | GaugeSpec | HistogramSpec | InfoSpec


@dataclass(frozen=True, slots=True)
class Layout:
    """The index of each metric's numbers in a process."""

    domain: Domain
    begins: tuple[tuple[AnySpec, int], ...]
    size: int

    @classmethod
    def of(cls, declared: Iterable[AnySpec], domain: Domain) -> Layout:
        begins: list[tuple[AnySpec, int]] = []
        at = 0
        for spec in declared:
            begins.append((spec, at))
            at += spec.width * len(spec.series(domain)) if spec.width else 0
        return cls(domain, tuple(begins), at)

    def gauges(self) -> Iterator[tuple[GaugeMode, range]]:
        """How the numbers of each gauge are merged, and their indices."""
        for spec, at in self.begins:
            if isinstance(spec, GaugeSpec):
                yield spec.mode, range(at, at + len(spec.series(self.domain)))

    def read(self, reading: Reading) -> Iterator[Metric]:
        """Every metric, in the order of the declarations."""
        for spec, at in self.begins:
            yield spec.read(reading, self.domain, at)


class Instruments:
    """The instruments of one process, made from the declarations of its class. ``backend``: of this process.

    The backend's label is never named: ``metrics.candidates.observe(50)``. All are used by the event loop's
    thread only, except counters that are declared as threaded.
    """

    backend: str

    def __init__(self, registry: CollectorRegistry, domain: Domain, *, store: Store | None = None) -> None:
        """``store``: of the numbers and words; None: the memory of this process."""
        layout = Layout.of(self.declared(), domain)
        numbers: Numbers = [0.0] * layout.size if store is None else store.numbers(layout.size)
        storage = Storage(domain, numbers, {}, {}, (lambda _: None) if store is None else store.say)
        for _, places in layout.gauges():
            for place in places:
                storage.numbers[place] = 0.0  # the previous process's values ended with it
        vars(self)["backend"] = domain.backend.name
        for spec, at in layout.begins:
            vars(self)[spec.name] = spec.instrument(storage, at)
        storage.say(storage.words)
        registry.register(_Process(layout, storage))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: instruments cannot be replaced")

    @classmethod
    def declared(cls) -> tuple[AnySpec, ...]:
        """All declarations, in the order of a scrape."""
        return tuple(
            spec for kind in reversed(cls.__mro__) for spec in vars(kind).values() if isinstance(spec, AnySpec)
        )


class _Process:
    """What a registry collects of one process."""

    def __init__(self, layout: Layout, storage: Storage) -> None:
        self._layout = layout
        self._storage = storage

    def collect(self) -> Iterator[Metric]:
        storage = self._storage
        words = {name: (values,) for name, values in storage.words.items()}
        return self._layout.read(Reading(storage.numbers, words, storage.exemplars, {}))

"""The body of a scrape: one registry in the Prometheus text format 0.0.4, or in OpenMetrics if the client accepts it.

With several workers the registry reads their files; the library's collectors of a process exist only with one.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.samples import Sample

from .instruments import PREFIX, Domain, GaugeMode, Layout, Numbers, Reading, Words
from .metrics import Metrics

OPEN_MEDIA_TYPE = "application/openmetrics-text"
OPEN_CONTENT_TYPE = CONTENT_TYPE_LATEST
_REFUSED = re.compile(r"q\s*=\s*0(\.0*)?")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # what every Prometheus since 0.4 reads


@dataclass(frozen=True, slots=True)
class Scrape:
    """The body of a scrape and its content type."""

    body: bytes
    content_type: str = CONTENT_TYPE


def process_registry() -> CollectorRegistry:
    """The registry of a single process, with its memory, descriptors, CPU and garbage collections."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def shared_registry(directory: Path, *, backend: str, rules: Iterable[str] = ()) -> CollectorRegistry:
    """A registry that merges the files of all workers in ``directory`` at every scrape. ``rules``: the same as theirs."""
    if not directory.is_dir():
        raise ValueError(f"metrics directory: saw {directory}, which is not a directory")
    registry = CollectorRegistry()
    registry.register(_Workers(directory, Layout.of(Metrics.declared(), Domain.of(backend, rule=rules))))
    return registry


def scrape(registry: CollectorRegistry, accept: str) -> Scrape:
    """One scrape in the format of the Accept field. Only OpenMetrics has exemplars."""
    if not _reads_open_metrics(accept):
        return Scrape(generate_latest(registry))
    body: bytes = open_metrics(registry)  # type: ignore[no-untyped-call]  # - the library is half typed
    return Scrape(body, OPEN_CONTENT_TYPE)


def _reads_open_metrics(accept: str) -> bool:
    for offered in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in offered.split(";"))
        if media_type == OPEN_MEDIA_TYPE:
            return not any(_REFUSED.fullmatch(part) for part in parameters)
    return False


class Samples:
    """The samples of one scrape, for pages and summaries. Names are without the prefix."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._of: defaultdict[str, list[Sample]] = defaultdict(list)
        for metric in registry.collect():
            for sample in metric.samples:
                self._of[sample.name.removeprefix(PREFIX)].append(sample)

    def by(self, name: str, label: str, *, but: str = "") -> dict[str, float]:
        """Sums by the values of a label, without series that have the value ``but``."""
        sums: defaultdict[str, float] = defaultdict(float)
        for sample in self._of[name]:
            if but not in sample.labels.values():
                sums[sample.labels.get(label, "")] += sample.value
        return sums

    def total(self, name: str, *, but: str = "") -> float:
        """The sum over all labels."""
        return sum(self.by(name, "", but=but).values())

    def quantile(self, name: str, share: float) -> float | None:
        """Of a histogram over all its labels, interpolated within its bucket as Prometheus does; the last bound for values beyond it. None for an
        empty one.
        """
        below, start, target = 0.0, 0.0, self.total(f"{name}_count") * share
        bounds = {float(bound): reached for bound, reached in self.by(f"{name}_bucket", "le").items()}
        for bound, reached in sorted(bounds.items()):
            if reached >= target and reached > below:
                return start if bound == math.inf else start + (bound - start) * (target - below) / (reached - below)
            below, start = reached, bound
        return None


# With several workers each has a file of numbers, which the admin process adds up. A file is named after the worker's place: a restarted
# worker continues its counters, and the number of files is constant. Gauges and words describe a process and end with it: they count only
# while the file of its words exists.

MEMORY_FILES = Path("/dev/shm")  # noqa: S108 - a private directory is made in it; a disk would write back what changes all the time
NUMBERS, WORDS = ".numbers", ".words"
NUMBER_BYTES = 8


def metrics_directory() -> TemporaryDirectory[str]:
    """A new, private, empty directory, in memory if possible."""
    place = MEMORY_FILES if os.access(MEMORY_FILES, os.W_OK) else None
    return TemporaryDirectory(prefix="vecsieve-metrics-", dir=place, ignore_cleanup_errors=True)


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The numbers of the worker in this place, for ``Metrics``."""

    directory: Path
    place: int

    def numbers(self, count: int) -> Numbers:
        """A mapped file: an addition is visible to the admin process at once, and survives a killed worker."""
        with _file(self.directory, self.place, NUMBERS).open("a+b") as file:
            file.truncate(count * NUMBER_BYTES)
            return memoryview(mmap.mmap(file.fileno(), count * NUMBER_BYTES)).cast("d")

    def say(self, words: Words) -> None:
        file = _file(self.directory, self.place, WORDS)
        written = file.with_suffix(".new")
        written.write_text(json.dumps(words), encoding="ascii")
        written.replace(file)  # a scrape reads either the old words or the new ones


def forget_gauges(directory: Path, place: int) -> None:
    """The worker in this place has ended."""
    _file(directory, place, WORDS).unlink(missing_ok=True)


def _file(directory: Path, place: int, suffix: str) -> Path:
    return directory / f"w{place}{suffix}"


_MERGE: Mapping[GaugeMode, Callable[[Sequence[float]], float]] = {
    "livesum": sum,
    "livemax": lambda values: max(values, default=0.0),
    "livemin": lambda values: min(values, default=0.0),
    "each": lambda _: 0.0,
}


@dataclass(frozen=True, slots=True, eq=False)  # a registry identifies it by its identity
class _Workers:
    """The collector for all workers; empty until one has started."""

    directory: Path
    layout: Layout

    def collect(self) -> Iterator[Metric]:
        size = self.layout.size * NUMBER_BYTES
        files = sorted(self.directory.glob(f"*{NUMBERS}"))
        workers = {file.stem: array("d", data) for file in files if len(data := file.read_bytes()) == size}
        if not workers:
            return iter(())
        words = {name: worker_words for name in workers if (worker_words := self._words(name)) is not None}
        totals = [float(sum(numbers)) for numbers in zip(*workers.values(), strict=True)]
        for mode, places in self.layout.gauges():
            for place in places:
                totals[place] = _MERGE[mode]([workers[name][place] for name in words])
        infos = {metric: sorted({one[metric] for one in words.values() if metric in one}) for metric in _metrics(words)}
        by_worker: dict[str, Numbers] = {name: workers[name].tolist() for name in words}
        return self.layout.read(Reading(totals, infos, {}, by_worker))

    def _words(self, name: str) -> dict[str, tuple[str, ...]] | None:
        """None for a worker that has ended."""
        with suppress(FileNotFoundError):
            content = json.loads((self.directory / f"{name}{WORDS}").read_bytes())
            return {metric: tuple(values) for metric, values in content.items()}
        return None


def _metrics(words: Mapping[str, Mapping[str, tuple[str, ...]]]) -> set[str]:
    return {metric for metrics in words.values() for metric in metrics}

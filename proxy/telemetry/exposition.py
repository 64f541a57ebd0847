"""The text a scrape gets: one registry in the Prometheus text format 0.0.4, or in OpenMetrics for who reads that.

With several workers the registry reads their files; the process's own collectors exist only with one.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics

from vecsieve.proxy.telemetry.instruments import PREFIX
from vecsieve.proxy.telemetry.metrics import Metrics

OPEN_MEDIA_TYPE = "application/openmetrics-text"
OPEN_CONTENT_TYPE = CONTENT_TYPE_LATEST
_REFUSED = re.compile(r"q\s*=\s*0(\.0*)?")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # what every Prometheus since 0.4 reads


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape as it goes out."""

    body: bytes
    content_type: str = CONTENT_TYPE


def own_registry() -> CollectorRegistry:
    """A registry for a process that serves alone, with the process's memory, descriptors, CPU and collections."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def shared_registry(directory: Path) -> CollectorRegistry:
    """A registry that adds up the files of all workers in ``directory`` at every scrape."""
    if not directory.is_dir():
        raise ValueError(f"metrics directory: saw {directory}, which is not a directory")
    registry = CollectorRegistry()
    registry.register(_WorkerFiles(directory))
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """One scrape in the format that everybody reads."""
    return generate_latest(_Visible(registry))


def scrape(registry: CollectorRegistry, accept: str) -> Scrape:
    """One scrape in the format that its Accept field asks for: OpenMetrics alone has exemplars."""
    if not _reads_open_metrics(accept):
        return Scrape(exposition(registry))
    body: bytes = open_metrics(_Visible(registry))  # type: ignore[no-untyped-call]  # - the library is half typed
    return Scrape(body, OPEN_CONTENT_TYPE)


def _reads_open_metrics(accept: str) -> bool:
    for offered in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in offered.split(";"))
        if media_type == OPEN_MEDIA_TYPE:
            return not any(_REFUSED.fullmatch(part) for part in parameters)
    return False


@dataclass(frozen=True, slots=True)
class _WorkerFiles:
    """What the library's own collector does, less the file that a starting worker has made and not yet filled."""

    directory: Path

    def collect(self) -> Iterable[Metric]:
        files = [str(file) for file in sorted(self.directory.glob("*.db")) if _size(file)]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # - the library is half typed
        return merged


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0  # a gauge of a worker that ended


@dataclass(frozen=True, slots=True)
class _Visible:
    """The registry without settings that are no longer in force."""

    registry: CollectorRegistry

    def collect(self) -> Iterator[Metric]:
        for metric in self.registry.collect():
            if metric.name == f"{PREFIX}config_info":
                metric.samples = [sample for sample in metric.samples if sample.value]
            yield metric


# Metrics of several workers as one: files that all workers write and the admin process adds up.
#
# prometheus_client names such files after the process id, so that a restarted worker leaves a file behind and counts from
# 0 again. Here they are named after the worker's place: a restarted worker continues its predecessor's counters, and the
# number of files never grows. Gauges describe a process, so they go with it.

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client whenever a file is opened
MEMORY_FILES = Path("/dev/shm")  # noqa: S108 - a private directory is made in it; every count is a write, so not on a disk


def make_directory() -> Path:
    """A new, private, empty directory, in memory where the machine has that."""
    place = MEMORY_FILES if os.access(MEMORY_FILES, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="vecsieve-metrics-", dir=place))


def remove_directory(directory: Path) -> None:
    """Remove it with all files; does not mind when it is gone."""
    shutil.rmtree(directory, ignore_errors=True)


def join(directory: Path, place: int) -> CollectorRegistry:
    """From now on this process's instruments write to the place's files. Before the first instrument is made."""
    os.environ[VARIABLE] = str(directory)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: f"w{place}")  # type: ignore[no-untyped-call]  # - the library is half typed
    return CollectorRegistry()


def forget_gauges(directory: Path, place: int) -> None:
    """Remove a dead worker's gauges: what was in flight in it no longer is."""
    for file in directory.glob(f"gauge_*_w{place}.db"):
        file.unlink(missing_ok=True)


def show_memory(metrics: Metrics, place: int, resident_bytes: Callable[[], int]) -> None:
    """Show a worker's resident memory: the library's own process metrics do not work across processes."""
    metrics.process_resident_memory_bytes.labels(f"w{place}").set(resident_bytes())

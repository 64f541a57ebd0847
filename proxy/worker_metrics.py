"""Metrics of several workers as one: files that all workers write and the admin process adds up.

prometheus_client names such files after the process id, so that a restarted worker leaves a file behind and counts from
0 again. Here they are named after the worker's place: a restarted worker continues its predecessor's counters, and the
number of files never grows. Gauges describe a process, so they go with it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, values

from vecsieve.proxy.metrics import Metrics

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

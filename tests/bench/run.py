"""All sections in order: prints each one's tables as they come, writes .bench/latest.json."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console

from bench.bench_client import bench_client
from bench.bench_engine import bench_engine
from bench.bench_large_memory import bench_large_memory
from bench.bench_memory import bench_memory
from bench.bench_optimize import bench_optimize
from bench.bench_search import bench_grpc, bench_search
from bench.bench_select import bench_select
from bench.bench_small import bench_small
from bench.bench_text import bench_text
from bench.bench_upload import bench_grpc_upload, bench_upload
from bench.bench_writes import bench_writes
from bench.contenders import OtherSearchError
from bench.load import MeasurementFailedError
from bench.machine import machine
from bench.processes import DidNotStartError
from bench.report import Section, document, table
from bench.rounds import FULL, QUICK, Effort

SECTIONS: dict[str, Callable[[Effort], Iterator[Section]]] = {
    "select": bench_select,
    "text": bench_text,
    "optimize": bench_optimize,
    "search-384": partial(bench_search, 384),
    "search-1536": partial(bench_search, 1536),
    "client-384": partial(bench_client, 384),
    "client-1536": partial(bench_client, 1536),
    "grpc-384": partial(bench_grpc, 384),
    "grpc-1536": partial(bench_grpc, 1536),
    "small": bench_small,
    "upload": bench_upload,
    "grpc-upload": bench_grpc_upload,
    "engine": bench_engine,
    "memory": bench_memory,
    "memory-large": bench_large_memory,
    "writes": bench_writes,
}
OUTPUT = Path(".bench/latest.json")


def main() -> int:
    """Run what was asked for. Exit 0 when everything was measured, whether or not an aim was met; 1 when not."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks, as ratios.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of: {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="shorter and fewer rounds")
    arguments = parser.parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    signal.signal(signal.SIGTERM, _interrupt)  # so that children end on SIGTERM as on Ctrl-C
    console = Console(width=None if sys.stdout.isatty() else 160)
    facts: dict[str, object] = {**machine(), "quick": arguments.quick}
    start, results = time.monotonic(), []
    console.print(
        f"{facts['cores']} cores, {facts['processor']}, Python {facts['python']}, load {facts['load_average']}; "
        "median (range) of rounds, all sides of a table interleaved; CPU ms: processor time of the process per request; "
        "of (a), of (c): the relay's processor time over ours"
    )
    try:
        for name in arguments.sections or SECTIONS:
            for section in SECTIONS[name](QUICK if arguments.quick else FULL):
                results.append(section)
                console.print(table(section))
    except (DidNotStartError, MeasurementFailedError, OtherSearchError) as problem:
        console.print(f"{type(problem).__name__}: {problem}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    facts["seconds"] = round(time.monotonic() - start, 1)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(document(results, facts), indent=2) + "\n", encoding="utf-8")
    console.print(f"[dim]{facts['seconds']} s; machine-readable: {OUTPUT}[/dim]")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

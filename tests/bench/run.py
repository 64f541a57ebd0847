"""All benchmarks in order: starts the servers, prints each figure's table, writes .bench/latest.json."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from rich.console import Console

from bench.bench_grpc import Sets, bench_grpc
from bench.bench_latency import Trio, bench_latency
from bench.bench_passthrough import bench_passthrough
from bench.bench_search import MixedAnswersError, bench_client_side, bench_search
from bench.bench_select import bench_select
from bench.bench_text import bench_text
from bench.bench_upload import bench_upload
from bench.contenders import OtherSearchError, bare_relay, grpc_relay, vecsieve, vecsieve_grpc
from bench.figures import Figure
from bench.load import MeasurementFailedError, generator_kind
from bench.machine import machine
from bench.processes import DidNotStartError
from bench.report import document, table
from bench.rounds import FULL, QUICK, Effort
from bench.scenes import Scene, scene
from bench.upstream import serving, serving_grpc

NAMES = ("select", "text", "search", "client", "passthrough", "upload", "latency", "grpc")
OUTPUT = Path(".bench/latest.json")


def main() -> int:
    """Run what was asked for. Exit 0 when everything was measured, whether or not an aim was met; 1 when not."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks, as ratios.")
    parser.add_argument("--quick", action="store_true", help="shorter and fewer rounds: under a minute")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="some of the benchmarks")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)  # so that children end on SIGTERM as on Ctrl-C
    console = Console(width=None if sys.stdout.isatty() else 140)
    facts: dict[str, object] = {**machine(), "quick": arguments.quick, "load_generator": generator_kind()}
    start = time.monotonic()
    figures: list[Figure] = []
    try:
        for each in measure(arguments.only, QUICK if arguments.quick else FULL, facts):
            figures.append(each)
            console.print(f"[dim]{time.monotonic() - start:5.0f} s  {each.name} / {each.against}[/dim]")
    except (DidNotStartError, MeasurementFailedError, MixedAnswersError, OtherSearchError) as problem:
        console.print(f"{type(problem).__name__}: {problem}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    facts["seconds"] = round(time.monotonic() - start, 1)
    console.print(table(figures, title=_title(facts)))
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(document(figures, facts), indent=2) + "\n", encoding="utf-8")
    console.print(f"[dim]machine-readable: {OUTPUT}[/dim]")
    return 0


def measure(names: tuple[str, ...], effort: Effort, facts: dict[str, object]) -> Iterator[Figure]:
    """Figures as they come. Adds to ``facts`` what served as the upstream."""
    if "select" in names:
        yield from bench_select(effort)
    if "text" in names:
        yield from bench_text(effort)
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        prepared = scene(directory)
        upstream = running.enter_context(serving(prepared.replies, directory))
        facts["upstream"] = upstream.kind
        if {"search", "client", "passthrough", "latency"} & set(names):
            proxy = running.enter_context(vecsieve(upstream.port))
            relay = running.enter_context(bare_relay(upstream.port))
            if "search" in names:
                yield from bench_search(prepared, proxy, relay, effort)
            if "client" in names:
                yield from bench_client_side(prepared, proxy, upstream, effort)
            if "passthrough" in names:
                yield from bench_passthrough(prepared, proxy, relay, effort)
            if "latency" in names:
                yield from bench_latency(prepared, Trio(proxy, relay, upstream), effort)
        if "grpc" in names:
            yield from _over_grpc(prepared, upstream.port, effort)
    if "upload" in names:
        yield from bench_upload(effort)


def _over_grpc(prepared: Scene, http_port: int, effort: Effort) -> Iterator[Figure]:
    with serving_grpc(prepared.grpc_replies, prepared.directory) as port, grpc_relay(port) as relay:
        on, off = (vecsieve_grpc(http_port, port, mode=mode) for mode in ("on", "off"))
        with on as proxy, off as passing:
            yield from bench_grpc(prepared, Sets(proxy=proxy, off=passing, relay=relay, upstream_port=port), effort)


def _title(facts: dict[str, object]) -> str:
    return (
        f"{facts['cores']} cores, {facts['processor']}, Python {facts['python']}, load {facts['load_average']}; "
        f"upstream: {facts.get('upstream', 'none')}; load: {facts['load_generator']}; "
        f"median (range) of rounds, both sides interleaved"
    )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

"""What the proxy remembers of points: hit rates, bytes not moved and memory, over questions by Zipf's law from an empty start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.asking import searches
from bench.contenders import Proxy, database, vecsieve
from bench.load import ask
from bench.processes import rss_bytes
from bench.report import Section
from bench.rounds import Effort
from bench.store import QUESTIONS, store

DIMENSIONS = 384
STEPS = (200, 500, 1_000, 2_000)
WORKERS = (1, 2, 4)
RESULTS = re.compile(r'result="(\w+)"')


def bench_memory(_effort: Effort) -> Iterator[Section]:
    """One table for each number of processes: a row for each step."""
    held = store(DIMENSIONS)
    script = searches(held, "same", questions=QUESTIONS, order="zipf")
    for workers in WORKERS:
        rows = []
        with database(DIMENSIONS) as upstream, vecsieve(upstream, "--workers", str(workers)) as proxy:
            ask(script, proxy.port, count=8 * workers)  # connections open, libraries loaded
            idle, done, before = rss_bytes(proxy.pid), 0, upstream.moved()
            seen = memory(proxy)
            for step in STEPS:
                outcome = ask(script, proxy.port, count=step - done, seed=step, pid=proxy.pid)
                moved, now = upstream.moved(), memory(proxy)
                row: dict[str, object] = {"searches": f"{done} to {step}", "CPU ms": outcome.cpu_ms}
                row["kB from db"] = (moved["bytes"] - before["bytes"]) / outcome.replies / 1e3
                row["lookups"] = (moved["lookups"] - before["lookups"]) / outcome.replies
                row |= shares(seen, now)
                row["RSS grew MB"] = (rss_bytes(proxy.pid) - idle) / 1e6
                row |= held_now(now)
                rows.append(row)
                done, before, seen = step, moved, now
        yield Section(
            f"memory, {workers} processes" if workers > 1 else "memory",
            f"{QUESTIONS:,} questions by Zipf's law over {len(held.texts):,} × {DIMENSIONS}, from an empty start",
            rows,
        )


def memory(proxy: Proxy) -> dict[str, float]:
    """The samples of the feature memory; none where there is no such thing."""
    return {at: value for at, value in proxy.metrics().items() if at.startswith("vecsieve_memory_")}


def shares(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, object]:
    """Of the recalls in between, how many were of each kind."""
    risen = {
        found[1]: value - before.get(at, 0.0)
        for at, value in now.items()
        if at.startswith("vecsieve_memory_recalls_total") and (found := RESULTS.search(at))
    }
    total = sum(risen.values())
    return {kind: f"{count / total:.0%}" for kind, count in risen.items()} if total else {}


def held_now(now: Mapping[str, float]) -> dict[str, object]:
    """Points held, and the bytes of each."""
    points = sum(value for at, value in now.items() if at.startswith("vecsieve_memory_points{"))
    size = sum(value for at, value in now.items() if at.startswith("vecsieve_memory_bytes{"))
    return {"points": points, "bytes a point": size / points} if points else {}

"""What the feature memory takes for a million points: learned as from searches, in pools of 50, by a process that does nothing else.

``python -m bench.bench_large_memory COUNT`` prints the figures as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bench.load import MeasurementFailedError
from bench.processes import environment, rss_bytes
from bench.report import Section, judged_most
from bench.rounds import FULL, Effort
from vecsieve.proxy.search.memory.points import FeatureMemory, Key, Points

DIMENSIONS, PAGE = 384, 50
COUNT, QUICK_COUNT = 1_000_000, 50_000
MOST_GB = 1.2
ROOM_BYTES = 2_000  # `memory.bytes` for each point
RECALLED = 200  # pools

Vector = npt.NDArray[np.float32]


def bench_large_memory(effort: Effort) -> Iterator[Section]:
    """One row: resident memory, what `vecsieve_memory_bytes` says, and the time that searches add."""
    count = COUNT if effort == FULL else QUICK_COUNT
    command = (sys.executable, "-m", "bench.bench_large_memory", str(count))
    output = subprocess.run(command, check=True, capture_output=True, env=environment()).stdout
    row = json.loads(output)
    gigabytes = row["RSS grew GB"] * COUNT / count
    row["GB a million"] = f"{gigabytes:.2f} {judged_most(gigabytes, MOST_GB)}"
    yield Section("memory-large", f"{count:,} points × {DIMENSIONS}", [row])


def learned(count: int) -> dict[str, float]:
    """Learn so many points, and recall some of them."""
    draw = np.random.default_rng(5)
    memory = FeatureMemory(ROOM_BYTES * count, ttl_seconds=3600.0, clock=time.monotonic)
    key = Key(b"", "", DIMENSIONS)
    query = draw.standard_normal(DIMENSIONS).astype(np.float32)
    query /= np.linalg.norm(query)
    scores = np.zeros(count)
    spent, before = time.process_time(), rss_bytes(os.getpid())
    for start in range(0, count, PAGE):
        vectors = draw.standard_normal((PAGE, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        scores[start : start + PAGE] = vectors @ query
        names = tuple(b"%d@1" % number for number in range(start, start + PAGE))
        memory.learn("c", key, Points(names, query, scores[start : start + PAGE], is_versioned=True), vectors)
    grown, learning = rss_bytes(os.getpid()) - before, time.process_time() - spent
    return {
        "points": float(memory.points),
        "evicted": float(memory.evicted),
        "RSS grew GB": grown / 1e9,
        "bytes a point": grown / memory.points,
        "as counted": memory.stored_bytes / memory.points,
        f"learn {PAGE}, CPU ms": learning / (count / PAGE) * 1e3,
        f"recall {PAGE}, CPU ms": _recalled_ms(memory, key, query, scores),
    }


def _recalled_ms(memory: FeatureMemory, key: Key, query: Vector, scores: npt.NDArray[np.float64]) -> float:
    """CPU of a pool whose points lie anywhere."""
    draw, spent = np.random.default_rng(6), 0.0
    for _ in range(RECALLED):
        places = draw.choice(len(scores), PAGE, replace=False)
        points = Points(tuple(b"%d@1" % place for place in places.tolist()), query, scores[places], is_versioned=True)
        begun = time.process_time()
        recalled = memory.recall("c", key, points)
        spent += time.process_time() - begun
        if recalled is None:
            raise MeasurementFailedError("wanted all points of a pool from memory")
    return spent / RECALLED * 1e3


if __name__ == "__main__":
    print(json.dumps(learned(int(sys.argv[1]))))

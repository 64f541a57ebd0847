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
import orjson

from bench.load import MeasurementFailedError
from bench.passages import drawn
from bench.processes import environment, rss_bytes
from bench.report import Section, judged_most
from bench.rounds import FULL, Effort
from vecsieve.adapters.contract import Pool
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.candidates import records_of
from vecsieve.proxy.search.memory.points import READ_BYTES, FeatureMemory
from vecsieve.proxy.search.memory.shelves import Key, Points, Recalled
from vecsieve.proxy.search.policy import Policies, keys_of

DIMENSIONS, CHARACTERS, PAGE = 384, 500, 50
COUNT, QUICK_COUNT = 1_000_000, 50_000
MOST_GB = 2.0
ROOM_BYTES = 2_000  # `memory.bytes` for each point
SOURCE_WORDS = 400_000
RECALLED = 200  # pools

Vector = npt.NDArray[np.float32]


def bench_large_memory(effort: Effort) -> Iterator[Section]:
    """One row: resident memory, what `vecsieve_memory_bytes` says, and the time that searches add."""
    count = COUNT if effort == FULL else QUICK_COUNT
    command = (sys.executable, "-m", "bench.bench_large_memory", str(count))
    said = subprocess.run(command, check=True, capture_output=True, env=environment()).stdout
    row = json.loads(said)
    gigabytes = row["RSS grew GB"] * COUNT / count
    row["GB a million"] = f"{gigabytes:.2f} {judged_most(gigabytes, MOST_GB)}"
    yield Section("memory-large", f"{count:,} points × {DIMENSIONS}, texts of {CHARACTERS} characters", [row])


def learned(count: int) -> dict[str, float]:
    """Learn so many points, and recall some of them."""
    fields = Policies(Settings()).resolve("qdrant", "c").fields
    keys = keys_of((), fields)
    words, draw = " ".join(drawn(SOURCE_WORDS, seed=5)), np.random.default_rng(5)
    memory = FeatureMemory(ROOM_BYTES * count + READ_BYTES, ttl_seconds=3600.0, clock=time.monotonic)
    key = Key(b"", "", DIMENSIONS, fields)
    query = draw.standard_normal(DIMENSIONS).astype(np.float32)
    query /= np.linalg.norm(query)
    scores = np.zeros(count)
    spent, before = time.process_time(), rss_bytes(os.getpid())
    for start in range(0, count, PAGE):
        vectors = draw.standard_normal((PAGE, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        at = draw.integers(len(words) - CHARACTERS, size=PAGE).tolist()
        texts = [orjson.dumps(words[each : each + CHARACTERS]) for each in at]
        rows = tuple(tuple(text if name == "text" else None for name in keys) for text in texts)
        scores[start : start + PAGE] = vectors @ query
        pool = Pool(scores=scores[start : start + PAGE], vectors=vectors, fields=rows)
        names = tuple(b"%d@1" % each for each in range(start, start + PAGE))
        memory.learn(
            "c", key, Points(names, query, pool.scores), vectors, records_of(pool, tenant_keys=(), fields=fields)
        )
    grown, learning = rss_bytes(os.getpid()) - before, time.process_time() - spent
    return {
        "points": float(memory.points),
        "evicted": float(memory.evicted),
        "RSS grew GB": grown / 1e9,
        "bytes a point": grown / memory.points,
        "as counted": memory.held_bytes / memory.points,
        f"learn {PAGE}, CPU ms": learning / (count / PAGE) * 1e3,
        f"recall {PAGE}, CPU ms": _recalled_ms(memory, key, query, scores),
    }


def _recalled_ms(memory: FeatureMemory, key: Key, query: Vector, scores: npt.NDArray[np.float64]) -> float:
    """CPU of a pool whose points lie anywhere, texts unpacked."""
    draw, spent = np.random.default_rng(6), 0.0
    for _ in range(RECALLED):
        places = draw.choice(len(scores), PAGE, replace=False)
        points = Points(tuple(b"%d@1" % each for each in places.tolist()), query, scores[places])
        begun = time.process_time()
        found = memory.recall("c", key, points, with_records=True)
        spent += time.process_time() - begun
        if not isinstance(found, Recalled):
            raise MeasurementFailedError("wanted all points of a pool from memory")
    return spent / RECALLED * 1e3


if __name__ == "__main__":
    print(json.dumps(learned(int(sys.argv[1]))))

"""`POST /v1/optimize`, from the bytes of a request to the bytes of its answer, against the least that reads such a body: orjson and numpy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import orjson

from bench.bench_select import per_call
from bench.figures import Aim, Sides, figure
from bench.passages import WORDS, passages
from bench.report import Section, section
from bench.rounds import Effort, interleave
from support.selection.texts import forget
from vecsieve.proxy.api.messages import optimizing
from vecsieve.proxy.search.context.tokens import estimated

CHUNKS, DIMENSION = 50, 1536
POOLS = 6
FAMILIES = 20  # of chunks that say the same
TARGET = Aim("ours", "<=", 10.0)
NUMBERS: dict[str, type[np.floating[Any]]] = {"numbers of 32 bits": np.float32, "numbers of 64 bits": np.float64}


def bench_optimize(effort: Effort) -> Iterator[Section]:
    """Processor time of one request in milliseconds, all texts new."""
    work, figures = optimizing(estimated), []
    for name, kind in NUMBERS.items():
        bodies = [body(seed, kind) for seed in range(POOLS)]
        sides = {
            "ours": per_call([partial(_forgetting, partial(work, text)) for text in bodies], clock=time.process_time),
            "read": per_call([partial(_read, text) for text in bodies], clock=time.process_time),
        }
        interleave(sides, rounds=1)
        times = interleave(sides, rounds=effort.kernel_rounds)
        figures.append(
            figure(
                f"{CHUNKS} × {DIMENSION}, {WORDS} words, {name}, {len(bodies[0]) / 1e6:.1f} MB",
                Sides(times["ours"], times["read"]),
                unit="CPU ms",
                against="orjson and numpy",
                aims=(TARGET,),
            )
        )
    yield section("optimize", "POST /v1/optimize with embeddings, in the handler", figures)


def body(seed: int, kind: type[np.floating[Any]]) -> bytes:
    """A request: chunks in families, whose embeddings are near one another, with a query."""
    rng = np.random.default_rng(seed)
    families = rng.normal(size=(FAMILIES, DIMENSION))
    noise = rng.normal(scale=0.1, size=(CHUNKS, DIMENSION))
    vectors = families[rng.integers(0, FAMILIES, CHUNKS)] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [row.astype(kind) for row in vectors]
    chunks = [
        {"id": str(place), "text": text, "score": 1.0 - place / 100, "embedding": row}
        for place, (text, row) in enumerate(zip(passages(CHUNKS, seed=seed), rows, strict=True))
    ]
    fields = {
        "query": "which report",
        "query_embedding": rows[0],
        "chunks": chunks,
        "target_k": 8,
        "token_budget": 2000,
    }
    return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)


def _read(text: bytes) -> object:
    return np.array([chunk["embedding"] for chunk in orjson.loads(text)["chunks"]], np.float32)


def _forgetting(work: partial[bytes]) -> object:
    forget()
    return work()

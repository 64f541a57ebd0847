"""A labelled set small enough to be worked out by hand, as a folder.

Five items in three dimensions. Query 0 looks along the first axis: `a`, its copy `a2`, then `b` (0.8), `c` (0.6), `d` (0).
Query 1 looks along the second: `d`, then `b` (0.6), then the other three, all at 0 and therefore by row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

A, COPY, B, C, D = range(5)

CORPUS: list[dict[str, object]] = [
    {"id": "a", "text": "alpha", "doc": "one", "source": "web", "atoms": ["x"]},
    {"id": "a2", "text": "Alpha", "doc": "two", "source": "pdf", "atoms": ["x"]},
    {"id": "b", "text": "beta", "doc": "one", "source": "web", "atoms": ["y"]},
    {"id": "c", "text": "gamma", "doc": "three", "source": "web", "atoms": ["x", "z"]},
    {"id": "d", "text": "delta", "doc": "three", "source": "web", "atoms": ["w"]},
]
QUERIES: list[dict[str, object]] = [
    {"qid": "q0", "text": "?", "subtopics": {"x": ["a", "a2", "c"], "z": ["c"]}},
    {"qid": "q1", "text": "?", "subtopics": {"w": ["d"]}},
]
VECTORS = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]
QUERY_VECTORS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]

# What merges `a` and its copy, and nothing else.
BY_VECTORS = (
    "{linkage: average, threshold: {fixed: 0.05}, when: always, dpp: none, mmr: none, texts: none, short: fill}"
)
# The same by text; no two different vectors pass its cut.
BY_TEXT = "{linkage: average, threshold: {fixed: 0.0}, when: always, dpp: none, mmr: none, short: fill, texts: edited}"


def labelled_folder(
    folder: Path,
    *,
    corpus: Sequence[dict[str, object]] = CORPUS,
    queries: Sequence[dict[str, object]] = QUERIES,
    vectors: Sequence[Sequence[float]] = VECTORS,
    query_vectors: Sequence[Sequence[float]] = QUERY_VECTORS,
    extra: str | None = None,
) -> Path:
    """The folder, made with whatever stands above it."""
    folder.mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", corpus)
    write_lines(folder / "queries.jsonl", queries)
    np.save(folder / "corpus.f16.npy", np.array(vectors, np.float16))
    np.save(folder / "queries.f16.npy", np.array(query_vectors, np.float16))
    if extra is not None:
        (folder / "meta.json").write_text(json.dumps({"name": folder.name, "extra_corpus": extra}))
    return folder


def write_lines(path: Path, rows: Sequence[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

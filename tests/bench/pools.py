"""Pools as a database returns them: candidates near the query, some of them near-copies of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Copies per passage, repeated over the pool: half the candidates are copies, and the gate always finds some.
GROUPS = (4, 1, 3, 1, 2, 1, 1, 2, 1)
# Share of the query in each passage: passages then lie about 0.5 apart, as real answers to one question do.
TOWARDS_QUERY = 0.7
# Relative length of the noise between copies: cosine distance about 0.02, like two chunks that overlap.
COPY_NOISE = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """``query``: (d,) float32. ``vectors``: (n, d) float32 unit rows, best first. ``scores``: (n,) float64."""

    query: npt.NDArray[np.float32]
    vectors: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float64]


def sample(n: int, dimensions: int, *, seed: int) -> Sample:
    """A pool of n candidates in the order of their cosine to the query. Same arguments, same pool."""
    generator = np.random.default_rng(seed)
    query = _unit(generator.standard_normal(dimensions))
    rows: list[npt.NDArray[np.float64]] = []
    while len(rows) < n:
        for copies in GROUPS:
            away = _unit(generator.standard_normal(dimensions))
            passage = _unit(TOWARDS_QUERY * query + np.sqrt(1.0 - TOWARDS_QUERY**2) * away)
            rows += [_unit(passage + COPY_NOISE * _unit(generator.standard_normal(dimensions))) for _ in range(copies)]
    vectors = np.array(rows[:n])
    scores = vectors @ query
    best_first = np.argsort(-scores, kind="stable")
    return Sample(query.astype(np.float32), vectors[best_first].astype(np.float32), scores[best_first])


def _unit(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unit: npt.NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit

"""What it means that a result repeats an earlier one: by vector, and, independently of any vector, by wording.

Both look only at the list as a reader meets it, from the top: the first of two copies is never the repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.demo.corpus import Vectors

RUN_WORDS = 3  # three words in a row rarely coincide by chance, and survive small edits better than longer runs
RETOLD_SHARE = 0.5  # half said before: less than half of the result is news


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The nearest earlier result: its place in the list (from 0) and its cosine distance."""

    place: int
    distance: float


def nearest_earlier(vectors: Vectors) -> tuple[Nearest | None, ...]:
    """Per row of (k, d) unit vectors the nearest row above it; of equals the higher one. None for the first row."""
    distances = 1.0 - vectors @ vectors.T
    found: list[Nearest | None] = []
    for row in range(len(vectors)):
        above = distances[row, :row]
        place = int(np.argmin(above)) if row else None
        found.append(None if place is None else Nearest(place=place, distance=max(0.0, float(above[place]))))
    return tuple(found)


def vector_repeats(vectors: Vectors, threshold: float) -> int:
    """How many results lie within ``threshold`` (cosine distance) of a result above them."""
    return sum(near is not None and near.distance <= threshold for near in nearest_earlier(vectors))


def wording_repeats(texts: Sequence[str]) -> int:
    """How many results consist, by half of their three-word runs or more, of runs of one single result above them."""
    runs = [_runs(text) for text in texts]
    return sum(any(_is_retold(runs[row], earlier) for earlier in runs[:row]) for row in range(len(runs)))


def _is_retold(runs: frozenset[tuple[str, ...]], earlier: frozenset[tuple[str, ...]]) -> bool:
    return len(runs & earlier) >= RETOLD_SHARE * len(runs) > 0


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1))

"""What it means that a result repeats an earlier one: by vector, and, independently of any vector, by wording.

The yardstick for counting, the same for every list and not what VecSieve chooses by: a proxy that is judged by its own cut
finds no repeat in its own answers. Both look only at the list as a reader meets it, from the top: the first of two copies
is never the repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.demo.corpus import Vectors
from vecsieve.proxy.selection.policy import Relative
from vecsieve.proxy.selection.thresholds import cuts

RUN_WORDS = 3  # three words in a row rarely coincide by chance, and survive small edits better than longer runs
RETOLD_SHARE = 0.5  # half said before: less than half of the result is news
# One share for every place of the list. It was VecSieve's own cut until that grew down the page; now it is nobody's.
NEAR = Relative(factor=0.20, minimum=0.02, maximum=0.30)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retold:
    """The earlier result that says most of a result's three-word runs: its place (from 0), and the share of them."""

    place: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """By what a result repeats one above it: by vector, by wording, or both; each None where it does not."""

    by_vector: Nearest | None
    by_wording: Retold | None

    @property
    def is_one(self) -> bool:
        """Whether it repeats anything."""
        return self.by_vector is not None or self.by_wording is not None


def nearness(median: float) -> float:
    """The cosine distance up to which two results count as one. ``median``: typical distance of the first candidates."""
    return cuts(NEAR, median, 1)[0]


def repeats(vectors: Vectors, texts: Sequence[str], threshold: float) -> tuple[Repeat, ...]:
    """Per result of a list, its ``vectors`` (k, d) of unit length and its k ``texts``: what it repeats."""
    return tuple(
        Repeat(
            by_vector=near if near is not None and near.distance <= threshold else None,
            by_wording=told if told is not None and told.share >= RETOLD_SHARE else None,
        )
        for near, told in zip(nearest_earlier(vectors), most_told_earlier(texts), strict=True)
    )


def most_told_earlier(texts: Sequence[str]) -> tuple[Retold | None, ...]:
    """Per text the single text above it that holds most of its three-word runs, of equals the higher one.

    None for the first, and for texts shorter than a run: they repeat nothing by wording.
    """
    runs = [_runs(text) for text in texts]
    found: list[Retold | None] = []
    for row, own in enumerate(runs):
        shared = [len(own & earlier) for earlier in runs[:row]]
        place = max(range(row), key=shared.__getitem__, default=None)
        told = None if place is None or not own else Retold(place=place, share=shared[place] / len(own))
        found.append(told)
    return tuple(found)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1))

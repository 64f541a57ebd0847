"""Pools of searches for stored points: the collection's relative cut, and what deduplication would save at top_k 8.

A search for a stored text finds more of its copies than a real question, which lies between subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.clustering import cluster
from vecsieve.proxy.selection.geometry import SCALE_FROM, measure, median_distance
from vecsieve.proxy.selection.policy import Linkage
from vecsieve.proxy.selection.values import FloatMatrix

TOP_K = 8
FETCHED = 40  # what the proxy asks for at top_k 8
POOL = SCALE_FROM  # candidates that the relative cut is computed from


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """``distance``: (n, n) of selection, with 0 between equal texts. ``median``: scales the relative cut."""

    distance: FloatMatrix
    median: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Plain answers of ``top_k`` results to ``searches`` searches, and the ``copies`` among their ``results``.

    ``by_copies``: how many answers have 0, 1, … top_k - 1 copies. ``filled``: distinct results after deduplication, when
    lower candidates replace the copies; at most ``results``.
    """

    searches: int
    top_k: int
    results: int
    copies: int
    by_copies: tuple[int, ...]
    filled: int


def pool(vectors: FloatMatrix, keys: npt.NDArray[np.uint64], *, magnitude: bool) -> Pool:
    """In rank order. ``vectors``: (n, d), zero without one. ``keys``: (n,) equal for equal texts, 0 without text."""
    geometry = measure(vectors, magnitude=magnitude)
    same = (keys[:, None] == keys[None, :]) & (keys[:, None] != 0)
    return Pool(distance=np.where(same, np.float32(0.0), geometry.distance), median=median_distance(geometry))


def collection_median(pools: Sequence[Pool]) -> float | None:
    """Of the pools' medians; None without a pool of two vectors."""
    known = [each.median for each in pools if each.median > 0.0]
    return float(np.median(known)) if known else None


def saving(pools: Sequence[Pool], cut: float) -> Saving:
    """A copy is a result within the cut of a better-ranked result that is no copy itself."""
    by_copies = [0] * TOP_K
    results = filled = 0
    for each in pools:
        labels = cluster(each.distance[:FETCHED, :FETCHED], cut, Linkage.LEADER)
        plain = min(TOP_K, len(labels))
        by_copies[plain - len(np.unique(labels[:plain]))] += 1
        results += plain
        filled += min(plain, int(labels.max()) + 1)
    return Saving(
        searches=len(pools),
        top_k=TOP_K,
        results=results,
        copies=sum(copies * answers for copies, answers in enumerate(by_copies)),
        by_copies=tuple(by_copies),
        filled=filled,
    )

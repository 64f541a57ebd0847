"""Searches for stored points: the collection's relative cut, what deduplication would save at top_k 8, and how much chunks overlap.

A search for a stored text finds more copies than a real query, which lies between subjects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt

from vecsieve.config.policy import MetadataSettings

from ...selection.clustering import cluster
from ...selection.geometry import NOISE, SCALE_FROM, measure, median_distance
from ...selection.policy import Linkage
from ...selection.values import FloatMatrix
from ..source import Point, PointId, value_at

TOP_K = 8
FETCHED = 40  # what the proxy asks for at top_k 8
POOL = SCALE_FROM  # candidates that the relative cut is computed from


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """``distance``: (n, n) as in selection, with 0 between equal texts. ``median``: scales the relative cut. ``nearest``: the distance from
    the query point to its nearest other point; infinite if there is none.
    """

    distance: FloatMatrix
    median: float
    nearest: float = math.inf


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


def pool(vectors: FloatMatrix, keys: npt.NDArray[np.uint64], far: Sequence[float], *, magnitude: bool) -> Pool:
    """The pool of n results in rank order. ``vectors``: (n, d), zero for a result without vector. ``keys``: (n,) equal for equal texts, 0
    without text. ``far``: (n,) the distances from the query point, which is one of the results.
    """
    geometry = measure(vectors, magnitude=magnitude)
    same = (keys[:, None] == keys[None, :]) & (keys[:, None] != 0)
    return Pool(
        distance=np.where(same, np.float32(0.0), geometry.distance),
        median=median_distance(geometry),
        nearest=sorted(far)[1] if len(far) > 1 else math.inf,
    )


def share_within(pools: Sequence[Pool], cut: float) -> float:
    """The share of query points that have another point within the cut."""
    return sum(each.nearest <= cut + NOISE for each in pools) / max(1, len(pools))


def collection_median(pools: Sequence[Pool]) -> float | None:
    """The median of the pools' medians; None if no pool has two vectors."""
    known = [each.median for each in pools if each.median > 0.0]
    return float(np.median(known)) if known else None


def saving(pools: Sequence[Pool], cut: float) -> Saving:
    """What deduplication would save. A copy is a result within the cut of a better-ranked result that is not itself a copy."""
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


FEWEST = 10  # pairs of neighbouring chunks: fewer do not show how the splitter works
MUCH = 0.5  # half of each chunk is in the previous one: the usual advice is 10 to 20 %
_NAMES = MetadataSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """``share``: the median overlap of neighbouring chunks of one document, as a share of the shorter chunk. ``pairs``: the number of such
    neighbours. Chunks with a gap between them do not count, because a chunk between them was not read.
    """

    share: float
    pairs: int

    @property
    def is_large(self) -> bool:
        return self.share >= MUCH


def overlap(points: Iterable[Point]) -> Overlap | None:
    """None if fewer than FEWEST neighbours are known."""
    documents: dict[str, dict[PointId, tuple[float, float]]] = {}
    for point in points:
        name, span = _first(point.payload, _NAMES.document), _span(point.payload)
        if name is not None and span is not None:
            documents.setdefault(repr(name), {})[point.id] = span
    shares = [
        share
        for spans in documents.values()
        for one, other in pairwise(sorted(set(spans.values())))
        if (share := (one[1] - other[0]) / min(one[1] - one[0], other[1] - other[0])) >= 0.0
    ]
    return Overlap(share=round(min(median(shares), 1.0), 4), pairs=len(shares)) if len(shares) >= FEWEST else None


def _span(payload: Mapping[str, object]) -> tuple[float, float] | None:
    start, end = _first(payload, _NAMES.span_start), _first(payload, _NAMES.span_end)
    if not isinstance(start, int | float) or not isinstance(end, int | float) or not 0 <= start < end < float("inf"):
        return None
    return float(start), float(end)


def _first(payload: Mapping[str, object], names: Iterable[str]) -> object:
    return next((value for name in names if (value := value_at(payload, name)) is not None), None)

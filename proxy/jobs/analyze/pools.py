"""Searches for stored points: the typical distance, what deduplication would save at top_k 8, and how much chunks overlap.

A search for a stored text finds more repeats than a real query, which lies between subjects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from vecsieve.config.policy import MetadataSettings, PolicySettings

from ...search.collections.statements import PoolStatements
from ...search.policy import resolved
from ...selection.distances import NEARLY_EQUAL
from ...selection.geometry import SCALE_FROM, measure, median_distance
from ...selection.grouping import group
from ...selection.reading.text import UNREAD
from ...selection.values import Candidates, FloatMatrix, Indices, Metadata, Metric, finished
from ..pairs.fingerprints import readable
from ..source import Point, PointId, value_at

TOP_K = 8
FETCHED = 40  # what the proxy asks for at top_k 8
POOL = SCALE_FROM  # candidates that the typical distance is computed from
_POLICY = resolved(PolicySettings(), mode=None).selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """``labels``: (n,) the clusters of the default policy. ``median``: of the distances."""

    labels: Indices
    median: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Plain answers of ``top_k`` results to ``searches`` searches, and the ``repeats`` among their ``results``.

    ``by_repeats``: how many answers have 0, 1, … top_k - 1 repeats. ``filled``: distinct results after deduplication, when
    lower candidates replace the repeats; at most ``results``.
    """

    searches: int
    top_k: int
    results: int
    repeats: int
    by_repeats: tuple[int, ...]
    filled: int


def pool(
    vectors: FloatMatrix,
    texts: Sequence[str | None],
    payloads: Sequence[Mapping[str, object]],
    metric: Metric,
    *,
    magnitude: bool,
) -> Pool:
    """The pool of n results in rank order. ``vectors``: (n, d), zero for a result without vector."""

    def as_json(rows: Sequence[int]) -> list[bytes]:
        return [json.dumps(payloads[row], default=str).encode() for row in rows]

    fetched, n = vectors[:FETCHED], min(FETCHED, len(vectors))
    read = tuple(None if text is None else readable(text) or UNREAD for text in texts[:FETCHED])
    candidates = Candidates(
        scores=np.linspace(1.0, 0.0, n),
        vectors=fetched,
        metric=metric,
        metadata=Metadata(texts=read),
        statements=PoolStatements(as_json, n),
    )
    grouped = finished(group(candidates, _POLICY, None))
    return Pool(labels=grouped.labels, median=median_distance(measure(vectors, magnitude=magnitude)))


def near_cut(pools: Sequence[Pool]) -> float:
    """The distance at which vectors are nearly equal, from the median of the pools' medians; 0.0 if no pool has two vectors."""
    known = [reading.median for reading in pools if reading.median > 0.0]
    return NEARLY_EQUAL * float(np.median(known)) if known else 0.0


def saving(pools: Sequence[Pool]) -> Saving:
    """What deduplication by the default policy would save."""
    by_repeats = [0] * TOP_K
    results = filled = 0
    for pool in pools:
        plain = min(TOP_K, len(pool.labels))
        by_repeats[plain - len(np.unique(pool.labels[:plain]))] += 1
        results += plain
        filled += min(plain, int(pool.labels.max()) + 1)
    return Saving(
        searches=len(pools),
        top_k=TOP_K,
        results=results,
        repeats=sum(repeats * answers for repeats, answers in enumerate(by_repeats)),
        by_repeats=tuple(by_repeats),
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

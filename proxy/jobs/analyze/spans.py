"""How much the splitter's chunks overlap, read off the spans of points that searches for stored points brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from vecsieve.config.policy import MetadataSettings
from vecsieve.proxy.jobs.source import Point, PointId, value_at

FEWEST = 10  # neighbouring chunks: fewer say nothing of the splitter
MUCH = 0.5  # half of each chunk is in the one before: the usual advice is 10 to 20 %
_NAMES = MetadataSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """``share``: the median, over ``pairs`` of neighbouring chunks of one document, of the shorter chunk that both cover. Chunks with a
    gap between them are no neighbours: the one between was not seen.
    """

    share: float
    pairs: int

    @property
    def is_large(self) -> bool:
        return self.share >= MUCH


def overlap(points: Iterable[Point]) -> Overlap | None:
    """None where fewer than FEWEST neighbours are known."""
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

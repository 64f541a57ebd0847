"""Which points are looked at: ids evenly spread over the whole collection, in the order of ids.

Ids are listed without vectors and payloads, which a database answers from its id index: a million are a hundred
requests. A random sample of the same size would say as much, but not the same twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.proxy.jobs.progress import Advance
from vecsieve.proxy.jobs.source import PointId, Source

IDS_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """``ids``: at most as many as wanted, evenly spread over ``listed`` ids."""

    ids: tuple[PointId, ...]
    listed: int


def spread(source: Source, wanted: int, progress: Advance) -> Sample:
    """List every id and keep ``wanted`` of them. Memory: twice ``wanted`` ids and a page, however large the collection."""
    kept: list[PointId] = []
    stride, listed = 1, 0
    after: PointId | None = None
    while True:
        ids, after = source.ids(after=after, page=IDS_PAGE)
        kept.extend(ids[-listed % stride :: stride])
        listed += len(ids)
        while len(kept) > 2 * wanted:
            kept, stride = kept[::2], 2 * stride
        progress(len(ids))
        if after is None:
            return Sample(ids=tuple(_thinned(kept, wanted)), listed=listed)


def _thinned(ids: Sequence[PointId], wanted: int) -> Sequence[PointId]:
    if len(ids) <= wanted:
        return ids
    return [ids[place * len(ids) // wanted] for place in range(wanted)]

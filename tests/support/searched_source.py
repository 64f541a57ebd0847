"""The in-memory collection with what `analyze` asks for beside: nearest ids. It writes down every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from support.memory_source import MemorySource
from vecsieve.proxy.jobs.analyze.reading import NEIGHBOURS, NOWHERE, Gathered, Ids, Known, nothing_yet, spread
from vecsieve.proxy.jobs.source import Point, PointId, SourceError, Vectors
from vecsieve.proxy.selection.geometry import measure


class SearchedSource(MemorySource):
    """``fails_after``: that many reads are answered, the next one raises SourceError."""

    def __init__(self, points: Sequence[Point], *, distance: str = "Cosine", fails_after: int | None = None) -> None:
        super().__init__(points, distance=distance)
        self.calls: list[str] = []
        self._left = fails_after

    def read(self, ids: Sequence[PointId]) -> list[Point]:
        self.calls.append("read")
        if self._left is not None:
            if not self._left:
                raise SourceError("the database went away")
            self._left -= 1
        return super().read(ids)

    def nearest(self, vectors: Vectors, *, count: int) -> list[list[tuple[PointId, float]]]:
        self.calls.append("nearest")
        return super().nearest(vectors, count=count)


def numbered(count: int) -> Ids:
    """Ids 0 to count - 1: every point's id is its place."""
    return Ids([list(range(count))])


def gathered_of(
    vectors: Vectors,
    *,
    texts: Sequence[int] | None = None,
    sources: Sequence[str | None] | None = None,
    looked: Iterable[int] | None = None,
) -> Gathered:
    """What reading these points would leave. ``texts``: equal numbers for equal texts, all different without."""
    n = len(vectors)
    gathered = nothing_yet(n, spread(n, None) if looked is None else np.array(list(looked), np.int32))
    distance = measure(vectors, magnitude=False).distance.copy()
    np.fill_diagonal(distance, np.inf)
    for row, place in enumerate(gathered.looked.tolist()):
        order = np.argsort(distance[place], kind="stable")[: min(NEIGHBOURS, n - 1)]
        gathered.others[row, : len(order)] = order
        gathered.distances[row, : len(order)] = distance[place, order]
    gathered.others[~np.isfinite(gathered.distances)] = NOWHERE
    gathered.vectors[:] = True
    gathered.known[:] = Known.TEXT
    gathered.keys[:] = np.arange(n) if texts is None else texts
    for place, name in enumerate(sources or ()):
        if name is not None:
            if name not in gathered.source_names:
                gathered.source_names.append(name)
            gathered.sources[place] = gathered.source_names.index(name)
    return gathered

"""The in-memory collection with what `analyze` asks for beside: nearest ids. It writes down every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from support.memory_source import MemorySource
from vecsieve.proxy.jobs.analyze.reading import NEIGHBOURS, Gathered, Known
from vecsieve.proxy.jobs.pairs.ids import NOWHERE, Ids
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
    """What reading these points would leave; with ``looked``, what searches for these would. ``texts``: equal numbers for equal texts, all
    different without.
    """
    n = len(vectors)
    distance = measure(vectors, magnitude=False).distance.copy()
    np.fill_diagonal(distance, np.inf)
    asked = np.arange(n, dtype=np.int32) if looked is None else np.array(list(looked), np.int32)
    most = n if looked is None else NEIGHBOURS
    lists = [(place, np.argsort(distance[place], kind="stable")[:most]) for place in asked.tolist()]
    met = {(min(one, two), max(one, two)) for one, others in lists for two in others.tolist() if one != two}
    pairs = np.array([each for each in sorted(met) if np.isfinite(distance[each])], np.int32).reshape(-1, 2)
    names = list(dict.fromkeys(name for name in sources or () if name is not None))
    return Gathered(
        looked=asked,
        pairs=pairs,
        distances=distance[pairs[:, 0], pairs[:, 1]],
        keys=np.array(range(n) if texts is None else texts, np.uint64),
        known=np.full(n, Known.TEXT, np.uint8),
        sources=np.array([NOWHERE if name is None else names.index(name) for name in sources or [None] * n], np.int32),
        source_names=names,
        vectors=np.ones(len(asked), np.bool_),
        listed=np.array([np.inf if most >= n else distance[place, o[-1]] for place, o in lists], np.float32),
    )

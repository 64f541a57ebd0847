"""The in-memory collection that writes down every call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from support.jobs.memory_source import MemorySource
from vecsieve.proxy.jobs.analyze.reading import FieldNames, Gathered, gathered_sample
from vecsieve.proxy.jobs.pairs.ids import NOWHERE, Ids
from vecsieve.proxy.jobs.source import Point, PointId, SourceError, Vectors
from vecsieve.proxy.runtime.files import Advance


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

    def neighbours(self, vectors: Vectors, *, count: int) -> list[list[tuple[Point, float]]]:
        self.calls.append("neighbours")
        return super().neighbours(vectors, count=count)


def numbered(count: int) -> Ids:
    """Ids 0 to count - 1: every point's id is its place."""
    return Ids([list(range(count))])


def gathered_of(
    texts: Sequence[str | None],
    vectors: Vectors | None = None,
    *,
    sources: Sequence[str | None] | None = None,
    examined: Sequence[int] | None = None,
) -> Gathered:
    """What searches for these points, or for those of ``examined``, would leave. ``vectors``: all alike without."""
    rows = np.ones((len(texts), 4), np.float32) if vectors is None else vectors
    points = [
        Point(id=place, vector=rows[place], payload={} if text is None else {"text": text})
        for place, text in enumerate(texts)
    ]
    places = np.array(range(len(texts)) if examined is None else examined, np.int32)
    fields = FieldNames(text=("text",), source=("source",))
    sample = gathered_sample(SearchedSource(points), numbered(len(texts)), places, fields, 1e-4)
    if sources is None:
        return sample
    names = list(dict.fromkeys(name for name in sources if name is not None))
    numbers = np.array([NOWHERE if name is None else names.index(name) for name in sources], np.int32)
    return replace(sample, sources=numbers, source_names=names)


@contextmanager
def quiet(_title: str, _total: int | None) -> Iterator[Advance]:
    """A progress bar that nobody sees."""
    yield lambda _done: None

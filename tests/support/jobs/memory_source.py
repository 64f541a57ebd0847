"""A collection in memory, read as jobs read one: exact neighbours, pages of ids, nothing to connect to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vecsieve.proxy.jobs.source import Access, Point, PointId, Shape, Source, Vectors
from vecsieve.proxy.selection.geometry import Rows, across, rows_of


class MemorySource(Source):
    """Over ``points``, which are given in ascending order of ids."""

    def __init__(self, points: Sequence[Point], *, distance: str = "Cosine", page_limit: int = 10_000) -> None:
        super().__init__(Access(url="", collection=""))
        self._points = {point.id: point for point in points}
        self._order = [point.id for point in points]
        self._limit = page_limit
        self._vectors = [point for point in points if point.vector is not None]
        dimension = max((len(point.vector) for point in points if point.vector is not None), default=1)
        self._known = Shape(points=len(points), dimension=dimension, distance=distance, vector_name="")
        self._rows: Rows | None = None
        self.requests = 0

    def described(self) -> Shape:
        return self._known

    def listed(self) -> Iterator[list[PointId]]:
        for start in range(0, len(self._order), self._limit):
            self.requests += 1
            yield self._order[start : start + self._limit]

    def fetched(self, ids: Sequence[PointId]) -> list[Point]:
        self.requests += 1
        return [self._points[identifier] for identifier in ids if identifier in self._points]

    def nearest(self, vectors: Vectors, count: int) -> list[list[Point]]:
        self.requests += 1
        if self._rows is None:
            self._rows = rows_of(np.stack([point.vector for point in self._vectors if point.vector is not None]))
        neighbours = []
        for row in across(rows_of(vectors), self._rows, magnitude=self._known.magnitude):
            # Sorted are only those that may be among them: of a million points a sort of all takes a tenth of a second.
            near = np.flatnonzero(row <= np.partition(row, min(count, len(row)) - 1)[min(count, len(row)) - 1])
            order = near[np.argsort(row[near], kind="stable")][:count]
            neighbours.append([self._vectors[at] for at in order.tolist()])
        return neighbours


def points(vectors: Vectors, payloads: Sequence[Mapping[str, object]] | None = None) -> list[Point]:
    """One point a row, ids 0 …; without ``payloads`` each has its own text."""
    stored = payloads if payloads is not None else [{"text": f"text number {row}"} for row in range(len(vectors))]
    return [
        Point(id=row, vector=vector, payload=payload)
        for row, (vector, payload) in enumerate(zip(vectors, stored, strict=True))
    ]


def families(count: int, copies: int, *, noise: float = 0.004, dimension: int = 48, seed: int = 3) -> Vectors:
    """``count`` unrelated directions, ``copies`` of each with a little noise; a family's members follow each other."""
    rng = np.random.default_rng(seed)
    bases = rng.normal(size=(count, dimension))
    bases /= np.linalg.norm(bases, axis=1, keepdims=True)
    return (np.repeat(bases, copies, axis=0) + rng.normal(scale=noise, size=(count * copies, dimension))).astype(
        np.float32
    )

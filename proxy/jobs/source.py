"""Where a job reads a collection: what a point is, what a collection looks like, and the four ways to read it.

Nothing here writes to a database. One implementation: qdrant.py; tests bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.values import Metric

PointId = int | str
Vectors = npt.NDArray[np.float32]


class SourceError(Exception):
    """A collection that cannot be read as asked: unknown, unreachable, not allowed, without dense vectors.

    Its text is fit to print: it says what was seen and what was wanted, and holds no secret.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point. ``vector``: (d,) float32, None where the point has none of the chosen name."""

    id: PointId
    vector: Vectors | None
    payload: Mapping[str, object]


_METRICS = {
    "Cosine": Metric.COSINE,
    "Dot": Metric.DOT,
    "Euclid": Metric.EUCLIDEAN,
    "Manhattan": Metric.MANHATTAN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is known of a collection before it is read.

    ``points``: how many the database says there are, which may be an estimate. ``distance``: its metric, in Qdrant's
    words (Cosine, Dot, Euclid, Manhattan). ``vector_name``: the vector that is read, "" for the unnamed one.
    ``vector_names``: every dense vector, sorted.
    """

    points: int
    dimension: int
    distance: str
    vector_name: str
    vector_names: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        """The metric, in selection's words."""
        return _METRICS.get(self.distance, Metric.UNKNOWN)

    @property
    def magnitude(self) -> bool:
        """Whether the length of a vector carries meaning: everywhere but under cosine, which stores unit vectors."""
        return self.distance != "Cosine"


class Source(Protocol):
    """A collection as a job reads it. Every method raises SourceError, nothing else of the network's."""

    def shape(self) -> Shape:
        """What the collection looks like; asked once, remembered."""

    def ids(self, *, after: PointId | None, page: int) -> tuple[list[PointId], PointId | None]:
        """One page of ids, ascending. ``after``: what the previous page gave, None for the first; None after the last."""

    def scroll(self, *, after: PointId | None, page: int) -> tuple[list[Point], PointId | None]:
        """One page of points in the order of ``ids``, with vectors and payloads. ``after``: as there."""

    def read(self, ids: Sequence[PointId]) -> list[Point]:
        """These points in this order, with vectors and payloads. Points that are gone are left out."""

    def neighbours(self, vectors: Vectors, *, count: int) -> list[list[tuple[Point, float]]]:
        """For each row of ``vectors`` (m, d) the ``count`` nearest points by the database's own index, best first.

        The number beside a point is its distance as the proxy's cuts are compared with it (selection/geometry.py), not
        the database's score; infinite where there is nothing to compare. A vector that is in the collection finds itself, and its exact copies before or after it.
        """

"""Where a job reads a collection: what a point is, what a collection looks like, and the four ways to read it.

Nothing here writes to a database. One implementation: qdrant.py; tests bring their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """

    points: int
    dimension: int
    distance: str
    vector_name: str

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


# The text of a payload: the first of the named fields that holds one.

USUAL_FIELDS = ("text", "page_content", "content", "document", "chunk", "body", "chunk_text")


def text_of(payload: Mapping[str, object], fields: Iterable[str] = USUAL_FIELDS) -> str | None:
    """The text under the first of ``fields`` that is a string with more than blanks in it; None without one.

    A field is a key, or the way to one with dots: ``metadata.source``. A key that has dots itself goes first.
    """
    for field in fields:
        value = value_at(payload, field)
        if isinstance(value, str) and value.strip():
            return value
    return None


def value_at(payload: Mapping[str, object], field: str) -> object:
    """What stands under a key or a dotted way, None when nothing does (which is how JSON says it, too)."""
    if field in payload:
        return payload[field]
    head, dot, rest = field.partition(".")
    inner = payload.get(head)
    return value_at(inner, rest) if dot and isinstance(inner, Mapping) else None


# Which of a collection's vectors a job reads: one dense vector a point, chosen by name or because there is no other.


class _Metric(Protocol):
    @property
    def value(self) -> str: ...


class _Declared(Protocol):
    """What is read of the client's VectorParams, whose module is not loaded before a job runs."""

    @property
    def size(self) -> int: ...
    @property
    def distance(self) -> _Metric: ...
    @property
    def multivector_config(self) -> object | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """The chosen vector; "" is the name of the unnamed one."""

    name: str
    dimension: int
    distance: str


def choose(vectors: _Declared | Mapping[str, _Declared] | None, *, wanted: str | None, collection: str) -> Dense:
    """The vector called ``wanted``; None: the unnamed one, or the only one. Raises SourceError that names those there are.

    ``vectors``: as the client gives a collection's, sparse ones apart.
    """
    declared = {} if vectors is None else dict(vectors) if isinstance(vectors, Mapping) else {"": vectors}
    if not declared:
        raise SourceError(f"collection {collection!r} has only sparse vectors; wanted a dense one")
    names = tuple(sorted(name for name, each in declared.items() if each.multivector_config is None))
    if not names:
        raise SourceError(f"collection {collection!r} has only multivectors; wanted one dense vector a point")
    there = ", ".join(name or '"" (unnamed)' for name in names)
    if wanted is None and len(names) > 1 and "" not in names:
        raise SourceError(f"collection {collection!r} has several vectors; say which with --vector: {there}")
    name = names[0] if wanted is None else wanted  # sorted: the unnamed one first
    if name in declared and name not in names:
        raise SourceError(f"vector {name!r} of {collection!r} holds several vectors a point; wanted one of: {there}")
    if name not in names:
        raise SourceError(f"collection {collection!r} has no dense vector {name!r}; it has: {there}")
    found = declared[name]
    return Dense(name=name, dimension=found.size, distance=found.distance.value)

"""A collection as jobs read it: its shape, its points, and the contracts to read them, and to delete and store them. The modules of `clients` implement
them, tests in memory.
"""

from __future__ import annotations

import json
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.writes import Form
from vecsieve.config.backends import DOCUMENT_TEXT, KNOWN_TEXTS

from ..search.collections.statements import is_name
from ..selection.geometry import across, rows_of
from ..selection.values import Metric

PointId = int | str
Vectors = npt.NDArray[np.float32]


class SourceError(Exception):
    """A collection that cannot be read: unknown, unreachable, forbidden, without dense vectors. The message holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """``vector``: (d,) float32, None if the point has none of the chosen name."""

    id: PointId
    vector: Vectors | None
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """``key``: the id as JSON. ``body``: as ``put`` takes it. ``partition``: the part of the collection that holds it, b"" without parts.
    ``mark``: of the vector and payload that a job compared.
    """

    id: PointId
    key: bytes
    partition: bytes
    body: bytes
    mark: int


def key_of(id_: PointId) -> bytes:
    """The id as JSON."""
    return orjson.dumps(id_)


def mark_of(vector: Vectors | None, payload: Mapping[str, object]) -> int:
    """A number that changes with the vector or payload; the order of members does not matter."""
    state = blake2b(b"" if vector is None else vector.astype("<f4").tobytes(), digest_size=8)
    state.update(json.dumps(payload, sort_keys=True, default=str).encode())
    return int.from_bytes(state.digest(), "little")


_METRICS = {
    "Cosine": Metric.COSINE,
    "Dot": Metric.DOT,
    "Euclid": Metric.EUCLIDEAN,
    "Manhattan": Metric.MANHATTAN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``points``: the database's count, which may be an estimate. ``distance``: in Qdrant's words (Cosine, Dot, Euclid,
    Manhattan). ``vector_name``: of the vector that is read, "" for the unnamed one.
    """

    points: int
    dimension: int
    distance: str
    vector_name: str

    @property
    def metric(self) -> Metric:
        return _METRICS.get(self.distance, Metric.UNKNOWN)

    @property
    def magnitude(self) -> bool:
        """Whether the length of a vector matters; cosine collections store unit vectors."""
        return self.distance != "Cosine"


class Points(Protocol):
    """Complete points of a database: read, deleted, and stored again byte for byte. ``form``: of a single point. Every method raises SourceError, and no
    other error of the network.
    """

    form: Form

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        """These points in any order, without deleted ones."""

    def delete(self, points: Sequence[Whole]) -> None:
        """Deleted when this returns. Missing points are ignored."""

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        """Which of these points are stored."""

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        """Stored when this returns."""

    def stored(self, partition: bytes, id_: PointId) -> bytes | None:
        """The point in this part of the collection, as `put` takes it; None if it is gone."""
        return next((point.body for point in self.whole([id_]) if point.partition == partition), None)

    def restore(self, partition: bytes, body: bytes) -> None:
        """As `put`, replacing the point with the same id."""
        self.put(partition, [body])

    def close(self) -> None:
        """Nothing is kept open, unless a class says otherwise."""
        return


def matrix_of(points: Sequence[Point], dimension: int) -> Vectors:
    """(n, d) zero for a point without a vector, which is infinitely far from all others."""
    missing = np.zeros(dimension, np.float32)
    return np.stack([missing if point.vector is None else point.vector for point in points])


def measured(vector: Vectors, pool: Sequence[Point], *, magnitude: bool) -> list[tuple[Point, float]]:
    """The pool with selection's distances to ``vector`` (d,)."""
    if not pool:
        return []
    others = rows_of(matrix_of(pool, len(vector)))
    distances = across(rows_of(vector[None, :]), others, magnitude=magnitude)[0]
    return [(point, float(distance)) for point, distance in zip(pool, distances, strict=True)]


class Pace:
    """Limits the request rate: call ``wait`` before each request. ``requests_per_second``: above zero; None: no limit.

    Requests are evenly spaced, because bursts are what slows a live database.
    """

    __slots__ = ("_clock", "_interval_seconds", "_next", "_sleep")

    def __init__(
        self,
        requests_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_seconds = 0.0 if requests_per_second is None else 1.0 / requests_per_second
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    def wait(self) -> None:
        """Return when the next request may be sent. Unused time is not saved."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
        self._next = max(self._next, now) + self._interval_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The arguments for opening a source. ``vector_name``: None for the only one. ``api_key``: None without one.

    ``timeout_seconds``: of each request. ``requests_per_second``: None for no limit. ``payload_fields``: to be read at least; None for all.
    """

    url: str
    collection: str
    vector_name: str | None = None
    api_key: str | None = None
    timeout_seconds: int = 30
    requests_per_second: float | None = None
    payload_fields: tuple[str, ...] | None = None


class Source(ABC):
    """A collection, read. Every method raises SourceError, and no other error of the network."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._shape: Shape | None = None

    @abstractmethod
    def described(self) -> Shape:
        """The shape, from the database."""

    @abstractmethod
    def listed(self) -> Iterator[list[PointId]]:
        """Every id of the collection, in any order. Each page is one request."""

    @abstractmethod
    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        """These points in any order, with vectors and payloads, without deleted ones."""

    @abstractmethod
    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        """For each row of ``vectors`` (m, d) the nearest points by the database's index, with vectors and payloads."""

    def close(self) -> None:
        """Nothing is kept open, unless a class says otherwise."""
        return

    def shape(self) -> Shape:
        """Requested once, then cached."""
        if self._shape is None:
            self._shape = self.described()
        return self._shape

    def read(self, ids: Sequence[PointId]) -> list[Point]:
        """These points in this order, without deleted ones."""
        there = {point.id: point for point in self.fetched(ids)}
        return [there[point_id] for point_id in ids if point_id in there]

    def neighbours(self, vectors: Vectors, *, count: int) -> list[list[tuple[Point, float]]]:
        """``nearest`` with distances, which are selection's (selection/geometry.py), not the database's scores; infinite without a vector. A stored
        vector finds itself too, before or after its exact copies.
        """
        magnitude = self.shape().magnitude
        pools = zip(vectors, self.nearest(vectors, count), strict=True)
        return [measured(row, pool, magnitude=magnitude) for row, pool in pools]

    def complete(self, point: Point, members: Mapping[str, object]) -> Whole:
        """``members``: everything that the database has of the point, in its client's form."""
        return Whole(
            id=point.id,
            key=key_of(point.id),
            partition=b"",
            body=orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY, default=list),
            mark=mark_of(point.vector, point.payload),
        )

    def vector_of(self, vectors: object) -> Vectors | None:
        """A vector in the client's form; None unless it has the collection's dimension."""
        vector = None if vectors is None else np.asarray(vectors, np.float32)
        return vector if vector is not None and vector.shape == (self.shape().dimension,) else None

    def refuse_vector_name(self, database: str) -> None:
        """For databases with one unnamed vector per point. Raises SourceError."""
        if self.access.vector_name is not None:
            raise SourceError(f"--vector: {database} has one vector a point, without a name; leave the option out")


USUAL_FIELDS = (DOCUMENT_TEXT, *KNOWN_TEXTS)


def text_of(payload: Mapping[str, object], fields: Iterable[str] = USUAL_FIELDS) -> str | None:
    """The first of ``fields`` that holds a non-blank string; None without one."""
    path = text_path(payload, fields)
    value = None if path is None else value_at(payload, path)
    return value if isinstance(value, str) else None


def text_path(payload: Mapping[str, object], fields: Iterable[str] = USUAL_FIELDS) -> str | None:
    """Which of ``fields`` has the text. Under a usual name, a file name or a link is no text: two points of one file are no copies."""
    is_guess = fields == USUAL_FIELDS
    for field in fields:
        value = value_at(payload, field)
        if isinstance(value, str) and value.strip() and not (is_guess and is_name(value)):
            return field
    return None


def value_at(payload: Mapping[str, object], field: str) -> object:
    """The value under a key or a dotted path such as ``metadata.source``; a key with dots goes first. None if absent."""
    if field in payload:
        return payload[field]
    head, dot, rest = field.partition(".")
    inner = payload.get(head)
    if dot and isinstance(inner, str) and inner.startswith("{"):
        inner = _spelled(inner)
    return value_at(inner, rest) if dot and isinstance(inner, Mapping) else None


def _spelled(text: str) -> object:
    """The object that a string spells; None if it spells none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


TEXT_CHARACTERS = 240


def shortened(text: str) -> str:
    """On one line, without control and invisible characters, cut with an ellipsis."""
    line = " ".join("".join(_visible(character) for character in text[: 8 * TEXT_CHARACTERS]).split())
    return line if len(line) <= TEXT_CHARACTERS else line[: TEXT_CHARACTERS - 1].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) == "Cf" else " "  # joiners and direction marks leave no gap

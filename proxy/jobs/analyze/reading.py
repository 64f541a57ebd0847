"""Reads a collection into arrays: exact copies, the source of each point, and near pairs.

For a whole collection, near pairs come from sketches (proxy/jobs/pairs): each point is read once, without searches. For a sample, they
come from searches in the database, because most copies of a sampled point are outside the sample.

Memory: 22 bytes a point, 12 a pair, and the id of each point. Vectors and texts are not kept in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ...selection.geometry import NOISE
from ...selection.reading.text import Text
from ...selection.values import FloatMatrix
from ..pairs.comparing import distances as distances_of
from ..pairs.comparing import similarities
from ..pairs.fingerprints import exact_hash, readable
from ..pairs.ids import NOWHERE, Ids, Places
from ..pairs.reading import Bar, sketched, stream
from ..pairs.sketches import Directions
from ..pairs.store import Page, Store
from ..source import Point, PointId, Source, Vectors, shortened, text_of, value_at

Pairs = npt.NDArray[np.int32]


class Known(IntEnum):
    UNSEEN = 0  # not read yet, or deleted before
    TEXT = 1  # its text, read exactly
    VECTOR = 2  # without text: the bytes of its vector
    NOTHING = 3  # neither text nor vector: never a copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The arrays for n points, m of which are examined.

    ``looked``: (m,) places of the examined points, ascending. ``pairs``: (p, 2) places of near points, the smaller first, each pair once, with
    ``distances`` (p,). ``known``: (n,) the kind of the key. ``keys``: (n,) exact copies have equal keys of the same kind. ``sources``: (n,)
    indices in ``source_names``; -1 for none. ``vectors``: (m,) whether the point has a vector. ``listed``: (m,) the distance up to which all
    pairs of a point are known; infinite if its list of neighbours is complete.
    """

    looked: Places
    pairs: Pairs
    distances: FloatMatrix
    keys: npt.NDArray[np.uint64]
    known: npt.NDArray[np.uint8]
    sources: Places
    source_names: list[str]
    vectors: npt.NDArray[np.bool_]
    listed: FloatMatrix

    @property
    def whole(self) -> bool:
        return len(self.looked) == len(self.keys)


_BYTES = 8


def key(point: Point, text_fields: Iterable[str]) -> tuple[Known, int]:
    """The 64-bit key of exact copies: a hash of the text as final deletions read it, else of the vector's bytes. The probability of a collision
    within a collection of a million points is 1 in 37 million.
    """
    text = text_of(point.payload, text_fields)
    return _key(point, text, readable(text))


def _key(point: Point, text: str | None, read: Text | None) -> tuple[Known, int]:
    if text is not None:
        return Known.TEXT, exact_hash(text, read)
    if point.vector is not None:
        return Known.VECTOR, _vector_key(point.vector)
    return Known.NOTHING, 0


def _vector_key(vector: Vectors) -> int:
    content = (vector + 0.0).tobytes()  # -0.0 becomes 0.0
    return int.from_bytes(hashlib.blake2b(content, digest_size=_BYTES).digest(), "little")


LONGEST_NAME = 120  # characters of a source's name; the field may hold a whole text


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """Payload fields of text and source: keys or dotted paths; the first one with a value counts."""

    text: tuple[str, ...]
    source: tuple[str, ...]


def source_name(point: Point, fields: Sequence[str]) -> str | None:
    """A printable text, number or boolean, as in JSON; other values are no name."""
    for each in fields:
        value = value_at(point.payload, each)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float) or (isinstance(value, str) and value.strip()):
            return shortened(str(value))[:LONGEST_NAME]
    return None


class _Names:
    """Numbers the sources by their first occurrence."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str | None) -> int:
        return NOWHERE if name is None else self._numbers.setdefault(name, len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


def gathered_whole(
    source: Source, ids: Ids, store: Store, by: Directions, fields: FieldNames, widest: float, bar: Bar
) -> Gathered:
    """``widest``: the distance up to which pairs are kept. Raises SourceError."""
    stream(source, ids, store, lambda points, places: _page(points, places, ids, by, fields), bar)
    with bar("looking for candidates", None):
        store.pair_up()
    n, held = len(ids), store.held()
    pairs, distances = _compared(store, widest, bar, magnitude=source.shape().magnitude)
    known, keys = np.zeros(n, np.uint8), np.zeros(n, np.uint64)
    has_text = held.numbers != 0
    known[held.places] = np.where(has_text, Known.TEXT, np.where(held.has_vector, Known.VECTOR, Known.NOTHING))
    keys[held.places] = np.where(has_text, held.numbers.view(np.uint64), held.marks)
    names, sources, vectors = _Names(), np.full(n, NOWHERE, np.int32), np.zeros(n, np.bool_)
    sources[held.places] = [names.number(label) for label in store.labels()]
    vectors[held.places] = held.has_vector
    return Gathered(
        looked=np.arange(n, dtype=np.int32),
        pairs=pairs,
        distances=distances,
        keys=keys,
        known=known,
        sources=sources,
        source_names=names.all(),
        vectors=vectors,
        listed=np.full(n, np.inf, np.float32),
    )


def _page(points: Sequence[Point], places: range, ids: Ids, by: Directions, fields: FieldNames) -> Page:
    """The page to store: keys and sketches of the texts, and all vectors, which are compared later."""
    texts = [text_of(point.payload, fields.text) for point in points]
    read = sketched(points, texts, places, ids, by, is_wide=True)
    keys = [_key(*each) for each in zip(points, texts, read.texts, strict=True)]
    return Page(
        start=places.start,
        vectors=read.vectors,
        there=read.there,
        has_vector=np.array([point.vector is not None for point in points], np.bool_),
        numbers=np.array([number if kind is Known.TEXT else 0 for kind, number in keys], np.uint64).view(np.int64),
        texts=[None] * len(points),
        rank=np.zeros(len(points)),
        size=np.zeros(len(points), np.int64),
        marks=np.array([number for _, number in keys], np.uint64),
        sketches=read.sketches,
        labels=[source_name(point, fields.source) for point in points],
    )


def _compared(store: Store, widest: float, bar: Bar, *, magnitude: bool) -> tuple[Pairs, FloatMatrix]:
    """The candidates within ``widest`` by their vectors."""
    pairs, distances = [np.empty((0, 2), np.int32)], [np.empty(0, np.float32)]
    with bar("comparing candidates", store.pairs()) as advance:
        for each in store.candidates(store.held()):
            far = distances_of(similarities(each.vectors, each.rows, each.has_vector, magnitude=magnitude))
            near = far <= widest + NOISE
            pairs.append(each.pairs[near].astype(np.int32))
            distances.append(far[near])
            advance(len(each.pairs))
    return np.concatenate(pairs), np.concatenate(distances)


NEIGHBOURS = 20
SEARCHES = 100  # points of a step: two requests, and a quarter of a megabyte of vectors at 768 dimensions


@dataclass(slots=True)
class _Sample:
    """The part of a sample that was read so far. ``lists``: for each page, rows of ``looked``, places of neighbours, distances."""

    ids: Ids
    gathered: Gathered
    names: _Names = field(default_factory=_Names)
    lists: list[tuple[Places, Places, FloatMatrix]] = field(default_factory=list)


def gathered_sample(source: Source, ids: Ids, looked: Places, fields: FieldNames, cut: float, bar: Bar) -> Gathered:
    """The points of ``looked`` with their NEIGHBOURS nearest other points by the database's index. Neighbours within ``cut`` are read, too.

    Raises SourceError.
    """
    n, m = len(ids), len(looked)
    found = _Sample(ids, _nothing_yet(n, looked))
    with bar("looking for copies", m) as advance:
        for start in range(0, m, SEARCHES):
            _search(found, source, range(start, min(start + SEARCHES, m)), fields)
            advance(min(SEARCHES, m - start))
    gathered = _paired(found)
    others = _unread(gathered, cut)
    with bar("reading the sample's copies", len(others)) as advance:
        for start in range(0, len(others), SEARCHES):
            page = others[start : start + SEARCHES]
            _note(found, source.read(ids.at(page.tolist())), fields)
            advance(len(page))
    return replace(gathered, source_names=found.names.all())


def _nothing_yet(n: int, looked: Places) -> Gathered:
    return Gathered(
        looked=looked,
        pairs=np.empty((0, 2), np.int32),
        distances=np.empty(0, np.float32),
        keys=np.zeros(n, np.uint64),
        known=np.zeros(n, np.uint8),
        sources=np.full(n, NOWHERE, np.int32),
        source_names=[],
        vectors=np.zeros(len(looked), np.bool_),
        listed=np.full(len(looked), np.inf, np.float32),
    )


def _search(found: _Sample, source: Source, rows: range, fields: FieldNames) -> None:
    """The points of these rows, each with its nearest others, nearest first."""
    places = found.gathered.looked[rows.start : rows.stop]
    points = source.read(found.ids.at(places.tolist()))
    _note(found, points, fields)
    with_vector = [point for point in points if point.vector is not None]
    if not with_vector:
        return
    vectors = [point.vector for point in with_vector if point.vector is not None]
    at = np.searchsorted(places, found.ids.places([point.id for point in with_vector])) + rows.start
    found.gathered.vectors[at] = True
    # One more, because a point finds itself.
    lists = source.nearest(np.stack(vectors), count=NEIGHBOURS + 1)
    for row, point, neighbours in zip(at.tolist(), with_vector, lists, strict=True):
        _keep(found, row, [each for each in neighbours if each[0] != point.id])


def _keep(found: _Sample, row: int, neighbours: Sequence[tuple[PointId, float]]) -> None:
    """By distance, then by place: the index may order equal scores differently between two requests."""
    places = found.ids.places([each for each, _ in neighbours])
    distances = np.array([distance for _, distance in neighbours], np.float32)
    usable = (places != NOWHERE) & np.isfinite(distances)
    places, distances = places[usable], distances[usable]
    order = np.lexsort((places, distances))[:NEIGHBOURS]
    if len(order) == NEIGHBOURS:
        found.gathered.listed[row] = distances[order[-1]]
    own = np.full(len(order), found.gathered.looked[row], np.int32)
    found.lists.append((own, places[order], distances[order]))


def _note(found: _Sample, points: Sequence[Point], fields: FieldNames) -> None:
    gathered = found.gathered
    for place, point in zip(found.ids.places([point.id for point in points]).tolist(), points, strict=True):
        gathered.known[place], gathered.keys[place] = key(point, fields.text)
        gathered.sources[place] = found.names.number(source_name(point, fields.source))


def _paired(found: _Sample) -> Gathered:
    """With each pair once, although both ends may have listed it."""
    own, others, distances = (np.concatenate(columns) for columns in zip(_NO_LIST, *found.lists, strict=True))
    pairs = np.stack((np.minimum(own, others), np.maximum(own, others)), axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    return replace(found.gathered, pairs=pairs[first], distances=distances[first])


_NO_LIST = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))


def _unread(gathered: Gathered, cut: float) -> Places:
    """Places of neighbours within the cut that were not read yet: further members of the sample's families."""
    ends = np.unique(gathered.pairs[gathered.distances <= cut])
    found: Places = ends[gathered.known[ends] == Known.UNSEEN]
    return found

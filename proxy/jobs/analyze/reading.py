"""Reads a collection into arrays: equal texts, the source of each point, and which point says all that another says.

For a whole collection, pairs come from hashes that texts share (proxy/jobs/pairs): each point is read once, without searches. For a sample, they
come from searches in the database, because most repeats of a sampled point are outside the sample. What a pair is, the judge of a sweep decides.

Memory: 22 bytes a point, 22 a pair, and the id of each point. Vectors and texts are not kept in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ...runtime.files import progress_bar
from ...selection.reading.text import Text
from ...selection.values import Indices
from ..pairs.fingerprints import exact_hash, readable
from ..pairs.ids import NOWHERE, Ids, Places
from ..pairs.reading import sketched, stream
from ..pairs.sketches import Directions
from ..pairs.store import Page, Store
from ..source import Point, Source, matrix_of, shortened, text_of, value_at
from ..sweep.families import Coverings, compared, coverings
from ..sweep.judging import Evidence, Judged, distances, judged


class Known(IntEnum):
    UNSEEN = 0  # not read yet, or deleted before
    TEXT = 1  # its text, read exactly
    VECTOR = 2  # without text: the bytes of its vector
    NOTHING = 3  # neither text nor vector: repeats nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The arrays for n points, m of which are examined.

    ``examined``: (m,) places of the examined points, ascending. ``coverings``: what pairs show. ``known``: (n,) the kind of the key. ``keys``: (n,) equal
    points have equal keys of the same kind. ``sources``: (n,) indices in ``source_names``; -1 for none. ``vectors``: (m,) whether the point
    has a vector. ``full``: (m,) whether all neighbours that were listed for a point repeat it, so that there may be more.
    """

    examined: Places
    coverings: Coverings
    keys: npt.NDArray[np.uint64]
    known: npt.NDArray[np.uint8]
    sources: Places
    source_names: list[str]
    vectors: npt.NDArray[np.bool_]
    full: npt.NDArray[np.bool_]

    @property
    def whole(self) -> bool:
        return len(self.examined) == len(self.keys)


_BYTES = 8


def key(point: Point, text_fields: Iterable[str]) -> tuple[Known, int]:
    """The 64-bit key of equal points: a hash of the text as final deletions read it, else of the vector's bytes. The probability of a collision
    within a collection of a million points is 1 in 37 million.
    """
    text = text_of(point.payload, text_fields)
    return _key(point, text, readable(text))


def _key(point: Point, text: str | None, read: Text | None) -> tuple[Known, int]:
    if text is not None:
        return Known.TEXT, exact_hash(text, read)
    if point.vector is not None and point.vector.any():
        content = (point.vector + 0.0).tobytes()  # -0.0 becomes 0.0
        return Known.VECTOR, int.from_bytes(hashlib.blake2b(content, digest_size=_BYTES).digest(), "little")
    return Known.NOTHING, 0


LONGEST_NAME = 120  # characters of a source's name; the field may hold a whole text


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """Payload fields of text and source: keys or dotted paths; the first one with a value counts."""

    text: tuple[str, ...]
    source: tuple[str, ...]


def source_name(point: Point, fields: Sequence[str]) -> str | None:
    """A printable text, number or boolean, as in JSON; other values are no name."""
    for name in fields:
        value = value_at(point.payload, name)
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


def gathered_whole(source: Source, ids: Ids, store: Store, by: Directions, fields: FieldNames, cut: float) -> Gathered:
    """``cut``: the distance at which vectors are nearly equal. Raises SourceError."""
    stream(source, ids, store, lambda points, places: _page(points, places, ids, by, fields))
    with progress_bar("looking for candidates", None):
        store.pair_up()
    n, stored = len(ids), store.stored()
    compared_pairs = compared(
        store,
        lambda part, verdicts: coverings(part.pairs, part.rows, _with_near(verdicts, part.rows, part.texts, cut)),
        magnitude=source.shape().magnitude,
    )
    known, keys = np.zeros(n, np.uint8), np.zeros(n, np.uint64)
    has_text = stored.numbers != 0
    known[stored.places] = np.where(has_text, Known.TEXT, np.where(stored.has_vector, Known.VECTOR, Known.NOTHING))
    keys[stored.places] = np.where(has_text, stored.numbers.view(np.uint64), stored.marks)
    names, sources, vectors = _Names(), np.full(n, NOWHERE, np.int32), np.zeros(n, np.bool_)
    sources[stored.places] = [names.number(label) for label in store.labels()]
    vectors[stored.places] = stored.has_vector
    return Gathered(
        examined=np.arange(n, dtype=np.int32),
        coverings=compared_pairs,
        keys=keys,
        known=known,
        sources=sources,
        source_names=names.all(),
        vectors=vectors,
        full=np.zeros(n, np.bool_),
    )


def _page(points: Sequence[Point], places: range, ids: Ids, by: Directions, fields: FieldNames) -> Page:
    """The page to store: texts, keys and sketches, and vectors."""
    texts = [text_of(point.payload, fields.text) for point in points]
    read = list(map(readable, texts))
    keys = [_key(*triple) for triple in zip(points, texts, read, strict=True)]
    return replace(
        sketched(points, texts, read, places, ids, by),
        numbers=np.array([number if kind is Known.TEXT else 0 for kind, number in keys], np.uint64).view(np.int64),
        marks=np.array([number for _, number in keys], np.uint64),
        labels=[source_name(point, fields.source) for point in points],
    )


def _with_near(verdicts: Judged, rows: Indices, texts: Sequence[str | None], cut: float) -> Judged:
    """Beside what the judge found, vectors within ``cut`` of points without texts."""
    bare = np.array([text is None for text in texts], np.bool_)[rows].all(axis=1)
    near = bare & (verdicts.evidence == Evidence.NONE) & (distances(verdicts.similarities) <= cut)
    evidence = np.where(near, np.int8(Evidence.SEARCHED), verdicts.evidence)
    return replace(verdicts, evidence=evidence, holds=verdicts.holds | near[:, None])


NEIGHBOURS = 20
SEARCHES = 10  # points of a step: 10 x 21 results with their vectors are 2 MB at 768 dimensions


@dataclass(slots=True)
class _Sample:
    """The part of a sample that was read so far."""

    ids: Ids
    gathered: Gathered
    names: _Names = field(default_factory=_Names)
    parts: list[Coverings] = field(default_factory=list)


def gathered_sample(source: Source, ids: Ids, examined: Places, fields: FieldNames, cut: float) -> Gathered:
    """The points of ``examined``, compared with their NEIGHBOURS nearest other points by the database's index. ``cut``: as above.

    Raises SourceError.
    """
    n, m = len(ids), len(examined)
    sample = _Sample(ids, _nothing_yet(n, examined))
    with progress_bar("looking for repeats", m) as advance:
        for start in range(0, m, SEARCHES):
            _search(sample, source, range(start, min(start + SEARCHES, m)), fields, cut)
            advance(min(SEARCHES, m - start))
    return replace(sample.gathered, coverings=Coverings.of(sample.parts), source_names=sample.names.all())


def _nothing_yet(n: int, examined: Places) -> Gathered:
    return Gathered(
        examined=examined,
        coverings=Coverings.of(()),
        keys=np.zeros(n, np.uint64),
        known=np.zeros(n, np.uint8),
        sources=np.full(n, NOWHERE, np.int32),
        source_names=[],
        vectors=np.zeros(len(examined), np.bool_),
        full=np.zeros(len(examined), np.bool_),
    )


def _search(sample: _Sample, source: Source, rows: range, fields: FieldNames, cut: float) -> None:
    """Compare the points of these rows with their nearest others."""
    places = sample.gathered.examined[rows.start : rows.stop]
    points = source.read(sample.ids.at(places.tolist()))
    _note(sample, points, fields)
    with_vector = [point for point in points if point.vector is not None]
    if not with_vector:
        return
    vectors = [point.vector for point in with_vector if point.vector is not None]
    at = np.searchsorted(places, sample.ids.places([point.id for point in with_vector])) + rows.start
    sample.gathered.vectors[at] = True
    # One more, because a point finds itself.
    lists = source.neighbours(np.stack(vectors), count=NEIGHBOURS + 1)
    for row, point, neighbours in zip(at.tolist(), with_vector, lists, strict=True):
        others = [other for other, _ in neighbours if other.id != point.id][:NEIGHBOURS]
        _compare(sample, source, row, [point, *others], fields, cut)


def _compare(
    sample: _Sample, source: Source, row: int, points: Sequence[Point], fields: FieldNames, cut: float
) -> None:
    """Compare the first of these points with the others."""
    places = sample.ids.places([point.id for point in points])
    there = np.flatnonzero(places != NOWHERE).tolist()  # stored after the ids were listed
    points, places = [points[place] for place in there], places[there]
    _note(sample, points[1:], fields)
    texts = [text_of(point.payload, fields.text) for point in points]
    rows = np.stack((np.zeros(len(points) - 1, np.intp), np.arange(1, len(points))), axis=1)
    shape = source.shape()
    vectors = matrix_of(points, shape.dimension)
    of_text = np.ones(len(rows), np.bool_)
    seen = judged(rows, vectors, np.asarray(vectors.any(axis=1), np.bool_), texts, of_text, magnitude=shape.magnitude)
    part = coverings(places[rows], rows, _with_near(seen, rows, texts, cut))
    sample.parts.append(part)
    sample.gathered.full[row] = len(rows) == NEIGHBOURS == len(np.unique(part.pairs)) - 1


def _note(sample: _Sample, points: Sequence[Point], fields: FieldNames) -> None:
    gathered = sample.gathered
    for place, point in zip(sample.ids.places([point.id for point in points]).tolist(), points, strict=True):
        gathered.known[place], gathered.keys[place] = key(point, fields.text)
        gathered.sources[place] = sample.names.number(source_name(point, fields.source))

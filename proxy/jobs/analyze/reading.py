"""A collection read into arrays: its ids, then page by page each point's payload and nearest neighbours.

Reading stops only between two pages: ``done`` says how far the arrays are filled.

Memory: 165 bytes for each examined point (its place, and 20 neighbours at 4 bytes of place and 4 of distance), 13 for each
point of the collection (its key and source), and its id (8 for a number, 36 for a UUID; a dict would need 100 to 200). A
million points are about 190 MB, whatever their vectors and texts weigh: neither is kept. Judging needs up to 0.8 kB a point
more for a moment if everything has twenty copies (measured).

An interrupted reading is one file, written atomically and continued only by the same analysis: a digest, then a NumPy archive (npz,
without pickles) with the arrays of ``Gathered`` and the analysis as JSON. The digest is checked before anything is decoded.
"""

from __future__ import annotations

import hashlib
import io
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import one_line

from ...runtime.files import write_whole
from ...selection.text.bounds import cost
from ...selection.text.canonical import content_hash, folded, unwrapped
from ...selection.values import FloatMatrix, Indices
from ..source import Point, PointId, Source, Vectors, text_of, value_at

Places = npt.NDArray[np.int32]
NOWHERE = -1


class Ids:
    """Every id once: numbers ascending, then texts ascending. A point's place is its position."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self, pages: Iterable[Sequence[PointId]]) -> None:
        numbers: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        texts: list[npt.NDArray[np.bytes_]] = [np.empty(0, "S1")]
        for page in pages:
            numbers.append(np.array([each for each in page if isinstance(each, int)], np.uint64))
            texts.append(np.array([each.encode() for each in page if isinstance(each, str)], np.bytes_))
        self._numbers = np.unique(np.concatenate(numbers))
        self._texts = np.unique(np.concatenate(texts))

    def __len__(self) -> int:
        return len(self._numbers) + len(self._texts)

    def at(self, places: Iterable[int]) -> list[PointId]:
        first_text = len(self._numbers)
        return [
            int(self._numbers[place]) if place < first_text else self._texts[place - first_text].decode()
            for place in places
        ]

    def places(self, ids: Sequence[PointId]) -> Places:
        """NOWHERE for an unknown id, such as one written after the ids were listed."""
        found = np.full(len(ids), NOWHERE, np.int32)
        numeric = np.array([isinstance(each, int) for each in ids], np.bool_)
        numbers = np.array([each for each in ids if isinstance(each, int)], np.uint64)
        texts = np.array([each.encode() for each in ids if isinstance(each, str)], np.bytes_)
        found[numeric] = _found(self._numbers, numbers, 0)
        found[~numeric] = _found(self._texts, texts, len(self._numbers))
        return found

    def digest(self) -> str:
        """In hex; changes whenever a point is added or deleted."""
        state = hashlib.blake2b(self._numbers.tobytes(), digest_size=16)
        state.update(self._texts.tobytes())
        return state.hexdigest()


def _found(
    there: npt.NDArray[np.uint64] | npt.NDArray[np.bytes_],
    wanted: npt.NDArray[np.uint64] | npt.NDArray[np.bytes_],
    start: int,
) -> Indices:
    if not len(there):
        return np.full(len(wanted), NOWHERE, np.intp)
    at = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
    return np.where(there[at] == wanted, at + start, NOWHERE)


TEXT_CHARACTERS = 240


def shortened(text: str) -> str:
    """On one line, without control and invisible characters, cut with an ellipsis."""
    line = " ".join("".join(_visible(each) for each in text[: 8 * TEXT_CHARACTERS]).split())
    return line if len(line) <= TEXT_CHARACTERS else line[: TEXT_CHARACTERS - 1].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) == "Cf" else " "  # joiners and direction marks leave no gap


NEIGHBOURS = 20


class Known(IntEnum):
    UNSEEN = 0  # not read, or deleted before
    TEXT = 1  # its canonical text
    VECTOR = 2  # without text: the bytes of its vector
    NOTHING = 3  # neither text nor vector: never a copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The arrays for n points, m of which are examined. Their contents change while reading.

    ``looked``: (m,) places of the examined points, ascending. ``others``: (m, 20) places of the nearest other points, best
    first, then NOWHERE. ``distances``: (m, 20), infinite there. ``keys``: (n,) equal for exact copies of one ``known``
    kind (n,). ``sources``: (n,) indices in ``source_names``, which grows; -1 for none. ``vectors``: (m,) whether there is one.
    """

    looked: Places
    others: Places
    distances: FloatMatrix
    keys: npt.NDArray[np.uint64]
    known: npt.NDArray[np.uint8]
    sources: Places
    source_names: list[str]
    vectors: npt.NDArray[np.bool_]

    @property
    def whole(self) -> bool:
        return len(self.looked) == len(self.keys)


def nothing_yet(points: int, looked: Places) -> Gathered:
    m = len(looked)
    return Gathered(
        looked=looked,
        others=np.full((m, NEIGHBOURS), NOWHERE, np.int32),
        distances=np.full((m, NEIGHBOURS), np.inf, np.float32),
        keys=np.zeros(points, np.uint64),
        known=np.zeros(points, np.uint8),
        sources=np.full(points, NOWHERE, np.int32),
        source_names=[],
        vectors=np.zeros(m, np.bool_),
    )


def spread(points: int, limit: int | None) -> Places:
    """Places of at most ``limit`` points, evenly spread; every point without a limit."""
    if limit is None or limit >= points:
        return np.arange(points, dtype=np.int32)
    return (np.arange(limit, dtype=np.int64) * points // limit).astype(np.int32)


_BYTES = 8


def key(point: Point, text_fields: Iterable[str]) -> tuple[Known, int]:
    """The key of exact copies, 64 bits: of the canonical text, else of the vector's bytes. In a million points two
    different ones collide once in 37 million collections.

    The canonical text is the proxy's, with header and footer lines, which can be recognised only within a pool. A text that
    is too long to canonicalise is used as it is.
    """
    text = text_of(point.payload, text_fields)
    canonical = "" if text is None else text if cost(text) is None else folded(unwrapped(text))
    if canonical:
        return Known.TEXT, content_hash(canonical)
    if point.vector is not None:
        return Known.VECTOR, _vector_key(point.vector)
    return Known.NOTHING, 0


def _vector_key(vector: Vectors) -> int:
    content = (vector + 0.0).tobytes()  # -0.0 becomes 0.0
    return int.from_bytes(hashlib.blake2b(content, digest_size=_BYTES).digest(), "little")


PAGE = 100  # points per step: two requests, and a quarter of a megabyte of vectors at 768 dimensions
LONGEST_NAME = 120  # characters of a source's name; the field may hold a whole text


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """Payload fields of text and source: keys or dotted paths; the first one with a value counts."""

    text: tuple[str, ...]
    source: tuple[str, ...]


@dataclass(slots=True)
class Reading:
    """``done``: examined points so far. ``names``: the index of each source's name."""

    ids: Ids
    gathered: Gathered
    done: int = 0
    names: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {name: number for number, name in enumerate(self.gathered.source_names)}


def read_page(reading: Reading, source: Source, fields: FieldNames) -> int:
    """Examine the next points. The result is their number, 0 at the end. Raises SourceError, and then nothing has changed."""
    places = reading.gathered.looked[reading.done : reading.done + PAGE]
    if not len(places):
        return 0
    points = source.read(reading.ids.at(places.tolist()))
    with_vector = [point for point in points if point.vector is not None]
    vectors = [point.vector for point in with_vector if point.vector is not None]
    # One more, because a point finds itself.
    lists = source.nearest(np.stack(vectors), count=NEIGHBOURS + 1) if vectors else []
    note(reading, points, fields)
    rows = np.searchsorted(places, reading.ids.places([point.id for point in with_vector])) + reading.done
    for row, point, found in zip(rows.tolist(), with_vector, lists, strict=True):
        _keep(reading, row, [each for each in found if each[0] != point.id])
    reading.done += len(places)
    return len(places)


def note(reading: Reading, points: Sequence[Point], fields: FieldNames) -> None:
    gathered = reading.gathered
    for place, point in zip(reading.ids.places([point.id for point in points]).tolist(), points, strict=True):
        gathered.known[place], gathered.keys[place] = key(point, fields.text)
        name = _source_name(point, fields.source)
        if name is not None:
            gathered.sources[place] = _numbered(reading, name)


def touched(gathered: Gathered, cut: float) -> Places:
    """Places of neighbours within the cut that are not examined: in a sample, further members of its families."""
    ends = np.unique(gathered.others[gathered.distances <= cut])
    known = gathered.known[ends] != 0
    found: Places = ends[(ends != NOWHERE) & ~known]
    return found


def _keep(reading: Reading, row: int, found: list[tuple[PointId, float]]) -> None:
    """Sorted by distance, then by place: the index may order equal scores differently between two requests."""
    places = reading.ids.places([each for each, _ in found])
    distances = np.array([distance for _, distance in found], np.float32)
    there = places != NOWHERE
    places, distances = places[there], distances[there]
    order = np.lexsort((places, distances))[:NEIGHBOURS]
    reading.gathered.vectors[row] = True
    reading.gathered.others[row, : len(order)] = places[order]
    reading.gathered.distances[row, : len(order)] = distances[order]


def _source_name(point: Point, fields: Sequence[str]) -> str | None:
    """A printable text, number or boolean, as in JSON; other values are no name."""
    for each in fields:
        value = value_at(point.payload, each)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float) or (isinstance(value, str) and value.strip()):
            return shortened(str(value))[:LONGEST_NAME]
    return None


def _numbered(reading: Reading, name: str) -> int:
    number = reading.names.get(name)
    if number is None:
        number = reading.names[name] = len(reading.names)
        reading.gathered.source_names.append(name)
    return number


FORMAT = 1
_DIGEST_BYTES = 16
Fingerprint = Mapping[str, str | int | float | None]


class StateError(Exception):
    """A state file that cannot be continued or written. Its text says why and what to do."""


def save(path: Path, fingerprint: Fingerprint, reading: Reading) -> None:
    gathered, done = reading.gathered, reading.done
    about = {"format": FORMAT, "done": done, "sources": gathered.source_names, "of": dict(fingerprint)}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        others=gathered.others[:done],
        distances=gathered.distances[:done],
        vectors=gathered.vectors[:done],
        keys=gathered.keys,
        known=gathered.known,
        sources=gathered.sources,
    )
    try:
        write_whole(path, _digest(buffer.getbuffer()) + buffer.getbuffer())
    except OSError as error:
        raise StateError(f"--state {path}: {error.strerror or error}") from None


def restore(path: Path, fingerprint: Fingerprint, reading: Reading) -> bool:
    """Fill ``reading`` from the file; False if there is none. Raises StateError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"--state {path}: {error.strerror or error}") from None
    if content[:_DIGEST_BYTES] != _digest(memoryview(content)[_DIGEST_BYTES:]):
        raise StateError(f"--state {path} is damaged, or no state of this command; remove it, or name another file")
    with np.load(io.BytesIO(content[_DIGEST_BYTES:]), allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    about = json.loads(held["about"].tobytes())
    of = {**about["of"], "format": about["format"]}
    differing = [
        f"  {name}: the file has {one_line(str(of.get(name)))}, now it is {one_line(str(value))}"
        for name, value in {"format": FORMAT, **fingerprint}.items()
        if of.get(name) != value
    ]
    if differing:
        raise StateError(
            f"--state {path} was begun for another analysis; remove it, or name another file\n" + "\n".join(differing)
        )
    _fill(reading, held, about)
    return True


def _digest(content: memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _fill(reading: Reading, held: Mapping[str, npt.NDArray[np.generic]], about: Mapping[str, Any]) -> None:
    gathered, done = reading.gathered, int(about["done"])
    gathered.others[:done] = held["others"]
    gathered.distances[:done] = held["distances"]
    gathered.vectors[:done] = held["vectors"]
    gathered.keys[:] = held["keys"]
    gathered.known[:] = held["known"]
    gathered.sources[:] = held["sources"]
    gathered.source_names[:] = about["sources"]
    reading.done = done
    reading.names = {name: number for number, name in enumerate(gathered.source_names)}

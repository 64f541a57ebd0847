"""Reading a collection into arrays: its ids, then page by page each point's payload and its nearest others.

Reading stops between two pages only: whatever ends it, ``done`` says how far the arrays are filled.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.jobs.source import Point, PointId, Source, Vectors, text_of, value_at
from vecsieve.proxy.selection.text.bounds import cost
from vecsieve.proxy.selection.text.canonical import content_hash, folded, unwrapped
from vecsieve.proxy.selection.values import FloatMatrix, Indices

# A collection's ids as sorted arrays: from an id to its place and back, without a Python object a point.
#
# A number costs 8 bytes, a UUID 36; a dict of either costs 100 to 200.

Places = npt.NDArray[np.int32]
NOWHERE = -1


class Ids:
    """Every id once: numbers ascending, then texts ascending. A point's place is its position in that order."""

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
        """The ids at these places."""
        first_text = len(self._numbers)
        return [
            int(self._numbers[place]) if place < first_text else self._texts[place - first_text].decode()
            for place in places
        ]

    def places(self, ids: Sequence[PointId]) -> Places:
        """Where these ids stand, NOWHERE for one that is not there: written since the ids were listed, for instance."""
        found = np.full(len(ids), NOWHERE, np.int32)
        numeric = np.array([isinstance(each, int) for each in ids], np.bool_)
        numbers = np.array([each for each in ids if isinstance(each, int)], np.uint64)
        texts = np.array([each.encode() for each in ids if isinstance(each, str)], np.bytes_)
        found[numeric] = _found(self._numbers, numbers, 0)
        found[~numeric] = _found(self._texts, texts, len(self._numbers))
        return found

    def digest(self) -> str:
        """Hex that changes whenever a point comes or goes."""
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


# A piece of a collection's text as it may be shown: on one line, short, and nothing in it that a terminal would act on.

TEXT_CHARACTERS = 240


def shortened(text: str) -> str:
    """On one line, without what a terminal would act on or a reader not see, cut with an ellipsis."""
    line = " ".join("".join(_visible(each) for each in text[: 8 * TEXT_CHARACTERS]).split())
    return line if len(line) <= TEXT_CHARACTERS else line[: TEXT_CHARACTERS - 1].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) == "Cf" else " "  # joiners and direction marks: no gap where they were


# What is kept of a collection while it is read: arrays, sized once, filled page by page.
#
# Memory: 165 bytes for each point that is looked at (its place, and 20 neighbours at 4 bytes of place and 4 of distance)
# and 13 for each point of the collection (what it is a copy of, which source it is from), beside the ids (``Ids``: 8 or 36).
# A million points are about 190 MB, whatever their vectors and texts weigh: neither is kept. Judging takes more for a
# moment: up to 0.8 kB a point where everything has twenty copies, next to nothing where there are few (measured).

NEIGHBOURS = 20


class Known(IntEnum):
    """What a point's key was made of."""

    UNSEEN = 0  # not read, or gone before it could be
    TEXT = 1  # its canonical text
    VECTOR = 2  # it has no text: the very bytes of its vector
    NOTHING = 3  # neither text nor vector; a copy of nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The arrays of a collection with n points, m of which are looked at; frozen are the arrays, not what they hold.

    ``looked``: (m,) places, ascending. ``others``: (m, 20) places of the nearest other points, best first, NOWHERE beyond the
    last. ``distances``: (m, 20), infinite there. ``keys``: (n,) equal for exact copies of one ``known`` kind (n,).
    ``sources``: (n,) numbers of ``source_names``, which grows; -1 for none. ``vectors``: (m,) whether the point has one.
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
        """Whether every point is looked at, so that what is found is the collection's and no sample's."""
        return len(self.looked) == len(self.keys)


def nothing_yet(points: int, looked: Places) -> Gathered:
    """The arrays before the first page. ``points``: n."""
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
    """Places of at most ``limit`` points, evenly spread over all of them; every point without a limit."""
    if limit is None or limit >= points:
        return np.arange(points, dtype=np.int32)
    return (np.arange(limit, dtype=np.int64) * points // limit).astype(np.int32)


# What a point is an exact copy by: its canonical text, or, where it has no text, the very bytes of its vector.
#
# The canonical text is the proxy's own but for one step: header and footer lines are not taken off, since what repeats in a
# pool of fifty is told from its neighbours there, and a collection has no such pool. Such copies count as near ones. A text that is too long or too dear to read stands for itself as it is.

_BYTES = 8


def key(point: Point, text_fields: Iterable[str]) -> tuple[Known, int]:
    """Which kind of key, and the key: 64 bits, which in a million points coincide once in 37 million collections."""
    text = text_of(point.payload, text_fields)
    canonical = "" if text is None else text if cost(text) is None else folded(unwrapped(text))
    if canonical:
        return Known.TEXT, content_hash(canonical)
    if point.vector is not None:
        return Known.VECTOR, _vector_key(point.vector)
    return Known.NOTHING, 0


def _vector_key(vector: Vectors) -> int:
    content = (vector + 0.0).tobytes()  # -0.0 and 0.0 are the same number
    return int.from_bytes(hashlib.blake2b(content, digest_size=_BYTES).digest(), "little")


IDS_PAGE = 10_000  # ids alone are small
PAGE = 100  # points a step: two requests, and a quarter of a megabyte of vectors at 768 dimensions
LONGEST_NAME = 120  # characters of a source's name; a whole text in that field is not a name


class Collection(Source, Protocol):
    """A source that can also answer without vectors and payloads, which would be nine tenths of the traffic here."""

    def nearest(self, vectors: Vectors, *, count: int) -> list[list[tuple[PointId, float]]]:
        """As ``neighbours``, ids and distances alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """Where a payload keeps its text and its source: keys or dotted ways, the first that holds something counts."""

    text: tuple[str, ...]
    source: tuple[str, ...]


@dataclass(slots=True)
class Reading:
    """One reading of ``gathered``, ``done`` of its points so far. ``names``: the number of each source's name."""

    ids: Ids
    gathered: Gathered
    done: int = 0
    names: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {name: number for number, name in enumerate(self.gathered.source_names)}


def list_ids(source: Source, progress: Callable[[int], None]) -> Ids:
    """Every id of the collection; ``progress`` hears how many each page brought."""

    def pages() -> Iterator[Sequence[PointId]]:
        after: PointId | None = None
        while True:
            page, after = source.ids(after=after, page=IDS_PAGE)
            yield page
            progress(len(page))
            if after is None:
                return

    return Ids(pages())


def read_page(reading: Reading, source: Collection, fields: FieldNames) -> int:
    """Look at the next points; how many they were, 0 when all are done. Raises SourceError, and then nothing has changed."""
    places = reading.gathered.looked[reading.done : reading.done + PAGE]
    if not len(places):
        return 0
    points = source.read(reading.ids.at(places.tolist()))
    with_vector = [point for point in points if point.vector is not None]
    vectors = [point.vector for point in with_vector if point.vector is not None]
    # One more than is kept, because a point finds itself.
    lists = source.nearest(np.stack(vectors), count=NEIGHBOURS + 1) if vectors else []
    note(reading, points, fields)
    rows = np.searchsorted(places, reading.ids.places([point.id for point in with_vector])) + reading.done
    for row, point, found in zip(rows.tolist(), with_vector, lists, strict=True):
        _keep(reading, row, [each for each in found if each[0] != point.id])
    reading.done += len(places)
    return len(places)


def note(reading: Reading, points: Sequence[Point], fields: FieldNames) -> None:
    """Remember of each point what it is a copy of and where it is from."""
    gathered = reading.gathered
    for place, point in zip(reading.ids.places([point.id for point in points]).tolist(), points, strict=True):
        gathered.known[place], gathered.keys[place] = key(point, fields.text)
        name = _source_name(point, fields.source)
        if name is not None:
            gathered.sources[place] = _numbered(reading, name)


def touched(gathered: Gathered, cut: float) -> Places:
    """Places of neighbours within the cut that are not looked at themselves: in a sample, members of its families."""
    ends = np.unique(gathered.others[gathered.distances <= cut])
    known = gathered.known[ends] != 0
    found: Places = ends[(ends != NOWHERE) & ~known]
    return found


def _keep(reading: Reading, row: int, found: list[tuple[PointId, float]]) -> None:
    """Sorted by distance, then by place: the index's own order of equal scores may differ between two requests."""
    places = reading.ids.places([each for each, _ in found])
    distances = np.array([distance for _, distance in found], np.float32)
    there = places != NOWHERE
    places, distances = places[there], distances[there]
    order = np.lexsort((places, distances))[:NEIGHBOURS]
    reading.gathered.vectors[row] = True
    reading.gathered.others[row, : len(order)] = places[order]
    reading.gathered.distances[row, : len(order)] = distances[order]


def _source_name(point: Point, fields: Sequence[str]) -> str | None:
    """Names are text fit to print; numbers and truth values are written as JSON would, anything larger is no name."""
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

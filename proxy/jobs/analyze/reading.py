"""Reading a collection into arrays: its ids, then page by page each point's payload and its nearest others.

Reading stops between two pages only: whatever ends it, ``done`` says how far the arrays are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vecsieve.proxy.jobs.analyze.excerpts import shortened
from vecsieve.proxy.jobs.analyze.gathered import NEIGHBOURS, Gathered
from vecsieve.proxy.jobs.analyze.ids import NOWHERE, Ids, Places
from vecsieve.proxy.jobs.analyze.keys import key
from vecsieve.proxy.jobs.source import Point, PointId, Source, Vectors
from vecsieve.proxy.jobs.texts import value_at

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

"""One analysis from the first request to the report. Reads, never writes to the database; keeps its state between pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from vecsieve.config.policy import RelativeThreshold
from vecsieve.proxy.jobs.analyze import judging
from vecsieve.proxy.jobs.analyze.examples import Chosen, Read, choose, family
from vecsieve.proxy.jobs.analyze.excerpts import shortened
from vecsieve.proxy.jobs.analyze.families import first_copies, leaders
from vecsieve.proxy.jobs.analyze.gathered import Gathered, Known, nothing_yet, spread
from vecsieve.proxy.jobs.analyze.ids import NOWHERE, Places
from vecsieve.proxy.jobs.analyze.keeping import Keeper
from vecsieve.proxy.jobs.analyze.keys import key
from vecsieve.proxy.jobs.analyze.pools import POOL, Pool, collection_median, pool, saving
from vecsieve.proxy.jobs.analyze.reading import (
    PAGE,
    Collection,
    FieldNames,
    Reading,
    list_ids,
    note,
    read_page,
    touched,
)
from vecsieve.proxy.jobs.analyze.report import FORMAT, About, Cut, Family, Report
from vecsieve.proxy.jobs.analyze.sources import sources
from vecsieve.proxy.jobs.progress import Advance, progress_bar
from vecsieve.proxy.jobs.source import Point, SourceError, Vectors
from vecsieve.proxy.jobs.texts import text_of
from vecsieve.proxy.resolved import threshold_of
from vecsieve.proxy.selection.thresholds import cuts
from vecsieve.proxy.selection.values import Indices

POOLS = 200  # their median's standard error is a fourteenth of their spread
POOLS_PAGE = 10  # 10 x 50 candidates with their vectors are 4 MB at 768 dimensions

Bar = Callable[[str, int | None], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be found out. ``cut``: None for the relative one; ``origin``: where it is from, as in report.Cut.

    ``limit``: look at so many points only, spread over the collection; None for all. ``state``: where to keep how far it came.
    """

    collection: str
    cut: float | None
    origin: str
    fields: FieldNames
    limit: int | None
    state: Path | None


def analyze(source: Collection, asked: Asked, *, bar: Bar = progress_bar) -> Report:
    """The report. Raises SourceError, StateError; on these and on an interruption the state is kept."""
    shape = source.shape()
    with bar("listing ids", shape.points) as advance:
        ids = list_ids(source, advance)
    if not len(ids):
        raise SourceError(f"collection {asked.collection!r} has no points")
    gathered = nothing_yet(len(ids), spread(len(ids), asked.limit))
    reading = Reading(ids=ids, gathered=gathered)
    keeper = Keeper(asked.state, _fingerprint(source, asked, reading))
    keeper.restored(reading)
    with keeper.kept_on_interrupt(reading):
        with bar("looking for copies", len(gathered.looked)) as advance:
            advance(reading.done)
            while done := read_page(reading, source, asked.fields):
                keeper.page_done(reading)
                advance(done)
        return _judged(source, asked, reading, bar)


def _fingerprint(source: Collection, asked: Asked, reading: Reading) -> dict[str, str | int | float | None]:
    """Everything on which the arrays or the report depend: a state is continued for the very same only."""
    shape = source.shape()
    return {
        "collection": asked.collection,
        "vector": shape.vector_name,
        "dimension": shape.dimension,
        "distance": shape.distance,
        "points": len(reading.ids),
        "ids": reading.ids.digest(),
        "cut": asked.cut,
        "limit": asked.limit,
        "text fields": ", ".join(asked.fields.text),
        "source fields": ", ".join(asked.fields.source),
    }


def _judged(source: Collection, asked: Asked, reading: Reading, bar: Bar) -> Report:
    """Everything after the long reading: a few hundred requests, the same ones each time."""
    gathered, shape = reading.gathered, source.shape()
    pools = _pools(source, asked.fields, reading, bar)
    cut = _cut(asked, pools)
    _note_touched(source, asked.fields, reading, cut.value, bar)
    firsts = first_copies(gathered)
    heads = leaders(gathered, firsts, cut.value)
    examples = _examples(source, asked.fields, reading, (firsts, choose(heads, firsts)), bar)
    known = gathered.known[gathered.looked]
    return Report(
        format=FORMAT,
        version=version("vecsieve"),
        about=About(
            collection=asked.collection,
            vector_name=shape.vector_name,
            dimension=shape.dimension,
            distance=shape.distance,
            points=len(reading.ids),
            examined=int((known != Known.UNSEEN).sum()),
            with_vector=int(gathered.vectors.sum()),
            with_text=int((known == Known.TEXT).sum()),
            gone=int((known == Known.UNSEEN).sum()),
            text_fields=asked.fields.text,
            source_fields=asked.fields.source,
        ),
        cut=cut,
        exact=judging.exact_share(gathered, firsts),
        near=judging.near_share(gathered, firsts, heads, cut.value),
        families=judging.families_found(gathered, heads, cut.value, examples),
        sources=sources(gathered, heads),
        density=judging.curve(gathered, firsts, (cut.value, cut.relative)),
        saving=saving(pools, cut.value),
    )


def _pools(source: Collection, fields: FieldNames, reading: Reading, bar: Bar) -> list[Pool]:
    """Pools around points spread over those that have a vector."""
    with_vector = reading.gathered.looked[reading.gathered.vectors]
    places = with_vector[spread(len(with_vector), POOLS)]
    pools: list[Pool] = []
    for points in _read(source, reading, places, POOLS_PAGE, ("asking around", bar)):
        vectors = [point.vector for point in points if point.vector is not None]
        found = source.neighbours(np.stack(vectors), count=POOL) if vectors else []
        pools += [_pool([point for point, _ in each], source, fields) for each in found if each]
    return pools


def _pool(points: Sequence[Point], source: Collection, fields: FieldNames) -> Pool:
    shape = source.shape()
    missing: Vectors = np.zeros(shape.dimension, np.float32)
    vectors = np.stack([missing if point.vector is None else point.vector for point in points])
    keys = [key(point, fields.text) for point in points]
    texts = np.array([number if kind is Known.TEXT else 0 for kind, number in keys], np.uint64)
    return pool(vectors, texts, magnitude=shape.magnitude)


def _cut(asked: Asked, pools: Sequence[Pool]) -> Cut:
    """The cut that was asked for, else what the relative rule makes of the median of the pools' medians."""
    median = collection_median(pools)
    relative = cuts(threshold_of(RelativeThreshold()), 0.0 if median is None else median, 1)[0]
    return Cut(
        value=relative if asked.cut is None else asked.cut,
        origin=asked.origin,
        relative=None if median is None else relative,
        median=median,
        pools=len(pools),
    )


def _note_touched(source: Collection, fields: FieldNames, reading: Reading, cut: float, bar: Bar) -> None:
    places = touched(reading.gathered, cut)
    for points in _read(source, reading, places, PAGE, ("reading the sample's copies", bar)):
        note(reading, points, fields)


def _examples(
    source: Collection, fields: FieldNames, reading: Reading, found: tuple[Indices, Sequence[Chosen]], bar: Bar
) -> list[Family]:
    firsts, chosen = found
    places = np.unique(np.array([place for each in chosen for place in each.places], np.int32))
    read: dict[int, Read] = {}
    for points in _read(source, reading, places, PAGE, ("reading examples", bar)):
        for place, point in zip(reading.ids.places([point.id for point in points]).tolist(), points, strict=True):
            read[place] = _told(point, (place, int(firsts[place])), reading.gathered, fields)
    magnitude = source.shape().magnitude
    families = (family(each, read, magnitude=magnitude) for each in chosen)
    return [each for each in families if each is not None]


def _told(point: Point, at: tuple[int, int], gathered: Gathered, fields: FieldNames) -> Read:
    place, first = at
    number = int(gathered.sources[place])
    text = text_of(point.payload, fields.text)
    return Read(
        point=point,
        first=first,
        source=None if number == NOWHERE else gathered.source_names[number],
        text=None if text is None else shortened(text),
    )


def _read(
    source: Collection, reading: Reading, places: Places, page: int, shown: tuple[str, Bar]
) -> Iterator[list[Point]]:
    title, bar = shown
    with bar(title, len(places)) as advance:
        for start in range(0, len(places), page):
            chosen = places[start : start + page]
            yield source.read(reading.ids.at(chosen.tolist()))
            advance(len(chosen))

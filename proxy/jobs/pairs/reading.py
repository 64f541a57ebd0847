"""Streams a collection into the store: each point is read once; its vector, its text and the sketches of both are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...runtime.files import progress_bar
from ...selection.reading.text import Text
from ...selection.values import FloatMatrix
from ..source import Point, PointId, Source, SourceError, Vectors
from .fingerprints import TEXT_BANDS, bands_of, fingerprints
from .ids import Ids
from .ids import Places as Placed
from .sketches import VECTOR_BANDS, Directions, vector_bands
from .store import Page, Places, Sketches, Store

PAGE = 256  # points per request
SAMPLE = 1000  # points from which the centre of the collection is computed


def listed_ids(source: Source, collection: str) -> Ids:
    """Every id of the collection. Raises SourceError, also if there is none."""
    with progress_bar("listing ids", source.shape().points) as advance:

        def pages() -> Iterator[Sequence[PointId]]:
            for page in source.listed():
                yield page
                advance(len(page))

        ids = Ids(pages())
    if not len(ids):
        raise SourceError(f"collection {collection!r} has no points")
    return ids


def stream(source: Source, ids: Ids, store: Store, page: Callable[[Sequence[Point], range], Page]) -> None:
    """Read the points that are not in the store yet. ``page``: makes a Page of the existing points of consecutive places. Raises SourceError."""
    with progress_bar("reading", len(ids)) as advance:
        advance(store.done)
        while (start := store.done) < len(ids):
            places = range(start, min(start + PAGE, len(ids)))
            store.add(page(source.read(ids.at(places)), places))
            advance(len(places))


def sample(source: Source, ids: Ids, places: Placed) -> FloatMatrix:
    """The vectors (s, d) of the existing points; a single zero vector if no point has one."""
    vectors: list[Vectors] = []
    for start in range(0, len(places), PAGE):
        points = source.read(ids.at(places[start : start + PAGE].tolist()))
        vectors += [point.vector for point in points if point.vector is not None]
    return np.stack(vectors) if vectors else np.zeros((1, source.shape().dimension), np.float32)


def sketched(
    points: Sequence[Point],
    texts: Sequence[str | None],
    read: Sequence[Text | None],
    places: range,
    ids: Ids,
    by: Directions,
) -> Page:
    """The page of the existing points of consecutive places, for a job to complete. ``read``: the texts as the judge reads them; None for one that is
    missing or not read. The vectors of points without texts are sketched, since texts decide about the others.
    """
    there = ids.places([point.id for point in points]).astype(np.int64)
    vectors = np.zeros((len(places), len(by.centre)), np.float32)
    for place, point in zip(there.tolist(), points, strict=True):
        if point.vector is not None:
            vectors[place - places.start] = point.vector
    rows = vectors[there - places.start]
    has_direction = np.asarray(rows.any(axis=1), np.bool_)
    has_text = np.array([text is not None for text in texts], np.bool_)
    by_vector = has_direction & ~has_text
    parts = [_of_texts(read, there), _of_vectors(rows[by_vector], there[by_vector], by)]
    return Page(
        start=places.start,
        vectors=vectors,
        there=there,
        has_vector=has_direction,
        texts=texts,
        numbers=np.zeros(len(points), np.int64),
        rank=np.zeros(len(points)),
        size=np.zeros(len(points), np.int64),
        marks=np.zeros(len(points), np.uint64),
        sketches=Sketches(
            hashes=np.concatenate([part.hashes for part in parts]),
            places=np.concatenate([part.places for part in parts]),
            bands=np.concatenate([part.bands for part in parts]),
        ),
    )


def _of_texts(read: Sequence[Text | None], there: Places) -> Sketches:
    parts = [np.empty(0, np.uint64) if text is None else fingerprints(text) for text in read]
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    return Sketches(hashes=hashes, places=np.repeat(there, [len(part) for part in parts]), bands=bands_of(hashes))


def _of_vectors(vectors: FloatMatrix, places: Places, by: Directions) -> Sketches:
    bands = np.tile(np.arange(TEXT_BANDS, TEXT_BANDS + VECTOR_BANDS, dtype=np.uint8), len(vectors))
    hashes = vector_bands(vectors, by).reshape(-1) if len(vectors) else np.empty(0, np.uint64)
    return Sketches(hashes=hashes, places=np.repeat(places, VECTOR_BANDS), bands=bands)

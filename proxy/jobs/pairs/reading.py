"""Streams a collection into the store: each point is read once; its vector, its text and the sketches of both are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...runtime.files import Advance
from ...selection.text.bounds import cost
from ...selection.text.canonical import folded, unwrapped
from ...selection.text.signals.minhash import BANDS as TEXT_BANDS
from ...selection.text.tokens import Hashes
from ...selection.values import FloatMatrix
from ..source import Point, Source, Vectors
from .ids import Ids
from .ids import Places as Placed
from .sketches import Directions, text_bands, vector_bands
from .store import Page, Places, Store

PAGE = 256  # points per request
SAMPLE = 1000  # points from which the centre of the collection is computed

Bar = Callable[[str, int | None], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketched:
    """The existing points of consecutive places. ``there`` (m,), ``vectors``, ``bands`` and ``counts`` (m, b): as in Page.
    ``has_direction``: (m,) whether the point has a nonzero vector. ``canonical``: (m,) the canonical texts; "" for a text that is missing or
    too expensive to read.
    """

    there: Places
    vectors: FloatMatrix
    has_direction: npt.NDArray[np.bool_]
    canonical: Sequence[str]
    bands: Hashes
    counts: npt.NDArray[np.bool_]


def stream(source: Source, ids: Ids, store: Store, page: Callable[[Sequence[Point], range], Page], bar: Bar) -> None:
    """Read the points that are not in the store yet. ``page``: makes a Page of the existing points of consecutive places. Raises SourceError."""
    with bar("reading", len(ids)) as advance:
        advance(store.done)
        while (start := store.done) < len(ids):
            places = range(start, min(start + PAGE, len(ids)))
            store.add(page(source.read(ids.at(places)), places))
            advance(len(places))


def sample(source: Source, ids: Ids, places: Placed) -> FloatMatrix:
    """The vectors (s, d) of the existing points; a single zero vector if no point has one."""
    found: list[Vectors] = []
    for start in range(0, len(places), PAGE):
        points = source.read(ids.at(places[start : start + PAGE].tolist()))
        found += [point.vector for point in points if point.vector is not None]
    return np.stack(found) if found else np.zeros((1, source.shape().dimension), np.float32)


def canonical_of(text: str | None) -> str:
    """The canonical text; empty if the text is missing or too expensive to read."""
    return "" if text is None or cost(text) is None else folded(unwrapped(text))


def sketched(points: Sequence[Point], texts: Sequence[str | None], places: range, ids: Ids, by: Directions) -> Sketched:
    there = ids.places([point.id for point in points]).astype(np.int64)
    vectors = np.zeros((len(places), len(by.centre)), np.float32)
    for place, point in zip(there.tolist(), points, strict=True):
        if point.vector is not None:
            vectors[place - places.start] = point.vector
    canonical = [canonical_of(text) for text in texts]
    bands = np.zeros((len(points), TEXT_BANDS + by.bands), np.uint64)
    counts = np.zeros(bands.shape, np.bool_)
    has_text = np.array([bool(text) for text in canonical], np.bool_)
    if has_text.any():
        bands[has_text, :TEXT_BANDS] = text_bands([text for text in canonical if text])
        counts[has_text, :TEXT_BANDS] = True
    rows = vectors[there - places.start]
    has_direction = np.asarray(rows.any(axis=1), np.bool_)
    if has_direction.any():
        bands[has_direction, TEXT_BANDS:] = vector_bands(rows[has_direction], by)
        counts[has_direction, TEXT_BANDS:] = True
    return Sketched(
        there=there,
        vectors=vectors,
        has_direction=has_direction,
        canonical=canonical,
        bands=bands,
        counts=counts,
    )

"""One sweep, from the first request to the report. It only reads from the database, and continues an interrupted run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.config.policy import PolicySettings

from ...search.candidates import moment
from ...search.policy import guards_of
from ...selection.text.canonical import content_hash
from ...selection.values import FloatMatrix, Indices
from ..pairs.ids import Ids, spread
from ..pairs.joining import Runner, by_daft
from ..pairs.reading import PAGE, SAMPLE, Bar, sample, sketched, stream
from ..pairs.sketches import Directions, directions
from ..pairs.store import Going, Held, Page, Places, Store, StoreError
from ..source import Point, Source, SourceError, id_pages, mark_of, shortened, text_of, value_at
from .judging import Evidence, Terms, heads_of, judged
from .report import FORMAT, Family, Member, Report

EXAMPLES = 12  # families shown, largest first
MEMBERS = 4  # members shown of each


class Keep(StrEnum):
    """Which point of a family stays; of equal ones the one with the most copies."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LONGEST = "longest"
    FIRST = "first"  # by id
    CENTRAL = "central"  # with the most copies


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``tenants``: payload fields in which copies must agree. ``work``: the folder of the sweep."""

    collection: str
    similarity: float
    shared: float
    keep: Keep
    text_fields: tuple[str, ...]
    time_fields: tuple[str, ...]
    tenants: tuple[str, ...]
    work: Path
    runner: Runner = Runner.LOCAL


@dataclass(slots=True)
class Found:
    """Copies as they are found. ``similarities``: NaN without both vectors."""

    pairs: list[Places] = field(default_factory=list)
    evidence: list[Indices] = field(default_factory=list)
    similarities: list[FloatMatrix] = field(default_factory=list)
    candidates: int = 0
    forbidden: int = 0


def lines(store: Store) -> Iterator[bytes]:
    """The removable points, one line of JSON each, family by family."""
    start = 0
    while batch := store.going(start, PAGE):
        for each in batch:
            line = {
                "id": each.id,
                "survivor": each.survivor,
                "evidence": each.evidence,
                "similarity": each.similarity,
            }
            yield orjson.dumps(line) + b"\n"
        start += len(batch)


@contextmanager
def opened_store(source: Source, asked: Asked) -> Iterator[Store]:
    """The store in the folder of this sweep. Raises SourceError, StoreError."""
    shape = source.shape()
    of: dict[str, str | int | float | None] = {
        "job": "sweep",
        "collection": asked.collection,
        "vector": shape.vector_name,
        "dimension": shape.dimension,
        "distance": shape.distance,
        "keep": asked.keep.value,
        "text fields": ", ".join(asked.text_fields),
        "time fields": ", ".join(asked.time_fields),
        "tenants": ", ".join(asked.tenants),
    }
    with Store(asked.work, shape.dimension, of) as store:
        yield store


def sweep(source: Source, asked: Asked, store: Store, *, bar: Bar, is_decided: bool = False) -> Report:
    """Sweep; the removable points are then in the store. ``is_decided``: whether an earlier run's decisions are used, even if the
    collection has changed. Raises SourceError, StoreError.
    """
    decided = _decided(store, asked)
    if decided is not None and (is_decided or store.deleted is not None):
        return decided
    with bar("listing ids", source.shape().points) as advance:
        ids = Ids(id_pages(source, advance))
    if not len(ids):
        raise SourceError(f"collection {asked.collection!r} has no points")
    store.check("ids", {"ids": ids.digest()})
    if decided is not None:
        return decided
    join = (
        by_daft(on_ray=True) if asked.runner is Runner.RAY else None
    )  # before reading, because it may not be installed
    _read(source, asked, ids, store, bar)
    with bar("looking for candidates", None):
        store.pair_up(join)
    held = store.held()
    found = _judge(store, asked, held, bar, magnitude=source.shape().magnitude)
    return _reported(source, asked, ids, store, held, found)


def _decided(store: Store, asked: Asked) -> Report | None:
    """Decided by an earlier run with the same cuts."""
    held = store.report()
    report = None if held is None else msgspec.json.decode(held, type=Report)
    if report is not None and (report.similarity, report.shared) == (asked.similarity, asked.shared):
        return report
    if store.deleted is not None:
        raise StoreError(f"--work {asked.work}: points have been deleted by other cuts; name another folder")
    return None


def _read(source: Source, asked: Asked, ids: Ids, store: Store, bar: Bar) -> None:
    by = directions(store.sample(lambda: sample(source, ids, spread(len(ids), SAMPLE))), len(ids))
    stream(source, ids, store, lambda points, places: _page(points, places, ids, by, asked), bar)


def _page(points: Sequence[Point], places: range, ids: Ids, by: Directions, asked: Asked) -> Page:
    texts = [text_of(point.payload, asked.text_fields) for point in points]
    read = sketched(points, texts, places, ids, by)
    tenants = np.array([_tenant(point.payload, asked.tenants) for point in points], np.uint64)
    numbers = [_number(text, tenant) for text, tenant in zip(read.canonical, tenants.tolist(), strict=True)]
    ranks = [_rank(*each, asked) for each in zip(read.there.tolist(), points, texts, strict=True)]
    return Page(
        start=places.start,
        vectors=read.vectors,
        there=read.there,
        has_vector=read.has_direction,
        numbers=np.array(numbers, np.int64),
        # The store cannot hold lone surrogates. They are escaped, so that different ones stay different.
        texts=[None if text is None else text.encode("utf-8", "backslashreplace").decode() for text in texts],
        rank=np.array(ranks, np.float64),
        size=np.array([len(_json(point.payload)) + by.centre.nbytes for point in points], np.int64),
        marks=np.array([mark_of(point.vector, point.payload) for point in points], np.uint64),
        bands=read.bands ^ tenants[:, None],  # points of two tenants share no band
        counts=read.counts,
    )


def _number(canonical: str, tenant: int) -> int:
    """Equal for equal texts of one tenant; 0 without a text."""
    return int(np.uint64(content_hash(canonical) ^ tenant).view(np.int64)) if canonical else 0


def _tenant(payload: Mapping[str, object], fields: Sequence[str]) -> int:
    """A number, equal for equal values in all of the fields; zero without fields."""
    if not fields:
        return 0
    values = [value_at(payload, field) for field in fields]
    return content_hash(_json(values))


def _json(value: object) -> str:
    """Python's own library: payloads may have lone surrogates, which faster ones refuse."""
    return json.dumps(value, sort_keys=True, default=str)


def _rank(place: int, point: Point, text: str | None, asked: Asked) -> float:
    """The point with the larger rank stays. A point without a time loses against one with a time."""
    if asked.keep is Keep.FIRST:
        return -float(place)
    if asked.keep is Keep.CENTRAL:
        return 0.0
    if asked.keep is Keep.LONGEST:
        return 0.0 if text is None else float(len(text))
    for field_name in asked.time_fields:
        found = moment(_json(value_at(point.payload, field_name)).encode())
        if found is not None and not isinstance(
            found[1], tuple
        ):  # releases of different documents have no common order
            return found[1] if asked.keep is Keep.NEWEST else -found[1]
    return -np.inf


def _judge(store: Store, asked: Asked, held: Held, bar: Bar, *, magnitude: bool) -> Found:
    terms = Terms(
        similarity=asked.similarity,
        shared=asked.shared,
        magnitude=magnitude,
        guards=guards_of(PolicySettings().guards),
    )
    found = Found()
    with bar("comparing candidates", store.pairs()) as advance:
        for each in store.candidates(held):
            verdict = judged(each.rows, each.vectors, each.has_vector, each.texts, terms, each.of_text)
            copies = verdict.evidence != Evidence.NONE
            found.pairs.append(each.pairs[copies])
            found.evidence.append(verdict.evidence[copies].astype(np.intp))
            found.similarities.append(verdict.similarities[copies])
            found.candidates += len(each.pairs)
            found.forbidden += verdict.forbidden
            advance(len(each.pairs))
    return found


def _reported(source: Source, asked: Asked, ids: Ids, store: Store, held: Held, found: Found) -> Report:
    n, shape = len(ids), source.shape()
    there = held.places
    firsts = _first_of_equals(held, n)
    pairs = np.concatenate([np.empty((0, 2), np.int64), *found.pairs])
    evidence = np.concatenate([np.empty(0, np.intp), *found.evidence])
    similarities = np.concatenate([np.empty(0, np.float32), *found.similarities])
    between = firsts[pairs]  # equal texts are one point: a copy of one of them is a copy of all
    apart = between[:, 0] != between[:, 1]
    strength = np.where(np.isnan(similarities), 1.0, similarities)
    rank = np.full(n, -np.inf)
    rank[there] = held.rank
    heads = heads_of(between[apart], strength[apart], rank)[firsts]
    going = _going(ids, there[heads[there] != there], (heads, firsts), (between, evidence, similarities))
    sizes = np.bincount(heads[there], minlength=n)
    families = sizes[sizes > 1]
    size_of = np.zeros(n, np.int64)
    size_of[there] = held.size
    counted = np.bincount(evidence, minlength=len(Evidence))
    report = Report(
        format=FORMAT,
        version=version("vecsieve"),
        collection=asked.collection,
        vector_name=shape.vector_name,
        dimension=shape.dimension,
        distance=shape.distance,
        points=n,
        gone=n - len(there),
        with_vector=int(held.has_vector.sum()),
        with_text=int((held.numbers != 0).sum()),
        similarity=asked.similarity,
        shared=asked.shared,
        keep=asked.keep.value,
        candidates=found.candidates,
        same_text=int(counted[Evidence.SAME_TEXT]),
        near_text=int(counted[Evidence.NEAR_TEXT]),
        near_vector=int(counted[Evidence.NEAR_VECTOR]),
        forbidden=found.forbidden,
        families=len(families),
        largest=int(families.max(initial=0)),
        redundant=len(going.places),
        redundant_bytes=int(size_of[going.places].sum()),
        examples=_examples(store, going, sizes),
    )
    marks = np.zeros(n, np.uint64)
    marks[there] = held.marks
    store.decide(_batches(going, marks), msgspec.json.encode(report))
    return report


def _batches(going: _Copies, marks: npt.NDArray[np.uint64]) -> Iterator[list[Going]]:
    for start in range(0, len(going.places), PAGE):
        part = slice(start, start + PAGE)
        places, survivors = going.places[part].tolist(), going.survivors[part].tolist()
        rows = zip(
            going.ids.at(places),
            going.ids.at(survivors),
            going.evidence[part].tolist(),
            going.similarities[part].tolist(),
            marks[places].tolist(),
            marks[survivors].tolist(),
            strict=True,
        )
        yield [
            Going(id=one, survivor=other, **_why(code, alike), mark=mark, survivor_mark=its)
            for one, other, code, alike, mark, its in rows
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """The removable points. ``places`` (g,) ascending by survivor, ``survivors`` (g,), the evidence (g,), and the similarities of the
    vectors (g,).
    """

    ids: Ids
    places: Indices
    survivors: Indices
    evidence: Indices
    similarities: FloatMatrix


def _first_of_equals(held: Held, n: int) -> Indices:
    """For each of n places the first one with equal text and tenant, often itself."""
    firsts = np.arange(n, dtype=np.intp)
    best = np.lexsort((held.places, -held.rank))
    numbers = held.numbers[best]
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    leading = held.places[best][first[inverse.reshape(-1)]]
    firsts[held.places[best]] = np.where(numbers != 0, leading, held.places[best])
    return firsts


def _going(
    ids: Ids,
    places: Places,
    ends: tuple[Indices, Indices],
    copies: tuple[Indices, Indices, FloatMatrix],
) -> _Copies:
    """``ends``: the head of each place and the first of its equals. ``copies``: pairs of firsts, evidence, and similarities."""
    heads, firsts = ends
    between, evidence, similarities = copies
    order = np.lexsort((places, heads[places]))
    places = places[order].astype(np.intp)
    survivors = heads[places]
    n = np.int64(len(heads))
    low, high = np.minimum(firsts[places], survivors), np.maximum(firsts[places], survivors)
    keys = between.min(axis=1) * n + between.max(axis=1) if len(between) else np.empty(0, np.int64)
    by_key = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[by_key], low * n + high)
    is_same = firsts[places] == survivors
    why, alike = np.full(len(places), int(Evidence.SAME_TEXT)), np.full(len(places), np.nan, np.float32)
    chosen = by_key[at[~is_same]]
    why[~is_same], alike[~is_same] = evidence[chosen], similarities[chosen]
    return _Copies(ids=ids, places=places, survivors=survivors, evidence=why, similarities=alike)


def _why(code: int, similarity: float) -> dict[str, Any]:
    alike = None if np.isnan(similarity) else round(float(similarity), 4)
    return {"evidence": Evidence(code).name.lower(), "similarity": alike}


def _examples(store: Store, going: _Copies, sizes: Indices) -> tuple[Family, ...]:
    """The largest families, the first of equal ones."""
    survivors, starts = np.unique(going.survivors, return_index=True)
    order = np.lexsort((survivors, -sizes[survivors]))[:EXAMPLES]
    found = []
    for number in order.tolist():
        survivor, start = int(survivors[number]), int(starts[number])
        rows = range(start, min(start + MEMBERS, start + int(sizes[survivor]) - 1))
        places = going.places[rows.start : rows.stop].tolist()
        texts = store.texts([survivor, *places])
        members = (
            _member(going, place, texts, **_why(int(going.evidence[row]), float(going.similarities[row])))
            for row, place in zip(rows, places, strict=True)
        )
        found.append(
            Family(size=int(sizes[survivor]), survivor=_member(going, survivor, texts), members=tuple(members))
        )
    return tuple(found)


def _member(going: _Copies, place: int, texts: Mapping[int, str | None], **why: Any) -> Member:
    (id_,) = going.ids.at([place])
    text = texts.get(place)
    said = {"evidence": None, "similarity": None, **why}
    return Member(id=id_, text=None if text is None else shortened(text), **said)

"""One analysis, from the first request to the report. It only reads from the database, and saves its state between pages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import orjson

from vecsieve.config.policy import RelativeThreshold

from ...runtime.files import Advance, progress_bar
from ...search.policy import threshold_of
from ...selection.geometry import across, rows_of
from ...selection.grouping import cuts
from ...selection.values import Indices
from ..source import Point, Source, SourceError, Vectors, id_pages, text_of
from .families import (
    CUTS,
    Density,
    density_at,
    exact,
    first_copies,
    leaders,
    redundant,
    saturated,
    sources,
)
from .pools import POOL, Pool, collection_median, overlap, pool, saving
from .reading import (
    NOWHERE,
    PAGE,
    FieldNames,
    Fingerprint,
    Gathered,
    Ids,
    Known,
    Places,
    Reading,
    key,
    note,
    nothing_yet,
    read_page,
    restore,
    save,
    shortened,
    spread,
    touched,
)
from .report import FORMAT, About, Cut, Families, Family, Member, Report, Share, Sizes

EVERY_SECONDS = 5.0
SHARE = 20  # writing takes at most a twentieth of the time: the state of a million points is 180 MB


class Keeper:
    """Saves a reading's state at ``path``, unless that is None. Raises StateError."""

    def __init__(
        self, path: Path | None, fingerprint: Fingerprint, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._clock = clock
        self._next = clock() + EVERY_SECONDS

    def restored(self, reading: Reading) -> bool:
        return self._path is not None and restore(self._path, self._fingerprint, reading)

    def page_done(self, reading: Reading) -> None:
        if self._path is not None and self._clock() >= self._next:
            self._save(self._path, reading)

    @contextmanager
    def kept_on_interrupt(self, reading: Reading) -> Iterator[None]:
        """Saves the state when an exception ends the block."""
        finished = False
        try:
            yield
            finished = True
        finally:
            if not finished and self._path is not None:
                self._save(self._path, reading)

    def _save(self, path: Path, reading: Reading) -> None:
        started = self._clock()
        save(path, self._fingerprint, reading)
        ended = self._clock()
        self._next = ended + max(EVERY_SECONDS, SHARE * (ended - started))


SIZES = ((2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, None))


def exact_share(gathered: Gathered, firsts: Indices) -> Share:
    """Copies by equal text, or by equal vector without text."""
    return Share(with_copy=int(exact(gathered, firsts).sum()), redundant=redundant(firsts) if gathered.whole else None)


def families_found(gathered: Gathered, heads: Indices, cut: float, examples: Iterable[Family]) -> Families:
    """``heads``: (n,) leaders."""
    sizes = np.bincount(heads, minlength=len(heads))
    sizes = sizes[sizes > 1]
    return Families(
        count=len(sizes),
        largest=int(sizes.max(initial=0)),
        saturated=saturated(gathered, cut),
        sizes=tuple(_between(sizes, smallest, largest) for smallest, largest in SIZES),
        examples=tuple(examples),
    )


def curve(gathered: Gathered, firsts: Indices, cuts: Iterable[float | None]) -> tuple[Density, ...]:
    """The density at the usual cuts and at ``cuts``, increasing, each once."""
    chosen = sorted({*CUTS, *(cut for cut in cuts if cut is not None)})
    return tuple(density_at(gathered, firsts, cut) for cut in chosen)


def _between(sizes: Indices, smallest: int, largest: int | None) -> Sizes:
    chosen = sizes[(sizes >= smallest) & (sizes <= (np.inf if largest is None else largest))]
    return Sizes(smallest=smallest, largest=largest, families=len(chosen), points=int(chosen.sum()))


FAMILIES = 12  # examples
CONSIDERED = 24  # members of a family that are read again, to choose from
MEMBERS = 4  # of a family that are shown, from the nearest to the farthest, so that the cut can be judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An example family. ``places``: of members to read, the leader's first. ``size``: of the whole family."""

    size: int
    exact: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A point that was read again. ``first``: the first of its exact copies. ``text``: shortened."""

    point: Point
    first: int
    source: str | None
    text: str | None


def choose(heads: Indices, firsts: Indices) -> tuple[Chosen, ...]:
    """The largest families, the first of equal ones. ``heads``, ``firsts``: (n,), of families.py."""
    sizes = np.bincount(heads, minlength=len(heads))
    order = np.lexsort((np.arange(len(heads)), -sizes))[:FAMILIES]
    return tuple(_chosen(leader, heads, firsts) for leader in order[sizes[order] > 1].tolist())


def family(chosen: Chosen, read: Mapping[int, Read], *, magnitude: bool) -> Family | None:
    """None if its leader was deleted. ``read``: by place, without deleted points."""
    leader = read.get(chosen.places[0])
    if leader is None:
        return None
    members = [_member(read[place], leader, magnitude=magnitude) for place in chosen.places[1:] if place in read]
    members.sort(key=lambda each: (each.distance is None, each.distance or 0.0))
    shown = np.unique(np.linspace(0, len(members) - 1, MEMBERS).astype(np.intp)) if members else ()
    return Family(
        size=chosen.size,
        exact=chosen.exact,
        leader=_member(leader, leader, magnitude=magnitude),
        members=tuple(members[each] for each in shown),
    )


def _chosen(leader: int, heads: Indices, firsts: Indices) -> Chosen:
    members = np.flatnonzero(heads == leader)
    others = members[members != leader]
    spread = others[np.linspace(0, len(others) - 1, min(len(others), CONSIDERED)).astype(np.intp)]
    same = int((firsts[members] == firsts[leader]).sum())
    return Chosen(size=len(members), exact=same, places=(leader, *spread.tolist()))


def _member(read: Read, leader: Read, *, magnitude: bool) -> Member:
    distance = _distance(read.point.vector, leader.point.vector, magnitude=magnitude)
    exact = read.first == leader.first
    return Member(id=read.point.id, source=read.source, distance=distance, exact=exact, text=read.text)


def _distance(left: Vectors | None, right: Vectors | None, *, magnitude: bool) -> float | None:
    if left is None or right is None:
        return None
    distance = float(across(rows_of(left[None]), rows_of(right[None]), magnitude=magnitude)[0, 0])
    return distance if math.isfinite(distance) else None


POOLS = 200  # the standard error of their median is a fourteenth of their spread
POOLS_PAGE = 10  # 10 x 50 candidates with their vectors are 4 MB at 768 dimensions

Bar = Callable[[str, int | None], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``cut``: None for the relative one. ``origin``: as in report.Cut. ``limit``: points to examine, spread over the
    collection; None for all. ``state``: the state file, or None.
    """

    collection: str
    cut: float | None
    origin: str
    fields: FieldNames
    limit: int | None
    state: Path | None


@dataclass(frozen=True, slots=True)
class Copies:
    """What could go if each family kept one. ``firsts``, ``heads``: (n,) of families.py; those who stay head themselves."""

    ids: Ids
    firsts: Indices
    heads: Indices

    def lines(self) -> Iterator[bytes]:
        """A line of JSON each, family by family: its id, who stays for it, and whether the two are exact copies."""
        going = np.flatnonzero(self.heads != np.arange(len(self.heads)))
        going = going[np.argsort(self.heads[going], kind="stable")]
        for start in range(0, len(going), PAGE):
            places = going[start : start + PAGE]
            stays = self.heads[places]
            exact = (self.firsts[places] == self.firsts[stays]).tolist()
            for one, other, same in zip(self.ids.at(places.tolist()), self.ids.at(stays.tolist()), exact, strict=True):
                yield orjson.dumps({"id": one, "survivor": other, "exact": same}) + b"\n"


def analyze(
    source: Source, asked: Asked, *, bar: Bar = progress_bar, take: Callable[[Copies], None] | None = None
) -> Report:
    """``take`` gets what could go. Raises SourceError, StateError. The state is saved then, and on an interruption."""
    shape = source.shape()
    with bar("listing ids", shape.points) as advance:
        ids = Ids(id_pages(source, advance))
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
        report, copies = _judged(source, asked, reading, bar)
    if take is not None:
        take(copies)
    return report


def _fingerprint(source: Source, asked: Asked, reading: Reading) -> dict[str, str | int | float | None]:
    """Everything that the arrays and the report depend on: a state is continued only for the same."""
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


def _judged(source: Source, asked: Asked, reading: Reading, bar: Bar) -> tuple[Report, Copies]:
    gathered, shape = reading.gathered, source.shape()
    seen: list[Point] = []
    pools = _pools(source, asked.fields, reading, bar, seen)
    cut = _cut(asked, pools)
    places = touched(gathered, cut.value)
    for points in _read(source, reading, places, PAGE, ("reading the sample's copies", bar)):
        note(reading, points, asked.fields)
    firsts = first_copies(gathered)
    heads = leaders(gathered, firsts, cut.value)
    examples = _examples(source, asked.fields, reading, (firsts, choose(heads, firsts)), bar)
    known = gathered.known[gathered.looked]
    density = curve(gathered, firsts, (cut.value, cut.relative))
    near = next(each for each in density if each.cut == cut.value)
    report = Report(
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
        exact=exact_share(gathered, firsts),
        near=Share(with_copy=near.with_copy, redundant=near.redundant),
        families=families_found(gathered, heads, cut.value, examples),
        sources=sources(gathered, heads),
        density=density,
        saving=saving(pools, cut.value),
        overlap=overlap(seen),
    )
    return report, Copies(reading.ids, firsts, heads)


def _pools(source: Source, fields: FieldNames, reading: Reading, bar: Bar, seen: list[Point]) -> list[Pool]:
    """``seen``: gets the points, without their vectors."""
    with_vector = reading.gathered.looked[reading.gathered.vectors]
    places = with_vector[spread(len(with_vector), POOLS)]
    pools: list[Pool] = []
    for points in _read(source, reading, places, POOLS_PAGE, ("asking around", bar)):
        vectors = [point.vector for point in points if point.vector is not None]
        found = source.neighbours(np.stack(vectors), count=POOL) if vectors else []
        seen += [replace(point, vector=None) for each in found for point, _ in each]
        pools += [_pool([point for point, _ in each], source, fields) for each in found if each]
    return pools


def _pool(points: Sequence[Point], source: Source, fields: FieldNames) -> Pool:
    shape = source.shape()
    missing: Vectors = np.zeros(shape.dimension, np.float32)
    vectors = np.stack([missing if point.vector is None else point.vector for point in points])
    keys = [key(point, fields.text) for point in points]
    texts = np.array([number if kind is Known.TEXT else 0 for kind, number in keys], np.uint64)
    return pool(vectors, texts, magnitude=shape.magnitude)


def _cut(asked: Asked, pools: Sequence[Pool]) -> Cut:
    """The given cut, else the relative rule's for the median of the pools' medians."""
    median = collection_median(pools)
    relative = cuts(threshold_of(RelativeThreshold()), 0.0 if median is None else median, 1)[0]
    return Cut(
        value=relative if asked.cut is None else asked.cut,
        origin=asked.origin,
        relative=None if median is None else relative,
        median=median,
        pools=len(pools),
    )


def _examples(
    source: Source, fields: FieldNames, reading: Reading, found: tuple[Indices, Sequence[Chosen]], bar: Bar
) -> list[Family]:
    firsts, chosen = found
    places = np.unique(np.array([place for each in chosen for place in each.places], np.int32))
    read: dict[int, Read] = {}
    for points in _read(source, reading, places, PAGE, ("reading examples", bar)):
        for place, point in zip(reading.ids.places([point.id for point in points]).tolist(), points, strict=True):
            read[place] = _example(point, (place, int(firsts[place])), reading.gathered, fields)
    magnitude = source.shape().magnitude
    families = (family(each, read, magnitude=magnitude) for each in chosen)
    return [each for each in families if each is not None]


def _example(point: Point, at: tuple[int, int], gathered: Gathered, fields: FieldNames) -> Read:
    place, first = at
    number = int(gathered.sources[place])
    text = text_of(point.payload, fields.text)
    return Read(
        point=point,
        first=first,
        source=None if number == NOWHERE else gathered.source_names[number],
        text=None if text is None else shortened(text),
    )


def _read(source: Source, reading: Reading, places: Places, page: int, shown: tuple[str, Bar]) -> Iterator[list[Point]]:
    title, bar = shown
    with bar(title, len(places)) as advance:
        for start in range(0, len(places), page):
            chosen = places[start : start + page]
            yield source.read(reading.ids.at(chosen.tolist()))
            advance(len(chosen))

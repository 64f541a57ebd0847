"""One analysis, from the first request to the report. It only reads from the database, and continues an interrupted run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

from vecsieve.config.policy import RelativeThreshold

from ...runtime.files import progress_bar
from ...search.policy import threshold_of
from ...selection.geometry import across, rows_of
from ...selection.grouping import cuts
from ...selection.values import FloatMatrix, Indices
from ..pairs.ids import NOWHERE, Ids, Places, spread
from ..pairs.reading import PAGE, SAMPLE, Bar, sample
from ..pairs.sketches import directions
from ..pairs.store import Store
from ..source import Point, Source, SourceError, Vectors, id_pages, shortened, text_of
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
from .pools import POOL, Pool, collection_median, overlap, pool, saving, share_within
from .reading import FieldNames, Gathered, Known, gathered_sample, gathered_whole, key
from .report import FORMAT, About, Cut, Families, Family, Member, Report, Share, Sizes

SIZES = ((2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, None))


def exact_share(gathered: Gathered, firsts: Indices) -> Share:
    """The share of exact copies: equal texts, or equal vectors of points without text."""
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


def curve(gathered: Gathered, firsts: Indices, cut: Cut, widest: float, pools: Sequence[Pool]) -> tuple[Density, ...]:
    """The density at the usual cuts, the chosen cut and the relative cut, ascending and without repeats. Pairs beyond ``widest`` are
    unknown, so the share at larger cuts is estimated from the searches.
    """
    counted = [density_at(gathered, firsts, each) for each in _of_the_curve(cut)]
    examined = int((gathered.known[gathered.looked] != Known.UNSEEN).sum())
    return tuple(
        each
        if each.cut <= widest
        else Density(
            cut=each.cut,
            with_copy=max(each.with_copy, round(share_within(pools, each.cut) * examined)),
            redundant=None,
            estimated=True,
        )
        for each in counted
    )


def _of_the_curve(cut: Cut) -> list[float]:
    return sorted({*CUTS, cut.value, *(() if cut.relative is None else (cut.relative,))})


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
    """The largest families; of equally large families, the first ones. ``heads``, ``firsts``: (n,), as in families.py."""
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
LEAST_FOUND = 0.9  # share of the pairs at a cut: if sketches find fewer, the curve is estimated instead of counted
SMALL = 5_000  # points up to which sketches for the whole curve take seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``cut``: None for the relative cut. ``origin``: as in report.Cut. ``limit``: the number of points to examine by searches, spread over
    the collection; None to examine all points by sketches. ``work``: the folder for the data; None for a temporary folder.
    """

    collection: str
    cut: float | None
    origin: str
    fields: FieldNames
    limit: int | None
    work: Path | None


@dataclass(frozen=True, slots=True)
class Copies:
    """The points that could be removed if each family kept one. ``firsts``, ``heads``: (n,) as in families.py. A point that stays
    is its own head.
    """

    ids: Ids
    firsts: Indices
    heads: Indices

    def lines(self) -> Iterator[bytes]:
        """One line of JSON per point, by family: its id, the id of the survivor, and whether the two are exact copies."""
        going = np.flatnonzero(self.heads != np.arange(len(self.heads)))
        going = going[np.argsort(self.heads[going], kind="stable")]
        for start in range(0, len(going), PAGE):
            places = going[start : start + PAGE]
            stays = self.heads[places]
            exact = (self.firsts[places] == self.firsts[stays]).tolist()
            for one, other, same in zip(self.ids.at(places.tolist()), self.ids.at(stays.tolist()), exact, strict=True):
                yield orjson.dumps({"id": one, "survivor": other, "exact": same}) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The results of the searches around stored points. ``seen``: their results, without vectors."""

    pools: Sequence[Pool]
    seen: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``widest``: the distance up to which nearly all pairs are known."""

    ids: Ids
    gathered: Gathered
    around: Around
    cut: Cut
    widest: float


def analyze(
    source: Source, asked: Asked, *, bar: Bar = progress_bar, take: Callable[[Copies], None] | None = None
) -> Report:
    """Analyze the collection. ``take``: receives the removable points. Raises SourceError, StoreError."""
    with bar("listing ids", source.shape().points) as advance:
        ids = Ids(id_pages(source, advance))
    if not len(ids):
        raise SourceError(f"collection {asked.collection!r} has no points")
    found = _whole(source, asked, ids, bar) if asked.limit is None else _sample(source, asked, ids, asked.limit, bar)
    report, copies = _judged(source, asked, found, bar)
    if take is not None:
        take(copies)
    return report


def _whole(source: Source, asked: Asked, ids: Ids, bar: Bar) -> Found:
    """Examine all points by sketches. Their size depends on the cut, so the cut is computed before all points are read."""
    with _opened_store(source, asked) as store:
        store.check("ids", {"ids": ids.digest()})
        vectors = store.sample(lambda: sample(source, ids, spread(len(ids), SAMPLE)))
        around = _around(source, asked.fields, vectors, bar)
        cut = _cut(asked, around.pools)
        reach = cut.value if len(ids) > SMALL else max(cut.value, *CUTS)
        by = directions(vectors, len(ids), store.kept("distance", lambda: reach))
        widest = max(each for each in _of_the_curve(cut) if each <= cut.value or by.chance(each) >= LEAST_FOUND)
        gathered = gathered_whole(source, ids, store, by, asked.fields, widest, bar)
        found = replace(cut, found=round(by.chance(cut.value), 4))
    return Found(ids=ids, gathered=gathered, around=around, cut=found, widest=widest)


def _sample(source: Source, asked: Asked, ids: Ids, limit: int, bar: Bar) -> Found:
    """Examine a sample by searches, because most copies of a sampled point are outside the sample."""
    looked = spread(len(ids), limit)
    vectors = sample(source, ids, looked[spread(len(looked), SAMPLE)])
    around = _around(source, asked.fields, vectors, bar)
    cut = _cut(asked, around.pools)
    gathered = gathered_sample(source, ids, looked, asked.fields, cut.value, bar)
    return Found(ids=ids, gathered=gathered, around=around, cut=cut, widest=math.inf)


@contextmanager
def _opened_store(source: Source, asked: Asked) -> Iterator[Store]:
    """Raises SourceError, StoreError."""
    shape = source.shape()
    of: dict[str, str | int | float | None] = {
        "job": "analyze",
        "collection": asked.collection,
        "vector": shape.vector_name,
        "dimension": shape.dimension,
        "distance": shape.distance,
        "text fields": ", ".join(asked.fields.text),
        "source fields": ", ".join(asked.fields.source),
    }
    with ExitStack() as stack:
        folder = asked.work or Path(stack.enter_context(TemporaryDirectory(prefix="vecsieve-analyze-")))
        yield stack.enter_context(Store(folder, shape.dimension, of))


def _judged(source: Source, asked: Asked, found: Found, bar: Bar) -> tuple[Report, Copies]:
    gathered, cut, pools = found.gathered, found.cut, found.around.pools
    firsts = first_copies(gathered)
    heads = leaders(gathered, firsts, cut.value)
    examples = _examples(source, asked.fields, found, (firsts, choose(heads, firsts)), bar)
    density = curve(gathered, firsts, cut, found.widest, pools)
    near = next(each for each in density if each.cut == cut.value)
    report = Report(
        format=FORMAT,
        version=version("vecsieve"),
        about=_about(source, asked, found),
        cut=cut,
        exact=exact_share(gathered, firsts),
        near=Share(with_copy=near.with_copy, redundant=near.redundant),
        families=families_found(gathered, heads, cut.value, examples),
        sources=sources(gathered, heads),
        density=density,
        saving=saving(pools, cut.value),
        overlap=overlap(found.around.seen),
    )
    return report, Copies(found.ids, firsts, heads)


def _about(source: Source, asked: Asked, found: Found) -> About:
    shape, known = source.shape(), found.gathered.known[found.gathered.looked]
    return About(
        collection=asked.collection,
        vector_name=shape.vector_name,
        dimension=shape.dimension,
        distance=shape.distance,
        points=len(found.ids),
        examined=int((known != Known.UNSEEN).sum()),
        with_vector=int(found.gathered.vectors.sum()),
        with_text=int((known == Known.TEXT).sum()),
        gone=int((known == Known.UNSEEN).sum()),
        text_fields=asked.fields.text,
        source_fields=asked.fields.source,
    )


def _around(source: Source, fields: FieldNames, vectors: FloatMatrix, bar: Bar) -> Around:
    """Searches for at most POOLS of these stored vectors (s, d)."""
    usable = vectors[vectors.any(axis=1)]
    asked = usable[spread(len(usable), POOLS)]
    pools: list[Pool] = []
    seen: list[Point] = []
    with bar("asking around", len(asked)) as advance:
        for start in range(0, len(asked), POOLS_PAGE):
            page = asked[start : start + POOLS_PAGE]
            for each in source.neighbours(page, count=POOL):
                seen += [replace(point, vector=None) for point, _ in each]
                if each:
                    pools.append(_pool(each, source, fields))
            advance(len(page))
    return Around(pools=pools, seen=seen)


def _pool(found: Sequence[tuple[Point, float]], source: Source, fields: FieldNames) -> Pool:
    shape, points = source.shape(), [point for point, _ in found]
    missing: Vectors = np.zeros(shape.dimension, np.float32)
    vectors = np.stack([missing if point.vector is None else point.vector for point in points])
    keys = [key(point, fields.text) for point in points]
    texts = np.array([number if kind is Known.TEXT else 0 for kind, number in keys], np.uint64)
    return pool(vectors, texts, [far for _, far in found], magnitude=shape.magnitude)


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
    source: Source, fields: FieldNames, found: Found, families: tuple[Indices, Sequence[Chosen]], bar: Bar
) -> list[Family]:
    firsts, chosen = families
    ids = found.ids
    places: Places = np.unique(np.array([place for each in chosen for place in each.places], np.int32))
    read: dict[int, Read] = {}
    with bar("reading examples", len(places)) as advance:
        for start in range(0, len(places), PAGE):
            page = places[start : start + PAGE]
            points = source.read(ids.at(page.tolist()))
            for place, point in zip(ids.places([point.id for point in points]).tolist(), points, strict=True):
                read[place] = _example(point, (place, int(firsts[place])), found.gathered, fields)
            advance(len(page))
    magnitude = source.shape().magnitude
    shown = (family(each, read, magnitude=magnitude) for each in chosen)
    return [each for each in shown if each is not None]


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

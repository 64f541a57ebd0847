"""One analysis, from the first request to the report. It only reads from the database, and continues an interrupted run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import orjson
import typer

from ...runtime.files import progress_bar
from ...selection.values import FloatMatrix, Indices
from ..databases import SourceOptions, TextFieldOption, usual_or
from ..pairs.ids import NOWHERE, Ids, Places, spread
from ..pairs.reading import PAGE, SAMPLE, listed_ids, sample
from ..pairs.sketches import directions
from ..pairs.store import Store
from ..source import Point, Source, matrix_of, shortened, text_of
from ..sweep.judging import Evidence
from .families import Grouped, grouped, name_of, repeats, sources
from .pools import POOL, Pool, near_cut, overlap, pool, saving
from .reading import FieldNames, Gathered, Known, gathered_sample, gathered_whole
from .report import FORMAT, About, Families, Family, Member, Report, Sizes

USUAL_SOURCES = ("source", "metadata.source")  # the second is LangChain's
SIZES = ((2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, None))


def families_of(gathered: Gathered, groups: Grouped, examples: Iterable[Family]) -> Families:
    """The sizes of the families, and examples."""
    sizes = np.bincount(groups.heads, minlength=len(groups.heads))
    sizes = sizes[sizes > 1]
    return Families(
        count=len(sizes),
        largest=int(sizes.max(initial=0)),
        saturated=int(gathered.full.sum()),
        sizes=tuple(_between(sizes, smallest, largest) for smallest, largest in SIZES),
        examples=tuple(examples),
    )


def _between(sizes: Indices, smallest: int, largest: int | None) -> Sizes:
    chosen = sizes[(sizes >= smallest) & (sizes <= (np.inf if largest is None else largest))]
    return Sizes(smallest=smallest, largest=largest, families=len(chosen), points=int(chosen.sum()))


FAMILIES = 12  # examples
CONSIDERED = 24  # members of a family that are read again, to choose from
MEMBERS = 4  # of a family that are shown, from the most alike to the least


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An example family. ``places``: of members to read, the leader's first. ``size``: of the whole family. ``equal``: to the leader."""

    size: int
    equal: int
    places: tuple[int, ...]


def choose(groups: Grouped) -> tuple[Chosen, ...]:
    """The families with a member that no proof covers, which a person should judge, then the largest; of equally large families, the first ones."""
    sizes = np.bincount(groups.heads, minlength=len(groups.heads))
    doubtful = np.bincount(groups.heads[groups.evidence == Evidence.SEARCHED], minlength=len(sizes)) > 0
    order = np.lexsort((np.arange(len(sizes)), -sizes, ~(doubtful & (sizes > 1))))[:FAMILIES]
    return tuple(_chosen(leader, groups) for leader in order[sizes[order] > 1].tolist())


# From the strongest evidence to the weakest.
_ORDER = ("equal", "equal_vector", "contained", "edited")


def family(chosen: Chosen, read: Mapping[int, Member]) -> Family | None:
    """None if its leader was deleted. ``read``: by place, without deleted points."""
    leader = read.get(chosen.places[0])
    if leader is None:
        return None
    members = [read[place] for place in chosen.places[1:] if place in read]
    members.sort(key=lambda member: _ORDER.index(member.evidence or "equal"))
    places = np.unique(np.linspace(0, len(members) - 1, MEMBERS).astype(np.intp)) if members else ()
    return Family(
        size=chosen.size,
        equal=chosen.equal,
        leader=leader,
        members=tuple(members[place] for place in places),
    )


def _chosen(leader: int, groups: Grouped) -> Chosen:
    members = np.flatnonzero(groups.heads == leader)
    others = members[members != leader]
    others = others[
        np.argsort(groups.evidence[others] != Evidence.SEARCHED, kind="stable")
    ]  # the first one is always read
    spread = others[np.linspace(0, len(others) - 1, min(len(others), CONSIDERED)).astype(np.intp)]
    equal = int((groups.firsts[members] == groups.firsts[leader]).sum())
    return Chosen(size=len(members), equal=equal, places=(leader, *spread.tolist()))


POOLS = 200  # the standard error of their median is a fourteenth of their spread
POOLS_PAGE = 10  # 10 x 50 candidates with their vectors are 4 MB at 768 dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeOptions(SourceOptions):
    """``text_field``, ``source_field``: None for the usual ones. ``limit``: None to examine all points. ``work``: None for a temporary folder."""

    text_field: TextFieldOption = None
    source_field: Annotated[str | None, typer.Option(help="Payload field with the source of a point.")] = None
    limit: Annotated[
        int | None, typer.Option(help="Examine only this many points, evenly spread, by searches.", min=1)
    ] = None
    work: Annotated[
        Path | None, typer.Option(help="Folder for the data that is read; run again with it to continue.")
    ] = None

    @property
    def fields(self) -> FieldNames:
        source = USUAL_SOURCES if self.source_field is None else (self.source_field,)
        return FieldNames(text=usual_or(self.text_field), source=source)


@dataclass(frozen=True, slots=True)
class Leaving:
    """The points that say nothing that the leader of their family does not."""

    ids: Ids
    groups: Grouped

    def lines(self) -> Iterator[bytes]:
        """One line of JSON per point, by family: its id, the id of the survivor, and why it repeats it."""
        heads = self.groups.heads
        leaving = np.flatnonzero(self.groups.leaving)
        leaving = leaving[np.argsort(heads[leaving], kind="stable")]
        for start in range(0, len(leaving), PAGE):
            places = leaving[start : start + PAGE]
            ids = zip(self.ids.at(places.tolist()), self.ids.at(heads[places].tolist()), strict=True)
            for (one, other), evidence in zip(ids, self.groups.evidence[places].tolist(), strict=True):
                yield orjson.dumps({"id": one, "survivor": other, "evidence": name_of(evidence)}) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was read. ``pools``: the results of the searches around stored points; ``seen``: their points, without vectors."""

    ids: Ids
    gathered: Gathered
    pools: Sequence[Pool]
    seen: Sequence[Point]


def analyze(source: Source, options: AnalyzeOptions, *, take: Callable[[Leaving], None] | None = None) -> Report:
    """Analyze the collection. ``take``: receives the points that could go. Raises SourceError, StoreError."""
    ids = listed_ids(source, options.collection)
    limit = options.limit
    collected = _whole(source, options, ids) if limit is None else _sample(source, options, ids, limit)
    families = grouped(collected.gathered)
    if take is not None:
        take(Leaving(ids, families))
    return _reported(source, options, collected, families)


def _whole(source: Source, options: AnalyzeOptions, ids: Ids) -> Collected:
    """Examine all points by the hashes that their texts share."""
    fields, shape = options.fields, source.shape()
    of_fields = {"text_fields": ", ".join(fields.text), "source_fields": ", ".join(fields.source)}
    with ExitStack() as stack:
        folder = options.work or Path(stack.enter_context(TemporaryDirectory(prefix="vecsieve-analyze-")))
        store = stack.enter_context(Store.of_job(folder, "analyze", options.collection, shape, **of_fields))
        store.check("ids", {"ids": ids.digest()})
        vectors = store.sample(lambda: sample(source, ids, spread(len(ids), SAMPLE)))
        pools, seen = _around(source, options.fields, vectors)
        by = directions(vectors, len(ids))
        gathered = gathered_whole(source, ids, store, by, options.fields, near_cut(pools))
    return Collected(ids=ids, gathered=gathered, pools=pools, seen=seen)


def _sample(source: Source, options: AnalyzeOptions, ids: Ids, limit: int) -> Collected:
    """Examine a sample by searches, because most repeats of a sampled point are outside the sample."""
    examined = spread(len(ids), limit)
    vectors = sample(source, ids, examined[spread(len(examined), SAMPLE)])
    pools, seen = _around(source, options.fields, vectors)
    gathered = gathered_sample(source, ids, examined, options.fields, near_cut(pools))
    return Collected(ids=ids, gathered=gathered, pools=pools, seen=seen)


def _reported(source: Source, options: AnalyzeOptions, collected: Collected, families: Grouped) -> Report:
    gathered = collected.gathered
    examples = _examples(source, options.fields, collected, families)
    return Report(
        format=FORMAT,
        version=version("vecsieve"),
        about=_about(source, options, collected),
        repeats=repeats(gathered, families),
        families=families_of(gathered, families, examples),
        sources=sources(gathered, families.heads),
        saving=saving(collected.pools),
        overlap=overlap(collected.seen),
    )


def _about(source: Source, options: AnalyzeOptions, collected: Collected) -> About:
    shape, known = source.shape(), collected.gathered.known[collected.gathered.examined]
    return About(
        collection=options.collection,
        vector_name=shape.vector_name,
        dimension=shape.dimension,
        distance=shape.distance,
        points=len(collected.ids),
        examined=int((known != Known.UNSEEN).sum()),
        with_vector=int(collected.gathered.vectors.sum()),
        with_text=int((known == Known.TEXT).sum()),
        gone=int((known == Known.UNSEEN).sum()),
        text_fields=options.fields.text,
        source_fields=options.fields.source,
    )


def _around(source: Source, fields: FieldNames, vectors: FloatMatrix) -> tuple[list[Pool], list[Point]]:
    """The results of searches for at most POOLS of these stored vectors (s, d), and their points."""
    usable = vectors[vectors.any(axis=1)]
    chosen = usable[spread(len(usable), POOLS)]
    pools: list[Pool] = []
    seen: list[Point] = []
    with progress_bar("asking around", len(chosen)) as advance:
        for start in range(0, len(chosen), POOLS_PAGE):
            page = chosen[start : start + POOLS_PAGE]
            for pool in source.neighbours(page, count=POOL):
                seen += [replace(point, vector=None) for point, _ in pool]
                if pool:
                    pools.append(_pool(pool, source, fields))
            advance(len(page))
    return pools, seen


def _pool(neighbours: Sequence[tuple[Point, float]], source: Source, fields: FieldNames) -> Pool:
    shape, points = source.shape(), [point for point, _ in neighbours]
    vectors = matrix_of(points, shape.dimension)
    texts = [text_of(point.payload, fields.text) for point in points]
    return pool(vectors, texts, [point.payload for point in points], shape.metric, magnitude=shape.magnitude)


def _examples(source: Source, fields: FieldNames, collected: Collected, families: Grouped) -> list[Family]:
    chosen, ids = choose(families), collected.ids
    places: Places = np.unique(
        np.array([place for chosen_family in chosen for place in chosen_family.places], np.int32)
    )
    read: dict[int, Member] = {}
    with progress_bar("reading examples", len(places)) as advance:
        for start in range(0, len(places), PAGE):
            page = places[start : start + PAGE]
            points = source.read(ids.at(page.tolist()))
            for place, point in zip(ids.places([point.id for point in points]).tolist(), points, strict=True):
                read[place] = _example(point, place, collected.gathered, families, fields)
            advance(len(page))
    return [example for example in (family(one, read) for one in chosen) if example is not None]


def _example(point: Point, place: int, gathered: Gathered, families: Grouped, fields: FieldNames) -> Member:
    number = int(gathered.sources[place])
    text = text_of(point.payload, fields.text)
    return Member(
        id=point.id,
        evidence=name_of(int(families.evidence[place])) if families.leaving[place] else None,
        source=None if number == NOWHERE else gathered.source_names[number],
        text=None if text is None else shortened(text),
    )

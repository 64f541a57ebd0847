"""Which points of a sweep could go, by what the pairs show; and what stays although it repeats another point. Writes the decision into the store.

Three families of each point are compared: by what may be deleted; by the same texts whatever else they say; and by what a search would collapse. So a
pair is counted once, under the strictest that holds, and the report and a search say the same of it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
import typer
import xxhash

from ...search.collections.statements import ALL
from ...selection.values import FloatMatrix, Indices
from ...writes.facts import Facts, differing, unites
from ..databases import SourceOptions, TextFieldOption
from ..pairs.ids import Ids
from ..pairs.joining import Runner
from ..pairs.reading import PAGE
from ..pairs.store import AllPoints, Removal, Store
from ..source import Shape, shortened
from .families import Coverings, Families, families, strongest
from .judging import Evidence, are_contained
from .report import FORMAT, Family, Member, Report

EXAMPLES = 12  # families shown, largest first
MEMBERS = 4  # members shown of each
FIELDS = 20  # fields named in which copies differ
USUAL_TIMES = ("updated_at", "timestamp", "created_at", "createdAt", "date")

Mask = npt.NDArray[np.bool_]


class Keep(StrEnum):
    """Which of equal texts stays; of equal ones the one with the most copies. Of a text and another that holds it, the other stays."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LONGEST = "longest"
    FIRST = "first"  # by id
    CENTRAL = "central"  # with the most copies


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(SourceOptions):
    """``text_field``, ``time_field``: None for the usual ones. ``tenant_field``: whatever is ignored. ``unites``: whether survivors take what they lack."""

    unites: ClassVar[bool] = False
    work: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the data that is read; the same command continues there.",
            show_default="one for each collection in ~/.cache/vecsieve",
        ),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option(help="Payload field in which copies may differ, with all below it; repeatable.")
    ] = None
    ignore_metadata: Annotated[
        bool, typer.Option("--ignore-metadata", help="Copies may differ in every payload field but the text.")
    ] = False
    keep: Annotated[Keep, typer.Option(help="Which of equal points stays.")] = Keep.NEWEST
    text_field: TextFieldOption = None
    time_field: Annotated[str | None, typer.Option(help="Payload field with the time, for --keep.")] = None
    tenant_field: Annotated[
        list[str] | None, typer.Option(help="Payload field in which copies must agree; repeatable.")
    ] = None
    runner: Annotated[
        Runner, typer.Option(help="Where hashes are joined: in this process, or on a Ray cluster (RAY_ADDRESS).")
    ] = Runner.LOCAL

    @property
    def folder(self) -> Path:
        """Of the sweep. Without `--work` there is one for each database, because equal names may be different collections, and for the options on
        which what was read depends.
        """
        if self.work is not None:
            return self.work
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        fields = (self.text_field or "", self.time_field or "", *(self.tenant_field or ()))
        of = "\n".join((self.backend, self.url, self.collection, self.vector or "", self.keep, *fields))
        name = re.sub(r"[^A-Za-z0-9_-]", "_", self.collection)[:40]
        return cache / "vecsieve" / f"sweep-{name}-{xxhash.xxh64_hexdigest(of.encode())}"

    @property
    def ignored(self) -> tuple[str, ...]:
        return (ALL,) if self.ignore_metadata else tuple(self.ignore or ())

    @property
    def time_fields(self) -> tuple[str, ...]:
        return USUAL_TIMES if self.time_field is None else (self.time_field,)


def disagree(one: Facts, other: Facts, options: SweepOptions) -> tuple[str, ...]:
    """The fields that keep two points of one text apart."""
    names = differing(one, other, options.ignored)
    return tuple(name for name in names if not unites(one, other, name)) if options.unites else names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sweep:
    """What a decision is made of."""

    shape: Shape
    options: SweepOptions
    ids: Ids
    store: Store
    stored: AllPoints
    coverings: Coverings

    def families(self, keys: npt.NDArray[np.int64], which: Mask) -> Families:
        """``keys``: (m,) of the existing points, equal for equals, 0 for one without. ``which``: (q,) what counts of what was found."""
        n = len(self.ids)
        rank = np.full(n, -np.inf)
        rank[self.stored.places] = self.stored.rank
        return families(self.coverings, which, _first_of_equals(self.stored, keys, n), rank)

    @property
    def is_exact(self) -> Mask:
        """Whether a pair is a proof (q,), not what a search alone would collapse."""
        exact: Mask = self.coverings.evidence != Evidence.SEARCHED
        return exact

    def facts(self, places: Sequence[int]) -> dict[int, Facts]:
        return {place: json.loads(facts or "{}") for place, facts in self.store.facts(places).items()}


def decide(
    shape: Shape, options: SweepOptions, ids: Ids, store: Store, stored: AllPoints, coverings: Coverings
) -> Report:
    """Write what could go into the store, and report it."""
    swept = _Sweep(shape=shape, options=options, ids=ids, store=store, stored=stored, coverings=coverings)
    keys = _keys(swept)
    by_facts = swept.families(keys, swept.is_exact & coverings.agrees)
    same = swept.families(stored.numbers, swept.is_exact)
    alike = swept.families(stored.numbers, np.ones(len(coverings.pairs), np.bool_))
    deletions = _verified(swept, _deletions(swept, by_facts, by_facts.leaving))
    goes = np.zeros(len(ids), np.bool_)
    goes[deletions.places] = True
    otherwise = _deletions(swept, same, same.leaving & ~goes)
    searched = _deletions(swept, alike, alike.leaving & ~same.leaving & ~goes)
    report = _report(swept, deletions, otherwise, searched)
    store.decide(_batches(swept, deletions), msgspec.json.encode(report))
    return report


def _keys(swept: _Sweep) -> npt.NDArray[np.int64]:
    """(m,) equal for points of equal texts and facts, and for points without texts that are equal throughout; 0 for others."""
    stored, options = swept.stored, swept.options
    bare = np.where(stored.has_vector, stored.marks.view(np.int64), 0)
    _, inverse, counts = np.unique(stored.numbers, return_inverse=True, return_counts=True)
    keys = np.where(stored.numbers == 0, bare, stored.numbers)
    if ALL in options.ignored:
        return keys
    several = np.flatnonzero((counts[inverse.reshape(-1)] > 1) & (stored.numbers != 0))
    for start in range(0, len(several), PAGE):
        rows = several[start : start + PAGE]
        for row, facts in zip(rows.tolist(), swept.facts(stored.places[rows].tolist()).values(), strict=True):
            counting = [fact for fact in sorted(facts.items()) if fact[0] in differing(facts, {}, options.ignored)]
            key = xxhash.xxh64_intdigest(json.dumps(counting).encode(), seed=int(stored.numbers[row]) & (2**64 - 1))
            keys[row] = np.uint64(key or 1).view(np.int64)
    return keys


def _first_of_equals(stored: AllPoints, keys: npt.NDArray[np.int64], n: int) -> Indices:
    """For each of n places the one that leads its equals, often itself."""
    firsts = np.arange(n, dtype=np.intp)
    best = np.lexsort((stored.places, -stored.rank))
    ordered = keys[best]
    _, first, inverse = np.unique(ordered, return_index=True, return_inverse=True)
    leading = stored.places[best][first[inverse.reshape(-1)]]
    firsts[stored.places[best]] = np.where(ordered != 0, leading, stored.places[best])
    return firsts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """Points with those that hold them: ``places`` (g,) ascending by survivor, ``survivors`` (g,), the evidence (g,), and the similarities of the vectors
    (g,).
    """

    places: Indices
    survivors: Indices
    evidence: Indices
    similarities: FloatMatrix

    def only(self, which: Mask) -> _Copies:
        return _Copies(**{field.name: getattr(self, field.name)[which] for field in fields(self)})


def _deletions(swept: _Sweep, family: Families, which: Mask) -> _Copies:
    """The copies of ``which`` (n,) places, and why they are copies."""
    n, firsts = len(family.heads), family.firsts
    places = np.flatnonzero(which)
    places = places[np.lexsort((places, family.heads[places]))]
    survivors = family.heads[places]
    has_text = np.zeros(n, np.bool_)
    has_text[swept.stored.places] = swept.stored.numbers != 0
    why = np.where(has_text[places], int(Evidence.EQUAL), int(Evidence.EQUAL_VECTOR))
    alike = np.full(len(places), np.nan, np.float32)
    others = firsts[places] != survivors
    chosen = strongest(swept.coverings, family, places[others])
    why[others], alike[others] = swept.coverings.evidence[chosen], swept.coverings.similarities[chosen]
    return _Copies(places=places, survivors=survivors, evidence=why, similarities=alike)


def _verified(swept: _Sweep, copies: _Copies) -> _Copies:
    """Those of which the survivor's text and facts say all, compared once more: hashes find copies, and prove none."""
    kept = np.ones(len(copies.places), np.bool_)
    rows = enumerate(zip(copies.survivors.tolist(), copies.places.tolist(), strict=True))
    for survivor, members in groupby(rows, key=lambda pair: pair[1][0]):
        rows_of_survivor = list(members)
        for start in range(0, len(rows_of_survivor), PAGE):
            part = rows_of_survivor[start : start + PAGE]
            places = [place for _, (_, place) in part]
            texts, facts = swept.store.texts([survivor, *places]), swept.facts([survivor, *places])
            proven = are_contained([texts[place] for place in places], texts[survivor])
            for (row, (_, place)), is_proven in zip(part, proven, strict=True):
                kept[row] = is_proven and not disagree(facts[place], facts[survivor], swept.options)
    return copies.only(kept)


def _batches(swept: _Sweep, copies: _Copies) -> Iterator[list[Removal]]:
    marks = np.zeros(len(swept.ids), np.uint64)
    marks[swept.stored.places] = swept.stored.marks
    for start in range(0, len(copies.places), PAGE):
        part = slice(start, start + PAGE)
        places, survivors = copies.places[part].tolist(), copies.survivors[part].tolist()
        rows = zip(
            swept.ids.at(places),
            swept.ids.at(survivors),
            copies.evidence[part].tolist(),
            copies.similarities[part].tolist(),
            marks[places].tolist(),
            marks[survivors].tolist(),
            strict=True,
        )
        yield [
            Removal(id=one, survivor=other, **_why(code, alike), mark=mark, survivor_mark=its)
            for one, other, code, alike, mark, its in rows
        ]


def _why(code: int, similarity: float) -> dict[str, Any]:
    alike = None if np.isnan(similarity) else round(float(similarity), 4)
    return {"evidence": Evidence(code).name.lower(), "similarity": alike}


def _report(swept: _Sweep, copies: _Copies, otherwise: _Copies, searched: _Copies) -> Report:
    stored, shape, options, n = swept.stored, swept.shape, swept.options, len(swept.ids)
    sizes = np.bincount(copies.survivors, minlength=n)
    families = sizes[sizes > 0] + 1
    size_of = np.zeros(n, np.int64)
    size_of[stored.places] = stored.size
    counted = np.bincount(copies.evidence, minlength=len(Evidence))
    exact = swept.is_exact & swept.coverings.agrees
    return Report(
        format=FORMAT,
        version=version("vecsieve"),
        collection=options.collection,
        vector_name=shape.vector_name,
        dimension=shape.dimension,
        distance=shape.distance,
        points=n,
        gone=n - len(stored.places),
        with_vector=int(stored.has_vector.sum()),
        with_text=int((stored.numbers != 0).sum()),
        keep=options.keep.value,
        ignored=options.ignored,
        united=options.unites,
        candidates=swept.store.pairs(),
        pairs=len(np.unique(np.sort(swept.coverings.pairs[exact], axis=1), axis=0)),
        repeats=len(copies.places) + len(otherwise.places) + len(searched.places),
        redundant=len(copies.places),
        equal=int(counted[Evidence.EQUAL]),
        contained=int(counted[Evidence.CONTAINED]),
        equal_vector=int(counted[Evidence.EQUAL_VECTOR]),
        other_facts=len(otherwise.places),
        fields=_fields(swept, otherwise),
        searched=len(searched.places),
        families=len(families),
        largest=int(families.max(initial=0)),
        redundant_bytes=int(size_of[copies.places].sum()),
        examples=_examples(swept, copies),
        left=(*_examples(swept, otherwise), *_examples(swept, searched)),
    )


def _fields(swept: _Sweep, copies: _Copies) -> dict[str, int]:
    """In how many of these points each field differs, the most frequent first."""
    counted: Counter[str] = Counter()
    for start in range(0, len(copies.places), PAGE):
        part = slice(start, start + PAGE)
        places, survivors = copies.places[part].tolist(), copies.survivors[part].tolist()
        facts = swept.facts([*places, *survivors])
        for place, survivor in zip(places, survivors, strict=True):
            counted.update(disagree(facts[place], facts[survivor], swept.options))
    return dict(sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:FIELDS])


def _examples(swept: _Sweep, copies: _Copies) -> tuple[Family, ...]:
    """The largest families, the first of equal ones."""
    survivors, starts, counts = np.unique(copies.survivors, return_index=True, return_counts=True)
    families = []
    for number in np.lexsort((survivors, -counts))[:EXAMPLES].tolist():
        survivor, start, count = int(survivors[number]), int(starts[number]), int(counts[number])
        rows = range(start, start + min(MEMBERS, count))
        places = copies.places[rows.start : rows.stop].tolist()
        texts, facts = swept.store.texts([survivor, *places]), swept.facts([survivor, *places])
        members = (
            _member(
                swept,
                place,
                texts,
                differs=disagree(facts[place], facts[survivor], swept.options),
                **_why(int(copies.evidence[row]), float(copies.similarities[row])),
            )
            for row, place in zip(rows, places, strict=True)
        )
        families.append(Family(size=count + 1, survivor=_member(swept, survivor, texts), members=tuple(members)))
    return tuple(families)


def _member(swept: _Sweep, place: int, texts: Mapping[int, str | None], **why: Any) -> Member:
    (id_,) = swept.ids.at([place])
    text = texts.get(place)
    details = {"evidence": None, "similarity": None, "differs": (), **why}
    return Member(id=id_, text=None if text is None else shortened(text), **details)

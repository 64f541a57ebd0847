"""`vecsieve evaluate --cases FILE`: results of which a person has said which must stay and which are copies.

A line of FILE is one case: ``texts``, and ``groups`` of numbers of texts that say the same: one of each must stay, the others should go.
Texts in no group must all stay; a text may be in several groups. ``either``: nothing is wrong either way. ``kind`` and ``name`` are for the report.

Each case is searched through the proxy's own code, its texts ranked first, in their order and in the reverse one, alone and before the
texts of fillers.jsonl beside FILE. A page has room for all of the case's texts and is not filled with copies.

``first_vector`` and ``query_vector`` are rows of vectors.npy (or vectors.f16.npy) beside FILE: text i is at ``first_vector`` + i.
fillers.npy holds those of the fillers. Cases without vectors get some that are nearly equal: only the texts tell them apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.config.problems import Problem, one_line

from ...runtime.files import Advance
from ...search.policy import ResolvedPolicy
from ...selection.policy import Short
from ...telemetry.tracing import Clock
from .reading import ENDINGS, Item, LabelledSet, Query, Vectors, at_line, decoded, raise_all, read_vectors, unit
from .searching import Contender, Neighbours, Points, Trial, Upstream

VECTORS, FILLERS = "vectors", "fillers"
WIDTH, APART = (
    64,
    0.3,
)  # of the vectors that stand in for missing ones; the length of what is added to their common part
TEXT_LENGTH = 160  # characters of a text in the report


class _Line(msgspec.Struct, frozen=True):
    texts: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    either: bool = False
    kind: str = ""
    name: str = ""
    first_vector: int | None = None
    query_vector: int | None = None


class _Filler(msgspec.Struct, frozen=True):
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``groups``: of numbers of texts. ``vectors``: (texts, d). ``query``: (d,)."""

    kind: str
    name: str
    texts: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    either: bool
    vectors: Vectors
    query: Vectors

    @property
    def copies(self) -> int:
        """How many texts should go."""
        return len(self.staying(range(len(self.texts))))

    def lost(self, page: Sequence[int]) -> tuple[int, ...]:
        """The texts that must stay and are not on the page; for a group of which none is there, its first."""
        alone = set(range(len(self.texts))).difference(*self.groups)
        gone = {group[0] for group in self.groups if not set(group).intersection(page)}
        return tuple(sorted(gone | alone.difference(page)))

    def staying(self, page: Sequence[int]) -> tuple[int, ...]:
        """The texts on the page that could go, the worst first: each group keeps one that is there."""
        left = set(page)
        for text in reversed(page):
            having = [left.intersection(group) for group in self.groups if text in group]
            if having and all(len(some) > 1 for some in having):
                left.remove(text)
        return tuple(text for text in page if text not in left)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """``fillers``: texts that are unrelated to every case, and their vectors (fillers, d)."""

    cases: tuple[Case, ...]
    fillers: tuple[str, ...]
    filler_vectors: Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One case searched in one way. ``lost``, ``stayed``: numbers of its texts."""

    is_reversed: bool
    has_fillers: bool
    lost: tuple[int, ...]
    stayed: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """One case under one policy, searched in every way."""

    case: Case
    pages: tuple[Page, ...]

    @property
    def loses(self) -> bool:
        """Whether a result that must stay is lost in any of the ways."""
        return not self.case.either and any(page.lost for page in self.pages)


# The file.


def read_cases(path: Path) -> CaseFile:
    """Raises SettingsError that names the wrong lines."""
    lines = [line for _, line in decoded(path, _Line)]
    has_vectors = any(line.first_vector is not None for line in lines)
    known = read_vectors(path.parent, VECTORS, rows=None) if has_vectors else np.zeros((0, WIDTH), np.float32)
    raise_all(
        [
            at_line(path, number, seen, "texts, groups of numbers of them, and rows of the vectors")
            for number, line in enumerate(lines, 1)
            if (seen := _wrong(line, len(known)))
        ]
    )
    rng = np.random.default_rng(0)
    file = path.parent / f"{FILLERS}.jsonl"
    fillers = tuple(filler.text for _, filler in decoded(file, _Filler)) if file.is_file() else ()
    return CaseFile(
        cases=tuple(_case(line, known, rng) for line in lines),
        fillers=fillers,
        filler_vectors=_filler_vectors(path.parent, len(fillers), known.shape[1], rng),
    )


def _wrong(line: _Line, rows: int) -> str:
    """What is wrong with a case; "" if nothing."""
    grouped = [number for group in line.groups for number in group]
    if not line.texts:
        return "no text"
    if not all(line.groups):
        return "a group without texts"
    if any(not 0 <= number < len(line.texts) for number in grouped):
        return f"a group with a text that is not among the {len(line.texts)}"
    if (line.first_vector is None) != (line.query_vector is None):
        return "one of first_vector and query_vector"
    last = -1 if line.first_vector is None else max(line.first_vector + len(line.texts) - 1, line.query_vector or 0)
    if last >= rows or min(line.first_vector or 0, line.query_vector or 0) < 0:
        return f"row {last} of {rows} vectors"
    return ""


def _case(line: _Line, known: Vectors, rng: np.random.Generator) -> Case:
    if line.first_vector is None or line.query_vector is None:
        vectors, query = _near(line.texts, known.shape[1], rng)
    else:
        vectors = known[line.first_vector : line.first_vector + len(line.texts)]
        query = known[line.query_vector]
    return Case(
        kind=line.kind, name=line.name, texts=line.texts, groups=line.groups, either=line.either,
        vectors=vectors, query=query,
    )  # fmt: skip


def _near(texts: Sequence[str], width: int, rng: np.random.Generator) -> tuple[Vectors, Vectors]:
    """(texts, width) vectors that are nearly equal, of equal texts equal, and what they have in common, (width,)."""
    common = unit(rng.normal(size=(1, width)).astype(np.float32))
    noise = rng.normal(scale=APART / np.sqrt(width), size=(len(texts), width)).astype(np.float32)
    return unit(common + noise[[texts.index(text) for text in texts]]), common[0]


def _filler_vectors(folder: Path, count: int, width: int, rng: np.random.Generator) -> Vectors:
    if any((folder / f"{FILLERS}{ending}").is_file() for ending in ENDINGS):
        vectors = read_vectors(folder, FILLERS, rows=count)
        if vectors.shape[1] != width:
            seen = f"{vectors.shape[1]} numbers a row"
            raise_all([Problem(str(folder / f"{FILLERS}.npy"), seen, f"{width}, as the vectors of the cases")])
        return vectors
    return unit(rng.normal(size=(count, width)).astype(np.float32))


# The searches.


def judged(file: CaseFile, contender: Contender, *, clock: Clock, advance: Advance) -> tuple[CaseOutcome, ...]:
    """Every case, searched in every way. ``advance``: called after each case."""
    selection = replace(contender.policy.selection, short=Short.ALLOW)
    policy = replace(contender.policy, selection=selection)
    outcomes: list[CaseOutcome] = []

    async def all_cases() -> None:
        for case in file.cases:
            pages = tuple([page async for page in _pages(case, file, policy, clock)])
            outcomes.append(CaseOutcome(case=case, pages=pages))
            advance(1)
            await asyncio.sleep(0)  # here an interrupt ends it

    asyncio.run(all_cases())
    return tuple(outcomes)


async def _pages(case: Case, file: CaseFile, policy: ResolvedPolicy, clock: Clock) -> AsyncIterator[Page]:
    trial = Trial(top_k=max(2, len(case.texts)), clock=clock)
    for has_fillers in (False, True) if file.fillers else (False,):
        labelled = _labelled(case, file, has_fillers=has_fillers)
        points = Points(labelled)
        for is_reversed in (False, True):
            upstream = Upstream(points, _ranked(labelled, len(case.texts), is_reversed=is_reversed))
            rows = (await trial.search(policy, case.query, upstream)).rows
            page = [row for row in rows if row < len(case.texts)]
            yield Page(
                is_reversed=is_reversed, has_fillers=has_fillers, lost=case.lost(page), stayed=case.staying(page)
            )  # fmt: skip


def _labelled(case: Case, file: CaseFile, *, has_fillers: bool) -> LabelledSet:
    """The case's texts, and the fillers after them."""
    texts = case.texts + (file.fillers if has_fillers else ())
    return LabelledSet(
        name=case.name,
        items=tuple(Item(doc="", atoms=(), payload={"text": msgspec.json.encode(text)}) for text in texts),
        queries=(Query(subtopics={}, relevant=frozenset(), candidates=None),),
        vectors=np.concatenate((case.vectors, file.filler_vectors)) if has_fillers else case.vectors,
        query_vectors=case.query[None, :],
    )


def _ranked(labelled: LabelledSet, texts: int, *, is_reversed: bool) -> Neighbours:
    """The case's texts in their order, then the fillers by their own score. The scores are the real ones, in falling order."""
    scores = (labelled.vectors @ labelled.query_vectors[0]).astype(np.float32)
    first = np.arange(texts)[::-1] if is_reversed else np.arange(texts)
    rest = texts + np.argsort(-scores[texts:], kind="stable")
    falling = np.sort(scores)[::-1]
    ties = np.arange(len(scores), dtype=np.float32) * np.float32(1e-6)  # equal scores would be ranked by row
    similarities = np.empty_like(scores)
    similarities[np.concatenate((first, rest))] = falling - ties
    return Neighbours(similarities=similarities, candidates=None)


# The report.


def report(name: str, outcomes: Sequence[CaseOutcome]) -> RenderableType:
    """A line for each kind, then each case that loses a result or keeps a copy."""
    lines = [line for outcome in outcomes for line in _lines(outcome)]
    return Group(_table(name, outcomes), *(Text(line) for line in lines))


def _table(name: str, outcomes: Sequence[CaseOutcome]) -> Table:
    title = Text(f"{len(outcomes)} cases, policy {one_line(name)}")
    table = Table(box=box.HORIZONTALS, title=title, title_justify="left")
    table.add_column("kind")
    for heading in ("cases", "lose a result", "results lost", "copies that stay", "either way", ""):
        table.add_column(heading, justify="right")
    kinds: Mapping[str, list[CaseOutcome]] = {outcome.case.kind: [] for outcome in outcomes}
    for outcome in outcomes:
        kinds[outcome.case.kind].append(outcome)
    for kind, some in [*kinds.items(), ("all", list(outcomes))] if len(kinds) > 1 else kinds.items():
        table.add_row(Text(one_line(kind)), *_counts(some))
    return table


def _counts(outcomes: Sequence[CaseOutcome]) -> Sequence[str]:
    strict = [outcome for outcome in outcomes if not outcome.case.either]
    losing = sum(outcome.loses for outcome in strict)
    lost = sum(len(set().union(*(page.lost for page in outcome.pages))) for outcome in strict)
    stayed = sum(max((len(page.stayed) for page in outcome.pages), default=0) for outcome in strict)
    copies = sum(outcome.case.copies for outcome in strict)
    either = str(len(outcomes) - len(strict))
    return str(len(strict)), str(losing), str(lost), f"{stayed} of {copies}", either, "FAIL" if losing else "pass"


def _lines(outcome: CaseOutcome) -> Iterator[str]:
    case = outcome.case
    label = one_line(f"{case.kind}, {case.name}".strip(", ")) or one_line(case.texts[0][:TEXT_LENGTH])
    mark = "either way, " if case.either else ""
    for heading, numbers in (
        ("lost", {page: page.lost for page in outcome.pages}),
        ("stays", {page: page.stayed for page in outcome.pages}),
    ):
        for number in sorted(set().union(*numbers.values())):
            ways = [page for page, some in numbers.items() if number in some]
            yield f"{mark}{heading}: {label}: {one_line(case.texts[number][:TEXT_LENGTH])} ({_ways(ways, len(outcome.pages))})"


def _ways(pages: Sequence[Page], of: int) -> str:
    if len(pages) == of:
        return "in every way"
    names = (
        f"{'beside fillers' if page.has_fillers else 'alone'}{', reversed' if page.is_reversed else ''}"
        for page in pages
    )
    return "; ".join(names)


def as_json(judged_cases: Mapping[str, Sequence[CaseOutcome]]) -> dict[str, object]:
    """By policy, each case with its pages."""
    return {
        "passed": not any(outcome.loses for outcomes in judged_cases.values() for outcome in outcomes),
        "policies": {
            name: [
                {
                    "kind": outcome.case.kind,
                    "name": outcome.case.name,
                    "either": outcome.case.either,
                    "loses": outcome.loses,
                    "pages": [asdict(page) for page in outcome.pages],
                }
                for outcome in outcomes
            ]
            for name, outcomes in judged_cases.items()
        },
    }

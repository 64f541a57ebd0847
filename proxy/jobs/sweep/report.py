"""The result of a sweep, its JSON, and its report for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...search.collections.statements import ALL
from ..pages import Cells, Examples, Figures, Page, Section
from ..source import PointId

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """``evidence``: why it repeats the survivor, null for the survivor. ``similarity``: of the vectors to the survivor's; null without both. ``differs``:
    the payload fields that keep it apart.
    """

    id: PointId
    evidence: str | None
    similarity: float | None
    text: str | None
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    size: int
    survivor: Member
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Counts are of points unless stated otherwise. ``gone``: deleted while the sweep read. ``candidates``: pairs that share a hash; ``pairs``: those of
    them that are copies.

    ``repeats``: points that say nothing that another does not. Its parts: ``redundant``, which could be deleted, with ``redundant_bytes`` of vectors and
    payloads (as JSON); ``other_facts``, whose payload says something else beside the text, by ``fields``; and ``searched``, which are left alone
    though a search would collapse them. The parts of ``redundant``: ``equal`` texts, texts ``contained`` in one other, and ``equal_vector``s without
    texts. ``ignored``: fields that may differ. ``united``: whether survivors take what they lack. ``left``: examples of what stays. ``applied``: the number
    of removable points by applying.Outcome; None if nothing was to be deleted.
    """

    format: int
    version: str
    collection: str
    vector_name: str
    dimension: int
    distance: str
    points: int
    gone: int
    with_vector: int
    with_text: int
    keep: str
    ignored: tuple[str, ...]
    united: bool
    candidates: int
    pairs: int
    repeats: int
    redundant: int
    equal: int
    contained: int
    equal_vector: int
    other_facts: int
    fields: Mapping[str, int]
    searched: int
    families: int
    largest: int
    redundant_bytes: int
    examples: tuple[Family, ...]
    left: tuple[Family, ...]
    applied: Mapping[str, int] | None = None


def page_of(report: Report) -> Page:
    vector = f", vector {report.vector_name}" if report.vector_name else ""
    applied = report.applied
    result = "nothing was deleted" if applied is None else f"{applied['deleted']:,} were deleted"
    families = (("The largest families", report.examples), ("What stays though it repeats another", report.left))
    return Page(
        title=f"Copies in {report.collection}",
        facts=(
            f"{report.points:,} points{vector}, {report.dimension} dimensions, {report.distance}. A copy is a text that is equal, or one run of one "
            f"other; of points without texts, an equal vector. Fields that may differ: {_ignored(report)}. Who stays: {report.keep}."
        ),
        tiles=(
            ("repeat another", f"{report.repeats:,}", f"of {report.points:,} points"),
            ("could go", f"{report.redundant:,}", result),
            ("families", f"{report.families:,}", f"the largest of {report.largest:,} points"),
            ("of vectors and payloads", f"{report.redundant_bytes / 1e6:,.1f} MB", "of removable points"),
        ),
        sections=[
            Section(title="Points that say nothing that another does not", tables=tuple(_counts(report))),
            *(Section(title=title, tables=tuple(map(table_of, some))) for title, some in families if some),
        ],
        made=f"Made by VecSieve {report.version}.",
    )


def parts_of(report: Report) -> tuple[tuple[str, int], ...]:
    """The parts of ``repeats``, each with its name."""
    return (
        ("equal", report.equal),
        ("contained in one other", report.contained),
        ("equal vectors without texts", report.equal_vector),
        ("equal or contained but for metadata", report.other_facts),
        ("left alone though a search would collapse it", report.searched),
    )


def why(member: Member) -> str:
    """Why it repeats the survivor, in words."""
    reason = {None: "stays", "equal_vector": "equal vector", "searched": "by a search"}.get(
        member.evidence, member.evidence or ""
    )
    return reason if not member.differs else f"{reason}, but for {', '.join(member.differs)}"


def _ignored(report: Report) -> str:
    return "all" if ALL in report.ignored else ", ".join(report.ignored) or "none"


def _counts(report: Report) -> Iterator[Figures]:
    for caption, heads, counts in (
        ("By what they repeat", ("why", "points"), dict(parts_of(report))),
        ("Fields in which copies differ", ("field", "points"), report.fields),
        ("What happened to the removable points", ("outcome", "points"), report.applied),
    ):
        if counts:
            yield Figures(caption=caption, heads=heads, rows=[(what, f"{count:,}") for what, count in counts.items()])


def table_of(family: Family) -> Examples:
    return Examples(
        caption=f"{family.size:,} points",
        heads=("why", "id", "similarity", "text"),
        rows=[_cells(member) for member in (family.survivor, *family.members)],
    )


def _cells(member: Member) -> Cells:
    alike = "" if member.similarity is None else f"{member.similarity:.4f}"
    return why(member), str(member.id), alike, member.text or ""

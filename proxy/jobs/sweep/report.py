"""The result of a sweep, and its report as JSON and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import msgspec

from ...search.collections.statements import ALL
from ..analyze.page import boxes, document, figures, section
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


def as_json(report: Report) -> bytes:
    """Indented, keys in the order of the classes, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def as_page(report: Report) -> bytes:
    """Without scripts, fonts or images; the collection's own values are escaped."""
    title = escape(f"Copies in {report.collection}")
    vector = f", vector {report.vector_name}" if report.vector_name else ""
    facts = (
        f"{report.points:,} points{vector}, {report.dimension} dimensions, {report.distance}. A copy is a text that is equal, or one run of one other; "
        f"of points without texts, an equal vector. Fields that may differ: {_ignored(report)}. Who stays: {report.keep}."
    )
    parts = (
        f'<header><h1>{title}</h1><p class="soft">{escape(facts)}</p></header>',
        _boxes(report),
        _counts(report),
        section("The largest families", "".join(map(_family, report.examples))) if report.examples else "",
        section("What stays though it repeats another", "".join(map(_family, report.left))) if report.left else "",
        f"<footer>Made by VecSieve {escape(report.version)}.</footer>",
    )
    return document(title, parts).encode("utf-8", "backslashreplace")


def parts_of(report: Report) -> tuple[tuple[str, int], ...]:
    """The parts of ``repeats``, each with its name."""
    return (
        ("equal", report.equal),
        ("contained in one other", report.contained),
        ("equal vectors without texts", report.equal_vector),
        ("equal but for metadata", report.other_facts),
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


def _boxes(report: Report) -> str:
    applied = report.applied
    result = "nothing was deleted" if applied is None else f"{applied['deleted']:,} were deleted"
    return boxes(
        (
            ("repeat another", f"{report.repeats:,}", f"of {report.points:,} points"),
            ("could go", f"{report.redundant:,}", result),
            ("families", f"{report.families:,}", f"the largest of {report.largest:,} points"),
            ("of vectors and payloads", f"{report.redundant_bytes / 1e6:,.1f} MB", "of removable points"),
        )
    )


def _counts(report: Report) -> str:
    rows = [(what, f"{count:,}") for what, count in parts_of(report)]
    parts = figures("Points that say nothing that another does not", ("why", "points"), rows)
    fields = [(escape(name), f"{count:,}") for name, count in report.fields.items()]
    differing = figures("Fields in which equal texts differ", ("field", "points"), fields) if fields else ""
    became = () if report.applied is None else [(what, f"{count:,}") for what, count in report.applied.items()]
    applied = figures("What happened to the removable points", ("outcome", "points"), became) if became else ""
    return section("What was found", parts + differing + applied)


def _family(family: Family) -> str:
    rows = "".join(map(_member, (family.survivor, *family.members)))
    return (
        f'<div class="family"><table><caption>{family.size:,} points</caption><thead><tr>'
        '<th scope="col" class="left figure">why</th><th scope="col" class="left id">id</th>'
        '<th scope="col" class="left figure">similarity</th><th scope="col" class="left">text</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _member(member: Member) -> str:
    alike = "" if member.similarity is None else f"{member.similarity:.4f}"
    cells = (str(member.id), alike, member.text or "")
    return (
        f'<tr><th scope="row">{escape(why(member))}</th>'
        + "".join(f'<td class="left">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
    )

"""The result of a sweep, and its report as JSON and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import msgspec

from ..analyze.page import boxes, document, figures, section
from ..source import PointId

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """``similarity``: of the vectors to the survivor's; null without both."""

    id: PointId
    evidence: str | None
    similarity: float | None
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    size: int
    survivor: Member
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Counts are of points unless stated otherwise. ``gone``: deleted while the sweep read. ``candidates``: pairs that share a hash;
    ``same_text``, ``near_text``, ``near_vector``: pairs that are copies, by why; ``forbidden``: pairs that a guard keeps apart.
    ``redundant``: removable points if each family keeps one, with ``redundant_bytes`` of vectors and payloads (as JSON). ``applied``: their
    number by applying.Outcome; None if nothing was to be deleted.
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
    similarity: float
    shared: float
    keep: str
    candidates: int
    same_text: int
    near_text: int
    near_vector: int
    forbidden: int
    families: int
    largest: int
    redundant: int
    redundant_bytes: int
    examples: tuple[Family, ...]
    applied: Mapping[str, int] | None = None


def as_json(report: Report) -> bytes:
    """Indented, keys in the order of the classes, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def as_page(report: Report) -> bytes:
    """Without scripts, fonts or images; the collection's own values are escaped."""
    title = escape(f"Copies in {report.collection}")
    vector = f", vector {report.vector_name}" if report.vector_name else ""
    facts = (
        f"{report.points:,} points{vector}, {report.dimension} dimensions, {report.distance}. Copies: vectors of similarity "
        f"{report.similarity}, or texts that share {report.shared} of their 3-grams. Who stays: {report.keep}."
    )
    parts = (
        f'<header><h1>{title}</h1><p class="soft">{escape(facts)}</p></header>',
        _boxes(report),
        _counts(report),
        section("The largest families", "".join(map(_family, report.examples))) if report.examples else "",
        f"<footer>Made by VecSieve {escape(report.version)}.</footer>",
    )
    return document(title, parts).encode("utf-8", "backslashreplace")


def _boxes(report: Report) -> str:
    applied = report.applied
    went = "nothing was deleted" if applied is None else f"{applied['deleted']:,} were deleted"
    return boxes(
        (
            ("could go", f"{report.redundant:,}", f"of {report.points:,} points; {went}"),
            ("families", f"{report.families:,}", f"the largest of {report.largest:,} points"),
            ("of vectors and payloads", f"{report.redundant_bytes / 1e6:,.1f} MB", "of removable points"),
        )
    )


def _counts(report: Report) -> str:
    rows = [
        ("the same text", report.same_text),
        ("nearly the same text", report.near_text),
        ("nearly the same vector", report.near_vector),
        ("kept apart by a guard", report.forbidden),
        ("compared", report.candidates),
    ]
    pairs = figures("Pairs of points that share a hash", ("why", "pairs"), [(why, f"{count:,}") for why, count in rows])
    became = () if report.applied is None else [(what, f"{count:,}") for what, count in report.applied.items()]
    applied = figures("What happened to the removable points", ("outcome", "points"), became) if became else ""
    return section("What was found", pairs + applied)


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
    why = (member.evidence or "stays").replace("_", " ")
    return (
        f'<tr><th scope="row">{escape(why)}</th>'
        + "".join(f'<td class="left">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
    )

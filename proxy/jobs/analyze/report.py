"""The result of an analysis: one frozen value, its JSON, and the sentences of the terminal and the page.

The JSON has the members of these classes by name. Members may be added; renaming one, or changing its meaning, increases FORMAT. Counts
are of points unless stated otherwise. Unknown values are null, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..source import PointId
from .families import NO_SOURCE, OTHERS, Density, Sources
from .pools import Overlap, Saving
from .reading import NEIGHBOURS

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """``points``: when the ids were listed. ``examined``: all of them, or a sample. ``with_text``, ``with_vector``: of the
    examined points. ``gone``: deleted before they were read.
    """

    collection: str
    vector_name: str
    dimension: int
    distance: str
    points: int
    examined: int
    with_vector: int
    with_text: int
    gone: int
    text_fields: tuple[str, ...]
    source_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The largest distance of a copy. ``origin``: "option", "profile" or "relative".

    ``relative``: the cut of the relative rule for this collection, from ``median``: the median distance in pools around
    ``pools`` points spread over the collection; null if no pool has two vectors. ``found``: the share of the pairs at this distance that
    the sketches bring together; null for a sample, which is searched for.
    """

    value: float
    origin: str
    relative: float | None
    median: float | None
    pools: int
    found: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """``with_copy``: examined points with a copy. ``redundant``: to remove if each family keeps one; null for a sample."""

    with_copy: int
    redundant: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """``distance``: to the leader, null without a vector. ``exact``: an exact copy of the leader. ``text``: shortened."""

    id: PointId
    source: str | None
    distance: float | None
    exact: bool
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``size``: points, the leader included. ``exact``: its exact copies, the leader included. ``members``: a few of them."""

    size: int
    exact: int
    leader: Member
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """``families`` of ``smallest`` to ``largest`` members, with ``points`` in all. ``largest``: null for no limit."""

    smallest: int
    largest: int | None
    families: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Families of at least two. ``saturated``: points whose listed neighbours are all copies: their family may be larger."""

    count: int
    largest: int
    saturated: int
    sizes: tuple[Sizes, ...]
    examples: tuple[Family, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``overlap``: of neighbouring chunks, null if there are too few spans. ``density``: at increasing cuts, including the relative and the
    chosen one. ``version``: VecSieve's.
    """

    format: int
    version: str
    about: About
    cut: Cut
    exact: Share
    near: Share
    families: Families
    sources: Sources | None
    density: tuple[Density, ...]
    saving: Saving
    overlap: Overlap | None = None

    @property
    def sampled(self) -> bool:
        return self.about.examined + self.about.gone < self.about.points


def as_json(report: Report) -> bytes:
    """Indented, keys in the order of the classes, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


FEW_FOUND = 0.9  # pairs of a hundred at the cut: with fewer, what is counted is too little
FEW = 30  # points of a source below which its shares are not meaningful
LITTLE = 0.05  # share of a source below which there is no sentence
ORIGINS = {"option": "chosen with --cut", "profile": "from the profile", "relative": "by the relative rule"}


def percent(part: int, whole: int) -> str:
    """A share in per cent, "<1 %" and ">99 %" instead of a rounded 0 and 100."""
    if not whole:
        return "-"
    share = 100.0 * part / whole
    if 0.0 < share < 1.0:
        return "<1 %"
    if 99.0 < share < 100.0:
        return ">99 %"
    return f"{share:.0f} %"


def size_said(smallest: int, largest: int | None) -> str:
    if largest is None:
        return f"over {smallest - 1}"
    return str(smallest) if smallest == largest else f"{smallest}-{largest}"


def counted(part: int, whole: int) -> str:
    """A count and its share."""
    return f"{part:,} ({percent(part, whole)})"


def cut_said(report: Report) -> str:
    return f"{report.cut.value:.3f} ({ORIGINS.get(report.cut.origin, report.cut.origin)})"


def conclusions(report: Report) -> tuple[str, ...]:
    """The most important first."""
    said = [_redundancy(report), _saving(report.saving)]
    if report.sources is not None:
        said += [each for each in (_across(report.sources), _within(report.sources)) if each is not None]
    if report.overlap is not None:
        said.append(_overlapping(report.overlap))
    said.append(_sensitivity(report))
    if report.exact.redundant:
        said.append(_advice(report.exact.redundant, report.near.redundant or 0))
    return tuple(said)


def cautions(report: Report) -> tuple[str, ...]:
    """The limits of the figures, and what would help."""
    about, said = report.about, []
    if report.sampled and about.examined < about.points - about.gone:
        said.append(
            f"A sample of {about.examined:,} of {about.points:,} points: shares hold for the collection, families include only "
            "those of the sample, and the number of removable points is unknown. Without --limit all points are read."
        )
    if not about.with_text:
        said.append(
            f"No text under {', '.join(about.text_fields)}: exact copies are equal vectors, and examples have no text. "
            "--text-field names the field."
        )
    if report.sources is None:
        said.append(f"No source under {', '.join(about.source_fields)}. --source-field names the field.")
    if report.families.saturated:
        said.append(
            f"{report.families.saturated:,} points have {NEIGHBOURS} copies or more, the number of neighbours that was "
            "requested: such families may be larger than shown, or shown as several."
        )
    found = report.cut.found
    if found is not None and found < FEW_FOUND:
        said.append(
            f"At this distance the sketches find {percent(round(1000 * found), 1000)} of the pairs: more points have a copy, and more could go, "
            "than is counted here. --limit examines a sample by searches, which find them all."
        )
    missing = about.examined - about.with_vector
    if missing:
        said.append(f"{missing:,} points have no vector of this name; only equal texts make copies of them.")
    if about.gone:
        said.append(f"{about.gone:,} points were deleted while the collection was read.")
    if report.cut.origin == "relative" and report.cut.median is None:
        said.append("No pool has two vectors to compare: the cut is the rule's smallest.")
    return tuple(said)


def _redundancy(report: Report) -> str:
    about, near, exact = report.about, report.near, report.exact
    if not near.with_copy:
        return f"No point has a copy within a distance of {report.cut.value:.3f}: there is nothing to deduplicate."
    have = (
        f"{percent(near.with_copy, about.examined)} of the points have a copy within a distance of {report.cut.value:.3f}; "
        f"{percent(exact.with_copy, about.examined)} have an exact one."
    )
    if near.redundant is None:
        return have
    return (
        f"{have} If each family kept one, {near.redundant:,} of {about.points:,} points "
        f"({percent(near.redundant, about.points)}) could be removed."
    )


def _saving(saving: Saving) -> str:
    if not saving.results:
        return "No search could be tried: no point has a vector."
    hit = saving.searches - saving.by_copies[0]
    if not hit:
        return f"Of {saving.searches:,} searches around stored points, none has a copy among its first {saving.top_k} results."
    sentence = (
        f"A search for {saving.top_k} results returns {saving.copies / saving.searches:.1f} copies on average, and "
        f"{percent(hit, saving.searches)} of the searches tried return at least one."
    )
    distinct = saving.results - saving.copies
    return (
        f"{sentence} Without copies, {percent(saving.filled, saving.results)} of the results would be distinct "
        f"instead of {percent(distinct, saving.results)}."
    )


def _across(sources: Sources) -> str | None:
    """The source with the largest share of copies in another one."""
    best: tuple[float, int, int] | None = None
    for row_number, row in enumerate(sources.rows):
        for number, copied in enumerate(row.copied):
            named = {row.name, sources.rows[number].name}.isdisjoint({NO_SOURCE, OTHERS})
            if number == row_number or not named or not copied or row.points < FEW:
                continue
            if best is None or copied / row.points > best[0]:
                best = (copied / row.points, row_number, number)
    if best is None or best[0] < LITTLE:
        return None
    row, other = sources.rows[best[1]], sources.rows[best[2]]
    back = other.copied[best[1]]
    return (
        f"{percent(row.copied[best[2]], row.points)} of {row.name} has a copy in {other.name} "
        f"({percent(back, other.points)} in the other direction)."
    )


def _within(sources: Sources) -> str | None:
    """The source with the largest share of copies in itself."""
    shares = [
        (row.copied[number] / row.points, -number) for number, row in enumerate(sources.rows) if row.points >= FEW
    ]
    share, negated = max(shares, default=(0.0, 0))
    if share < LITTLE:
        return None
    row = sources.rows[-negated]
    return (
        f"{row.name} repeats itself: {percent(row.copied[-negated], row.points)} of it has a copy in the same source."
    )


def _overlapping(overlap: Overlap) -> str:
    said = f"Neighbouring chunks share {percent(round(overlap.share * 10_000), 10_000)} of the shorter one ({overlap.pairs:,} pairs)."
    if not overlap.is_large:
        return said
    return f"{said} This is more than the usual 10 to 20 %. policy.stitch: drop removes them from answers; a smaller overlap of the splitter saves the points."


def _sensitivity(report: Report) -> str:
    curve = report.density
    half = min(curve, key=lambda each: abs(each.cut - report.cut.value / 2.0))
    double = min(curve, key=lambda each: abs(each.cut - report.cut.value * 2.0))
    whole = report.about.examined
    return (
        f"With other cuts: {percent(half.with_copy, whole)} have a copy at {half.cut:.2g}, "
        f"{percent(double.with_copy, whole)} at {double.cut:.2g}."
    )


def _advice(exact: int, near: int) -> str:
    said = f"What to do: {exact:,} points are exact copies and can be removed where the data is loaded, without review."
    if near <= exact:
        return said
    return f"{said} The other {near - exact:,} differ in something: read the examples, then decide whether VecSieve should remove them."

"""The result of an analysis: one frozen value, its JSON, and the sentences of the terminal and the page.

The JSON has the members of these classes by name. Members may be added; renaming one, or changing its meaning, increases FORMAT. Counts
are of points unless stated otherwise. Unknown values are null, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..source import PointId
from .families import Repeats, Sources
from .pools import Overlap, Saving
from .reading import NEIGHBOURS

FORMAT = 2


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
class Member:
    """``evidence``: why it repeats the leader: "equal", "contained", "edited", "equal_vector"; null for the leader. ``text``: shortened."""

    id: PointId
    source: str | None
    evidence: str | None
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``size``: points, the leader included. ``equal``: to the leader, itself included. ``members``: a few of them."""

    size: int
    equal: int
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
    """Families of at least two. ``saturated``: points whose listed neighbours all repeat them: their family may be larger."""

    count: int
    largest: int
    saturated: int
    sizes: tuple[Sizes, ...]
    examples: tuple[Family, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``repeats``: the headline, with its parts. ``overlap``: of neighbouring chunks, null if there are too few spans. ``version``: VecSieve's."""

    format: int
    version: str
    about: About
    repeats: Repeats
    families: Families
    sources: Sources | None
    saving: Saving
    overlap: Overlap | None = None

    @property
    def sampled(self) -> bool:
        return self.about.examined + self.about.gone < self.about.points


FEW = 30  # points of a source below which its shares are not meaningful
LITTLE = 0.05  # share of a source below which there is no sentence


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


def size_text(smallest: int, largest: int | None) -> str:
    if largest is None:
        return f"over {smallest - 1}"
    return str(smallest) if smallest == largest else f"{smallest}-{largest}"


def counted(part: int, whole: int) -> str:
    """A count and its share."""
    return f"{part:,} ({percent(part, whole)})"


def headline(report: Report) -> str:
    """The figure of the report: how many points say nothing that another does not."""
    about, repeats = report.about, report.repeats
    if not repeats.points:
        return "No point is wholly said by another: there is nothing to deduplicate."
    which = "have another that says all of them" if report.sampled else "say nothing that another point does not"
    counts = f"{repeats.points:,} of {about.examined:,} points ({percent(repeats.points, about.examined)}) {which}"
    return f"{counts}: {', '.join(f'{count:,} {name}' for name, count in repeats.parts if count)}."


def conclusions(report: Report) -> tuple[str, ...]:
    """The most important first."""
    sentences = [headline(report), _saving(report.saving)]
    if report.sources is not None:
        sentences += [
            sentence for sentence in (_across(report.sources), _within(report.sources)) if sentence is not None
        ]
    if report.overlap is not None:
        sentences.append(_overlapping(report.overlap))
    if report.repeats.points:
        sentences.append(_advice(report))
    return tuple(sentences)


def cautions(report: Report) -> tuple[str, ...]:
    """The limits of the figures, and what would help."""
    about, sentences = report.about, []
    if report.sampled and about.examined < about.points - about.gone:
        sentences.append(
            f"A sample of {about.examined:,} of {about.points:,} points: shares hold for the collection, families include only "
            "those of the sample. Without --limit all points are read."
        )
    if not about.with_text:
        sentences.append(
            f"No text under {', '.join(about.text_fields)}: only nearly equal vectors are repeats, and examples have no text. "
            "--text-field names the field."
        )
    if report.sources is None:
        sentences.append(f"No source under {', '.join(about.source_fields)}. --source-field names the field.")
    if report.families.saturated:
        sentences.append(
            f"{report.families.saturated:,} points are repeated by all of the {NEIGHBOURS} neighbours that were "
            "requested: such families may be larger than shown, or shown as several."
        )
    missing = about.examined - about.with_vector
    if missing:
        sentences.append(f"{missing:,} points have no vector of this name; only texts make repeats of them.")
    if about.gone:
        sentences.append(f"{about.gone:,} points were deleted while the collection was read.")
    return tuple(sentences)


def _saving(saving: Saving) -> str:
    if not saving.results:
        return "No search could be tried: no point has a vector."
    hit = saving.searches - saving.by_repeats[0]
    if not hit:
        return f"Of {saving.searches:,} searches around stored points, none has a repeat among its first {saving.top_k} results."
    sentence = (
        f"A search for {saving.top_k} results returns {saving.repeats / saving.searches:.1f} repeats on average, and "
        f"{percent(hit, saving.searches)} of the searches tried return at least one."
    )
    distinct = saving.results - saving.repeats
    return (
        f"{sentence} Without repeats, {percent(saving.filled, saving.results)} of the results would be distinct "
        f"instead of {percent(distinct, saving.results)}."
    )


def _across(sources: Sources) -> str | None:
    """The source with the largest share of repeats in another one."""
    best: tuple[float, int, int] | None = None
    for row_number, row in enumerate(sources.rows):
        for number, copied in enumerate(row.copied):
            named = row.is_one and sources.rows[number].is_one
            if number == row_number or not named or not copied or row.points < FEW:
                continue
            if best is None or copied / row.points > best[0]:
                best = (copied / row.points, row_number, number)
    if best is None or best[0] < LITTLE:
        return None
    row, other = sources.rows[best[1]], sources.rows[best[2]]
    back = other.copied[best[1]]
    return (
        f"{percent(row.copied[best[2]], row.points)} of {row.name} is repeated in {other.name} "
        f"({percent(back, other.points)} in the other direction)."
    )


def _within(sources: Sources) -> str | None:
    """The source with the largest share of repeats in itself."""
    shares = [
        (row.copied[number] / row.points, -number)
        for number, row in enumerate(sources.rows)
        if row.points >= FEW and row.is_one
    ]
    share, negated = max(shares, default=(0.0, 0))
    if share < LITTLE:
        return None
    row = sources.rows[-negated]
    return (
        f"{row.name} repeats itself: {percent(row.copied[-negated], row.points)} of it is repeated in the same source."
    )


def _overlapping(overlap: Overlap) -> str:
    sentence = f"Neighbouring chunks share {percent(round(overlap.share * 10_000), 10_000)} of the shorter one ({overlap.pairs:,} pairs)."
    if not overlap.is_large:
        return sentence
    return f"{sentence} This is more than the usual 10 to 20 %. A smaller overlap of the splitter saves the points."


def _advice(report: Report) -> str:
    repeats = report.repeats
    if report.sampled:
        return "What to do: vecsieve sweep reports how many points could be deleted, and deletes them; searches remove all of these from answers."
    sure = repeats.equal + repeats.contained
    sentence = f"What to do: {sure:,} points are copies by their texts. Do not load them again, or delete them with vecsieve sweep, which keeps those whose other fields differ unless --ignore names the fields."
    if not repeats.edited + repeats.vectors:
        return sentence
    return f"{sentence} The other {repeats.edited + repeats.vectors:,} differ in something: searches remove them from answers; read the examples before you delete any."

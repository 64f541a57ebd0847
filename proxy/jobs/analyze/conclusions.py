"""The report in sentences, for the terminal and the page: conclusions, and cautions."""

from __future__ import annotations

from vecsieve.proxy.jobs.analyze.families import NO_SOURCE, OTHERS, Sources
from vecsieve.proxy.jobs.analyze.pools import Saving
from vecsieve.proxy.jobs.analyze.reading import NEIGHBOURS
from vecsieve.proxy.jobs.analyze.report import Report
from vecsieve.proxy.jobs.analyze.spans import Overlap

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
            f"A sample of {about.examined:,} of {about.points:,} points: shares hold for the collection, families are only "
            "those that the sample touches, and how many points could go is not known. Leave out --limit to know."
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
            f"{report.families.saturated:,} points have {NEIGHBOURS} copies or more, which is as far as their neighbours were "
            "asked for: such families may be larger than they are shown, or shown as several."
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
        f"{have} If one of each family stayed, {near.redundant:,} of {about.points:,} points "
        f"({percent(near.redundant, about.points)}) could go."
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
        f"{percent(row.copied[best[2]], row.points)} of {row.name} stands in {other.name} again "
        f"({percent(back, other.points)} the other way round)."
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
    return f"{said} That is much: 10 to 20 % are usual. policy.stitch: drop removes them from answers; a smaller overlap of the splitter saves the points."


def _sensitivity(report: Report) -> str:
    curve = report.density
    half = min(curve, key=lambda each: abs(each.cut - report.cut.value / 2.0))
    double = min(curve, key=lambda each: abs(each.cut - report.cut.value * 2.0))
    whole = report.about.examined
    return (
        f"The choice of the cut: {percent(half.with_copy, whole)} have a copy at {half.cut:.2g}, "
        f"{percent(double.with_copy, whole)} at {double.cut:.2g}."
    )


def _advice(exact: int, near: int) -> str:
    said = (
        f"What to do: {exact:,} points are exact copies and can go where the data is loaded, without anything to judge."
    )
    if near <= exact:
        return said
    return f"{said} The other {near - exact:,} differ in something: read the examples, then leave them to VecSieve, or not."

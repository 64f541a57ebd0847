"""The report of an analysis, put together for a terminal and as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator

from ..pages import Cells, Examples, Figures, Page, Section
from .families import Sources
from .report import Family, Member, Report, cautions, conclusions, counted, percent, size_text


def page(report: Report) -> Page:
    about = report.about
    vector = f", vector {about.vector_name}" if about.vector_name else ""
    method = "the database's own index" if report.sampled else "hashes of their texts and vectors"
    return Page(
        title=f"Redundancy of {about.collection}",
        facts=f"{about.points:,} points{vector}, {about.dimension} dimensions, {about.distance}.",
        tiles=_tiles(report),
        sentences=conclusions(report),
        cautions=cautions(report),
        sections=tuple(_sections(report)),
        made=(
            f"Made by VecSieve {report.version} from {about.examined:,} points and {method}, read-only. "
            f"Texts under {', '.join(about.text_fields)}; sources under {', '.join(about.source_fields)}."
        ),
    )


def _tiles(report: Report) -> tuple[tuple[str, str, str], ...]:
    whole, saving, repeats = report.about.examined, report.saving, report.repeats
    average = f"{saving.repeats / saving.searches:.1f}" if saving.searches else "-"
    return (
        ("say nothing of their own", percent(repeats.points, whole), f"{repeats.points:,} of {whole:,} points"),
        ("equal to another", percent(repeats.equal, whole), f"{repeats.equal:,} points"),
        ("families", f"{report.families.count:,}", f"the largest of {report.families.largest:,} points"),
        (f"repeats in a top {saving.top_k}", average, f"mean of {saving.searches:,} searches"),
    )


def _sections(report: Report) -> Iterator[Section]:
    yield _repeats(report)
    yield _saving(report)
    families = report.families
    if families.count:
        yield _sizes(report)
    if report.sources is not None and any(sum(row.copied) for row in report.sources.rows if row.is_one):
        yield _sources(report.sources)
    if families.examples:
        yield Section(
            title="The largest families, edited copies first",
            note="The leader, and members from the most alike to the least.",
            tables=tuple(map(_family, families.examples)),
        )


def _repeats(report: Report) -> Section:
    whole, parts = report.about.examined, report.repeats.parts
    rows = [(name, counted(count, whole)) for name, count in parts]
    return Section(
        title="Points that say nothing that another does not",
        note=(
            "Of several that say the same, all but one. Searches remove all of these from answers; a sweep deletes equal and contained texts."
        ),
        tables=[
            Figures(
                caption="Points by what they repeat",
                heads=("why", "points"),
                rows=[*rows, ("in all", counted(report.repeats.points, whole))],
                has_total=True,
                bars=[(name.partition(",")[0].removesuffix(" in one other"), count) for name, count in parts],
            )
        ],
    )


def _saving(report: Report) -> Section:
    saving = report.saving
    return Section(
        title=f"Repeats among the first {saving.top_k} results of {saving.searches:,} searches",
        note="The questions are stored points spread over the collection; real queries find somewhat fewer repeats.",
        tables=[
            Figures(
                caption="Searches by repeats of better results",
                heads=("repeats", "searches"),
                rows=[
                    (str(repeats), counted(count, saving.searches)) for repeats, count in enumerate(saving.by_repeats)
                ],
                bars=[(str(repeats), count) for repeats, count in enumerate(saving.by_repeats)],
            )
        ],
    )


def _sizes(report: Report) -> Section:
    families = report.families
    named = [(size_text(size.smallest, size.largest), size) for size in families.sizes]
    return Section(
        title=f"{families.count:,} families, the largest of {families.largest:,} points",
        note="A family is a leader and the points all of which the leader says, without chains.",
        tables=[
            Figures(
                caption="Families by size",
                heads=("size", "families", "points"),
                rows=[(name, f"{size.families:,}", f"{size.points:,}") for name, size in named if size.families],
                bars=[(name, size.points) for name, size in named],
            )
        ],
    )


def _sources(sources: Sources) -> Section:
    more = f" {sources.distinct:,} sources in all." if sources.distinct > len(sources.rows) else ""
    return Section(
        title="Repeats between sources",
        note=f"The share of the row's source that is repeated in the column's. On the diagonal: in the source itself.{more}",
        tables=[
            Figures(
                caption="Share of each source that is repeated in each source",
                heads=("source", "points", "repeated", *(row.name for row in sources.rows)),
                rows=[
                    (
                        *(row.name, f"{row.points:,}", percent(row.repeated, row.points)),
                        *(percent(copied, row.points) for copied in row.copied),
                    )
                    for row in sources.rows
                ],
                shares=[[copied / max(1, row.points) for copied in row.copied] for row in sources.rows],
            )
        ],
    )


def _family(family: Family) -> Examples:
    same = f", {family.equal:,} of them equal" if family.equal > 1 else ""
    return Examples(
        caption=f"{family.size:,} points{same}",
        heads=("why", "id", "source", "text"),
        rows=[_member(family.leader), *map(_member, family.members)],
    )


def _member(member: Member) -> Cells:
    why = "leader" if member.evidence is None else member.evidence.replace("_", " ")
    text = "= the same text" if member.evidence == "equal" else member.text or ""
    return why, str(member.id), member.source or "", text

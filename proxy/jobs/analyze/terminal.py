"""The report as rich renderables. The collection's texts are never parsed as markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vecsieve.proxy.jobs.analyze.conclusions import cautions, conclusions, cut_said, percent
from vecsieve.proxy.jobs.analyze.families import Sources
from vecsieve.proxy.jobs.analyze.report import Family, Member, Report

EXAMPLES = 5  # the page and the JSON have more
TEXT_CHARACTERS = 150  # two or three lines of a cell
COLUMNS = 6  # sources side by side in a terminal of 80 columns


def rendered(report: Report) -> RenderableType:
    return Group(*_parts(report))


def _parts(report: Report) -> Iterator[RenderableType]:
    yield _heading(report)
    yield Text()
    for sentence in conclusions(report):
        yield Padding(Text(f"- {sentence}"), (0, 0, 0, 2))
    for sentence in cautions(report):
        yield Padding(Text(f"! {sentence}", style="yellow"), (0, 0, 0, 2))
    yield from _titled("How many points have a copy", _density(report))
    saving = report.saving
    yield from _titled(
        f"Copies among the first {saving.top_k} results of {saving.searches:,} searches", _saving(report)
    )
    families = report.families
    if families.count:
        yield from _titled(f"{families.count:,} families, the largest of {families.largest:,} points", _sizes(report))
    if report.sources is not None:
        yield from _titled("Who repeats whom: how much of the row stands in the column again", _sources(report.sources))
    if families.examples:
        yield from _titled(
            "The largest families: each leader, and members from the nearest to the farthest", _examples(report)
        )


def _titled(title: str, table: Table) -> Iterator[RenderableType]:
    """With the title above the table: a narrow table would wrap its own."""
    yield Text()
    yield Text(title, style="bold")
    yield table


def _heading(report: Report) -> Text:
    about = report.about
    vector = f", vector {about.vector_name}" if about.vector_name else ""
    facts = f"{about.points:,} points{vector}, {about.dimension} dimensions, {about.distance}"
    return Text.assemble((about.collection, "bold"), f"  {facts}; copies within {cut_said(report)}")


def _table() -> Table:
    return Table(box=box.ROUNDED)


def _density(report: Report) -> Table:
    table = _table()
    table.add_column("distance")
    table.add_column("have a copy", justify="right")
    table.add_column("could go", justify="right")
    whole = report.about.examined
    table.add_row("exact", *_share(report.exact.with_copy, report.exact.redundant, whole))
    for each in report.density:
        chosen = each.cut == report.cut.value
        name = f"{each.cut:.3f}"
        if each.cut == report.cut.relative:
            name += " relative"
        if chosen:
            name += " ◂ chosen"
        table.add_row(name, *_share(each.with_copy, each.redundant, whole), style="bold" if chosen else "")
    return table


def _share(with_copy: int, redundant: int | None, whole: int) -> tuple[str, str]:
    could_go = "?" if redundant is None else f"{redundant:,} ({percent(redundant, whole)})"
    return f"{with_copy:,} ({percent(with_copy, whole)})", could_go


def _saving(report: Report) -> Table:
    saving = report.saving
    table = _table()
    table.add_column("copies", justify="right")
    table.add_column("searches", justify="right")
    for copies, searches in enumerate(saving.by_copies):
        table.add_row(str(copies), f"{searches:,} ({percent(searches, saving.searches)})")
    return table


def _sizes(report: Report) -> Table:
    table = _table()
    table.add_column("size", justify="right")
    table.add_column("families", justify="right")
    table.add_column("points", justify="right")
    for each in report.families.sizes:
        if each.families:
            table.add_row(size_said(each.smallest, each.largest), f"{each.families:,}", f"{each.points:,}")
    return table


def size_said(smallest: int, largest: int | None) -> str:
    if largest is None:
        return f"over {smallest - 1}"
    return str(smallest) if smallest == largest else f"{smallest}-{largest}"


def _sources(sources: Sources) -> Table:
    table = _table()
    shown = sources.rows[:COLUMNS]
    table.add_column("source", overflow="ellipsis", no_wrap=True, max_width=24)
    table.add_column("points", justify="right")
    table.add_column("have a copy", justify="right")
    for row in shown:
        table.add_column(Text(row.name, overflow="fold"), justify="right", max_width=12)
    for number, row in enumerate(sources.rows):
        cells = [
            Text(percent(copied, row.points), style="dim" if not copied else "bold" if number == column else "")
            for column, copied in enumerate(row.copied[: len(shown)])
        ]
        table.add_row(Text(row.name), f"{row.points:,}", percent(row.with_copy, row.points), *cells)
    if sources.distinct > len(sources.rows):
        table.caption = f"{sources.distinct:,} sources; --json and --html have the {len(sources.rows)} largest"
    return table


def _examples(report: Report) -> Table:
    table = _table()
    table.add_column("distance", justify="right", min_width=8, no_wrap=True)
    table.add_column("id", overflow="ellipsis", no_wrap=True, min_width=5, max_width=12)
    table.add_column("source", overflow="ellipsis", no_wrap=True, min_width=11, max_width=20)
    table.add_column("text", overflow="ellipsis", ratio=1)
    for family in report.families.examples[:EXAMPLES]:
        for style, first, member in _lines(family):
            repeats = member.exact and member is not family.leader
            text = "= the same text" if repeats and member.text else (member.text or "")[:TEXT_CHARACTERS]
            cells = (first, str(member.id), member.source or "", text)
            is_last = member is (family.members or (family.leader,))[-1]
            table.add_row(*(Text(cell, style=style) for cell in cells), end_section=is_last)
    return table


def _lines(family: Family) -> Iterator[tuple[str, str, Member]]:
    yield "bold", f"{family.size} points", family.leader
    for member in family.members:
        yield "", "?" if member.distance is None else f"{member.distance:.3f}", member

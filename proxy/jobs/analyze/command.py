"""``vecsieve analyze``: checks the arguments, analyses, writes the files, prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import RenderableType, group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vecsieve.config.problems import Problem, SettingsError

from ...runtime.files import check_output, output_console, write_output
from ...runtime.lifecycle import ended_by_signals
from ..databases import IdsOption, SourceOptions, TextFieldOption, opened
from ..pairs.store import StoreError
from ..source import USUAL_FIELDS, SourceError
from .families import Sources
from .page import page
from .reading import FieldNames
from .report import (
    Family,
    Member,
    Report,
    as_json,
    cautions,
    conclusions,
    counted,
    percent,
    size_text,
)
from .run import AnalyzeOptions, Leaving, analyze

USUAL_SOURCES = ("source", "metadata.source")  # the second is LangChain's
STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(SourceOptions):
    """The options of `analyze`. ``text_field``, ``source_field``: None for the usual ones. ``json``: a file or "-"."""

    text_field: TextFieldOption = None
    source_field: Annotated[str | None, typer.Option(help="Payload field with the source of a point.")] = None
    limit: Annotated[
        int | None, typer.Option(help="Examine only this many points, evenly spread, by searches.", min=1)
    ] = None
    json: Annotated[str | None, typer.Option(help="Write the report as JSON; - prints it instead.")] = None
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None
    ids: IdsOption = None
    work: Annotated[
        Path | None, typer.Option(help="Folder for the data that is read; run again with it to continue.")
    ] = None


def run(arguments: Arguments) -> int:
    """The exit code: 0, 1 if the collection or the state is unusable, 130 on Ctrl-C. Raises SettingsError for arguments."""
    _check_files(arguments)
    try:
        with ended_by_signals():
            leaving: list[Leaving] = []
            with closing(opened(arguments, os.environ)) as source:
                report = analyze(source, _options(arguments), take=leaving.append)
            _publish(report, leaving, arguments)
    except (SourceError, StoreError) as error:
        sys.stderr.write(f"vecsieve analyze: {error}\n{_continuation(arguments.work)}")
        return 1
    except KeyboardInterrupt:
        hint = _continuation(arguments.work) or "nothing was saved; with --work FOLDER a run can be continued\n"
        sys.stderr.write(f"\nstopped: {hint}")
        return 130
    return 0


def _continuation(work: Path | None) -> str:
    if work is None or not work.exists():
        return ""
    return f"the progress is saved in {work}; run the same command again to continue\n"


def _options(arguments: Arguments) -> AnalyzeOptions:
    text, source = arguments.text_field, arguments.source_field
    return AnalyzeOptions(
        collection=arguments.collection,
        fields=FieldNames(
            text=USUAL_FIELDS if text is None else (text,), source=USUAL_SOURCES if source is None else (source,)
        ),
        limit=arguments.limit,
        work=arguments.work,
    )


def _publish(report: Report, leaving: list[Leaving], arguments: Arguments) -> None:
    if arguments.ids is not None:
        write_output("--ids", arguments.ids, b"".join(line for each in leaving for line in each.lines()))
    if arguments.html is not None:
        write_output("--html", arguments.html, page(report).encode())
    if arguments.json not in {None, STDOUT}:
        write_output("--json", Path(arguments.json or ""), as_json(report))
    if arguments.json == STDOUT:
        sys.stdout.write(as_json(report).decode())
        return
    console = output_console()
    console.print(rendered(report))
    for path in (arguments.html, arguments.json, arguments.ids):
        if path is not None:
            console.print(f"written: {path}", style="dim", markup=False)


def _check_files(arguments: Arguments) -> None:
    json = None if arguments.json in {None, STDOUT} else Path(arguments.json or "")
    for option, path in (
        ("--json", json),
        ("--html", arguments.html),
        ("--ids", arguments.ids),
    ):
        check_output(option, path)
    if arguments.work is not None and arguments.limit is not None:
        raise SettingsError([Problem("--work", "--limit beside it", "one of the two: a sample is not kept")])


EXAMPLES = 5  # the page and the JSON have more
TEXT_CHARACTERS = 150  # two or three lines of a cell
COLUMNS = 6  # sources side by side in a terminal of 80 columns


@group()
def rendered(report: Report) -> Iterator[RenderableType]:
    """The report for the terminal. The collection's texts are never parsed as markup."""
    yield _heading(report)
    yield Text()
    for sentence in conclusions(report):
        yield Padding(Text(f"- {sentence}"), (0, 0, 0, 2))
    for sentence in cautions(report):
        yield Padding(Text(f"! {sentence}", style="yellow"), (0, 0, 0, 2))
    yield from _titled("Points that say nothing that another does not", _repeats(report))
    saving = report.saving
    yield from _titled(
        f"Repeats among the first {saving.top_k} results of {saving.searches:,} searches", _saving(report)
    )
    families = report.families
    if families.count:
        yield from _titled(f"{families.count:,} families, the largest of {families.largest:,} points", _sizes(report))
    if report.sources is not None:
        yield from _titled(
            "Copies between sources: the share of the row's source with a copy in the column's",
            _sources(report.sources),
        )
    if families.examples:
        yield from _titled(
            "The largest families, edited copies first: the leader, and members from the most alike to the least",
            _examples(report),
        )


def _titled(title: str, table: Table) -> Iterator[RenderableType]:
    """With the title above the table: a narrow table would wrap its own title."""
    yield Text()
    yield Text(title, style="bold")
    yield table


def _heading(report: Report) -> Text:
    about = report.about
    vector = f", vector {about.vector_name}" if about.vector_name else ""
    facts = f"{about.points:,} points{vector}, {about.dimension} dimensions, {about.distance}"
    return Text.assemble((about.collection, "bold"), f"  {facts}")


def _repeats(report: Report) -> Table:
    table = Table(box=box.ROUNDED)
    table.add_column("why")
    table.add_column("points", justify="right")
    whole = report.about.examined
    for name, count in report.repeats.parts:
        table.add_row(name, counted(count, whole))
    table.add_row("in all", counted(report.repeats.points, whole), style="bold")
    return table


def _saving(report: Report) -> Table:
    saving = report.saving
    table = Table(box=box.ROUNDED)
    table.add_column("repeats", justify="right")
    table.add_column("searches", justify="right")
    for repeats, searches in enumerate(saving.by_repeats):
        table.add_row(str(repeats), counted(searches, saving.searches))
    return table


def _sizes(report: Report) -> Table:
    table = Table(box=box.ROUNDED)
    table.add_column("size", justify="right")
    table.add_column("families", justify="right")
    table.add_column("points", justify="right")
    for size in report.families.sizes:
        if size.families:
            table.add_row(size_text(size.smallest, size.largest), f"{size.families:,}", f"{size.points:,}")
    return table


def _sources(sources: Sources) -> Table:
    table = Table(box=box.ROUNDED)
    rows = sources.rows[:COLUMNS]
    table.add_column("source", overflow="ellipsis", no_wrap=True, max_width=24)
    table.add_column("points", justify="right")
    table.add_column("repeated", justify="right")
    for row in rows:
        table.add_column(Text(row.name, overflow="fold"), justify="right", max_width=12)
    for number, row in enumerate(sources.rows):
        cells = [
            Text(percent(copied, row.points), style="dim" if not copied else "bold" if number == column else "")
            for column, copied in enumerate(row.copied[: len(rows)])
        ]
        table.add_row(Text(row.name), f"{row.points:,}", percent(row.repeated, row.points), *cells)
    if sources.distinct > len(sources.rows):
        table.caption = f"{sources.distinct:,} sources; --json and --html have the {len(sources.rows)} largest"
    return table


def _examples(report: Report) -> Table:
    table = Table(box=box.ROUNDED)
    table.add_column("why", min_width=9, no_wrap=True)
    table.add_column("id", overflow="ellipsis", no_wrap=True, min_width=5, max_width=12)
    table.add_column("source", overflow="ellipsis", no_wrap=True, min_width=11, max_width=20)
    table.add_column("text", overflow="ellipsis", ratio=1)
    for family in report.families.examples[:EXAMPLES]:
        for style, first, member in _lines(family):
            text = "= the same text" if member.evidence == "equal" else (member.text or "")[:TEXT_CHARACTERS]
            cells = (first, str(member.id), member.source or "", text)
            is_last = member is (family.members or (family.leader,))[-1]
            table.add_row(*(Text(cell, style=style) for cell in cells), end_section=is_last)
    return table


def _lines(family: Family) -> Iterator[tuple[str, str, Member]]:
    yield "bold", f"{family.size} points", family.leader
    for member in family.members:
        yield "", (member.evidence or "").replace("_", " "), member

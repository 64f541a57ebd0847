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

from ...runtime.files import check_output, output_console, read_input, write_output
from ...runtime.lifecycle import ended_by_signals
from ...search.collections.profiles import Profile, decoded
from ..databases import IdsOption, TextFieldOption, Wanted, opened
from ..pairs.store import StoreError
from ..source import USUAL_FIELDS, Shape, SourceError
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
    cut_said,
    percent,
    size_said,
)
from .run import Asked, Copies, analyze

USUAL_SOURCES = ("source", "metadata.source")  # the second is LangChain's
STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(Wanted):
    """The options of `analyze`. ``text_field``, ``source_field``: None for the usual ones. ``json``: a file or "-"."""

    text_field: TextFieldOption = None
    source_field: Annotated[str | None, typer.Option(help="Payload field with the source of a point.")] = None
    cut: Annotated[float | None, typer.Option(help="Distance up to which points are copies.", min=0.0, max=2.0)] = None
    profile: Annotated[Path | None, typer.Option(help="Use the cut of this profile of `calibrate`.")] = None
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
    profile = _profile(arguments)
    try:
        with ended_by_signals():
            copies: list[Copies] = []
            with closing(opened(arguments, os.environ)) as source:
                if profile is not None:
                    _check_profile(profile, arguments, source.shape())
                report = analyze(source, _asked(arguments, profile), take=copies.append)
            _publish(report, copies, arguments)
    except (SourceError, StoreError) as error:
        sys.stderr.write(f"vecsieve analyze: {error}\n{_continuation(arguments.work)}")
        return 1
    except KeyboardInterrupt:
        said = _continuation(arguments.work) or "nothing was saved; with --work FOLDER a run can be continued\n"
        sys.stderr.write(f"\nstopped: {said}")
        return 130
    return 0


def _continuation(work: Path | None) -> str:
    if work is None or not work.exists():
        return ""
    return f"the progress is saved in {work}; run the same command again to continue\n"


def _asked(arguments: Arguments, profile: Profile | None) -> Asked:
    text, source = arguments.text_field, arguments.source_field
    cut = arguments.cut if profile is None else profile.cut
    origin = "relative" if cut is None else "option" if profile is None else "profile"
    return Asked(
        collection=arguments.collection,
        cut=cut,
        origin=origin,
        fields=FieldNames(
            text=USUAL_FIELDS if text is None else (text,), source=USUAL_SOURCES if source is None else (source,)
        ),
        limit=arguments.limit,
        work=arguments.work,
    )


def _publish(report: Report, copies: list[Copies], arguments: Arguments) -> None:
    if arguments.ids is not None:
        write_output("--ids", arguments.ids, b"".join(line for each in copies for line in each.lines()))
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


def _profile(arguments: Arguments) -> Profile | None:
    path = arguments.profile
    if path is None:
        return None
    if arguments.cut is not None:
        raise SettingsError([Problem("--profile", "--cut beside it", "one of the two: both define a copy")])
    return decoded(read_input(path, place="--profile", wanted=f"to read {path}"), name=path.name)


def _check_profile(profile: Profile, arguments: Arguments, shape: Shape) -> None:
    """A cut is valid only for the model of one collection."""
    pairs = (
        ("collection", profile.collection, arguments.collection),
        ("vector_name", profile.vector_name, shape.vector_name),
        ("dimension", profile.dimension, shape.dimension),
        ("distance", profile.distance, shape.distance),
    )
    wrong = [
        Problem(f"--profile: {name}", repr(held), f"{there!r}, as in the collection")
        for name, held, there in pairs
        if held != there
    ]
    if wrong:
        raise SettingsError(wrong)


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
    yield from _titled("How many points have a copy", _density(report))
    saving = report.saving
    yield from _titled(
        f"Copies among the first {saving.top_k} results of {saving.searches:,} searches", _saving(report)
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
            "The largest families: the leader, and members from the nearest to the farthest", _examples(report)
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
    return Text.assemble((about.collection, "bold"), f"  {facts}; copies within {cut_said(report)}")


def _density(report: Report) -> Table:
    table = Table(box=box.ROUNDED)
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
        if each.estimated:
            name += " estimated"
        if chosen:
            name += " ◂ chosen"
        table.add_row(name, *_share(each.with_copy, each.redundant, whole), style="bold" if chosen else "")
    return table


def _share(with_copy: int, redundant: int | None, whole: int) -> tuple[str, str]:
    return counted(with_copy, whole), "?" if redundant is None else counted(redundant, whole)


def _saving(report: Report) -> Table:
    saving = report.saving
    table = Table(box=box.ROUNDED)
    table.add_column("copies", justify="right")
    table.add_column("searches", justify="right")
    for copies, searches in enumerate(saving.by_copies):
        table.add_row(str(copies), counted(searches, saving.searches))
    return table


def _sizes(report: Report) -> Table:
    table = Table(box=box.ROUNDED)
    table.add_column("size", justify="right")
    table.add_column("families", justify="right")
    table.add_column("points", justify="right")
    for each in report.families.sizes:
        if each.families:
            table.add_row(size_said(each.smallest, each.largest), f"{each.families:,}", f"{each.points:,}")
    return table


def _sources(sources: Sources) -> Table:
    table = Table(box=box.ROUNDED)
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
    table = Table(box=box.ROUNDED)
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

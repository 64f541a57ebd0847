"""``vecsieve sweep``: checks the arguments, sweeps, writes the files, prints. Nothing is deleted from the collection."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from vecsieve.proxy.jobs.databases import Wanted, opened
from vecsieve.proxy.jobs.files import check_output, output_console, progress_bar, write_output
from vecsieve.proxy.jobs.source import USUAL_FIELDS, SourceError
from vecsieve.proxy.jobs.sweep.run import Asked, Keep, Report, as_json, sweep
from vecsieve.proxy.jobs.sweep.store import StoreError
from vecsieve.proxy.process.runtime import ended_by_signals

USUAL_TIMES = ("updated_at", "timestamp", "created_at", "createdAt", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Of the command line. Fields: None for the usual ones."""

    source: Wanted
    work: Path
    similarity: float
    shared: float
    keep: Keep
    text_field: str | None
    time_field: str | None
    tenants: tuple[str, ...]
    report: Path | None
    ids: Path | None


def run(arguments: Arguments) -> int:
    """The exit code: 0, 1 if the collection or the folder is unusable, 130 on Ctrl-C. Raises SettingsError for arguments."""
    check_output("--report", arguments.report)
    check_output("--ids", arguments.ids)
    asked = _asked(arguments)
    try:
        with ended_by_signals(), closing(opened(arguments.source, os.environ)) as source:
            report, going = sweep(source, asked, bar=progress_bar)
    except (SourceError, StoreError) as error:
        sys.stderr.write(f"vecsieve sweep: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nstopped: what was read is kept in {arguments.work}; run the same command again to go on\n")
        return 130
    if arguments.ids is not None:
        write_output("--ids", arguments.ids, b"".join(going.lines()))
    if arguments.report is not None:
        write_output("--report", arguments.report, as_json(report))
    _print(report, arguments)
    return 0


def _asked(arguments: Arguments) -> Asked:
    text, time = arguments.text_field, arguments.time_field
    return Asked(
        collection=arguments.source.collection,
        similarity=arguments.similarity,
        shared=arguments.shared,
        keep=arguments.keep,
        text_fields=USUAL_FIELDS if text is None else (text,),
        time_fields=USUAL_TIMES if time is None else (time,),
        tenants=arguments.tenants,
        work=arguments.work,
    )


def _print(report: Report, arguments: Arguments) -> None:
    console = output_console()
    console.print(
        f"{report.collection}: {report.points} points, {report.with_text} with text, {report.with_vector} with a vector"
        + (f", {report.gone} deleted meanwhile" if report.gone else ""),
        markup=False,
    )
    console.print(
        f"{report.redundant} could go: {report.families} families keep one each ({report.keep}), the largest has {report.largest}; "
        f"{report.redundant_bytes / 1e6:.1f} MB of vectors and payloads. Nothing was deleted.",
        markup=False,
    )
    console.print(
        f"{report.candidates} pairs compared: {report.same_text} of the same text, {report.near_text} of nearly the same text, "
        f"{report.near_vector} with nearly the same vector; guards kept {report.forbidden} apart.",
        markup=False,
    )
    for family in report.examples:
        table = Table("id", "why", "similarity", "text", title=f"{family.size} points", title_justify="left")
        for member in (family.survivor, *family.members):
            alike = "" if member.similarity is None else f"{member.similarity:.4f}"
            table.add_row(str(member.id), (member.evidence or "stays").replace("_", " "), alike, member.text or "")
        console.print(table)
    for path in (arguments.report, arguments.ids):
        if path is not None:
            console.print(f"written: {path}", style="dim", markup=False)

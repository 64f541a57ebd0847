"""``vecsieve sweep``: checks the arguments, sweeps, deletes if requested, writes the files, prints."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from vecsieve.config.problems import Problem, SettingsError

from ...runtime.files import check_output, output_console, write_output
from ...runtime.lifecycle import ended_by_signals
from ...writes.book import Book
from ...writes.rows import JournalError
from ..databases import IdsOption, opened, points_opened
from ..pages import as_html, as_json, examples_table
from ..pairs.store import ENGINE, EndedError, OutdatedError, Store, StoreError
from ..source import Shape, SourceError
from .applying import Deletion, Survivors, delete
from .deciding import SweepOptions
from .event import Receiver, line
from .report import Report, page_of, parts_of, table_of
from .run import lines, opened_store, sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(SweepOptions):
    """The options of `sweep`."""

    report: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None
    ids: IdsOption = None
    apply: Annotated[bool, typer.Option("--apply", help="Delete the copies; needs --journal.")] = False
    journal: Annotated[
        Path | None, typer.Option(help="Each point is written here before it is deleted; `undo` stores it again.")
    ] = None
    webhook: Annotated[str | None, typer.Option(help="Send the event sweep-complete to this URL.")] = None
    webhook_secret: Annotated[Path | None, typer.Option(help="File with the secret that signs it.")] = None


def run(arguments: Arguments, kind: type[Survivors] = Survivors, *, name: str = "sweep") -> int:
    """``kind``: what is done with survivors. ``name``: of the command. The exit code: 0, 1 if the collection, the folder or the journal is unusable, 130 on Ctrl-C. Raises SettingsError."""
    import_module(ENGINE)
    for option in ("report", "html", "ids", "journal"):
        check_output(f"--{option}", getattr(arguments, option))
    if arguments.apply != (arguments.journal is not None):
        missing = "--apply" if arguments.journal else "--journal FILE"
        raise SettingsError([Problem("--apply", f"no {missing}", "both --apply and --journal FILE, or neither")])
    receiver = None if arguments.webhook is None else Receiver(arguments.webhook, arguments.webhook_secret)
    try:
        with ended_by_signals():
            try:
                report = _swept(arguments, kind)
            except OutdatedError as error:
                if arguments.work is not None or (arguments.apply and not isinstance(error, EndedError)):
                    raise
                shutil.rmtree(
                    arguments.folder
                )  # the usual folder, with what an earlier run read: nothing that only it has
                report = _swept(arguments, kind)
    except (SourceError, StoreError, JournalError) as error:
        sys.stderr.write(f"vecsieve {name}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\nstopped: the progress is saved in {arguments.folder}; run the same command again to continue\n"
        )
        return 130
    _publish(report, arguments)
    if receiver is not None and (trouble := receiver.send(report)) is not None:
        sys.stderr.write(f"vecsieve {name}: the webhook's receiver did not accept the event: {trouble}\n")
    return 0


def _swept(arguments: Arguments, kind: type[Survivors]) -> Report:
    with closing(opened(arguments, os.environ)) as source, opened_store(source, arguments) as store:
        if arguments.work is None and (store.has_ended if arguments.apply else store.deleted is not None):
            raise EndedError(f"--work {arguments.folder}: its points have been deleted")
        report = sweep(source, arguments, store, is_decided=arguments.apply)
        if arguments.ids is not None:
            write_output("--ids", arguments.ids, b"".join(lines(store)))
        if arguments.journal is not None:
            _apply(arguments, source.shape(), store, arguments.journal, kind)
        return replace(report, applied=store.deleted)


def _publish(report: Report, arguments: Arguments) -> None:
    if arguments.report is not None:
        write_output("--report", arguments.report, as_json(report))
    if arguments.html is not None:
        write_output("--html", arguments.html, as_html(page_of(report)))
    console = output_console()
    for sentence in _sentences(report):
        console.print(sentence, markup=False)
    for family in (*report.examples, *report.left):
        console.print(examples_table(table_of(family)))
    for path in (arguments.report, arguments.html, arguments.ids):
        if path is not None:
            console.print(f"written: {path}", style="dim", markup=False)
    if arguments.work is None:
        console.print(f"what was read: {arguments.folder}", style="dim", markup=False, soft_wrap=True)
    if not sys.stderr.isatty():  # for a job's log; a terminal shows the same already
        sys.stderr.write(line(report, now=time.time()).decode())


def _apply(arguments: Arguments, shape: Shape, store: Store, journal: Path, kind: type[Survivors]) -> None:
    options, name = replace(arguments, vector=shape.vector_name or None), arguments.collection
    with closing(points_opened(options, os.environ)) as points, closing(Book(journal)) as book:
        by = Deletion(points=points, survivors=kind(book, name))
        delete(store, by)


def _sentences(report: Report) -> Iterator[str]:
    gone = f", {report.gone} deleted in the meantime" if report.gone else ""
    yield f"{report.collection}: {report.points} points, {report.with_text} with text, {report.with_vector} with a vector{gone}"
    parts = ", ".join(f"{count} {what}" for what, count in parts_of(report) if count)
    yield f"{report.repeats} repeat another point{': ' + parts if parts else ''}."
    if report.fields:
        fields = ", ".join(f"{name} ({count})" for name, count in report.fields.items())
        yield f"Copies differ in {fields}: --ignore names fields that may differ."
    yield (
        f"{report.redundant} could be removed: {report.families} families keep one each ({report.keep}), the largest has {report.largest}; "
        f"{report.redundant_bytes / 1e6:.1f} MB of vectors and payloads.{'' if report.applied else ' Nothing was deleted.'}"
    )
    if report.applied is not None:
        yield (
            f"{report.applied['deleted']} were deleted, and are in the journal; {report.applied['gone']} were gone, "
            f"{report.applied['changed']} had changed, and of {report.applied['alone']} the survivor was gone or had changed."
        )
    yield f"{report.candidates} pairs compared."

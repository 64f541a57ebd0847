"""``vecsieve analyze``: checks the arguments, analyses, writes the files, prints."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from vecsieve.config.problems import Problem, SettingsError

from ...runtime.files import check_output, output_console, write_output
from ...runtime.lifecycle import ended_by_signals
from ..databases import IdsOption, opened
from ..pages import as_html, as_json, in_terminal
from ..pairs.store import ENGINE, StoreError
from ..source import SourceError
from .page import page
from .report import Report
from .run import AnalyzeOptions, Leaving, analyze

STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(AnalyzeOptions):
    """The options of `analyze`. ``json``: a file or "-"."""

    json: Annotated[str | None, typer.Option(help="Write the report as JSON; - prints it instead.")] = None
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None
    ids: IdsOption = None


def run(arguments: Arguments) -> int:
    """The exit code: 0, 1 if the collection or the state is unusable, 130 on Ctrl-C. Raises SettingsError for arguments."""
    _check_files(arguments)
    if arguments.limit is None:
        import_module(ENGINE)
    try:
        with ended_by_signals():
            leaving: list[Leaving] = []
            with closing(opened(arguments, os.environ)) as source:
                report = analyze(source, arguments, take=leaving.append)
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


def _publish(report: Report, leaving: list[Leaving], arguments: Arguments) -> None:
    if arguments.ids is not None:
        write_output("--ids", arguments.ids, b"".join(line for selection in leaving for line in selection.lines()))
    if arguments.html is not None:
        write_output("--html", arguments.html, as_html(page(report)))
    if arguments.json not in {None, STDOUT}:
        write_output("--json", Path(arguments.json or ""), as_json(report))
    if arguments.json == STDOUT:
        sys.stdout.write(as_json(report).decode())
        return
    console = output_console()
    console.print(in_terminal(page(report)))
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

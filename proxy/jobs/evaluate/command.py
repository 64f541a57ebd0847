"""``vecsieve evaluate``: checks the arguments, runs the policies set by set, prints, and writes the JSON at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer

from vecsieve.config.problems import Problem, SettingsError, one_line

from ...runtime.files import check_output, output_console, progress_bar, write_output
from ...runtime.lifecycle import ended_by_signals
from . import cases
from .judging import SetOutcome, evaluated
from .reading import read_set, sample_set, set_folders
from .rendering import Terms, as_json, report
from .searching import CONFIGURED, DEFAULT, Contender, contenders
from .summary import summarised

SAMPLE_NOTE = "This is the sample set: functions in the manual beside their docstrings. Most of a pair say more than the other, so a policy that loses nothing keeps both. No benchmark. For your own data: vecsieve evaluate FOLDER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(Terms):
    """The options of `evaluate`. ``data``: None for the sample set."""

    data: Annotated[
        Path | None, typer.Argument(help="Folder with labelled sets, or one set; without it a small sample set.")
    ] = None
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", help="NAME=PRESET or NAME=YAML, instead of the usual ones; repeatable."),
    ] = None
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).", show_default=False)] = None
    sets: Annotated[list[str] | None, typer.Option("--set", help="Only this set; repeatable.")] = None
    json: Annotated[Path | None, typer.Option(help="Write all results to this file (JSON).")] = None
    cases: Annotated[
        Path | None,
        typer.Option(
            help="Instead of DATA: results of which you say which must stay, one case a line (JSON); exit 1 if one is lost."
        ),
    ] = None


def run(arguments: Arguments) -> int:
    """Evaluate. Returns the exit code: 0, 1 for a lost result, or 130 on Ctrl-C. Raises SettingsError for arguments, settings and data."""
    _check(arguments)
    if arguments.cases is not None:
        return with_cases(arguments, arguments.cases)
    named = contenders(given=tuple(arguments.policies or ()), config=arguments.config, pool=arguments.pool)
    folders = (None,) if arguments.data is None else set_folders(arguments.data, arguments.sets or ())
    try:
        with ended_by_signals():
            outcomes = [outcome(folder, named, arguments) for folder in folders]
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; nothing was written\n")
        return 130
    summaries = summarised(outcomes, draws=arguments.draws, seed=arguments.seed)
    output_console().print(report(summaries, arguments))
    if arguments.data is None:
        sys.stderr.write(f"\n{SAMPLE_NOTE}\n")
    if arguments.json is not None:
        content = orjson.dumps(as_json(summaries, named, arguments), option=orjson.OPT_INDENT_2)
        write_output("--json", arguments.json, content)
    return 0


def with_cases(arguments: Arguments, path: Path) -> int:
    """Judge each policy by the cases of a file. Without a policy the default one is judged."""
    given = tuple(arguments.policies or ()) or (f"{DEFAULT if arguments.config is None else CONFIGURED}={{}}",)
    named = contenders(given=given, config=arguments.config, pool=arguments.pool)
    file = cases.read_cases(path)
    outcomes_by_name = {}
    for contender in named:
        with progress_bar(one_line(f"{path.name}, {contender.name}"), len(file.cases)) as advance:
            outcomes_by_name[contender.name] = cases.judged(file, contender, clock=time.perf_counter, advance=advance)
    console = output_console()
    for name, outcomes in outcomes_by_name.items():
        console.print(cases.report(name, outcomes))
    if arguments.json is not None:
        write_output(
            "--json", arguments.json, orjson.dumps(cases.as_json(outcomes_by_name), option=orjson.OPT_INDENT_2)
        )
    return 1 if any(outcome.loses for outcomes in outcomes_by_name.values() for outcome in outcomes) else 0


def outcome(folder: Path | None, named: Sequence[Contender], terms: Terms) -> SetOutcome:
    """One set, with a progress bar; None: the sample set. Raises SettingsError for data that cannot be read."""
    labelled = sample_set() if folder is None else read_set(folder)
    queries = len(range(0, len(labelled.queries), terms.every))
    with progress_bar(one_line(labelled.name), queries) as advance:
        return evaluated(
            labelled, named, top_k=terms.top_k, every=terms.every, clock=time.perf_counter, advance=advance
        )


def _check(arguments: Arguments) -> None:
    if arguments.cases is not None and (arguments.data is not None or arguments.sets is not None):
        seen = "DATA or --set beside it"
        raise SettingsError([Problem("--cases", seen, "none: a file of cases is judged alone")])
    if arguments.data is None and arguments.sets:
        seen = "nothing, beside --set"
        raise SettingsError([Problem("DATA", seen, "a folder with labelled sets")])
    if arguments.pool is not None and arguments.pool <= arguments.top_k:
        seen, expected = str(arguments.pool), f"more than --top-k, which is {arguments.top_k}"
        raise SettingsError([Problem("--pool", seen, expected)])
    check_output("--json", arguments.json)

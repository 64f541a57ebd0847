"""``vecsieve measure``: checks the arguments, sends the searches, writes the page."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.load import load
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings

from ...runtime.files import check_output, key_from, output_console, progress_bar, write_output
from ...runtime.lifecycle import ended_by_signals
from ..check import WIRES
from ..databases import KeyOption
from ..pages import as_html, as_json
from .page import as_text, outcome, page_of
from .queries import Query, read_queries
from .run import MeasureError, MeasureOptions, State, measure

STATE = ".state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(MeasureOptions):
    """The options of `measure`."""

    file: Annotated[Path, typer.Argument(help='Searches, a line each: {"path": "/…", "body": {…}}.')]
    html: Annotated[Path, typer.Option(help="Write the page to this file; what was measured is kept beside it.")]
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).", show_default=False)] = None
    backend: Annotated[str | None, typer.Option(help="Backend dialect.", show_default=DEFAULT_BACKEND)] = None
    upstream: Annotated[str | None, typer.Option(help="The database's URL.", show_default="that of the settings")] = (
        None
    )
    path: Annotated[str | None, typer.Option(help="The path of all lines, which are bodies alone then.")] = None
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file (JSON).")] = None
    api_key_env: KeyOption = None


def run(arguments: Arguments) -> int:
    """The exit code: 0, 1 if a search cannot be measured, 130 on Ctrl-C. Raises SettingsError for arguments, settings and the file."""
    _check(arguments)
    flags = {"backend": arguments.backend, "upstream.url": arguments.upstream}
    settings = load(file=arguments.config, environment=os.environ, flags=flags)
    queries = read_queries(arguments.file, settings.backend, target=arguments.path)
    # What must be equal for a run to be continued.
    parts = [settings.model_dump_json(), arguments.through or ""]
    parts += [f"{query.target}\n{query.body!r}" for query in queries]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    state = State(arguments.html.with_name(arguments.html.name + STATE), digest)
    wire = WIRES[settings.backend]
    headers = wire.fields(key_from(os.environ, arguments.api_key_env, usual=wire.variable))
    try:
        state.load()
        with ended_by_signals(), progress_bar("searches", arguments.turns * len(queries)) as advance:
            asyncio.run(measure(queries, arguments, settings, headers, state, advance))
    except MeasureError as error:
        sys.stderr.write(f"vecsieve measure: {arguments.file}, {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\nstopped; {state.path} has what was measured: run the same command again to continue\n")
        return 130
    _publish(arguments, settings, queries, state)
    return 0


def _publish(arguments: Arguments, settings: Settings, queries: tuple[Query, ...], state: State) -> None:
    lines = {query.line for query in queries}
    entries = [entry for entry in state.entries if entry.turn < arguments.turns and entry.line in lines]
    measured = outcome(entries, version=version("vecsieve"), backend=settings.backend)
    write_output("--html", arguments.html, as_html(page_of(measured)))
    if arguments.json is not None:
        write_output("--json", arguments.json, as_json(measured))
    console = output_console()
    console.print(as_text(measured), end="", markup=False)
    console.print(f"written: {arguments.html}", style="dim", markup=False)


def _check(arguments: Arguments) -> None:
    for option, path in (("--html", arguments.html), ("--json", arguments.json)):
        check_output(option, path)
    if arguments.through is not None and not arguments.through.startswith(("http://", "https://")):
        raise SettingsError([Problem("--through", repr(arguments.through), "a URL such as http://127.0.0.1:6343")])

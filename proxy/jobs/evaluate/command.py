"""``vecsieve evaluate``: checks the arguments, runs the policies set by set, prints, writes the JSON last of all."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import orjson
from rich.console import Console

from vecsieve.config.problems import Problem, SettingsError, one_line
from vecsieve.proxy.jobs.evaluate.contenders import Contender, contenders
from vecsieve.proxy.jobs.evaluate.evaluation import SetOutcome, evaluated
from vecsieve.proxy.jobs.evaluate.reading import read_set, set_folders
from vecsieve.proxy.jobs.evaluate.rendering import Findings, Terms, as_json, report
from vecsieve.proxy.jobs.evaluate.summary import summarised
from vecsieve.proxy.jobs.files import progress_bar, write_whole
from vecsieve.proxy.runtime import ended_by_signals

PLAIN_WIDTH = 120  # where the output is not a terminal there is no width to ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the command line said. ``policies``: NAME=VALUE each; ``geometries``: NAME=FOLDER each; ``sets``: all if none."""

    data: Path
    policies: tuple[str, ...]
    config: Path | None
    sets: tuple[str, ...]
    top_k: int
    every: int
    pool: int | None
    draws: int
    seed: int
    geometries: tuple[str, ...]
    json: Path | None

    @property
    def terms(self) -> Terms:
        """What the figures will hold for."""
        return Terms(top_k=self.top_k, every=self.every, pool=self.pool, draws=self.draws, seed=self.seed)


def run(arguments: Arguments) -> int:
    """Evaluate; the exit code: 0, or 130 on Ctrl-C. Raises SettingsError for arguments, settings and data."""
    _check(arguments)
    named = contenders(given=arguments.policies, config=arguments.config, pool=arguments.pool)
    geometries = _geometries(arguments.geometries)
    folders = set_folders(arguments.data, arguments.sets)
    try:
        with ended_by_signals():
            found = [_findings(name, folder, folders, named, arguments.terms) for name, folder in geometries]
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; nothing was written\n")
        return 130
    _tell(found, arguments.terms)
    if arguments.json is not None:
        _write(arguments.json, orjson.dumps(as_json(found, named, arguments.terms), option=orjson.OPT_INDENT_2))
    return 0


def outcome(folder: Path, geometry: Path | None, named: Sequence[Contender], terms: Terms) -> SetOutcome:
    """One set, with a progress bar. Raises SettingsError for data that cannot be read."""
    labelled = read_set(folder, geometry=geometry)
    asked = len(range(0, len(labelled.queries), terms.every))
    with progress_bar(one_line(labelled.name), asked) as advance:
        return evaluated(
            labelled, named, top_k=terms.top_k, every=terms.every, clock=time.perf_counter, advance=advance
        )


def _findings(
    name: str | None, geometry: Path | None, folders: Sequence[Path], named: Sequence[Contender], terms: Terms
) -> Findings:
    outcomes = [outcome(folder, geometry, named, terms) for folder in folders]
    return Findings(geometry=name, summaries=summarised(outcomes, draws=terms.draws, seed=terms.seed))


def _tell(found: Sequence[Findings], terms: Terms) -> None:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # sets and policies may have names that an old terminal cannot show
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    for number, each in enumerate(found):
        if number:
            console.print()
        console.print(report(each, terms))


def _geometries(given: Sequence[str]) -> list[tuple[str | None, Path | None]]:
    """Names and folders; the sets' own embeddings when none is given."""
    found: list[tuple[str | None, Path | None]] = []
    for each in given:
        name, equals, folder = each.partition("=")
        if not equals or not name or not Path(folder).is_dir():
            seen = one_line(repr(each)) if not equals or not name else f"no folder {folder}"
            raise SettingsError(
                [Problem("--geometry", seen, "NAME=FOLDER, in it a folder per set with its embeddings")]
            )
        found.append((name, Path(folder)))
    return found or [(None, None)]


def _check(arguments: Arguments) -> None:
    """Before anything is read: minutes of work for nothing would be rude."""
    pool, path = arguments.pool, arguments.json
    if pool is not None and pool <= arguments.top_k:
        raise SettingsError([Problem("--pool", str(pool), f"more than --top-k, which is {arguments.top_k}")])
    if path is not None and (not path.parent.is_dir() or path.is_dir()):
        raise SettingsError([Problem("--json", one_line(repr(str(path))), "a file in a directory that exists")])


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise SettingsError([Problem("--json", (error.strerror or "an error").lower(), f"to write {path}")]) from error

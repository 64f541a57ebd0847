"""``vecsieve analyze``: checks the arguments, analyses, writes the files, prints; the state goes when all that is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

from rich.console import Console

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.jobs.analyze.page import page
from vecsieve.proxy.jobs.analyze.reading import FieldNames
from vecsieve.proxy.jobs.analyze.report import Report, as_json
from vecsieve.proxy.jobs.analyze.run import Asked, analyze
from vecsieve.proxy.jobs.analyze.state import StateError
from vecsieve.proxy.jobs.analyze.terminal import rendered
from vecsieve.proxy.jobs.files import key_from, write_whole
from vecsieve.proxy.jobs.qdrant import QdrantSource
from vecsieve.proxy.jobs.source import USUAL_FIELDS, Shape, SourceError
from vecsieve.proxy.runtime import ended_by_signals
from vecsieve.proxy.search.profiles import Profile, decoded

USUAL_SOURCES = ("source", "metadata.source")  # the second is where LangChain's stores keep it
STDOUT = "-"
PLAIN_WIDTH = 120  # where the output is not a terminal there is no width to ask for
TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the command line said. ``vector``: None for the only one. Fields: None for the usual ones. ``json``: a file or "-"."""

    url: str
    collection: str
    vector: str | None
    text_field: str | None
    source_field: str | None
    cut: float | None
    profile: Path | None
    limit: int | None
    requests_per_second: float
    json: str | None
    html: Path | None
    state: Path | None
    api_key_env: str | None


def run(arguments: Arguments) -> int:
    """Analyse; the exit code: 0, 1 when it could not be done, 130 on Ctrl-C. Raises SettingsError for arguments."""
    _check_files(arguments)
    profile = _profile(arguments)
    try:
        with ended_by_signals():
            with closing(_source(arguments, os.environ)) as source:
                if profile is not None:
                    _check_profile(profile, arguments, source.shape())
                report = analyze(source, _asked(arguments, profile))
            _tell(report, arguments)
            if arguments.state is not None:
                arguments.state.unlink(missing_ok=True)
    except (SourceError, StateError) as error:
        sys.stderr.write(f"vecsieve analyze: {error}\n{_to_go_on(arguments.state)}")
        return 1
    except KeyboardInterrupt:
        said = _to_go_on(arguments.state) or "nothing is kept; with --state FILE it could be continued\n"
        sys.stderr.write(f"\nstopped: {said}")
        return 130
    return 0


def _to_go_on(state: Path | None) -> str:
    if state is None or not state.exists():
        return ""
    return f"what was read is kept in {state}; run the same command again to go on from there\n"


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
        state=arguments.state,
    )


def _tell(report: Report, arguments: Arguments) -> None:
    if arguments.html is not None:
        _write("--html", arguments.html, page(report).encode())
    if arguments.json not in {None, STDOUT}:
        _write("--json", Path(arguments.json or ""), as_json(report))
    if arguments.json == STDOUT:
        sys.stdout.write(as_json(report).decode())
        return
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # texts have signs that an old terminal has not
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    console.print(rendered(report))
    for path in (arguments.html, arguments.json):
        if path is not None:
            console.print(f"written: {path}", style="dim", markup=False)


def _source(arguments: Arguments, environment: Mapping[str, str]) -> QdrantSource:
    return QdrantSource(
        arguments.url,
        arguments.collection,
        vector_name=arguments.vector,
        api_key=key_from(environment, arguments.api_key_env),
        timeout_seconds=TIMEOUT_SECONDS,
        requests_per_second=arguments.requests_per_second,
    )


def _profile(arguments: Arguments) -> Profile | None:
    path = arguments.profile
    if path is None:
        return None
    if arguments.cut is not None:
        raise SettingsError([Problem("--profile", "--cut beside it", "one of the two: both say what a copy is")])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError([Problem("--profile", (error.strerror or "an error").lower(), f"to read {path}")]) from None
    return decoded(content, name=path.name)


def _check_profile(profile: Profile, arguments: Arguments, shape: Shape) -> None:
    """A cut means something for one collection's one model only."""
    pairs = (
        ("collection", profile.collection, arguments.collection),
        ("vector_name", profile.vector_name, shape.vector_name),
        ("dimension", profile.dimension, shape.dimension),
        ("distance", profile.distance, shape.distance),
    )
    wrong = [
        Problem(f"--profile: {name}", repr(held), f"{there!r}, as the collection has it")
        for name, held, there in pairs
        if held != there
    ]
    if wrong:
        raise SettingsError(wrong)


def _check_files(arguments: Arguments) -> None:
    """Before anything is read: an hour of reading for nothing would be rude."""
    json = None if arguments.json in {None, STDOUT} else Path(arguments.json or "")
    for option, path in (("--json", json), ("--html", arguments.html), ("--state", arguments.state)):
        if path is not None and (not path.parent.is_dir() or path.is_dir()):
            raise SettingsError([Problem(option, repr(str(path)), "a file in a directory that exists")])


def _write(option: str, path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise SettingsError([Problem(option, (error.strerror or "an error").lower(), f"to write {path}")]) from error

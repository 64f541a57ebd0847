"""``vecsieve analyze``: checks the arguments, analyses, writes the files, prints, and then deletes the state."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.jobs.analyze.page import page
from vecsieve.proxy.jobs.analyze.reading import FieldNames, StateError
from vecsieve.proxy.jobs.analyze.report import Report, as_json
from vecsieve.proxy.jobs.analyze.run import Asked, Copies, analyze
from vecsieve.proxy.jobs.analyze.terminal import rendered
from vecsieve.proxy.jobs.databases import IdsOption, TextFieldOption, Wanted, opened
from vecsieve.proxy.jobs.files import check_output, output_console, read_input, write_output
from vecsieve.proxy.jobs.source import USUAL_FIELDS, Shape, SourceError
from vecsieve.proxy.process.runtime import ended_by_signals
from vecsieve.proxy.search.collections.profiles import Profile, decoded

USUAL_SOURCES = ("source", "metadata.source")  # the second is LangChain's
STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(Wanted):
    """Of `analyze`. ``text_field``, ``source_field``: None for the usual ones. ``json``: a file or "-"."""

    text_field: TextFieldOption = None
    source_field: Annotated[str | None, typer.Option(help="Payload field that says where a point is from.")] = None
    cut: Annotated[float | None, typer.Option(help="Distance up to which points are copies.", min=0.0, max=2.0)] = None
    profile: Annotated[Path | None, typer.Option(help="Take the cut from this profile of `calibrate`.")] = None
    limit: Annotated[int | None, typer.Option(help="Look at so many points, evenly spread.", min=1)] = None
    json: Annotated[str | None, typer.Option(help="Write the report as JSON; - prints it instead.")] = None
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None
    ids: IdsOption = None
    state: Annotated[Path | None, typer.Option(help="Keep here how far it came; run again to go on.")] = None


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
            if arguments.state is not None:
                arguments.state.unlink(missing_ok=True)
    except (SourceError, StateError) as error:
        sys.stderr.write(f"vecsieve analyze: {error}\n{_continuation(arguments.state)}")
        return 1
    except KeyboardInterrupt:
        said = _continuation(arguments.state) or "nothing is kept; with --state FILE it could be continued\n"
        sys.stderr.write(f"\nstopped: {said}")
        return 130
    return 0


def _continuation(state: Path | None) -> str:
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
        raise SettingsError([Problem("--profile", "--cut beside it", "one of the two: both say what a copy is")])
    return decoded(read_input(path, place="--profile", wanted=f"to read {path}"), name=path.name)


def _check_profile(profile: Profile, arguments: Arguments, shape: Shape) -> None:
    """A cut is valid for one collection's model only."""
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
    json = None if arguments.json in {None, STDOUT} else Path(arguments.json or "")
    for option, path in (
        ("--json", json),
        ("--html", arguments.html),
        ("--ids", arguments.ids),
        ("--state", arguments.state),
    ):
        check_output(option, path)

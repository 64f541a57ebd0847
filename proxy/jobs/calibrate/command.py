"""``vecsieve calibrate``: checks the arguments, reads, judges, writes the profile whole, prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import orjson
from rich.console import Console

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.jobs.calibrate.labels import CannotFitError, Fit, Label, fit, read_labels, resolved
from vecsieve.proxy.jobs.calibrate.proposal import Findings, as_json, borderline, profile_of, proposed
from vecsieve.proxy.jobs.calibrate.rendering import report
from vecsieve.proxy.jobs.calibrate.survey import spread, survey
from vecsieve.proxy.jobs.files import key_from, progress_bar, write_whole
from vecsieve.proxy.jobs.qdrant import QdrantSource
from vecsieve.proxy.jobs.source import USUAL_FIELDS, Source, SourceError
from vecsieve.proxy.runtime import ended_by_signals
from vecsieve.proxy.search.profiles import encoded

PLAIN_WIDTH = 120  # where the output is not a terminal there is no width to ask for
TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the command line said. ``vector``: None for the only one. ``text_field``: None for the usual ones."""

    url: str
    collection: str
    vector: str | None
    sample: int
    text_field: str | None
    pairs: Path | None
    precision: float
    out: Path | None
    requests_per_second: float
    api_key_env: str | None
    as_json: bool


def run(arguments: Arguments) -> int:
    """Calibrate; the exit code: 0, 1 when it could not be done, 130 on Ctrl-C. Raises SettingsError for arguments."""
    labels = None if arguments.pairs is None else read_labels(arguments.pairs)
    _check_out(arguments.out)
    try:
        with ended_by_signals(), closing(_source(arguments, os.environ)) as source:
            _tell(calibrated(source, arguments, labels), arguments)
    except (SourceError, CannotFitError) as error:
        sys.stderr.write(f"vecsieve calibrate: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; no file is half-written\n")
        return 130
    return 0


def calibrated(source: Source, arguments: Arguments, labels: tuple[Label, ...] | None) -> Findings:
    """Everything but printing and writing. Raises SourceError, CannotFitError."""
    shape = source.shape()
    fitted: Fit | None = None
    if labels is not None:  # first: labels that are too few are found out before the sample is read
        fitted = fit(resolved(labels, source), precision=arguments.precision)
    with progress_bar("listing the points", shape.points) as progress:
        sample = spread(source, arguments.sample, progress)
    seen = survey(source, sample, fields=_fields(arguments), step=progress_bar)
    proposal = proposed(seen, fitted)
    return Findings(
        collection=arguments.collection,
        survey=seen,
        proposal=proposal,
        pairs=borderline(seen.pools, proposal.cut),
    )


def _tell(findings: Findings, arguments: Arguments) -> None:
    if arguments.out is not None:
        _write(arguments.out, encoded(profile_of(findings)))
    if arguments.as_json:
        sys.stdout.write(orjson.dumps(as_json(findings), option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # texts have signs that an old terminal has not
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    console.print(report(findings, written=arguments.out))


def _source(arguments: Arguments, environment: Mapping[str, str]) -> QdrantSource:
    return QdrantSource(
        arguments.url,
        arguments.collection,
        vector_name=arguments.vector,
        api_key=key_from(environment, arguments.api_key_env),
        timeout_seconds=TIMEOUT_SECONDS,
        requests_per_second=arguments.requests_per_second,
        payload_fields=_fields(arguments),
    )


def _fields(arguments: Arguments) -> tuple[str, ...]:
    return USUAL_FIELDS if arguments.text_field is None else (arguments.text_field,)


def _check_out(out: Path | None) -> None:
    """Before anything is read: minutes of reading for nothing would be rude."""
    if out is None:
        return
    if out.suffix != ".json":
        raise SettingsError([Problem("--out", repr(str(out)), "a name that ends in .json: the proxy loads no other")])
    if not out.parent.is_dir() or out.is_dir():
        raise SettingsError([Problem("--out", repr(str(out)), "a file in a directory that exists")])


def _write(out: Path, content: bytes) -> None:
    try:
        write_whole(out, content)
    except OSError as error:
        raise SettingsError([Problem("--out", (error.strerror or "an error").lower(), f"to write {out}")]) from error

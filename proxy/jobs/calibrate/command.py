"""``vecsieve calibrate``: checks the arguments, reads the collection, proposes a cut, writes the profile, prints."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.jobs.calibrate.labels import CannotFitError, Fit, Label, fit, read_labels, resolved
from vecsieve.proxy.jobs.calibrate.proposal import Findings, as_json, borderline, profile_of, proposed
from vecsieve.proxy.jobs.calibrate.rendering import report
from vecsieve.proxy.jobs.calibrate.rule import RuleFit, fit_rule, judged
from vecsieve.proxy.jobs.calibrate.survey import spread, survey
from vecsieve.proxy.jobs.databases import Opened, TextFieldOption, Wanted, opened
from vecsieve.proxy.jobs.files import check_output, output_console, progress_bar, write_output
from vecsieve.proxy.jobs.source import USUAL_FIELDS, Source, SourceError
from vecsieve.proxy.process.runtime import ended_by_signals
from vecsieve.proxy.search.collections.profiles import encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(Wanted):
    """Of `calibrate`. ``text_field``: None for the usual ones."""

    sample: Annotated[int, typer.Option(help="How many points to look at.", min=20, max=100_000)] = 2000
    text_field: TextFieldOption = None
    pairs: Annotated[Path | None, typer.Option(help="Labelled pairs (JSON lines) to fit the cut to.")] = None
    precision: Annotated[float, typer.Option(help="What share of the pairs must be right.", min=0.5, max=1.0)] = 0.95
    out: Annotated[Path | None, typer.Option(help="Write the profile here, whole or not at all.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the report.")] = False


def run(arguments: Arguments) -> int:
    """The exit code: 0, 1 if the collection or the labels are unusable, 130 on Ctrl-C. Raises SettingsError for arguments."""
    labels = None if arguments.pairs is None else read_labels(arguments.pairs, collection=arguments.collection)
    _check_out(arguments.out)
    try:
        with ended_by_signals(), closing(_opened(arguments)) as source:
            _publish(calibrated(source, arguments, labels), arguments)
    except (SourceError, CannotFitError) as error:
        sys.stderr.write(f"vecsieve calibrate: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; no file is half-written\n")
        return 130
    return 0


def calibrated(source: Source, arguments: Arguments, labels: tuple[Label, ...] | None) -> Findings:
    """Raises SourceError, CannotFitError."""
    shape = source.shape()
    fitted: Fit | None = None
    rule: RuleFit | None = None
    if labels is not None:  # first, so that too few labels are reported before the sample is read
        rule = fit_rule(judged(labels, source, _fields(arguments)))
        try:
            fitted = fit(resolved(labels, source), precision=arguments.precision)
        except CannotFitError:
            if rule is None:
                raise
    with progress_bar("listing the points", shape.points) as progress:
        sample = spread(source, arguments.sample, progress)
    seen = survey(source, sample, fields=_fields(arguments), step=progress_bar)
    proposal = proposed(seen, fitted)
    return Findings(
        collection=arguments.collection,
        survey=seen,
        proposal=proposal,
        pairs=borderline(seen.pools, proposal.cut),
        rule=rule,
    )


def _publish(findings: Findings, arguments: Arguments) -> None:
    if arguments.out is not None:
        write_output("--out", arguments.out, encoded(profile_of(findings)))
    if arguments.as_json:
        sys.stdout.write(orjson.dumps(as_json(findings), option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    output_console().print(report(findings, written=arguments.out))


def _opened(arguments: Arguments) -> Opened:
    return opened(arguments, os.environ, payload_fields=_fields(arguments))


def _fields(arguments: Arguments) -> tuple[str, ...]:
    return USUAL_FIELDS if arguments.text_field is None else (arguments.text_field,)


def _check_out(out: Path | None) -> None:
    if out is not None and out.suffix != ".json":
        raise SettingsError([Problem("--out", repr(str(out)), "a name that ends in .json: the proxy loads no other")])
    check_output("--out", out)

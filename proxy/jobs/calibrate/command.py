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
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.config.policy import ThresholdSettings
from vecsieve.config.problems import Problem, SettingsError, one_line

from ...runtime.files import check_output, output_console, write_output
from ...runtime.lifecycle import ended_by_signals
from ...search.collections.profiles import encoded
from ..databases import SourceOptions, TextFieldOption, opened, usual_or
from ..pairs.reading import listed_ids
from ..source import Source, SourceError
from .survey import (
    PAGE,
    Effect,
    Findings,
    Pair,
    Proposal,
    Sample,
    as_json,
    borderline,
    profile_of,
    proposed,
    survey,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(SourceOptions):
    """The options of `calibrate`. ``text_field``: None for the usual ones."""

    sample: Annotated[int, typer.Option(help="How many points to read.", min=20, max=100_000)] = 2000
    text_field: TextFieldOption = None
    out: Annotated[Path | None, typer.Option(help="Write the profile to this file.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the report.")] = False


def run(arguments: Arguments) -> int:
    """The exit code: 0, 1 if the collection is unusable, 130 on Ctrl-C. Raises SettingsError for arguments."""
    if arguments.out is not None and arguments.out.suffix != ".json":
        expected = "a name that ends in .json, because the proxy loads no others"
        raise SettingsError([Problem("--out", repr(str(arguments.out)), expected)])
    check_output("--out", arguments.out)
    try:
        with (
            ended_by_signals(),
            closing(opened(arguments, os.environ, payload_fields=usual_or(arguments.text_field))) as source,
        ):
            _publish(calibrated(source, arguments), arguments)
    except SourceError as error:
        sys.stderr.write(f"vecsieve calibrate: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; no file was written\n")
        return 130
    return 0


def calibrated(source: Source, arguments: Arguments) -> Findings:
    """Raises SourceError."""
    sample = Sample.of(listed_ids(source, arguments.collection), arguments.sample)
    seen = survey(source, sample, fields=usual_or(arguments.text_field))
    proposal = proposed(seen)
    return Findings(
        collection=arguments.collection,
        survey=seen,
        proposal=proposal,
        pairs=borderline(seen.pools, proposal.cut),
    )


def _publish(findings: Findings, arguments: Arguments) -> None:
    if arguments.out is not None:
        write_output("--out", arguments.out, encoded(profile_of(findings)))
    if arguments.as_json:
        sys.stdout.write(orjson.dumps(as_json(findings), option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    output_console().print(report(findings, written=arguments.out))


def report(findings: Findings, *, written: Path | None) -> RenderableType:
    """``written``: the profile file, None without one."""
    return Group(
        _seen(findings),
        Text(),
        _density(findings.proposal),
        Text(),
        _decision(findings.proposal),
        Text(),
        _effects(findings.proposal),
        Text(),
        _pairs(findings.pairs),
        _how_to_read(findings),
        Text(),
        _what_now(findings, written),
    )


def _seen(findings: Findings) -> Table:
    survey, shape, profile = findings.survey, findings.survey.shape, profile_of(findings)
    medians = profile.pool_median
    taken = "all of them" if len(survey.sample.ids) == survey.sample.listed else "evenly spread over the ids"
    unusable = f", {survey.unusable} without a usable vector" if survey.unusable else ""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_row("Collection", Text(one_line(findings.collection)))
    table.add_row("Vector", Text(f"{shape.vector_name or 'unnamed'}, {shape.dimension} dimensions, {shape.distance}"))
    table.add_row("Sample", f"{len(survey.sample.ids)} of {survey.sample.listed} points, {taken}{unusable}")
    table.add_row(
        "Pools",
        f"{profile.pools} of the 50 nearest points; their median distance is {medians.percentile_50:.3f} "
        f"(1 % below {medians.percentile_1:.3f}, 1 % above {medians.percentile_99:.3f})",
    )
    table.add_row(
        "Unrelated", f"two points of the sample have a cosine similarity of {survey.unrelated:+.3f} on average"
    )
    return table


def _density(proposal: Proposal) -> Table:
    table = Table(box=box.ROUNDED, title="How many points have another point within a distance", title_justify="left")
    table.add_column("distance at most", justify="right")
    table.add_column("of the points", justify="right")
    table.add_column("")
    for distance, share in proposal.density:
        note = "same vector" if distance == 0.0 else "the proposed cut" if distance == proposal.cut else ""
        style = "bold" if distance == proposal.cut else ""
        table.add_row(
            f"{distance:.4f}" if note == "the proposed cut" else f"{distance:.2f}", _share(share), note, style=style
        )
    return table


def _decision(proposal: Proposal) -> Text:
    rule = ThresholdSettings()
    text = Text.assemble(("Proposed cut ", "bold"), (f"{proposal.cut:.4f}", "bold green"), ": ")
    return text.append(
        f"{rule.relative:.2f} × the pools' mean median distance ({proposal.mean_median:.3f}), never below {rule.min:.2f} "
        f"nor above {rule.max:.2f}. The rule worked on other collections; only your review of the pairs below can show whether it fits this "
        "one. It is for results without texts: where both have one, texts decide."
    )


def _effects(proposal: Proposal) -> Table:
    title = f"Of the first {PAGE} results around a point, by vectors alone"
    table = Table(box=box.ROUNDED, title=title, title_justify="left")
    table.add_column("")
    table.add_column("are copies", justify="right")
    table.add_column("pages with one", justify="right")
    rows: tuple[tuple[str, Effect], ...] = (
        ("preset vectors, by each pool's own distances", proposal.median_effect),
        (f"preset vectors, at the typical distance {proposal.typical:.3f} (the profile)", proposal.typical_effect),
        (f"the cut fixed at {proposal.cut:.4f}", proposal.cut_effect),
    )
    for name, effect in rows:
        table.add_row(name, _share(effect.copies), _share(effect.pages))
    return table


def _pairs(pairs: tuple[Pair, ...]) -> RenderableType:
    if not pairs:
        return Text("No two points of any pool are near the cut: its exact value does not matter.")
    table = Table(box=box.ROUNDED, title="Pairs around the cut", title_justify="left", expand=True)
    table.add_column("distance", justify="right", no_wrap=True)
    table.add_column("one", ratio=1)
    table.add_column("other", ratio=1)
    for number, pair in enumerate(pairs):
        last_merged = pair.merged and (number + 1 == len(pairs) or not pairs[number + 1].merged)
        style = "green" if pair.merged else "yellow"
        distance = Text(f"{pair.distance:.4f}\n{'merged' if pair.merged else 'kept apart'}", style=style)
        table.add_row(distance, *(_side(pair, at) for at in (0, 1)), end_section=last_merged)
    return table


def _side(pair: Pair, at: int) -> Text:
    text = pair.texts[at]
    printed = printable(text) if text is not None else "(no text: name its field with --text-field)"
    return Text.assemble((one_line(str(pair.ids[at])), "bold"), "\n", (printed, "dim" if text is None else ""))


def printable(text: str) -> str:
    """Without control characters, which a payload may contain."""
    return "".join(character if character.isprintable() else " " for character in text)


def _how_to_read(findings: Findings) -> Text:
    if not findings.pairs:
        return Text()
    return Text(
        "Read the pairs from the line outwards. If pairs above it say different things, use a smaller cut: the "
        "distance of the last pair that is a copy. If pairs below it still say the same, use a larger one.",
        style="dim",
    )


def _what_now(findings: Findings, written: Path | None) -> Text:
    text = Text.assemble(("What now", "bold"), "\n")
    if written is None:
        text.append(
            "No profile was written. To write one, run again with --out DIRECTORY/NAME.json. To fix the cut instead:"
        )
    else:
        does = "the proxy applies its cuts of vectors at this collection's typical distance instead of each pool's own"
        text.append(f"The profile was written to {written}. With these settings {does}, and ")
        text.append("warns when the embedding model changes:\n\n")
        text.append(f"profiles:\n  directory: {written.parent.resolve()}\n", style="cyan")
        text.append("\nA policy with a fixed threshold ignores it. To fix the cut, this one or your own:")
    name = findings.collection.replace("'", "''")
    text.append(f"\n\nrules:\n  - collection: '{name}'\n    policy:\n", style="cyan")
    text.append(f"      threshold: {{fixed: {findings.proposal.cut:.4f}}}\n", style="cyan")
    return text


def _share(share: float) -> str:
    return f"{share:.1%}"

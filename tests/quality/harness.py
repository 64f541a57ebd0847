"""`python -m quality.harness [--preset NAME] [--embedding NAME …] [--set NAME …] [--show N]`: the labelled sets under one preset, quickly.

Each row: strict cut, answer kept, recall gained, drops among the first eight and in all of the pool that the page reaches, and how many of
these are wrong, by label and by text (`vecsieve evaluate`, docs/policies.md). Pages of eight of a pool of fifty.
``--show N``: the first N drops of each set that are wrong by text, with the words that the page lacks.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from support.jobs.eval_data import folder
from vecsieve.proxy.jobs.evaluate.judging import SetOutcome, evaluated
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, Repeats, read_set, set_folders
from vecsieve.proxy.jobs.evaluate.searching import Contender, Points, Trial, Upstream, contenders, neighbours
from vecsieve.proxy.jobs.evaluate.summary import Estimate, Headline, SetSummary, Wrong, summarised
from vecsieve.proxy.jobs.evaluate.wording import Wordings
from vecsieve.proxy.selection.policy import Short

BUNDLED = "minilm"  # the embeddings in the sets' own folders
FRESH = "fresh"  # a folder with further sets for each embedding
TOP_K, POOL = 8, 50


class Work(NamedTuple):
    """One set in one embedding. ``geometry``: the folder of its embeddings, None for the set's own."""

    preset: str
    folder: Path
    geometry: Path | None
    is_filled: bool
    every: int


def embeddings(data: Path) -> dict[str, Path | None]:
    """By name the folder of other embeddings of the sets; None for their own."""
    return {BUNDLED: None} | {path.name: path for path in sorted((data / "models").glob("*")) if path.is_dir()}


def places(data: Path, embedding: str, names: Sequence[str]) -> list[tuple[Path, Path | None]]:
    """Each set's folder, and that of its embeddings if they lie elsewhere. ``names``: only these sets; () for all."""
    other = embeddings(data)[embedding]
    paths = [(path, other) for path in set_folders(data)]
    if (data / FRESH / embedding).is_dir():
        paths += [(path, None) for path in set_folders(data / FRESH / embedding)]
    return [(path, geometry) for path, geometry in paths if not names or path.name in names]


def chosen(preset: str, *, is_filled: bool = False) -> Contender:
    """The preset's policy; its page is not filled with copies, so that the figures show what was chosen."""
    (contender,) = contenders(given=(f"{preset}={{}}" if preset == "default" else f"{preset}={preset}",), pool=POOL)
    if is_filled:
        return contender
    selection = replace(contender.policy.selection, short=Short.ALLOW)
    return replace(contender, policy=replace(contender.policy, selection=selection))


def outcome(work: Work) -> SetOutcome:
    """For a process of its own."""
    named = (chosen(work.preset, is_filled=work.is_filled),)
    labelled = read_set(work.folder, geometry=work.geometry)
    return evaluated(
        labelled, named, top_k=TOP_K, every=work.every, clock=time.perf_counter, advance=lambda _: None
    )  # fmt: skip


def wrong_by_text(labelled: LabelledSet, contender: Contender) -> Iterator[str]:
    """For each drop whose words the page lacks: the query, both texts and what is missing."""
    points, wordings = Points(labelled), Wordings([item.text for item in labelled.items])
    trial = Trial(top_k=TOP_K, clock=time.perf_counter)
    with asyncio.Runner() as runner:
        for number, ranking in neighbours(labelled, every=1):
            result = runner.run(
                trial.search(contender.policy, labelled.query_vectors[number], Upstream(points, ranking))
            )
            page = wordings.page(result.rows)
            for row in result.dropped:
                lacking = wordings.missing(row, page)
                if lacking:
                    summary = " | ".join(" ".join(run) for run in lacking[:6])
                    yield f"{labelled.name}, query {number}: {labelled.items[row].text[:400]!r}\n  missing: {summary}"


def table(title: str, rows: Sequence[SetSummary], totals: Sequence[tuple[str, Headline]]) -> Table:
    """A row a set, and a row for the sets of each kind."""
    grid = Table(title=title, title_justify="left")
    grid.add_column("set", no_wrap=True)
    for heading in (
        "plain\nrepeats", "strict\ncut", "old\ncut", "answer\nkept", "recall\ngained", "drops", "wrong by\nlabel",
        "wrong by\ntext", "walked\ndrops", "wrong by\nlabel", "wrong by\ntext", "items",
    ):  # fmt: skip
        grid.add_column(heading, justify="right")
    for row in rows:
        grid.add_row(
            row.name, str(row.plain_strict), _value(row.strict_cut), _value(row.reduction),
            _value(row.retention), _value(row.gain, "+"), *_drops(row.page), *_drops(row.walked), f"{row.returned:.2f}",
        )  # fmt: skip
    for name, line in totals:
        worst = line.retention_worst
        grid.add_row(
            f"[bold]{name}", "", _value(line.strict_cut), _value(line.reduction),
            f"{_value(worst.estimate)} {worst.name}" if worst else "-", _value(line.gain_mean, "+"),
            *_drops(line.page), *_drops(line.walked), f"{line.returned:.2f}",
        )  # fmt: skip
    return grid


def _value(estimate: Estimate | None, sign: str = "") -> str:
    return "-" if estimate is None or estimate.value != estimate.value else f"{estimate.value:{sign}.3f}"


def _drops(wrong: Wrong) -> tuple[str, str, str]:
    return str(wrong.drops), str(wrong.by_label), str(wrong.by_text)


def main() -> int:
    """Print a table for each embedding."""
    reader = argparse.ArgumentParser(prog="quality.harness")
    reader.add_argument("--preset", default="default")
    reader.add_argument("--embedding", action="append", help="minilm, or a folder of models; repeatable")
    reader.add_argument("--set", action="append", default=[])
    reader.add_argument("--every", type=int, default=1)
    reader.add_argument("--chosen", action="store_true", help="pages without the copies that fill short ones")
    reader.add_argument("--show", type=int, default=0)
    given = reader.parse_args()
    data = folder()
    if data is None:
        sys.stderr.write("no labelled sets: VECSIEVE_EVAL_DATA names their folder\n")
        return 2
    console = Console(width=150)
    with ProcessPoolExecutor() as pool:
        for name in given.embedding or embeddings(data):
            began = time.perf_counter()
            sets = places(data, name, given.set)
            works = [Work(given.preset, path, geometry, not given.chosen, given.every) for path, geometry in sets]
            summary = list(summarised(list(pool.map(outcome, works)), draws=0, seed=0).values())[-1]
            ordered = sorted(summary.sets, key=lambda set_summary: list(Repeats).index(set_summary.repeats))
            totals = [(f"all {kind.value}", line) for kind, line in summary.headlines.items()]
            title = f"preset {given.preset}, embedding {name}, {time.perf_counter() - began:.0f} s"
            console.print(table(title, ordered, totals))
            for path, geometry in sets if given.show else ():
                contender = chosen(given.preset, is_filled=not given.chosen)
                lines = wrong_by_text(read_set(path, geometry=geometry), contender)
                for line, _ in zip(lines, range(given.show), strict=False):
                    console.print(line, markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

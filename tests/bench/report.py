"""The figures as a table for people and as a document for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich import box
from rich.table import Table

from bench.figures import Aim, Figure
from bench.stats import Spread

SCHEMA = 1  # of the JSON document; grows when a member changes its meaning


def table(figures: Sequence[Figure], *, title: str) -> Table:
    """One row a figure."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column("benchmark")
    made.add_column("VecSieve", justify="right")
    made.add_column("baseline", justify="right")
    made.add_column("against")
    made.add_column("ratio", justify="right")
    made.add_column("aim")
    for each in figures:
        made.add_row(
            f"{each.name} ({each.note})" if each.note else each.name,
            f"{number(each.ours.median)} {each.unit}",
            f"{number(each.baseline.median)} {each.unit}",
            each.against,
            _range(each.ratio),
            "\n".join(_aim(aim, each) for aim in each.aims),
        )
    return made


def document(figures: Sequence[Figure], facts: Mapping[str, object]) -> dict[str, object]:
    """What is written to the file: the machine, the set-up, every figure with its rounds' range."""
    rows = [
        {**asdict(each), "aims": [{**asdict(aim), "met": aim not in each.missed} for aim in each.aims]}
        for each in figures
    ]
    return {"schema": SCHEMA, **facts, "figures": rows}


def number(value: float) -> str:
    """Three significant figures, thousands in full."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _range(ratio: Spread) -> str:
    return f"{number(ratio.median)} ({number(ratio.low)}-{number(ratio.high)})"


def _aim(aim: Aim, each: Figure) -> str:
    verdict = "[red]missed[/red]" if aim in each.missed else "met"
    unit = f" {each.unit}" if aim.of == "ours" else ""
    return f"{aim.of} {aim.bound} {aim.value:g}{unit}: {verdict}"

"""The tables for people, and the same as a document for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.table import Table

from bench.figures import Aim, Figure
from bench.stats import Spread

SCHEMA = 2  # of the JSON document; grows when a member changes its meaning


@dataclass(frozen=True, slots=True)
class Section:
    """One table. Rows by column; a row may leave columns out. A number, a text, or a Spread over rounds."""

    name: str
    title: str
    rows: Sequence[Mapping[str, object]]


def table(section: Section) -> Table:
    """For people."""
    made = Table(
        title=f"{section.name}: {section.title}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    columns = list(dict.fromkeys(column for row in section.rows for column in row))
    for column in columns:
        made.add_column(column, justify="right" if column else "left")
    for row in section.rows:
        made.add_row(*(_text(row.get(column, "")) for column in columns))
    return made


def document(sections: Sequence[Section], facts: Mapping[str, object]) -> dict[str, object]:
    """What is written to the file: the machine, the set-up, every table with its rounds' range."""
    content = {
        part.name: [
            {column: asdict(value) if isinstance(value, Spread) else value for column, value in row.items()}
            for row in part.rows
        ]
        for part in sections
    }
    return {"schema": SCHEMA, **facts, "sections": content}


def judged(value: float, target: float | None) -> str:
    """Whether at least that much was reached; empty when nothing is wanted."""
    if target is None:
        return ""
    return f"≥ {target:g}: {'met' if value >= target else 'missed'}"


def judged_most(value: float, target: float) -> str:
    """Whether it stayed at or below that."""
    return f"≤ {target:g}: {'met' if value <= target else 'missed'}"


def section(name: str, title: str, figures: Sequence[Figure]) -> Section:
    """Figures that each have one baseline, as rows."""
    rows = [
        {
            "": f"{figure.name} ({figure.note})" if figure.note else figure.name,
            "VecSieve": f"{number(figure.ours.median)} {figure.unit}",
            "baseline": f"{number(figure.baseline.median)} {figure.unit}",
            "against": figure.against,
            "ratio": figure.ratio,
            "wanted": ", ".join(_aim(aim, figure) for aim in figure.aims),
        }
        for figure in figures
    ]
    return Section(name, title, rows)


def number(value: float) -> str:
    """Three significant figures, thousands in full."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _text(value: object) -> str:
    if isinstance(value, Spread):
        return f"{number(value.median)} ({number(value.low)}-{number(value.high)})"
    return number(float(value)) if isinstance(value, int | float) else str(value)


def _aim(aim: Aim, figure: Figure) -> str:
    verdict = "missed" if aim in figure.missed else "met"
    unit = f" {figure.unit}" if aim.of == "ours" else ""
    return f"{aim.of} {aim.bound} {aim.value:g}{unit}: {verdict}"

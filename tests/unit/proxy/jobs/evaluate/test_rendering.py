"""The tables: every policy and every set, at any width, with whatever they are called."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from support.outcomes import of, outcome
from vecsieve.proxy.jobs.evaluate.evaluation import SetOutcome
from vecsieve.proxy.jobs.evaluate.rendering import Findings, Terms, report
from vecsieve.proxy.jobs.evaluate.summary import summarised

NAN = float("nan")


def shown(
    *outcomes: SetOutcome, draws: int = 0, width: int = 120, geometry: str | None = None, pool: int | None = None
) -> str:
    console = Console(file=StringIO(), width=width, highlight=False, color_system=None)
    terms = Terms(top_k=8, every=1, pool=pool, draws=draws, seed=5)
    console.print(report(Findings(geometry=geometry, summaries=summarised(outcomes, draws=draws, seed=5)), terms))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def line(text: str, start: str) -> list[str]:
    return next(each for each in text.splitlines() if each.strip().startswith(start)).split()


HALF = outcome(
    "half",
    of(redundancy=[0.5, 0.5], recall=[0.5, 0.5]),
    own=of(redundancy=[0.0, 0.5], recall=[1.0, 0.5], choosing_seconds=[0.00046, 0.00046]),
)
CLEAN = outcome(
    "clean", of(redundancy=[0.0], recall=[0.75]), own=of(redundancy=[0.0], recall=[0.5], retained=[0.0])
)  # fmt: skip


def test_a_policy_s_line_has_its_figures_in_order() -> None:
    text = shown(HALF, CLEAN)
    assert line(text, "own") == ["own", "0.500", "0.000", "0.500", "+0.000", "-0.250", "8.00", "0.46", "2.00"]
    assert line(text, "plain") == ["plain", "-", "-", "-", "-", "-", "8.00", "-", "-"]
    assert text.startswith("2 sets, 3 queries, top 8 ")


def test_a_set_s_line_has_its_figures_in_order() -> None:
    text = shown(HALF, CLEAN).split("\nown ")[1]
    cells = ["2", "0.500", "0.250", "0.500", "1.000", "1.000", "0.750", "+0.250", "0.500", "0.500", "1.000", "8.00"]
    assert line(text, "half") == ["half", *cells]
    assert line(text, "clean")[4] == "-"  # nothing to reduce


def test_intervals_stand_beneath_with_how_they_were_drawn() -> None:
    text = shown(HALF, draws=200)
    assert "[.500, .500]" not in text.split("own")[0]
    assert "95 % of 200 draws of the queries, seed 5" in " ".join(text.split())
    assert "[.000, 1.000]" in text  # the reduction: none, half or all of two queries
    assert "draws" not in shown(HALF)


def test_what_does_not_arise_is_a_dash() -> None:
    never = of(retained=[NAN], redundancy=[0.0], kept=[0.0], collapsed=[NAN])
    text = shown(outcome("never", never, own=never))
    assert line(text, "own")[:4] == ["own", "-", "-", "-"]
    assert "nan" not in text


def test_the_title_says_what_it_holds_for() -> None:
    title = shown(HALF, geometry="flat", pool=50).splitlines()[0].strip()
    assert title == "1 set, 2 queries, top 8, 50 candidates, embeddings flat"


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(each) for each in shown(HALF, CLEAN, draws=20, width=width).splitlines()) <= width


def test_names_are_shown_as_they_are_and_never_obeyed() -> None:
    text = shown(outcome("[bold]x[/bold]", of(recall=[0.5]), **{"[red]p\x1b[31m": of(recall=[0.5])}))
    assert "[bold]x[/bold]" in text
    assert "[red]p\\u001b[31m" in text
    assert "\x1b" not in text

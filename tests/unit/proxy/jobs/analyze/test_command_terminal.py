"""The report in a terminal: whatever the width, and whatever the collection says."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from support.jobs.analyses import planted, report
from vecsieve.proxy.jobs.analyze.command import rendered
from vecsieve.proxy.jobs.analyze.report import Report, size_text
from vecsieve.proxy.jobs.source import Point


def shown(found: Report, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(rendered(found))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = [
        Point(id=each.id, vector=each.vector, payload={"text": "漢字 " * 200, "source": f"来源 {n % 20}"})
        for n, each in enumerate(planted())
    ]
    for found in (report(), report(wide)):
        assert max(cell_len(line) for line in shown(found, width).splitlines()) <= width


def test_the_figures_are_there() -> None:
    said = shown(report())
    for each in ("50 points", "24 (48 %)", "contained in one other", "12 families", "pdf", "as the page of the day"):
        assert each in said, each


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    held = [
        Point(id=each.id, vector=each.vector, payload={"text": "[bold red]x[/] [link=x] y", "source": "[/]"})
        for each in planted()
    ]
    said = shown(report(held))
    assert "[bold red]x[/] [link=x]" in said
    assert "[/]" in said


def test_no_control_sign_of_the_collection_reaches_the_terminal() -> None:
    held = [
        Point(id=each.id, vector=each.vector, payload={"text": "\x1b]0;owned\x07\x1b[2J", "source": "a\x1b[31m"})
        for each in planted()
    ]
    said = shown(report(held))
    assert "owned" in said
    assert "\x1b" not in said
    assert "\x07" not in said


@pytest.mark.parametrize(("smallest", "largest", "said"), [(2, 2, "2"), (6, 10, "6-10"), (101, None, "over 100")])
def test_sizes_are_said_shortly(smallest: int, largest: int | None, said: str) -> None:
    assert size_text(smallest, largest) == said

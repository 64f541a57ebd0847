"""The report of an analysis says what was counted, on the page and in a terminal, whatever the collection says."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from support.jobs.analyses import planted, report
from vecsieve.proxy.jobs.analyze.page import page
from vecsieve.proxy.jobs.analyze.report import Report, size_text
from vecsieve.proxy.jobs.pages import as_html, in_terminal
from vecsieve.proxy.jobs.source import Point


def terminal_text(analyzed: Report) -> str:
    out = io.StringIO()
    Console(file=out, width=120, highlight=False, color_system=None).print(in_terminal(page(analyzed)))
    return out.getvalue()


def test_the_figures_are_in_both() -> None:
    for text in (terminal_text(report()), as_html(page(report())).decode()):
        for figure in (
            "50 points",
            "24 (48 %)",
            "contained in one other",
            "12 families",
            "wiki",
            "as the page of the day",
        ):
            assert figure in text, figure


def test_the_same_report_is_the_same_page() -> None:
    assert as_html(page(report())) == as_html(page(report(planted())))


def test_a_page_says_how_its_pairs_were_found() -> None:
    assert "the database's own index" in page(report(limit=10)).made
    assert "hashes of their texts" in page(report()).made


@pytest.mark.parametrize("points", [planted()[-14:], [planted()[0]], planted()[:2]])
def test_a_collection_without_repeats_or_sources_has_a_page_too(points: list[Point]) -> None:
    bare = [
        Point(id=point.id, vector=points[0].vector if len(points) == 2 else point.vector, payload={})
        for point in points
    ]
    titles = [section.title for section in page(report(bare)).sections]
    assert "Repeats between sources" not in titles
    assert any("largest families" in title for title in titles) == (len(points) == 2)


def test_sources_of_which_none_repeats_are_no_table() -> None:
    """As where each small source has a copy of another: they are one row together."""
    points = [Point(id=one.id, vector=one.vector, payload={"text": "same", "source": f"{one.id}"}) for one in planted()]
    assert "Repeats between sources" in [section.title for section in page(report(points[:4])).sections]
    assert "Repeats between sources" not in [section.title for section in page(report(of_large_sources())).sections]


def of_large_sources() -> list[Point]:
    """Twelve sources of two texts each, and small ones that repeat one another."""
    return [
        Point(
            id=number,
            vector=np.eye(64, dtype=np.float32)[number],
            payload={"text": f"text {min(number, 24)}", "source": f"{number // 2 if number < 24 else number}"},
        )
        for number in range(40)
    ]


def test_no_control_sign_of_the_collection_reaches_the_terminal() -> None:
    payload = {"text": "\x1b]0;owned\x07\x1b[2J", "source": "a\x1b[31m"}
    text = terminal_text(report([Point(id=point.id, vector=point.vector, payload=payload) for point in planted()]))
    assert "owned" in text
    assert {"\x1b", "\x07"}.isdisjoint(text)


@pytest.mark.parametrize(("smallest", "largest", "label"), [(2, 2, "2"), (6, 10, "6-10"), (101, None, "over 100")])
def test_sizes_are_said_shortly(smallest: int, largest: int | None, label: str) -> None:
    assert size_text(smallest, largest) == label

"""Charts are well-formed pictures of what they are given."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.analyze.page import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Column, Curve, columns, curves

any_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
share = st.floats(0.0, 1.0)


@given(any_text, st.lists(st.tuples(any_text, any_text, share), max_size=12))
def test_columns_stand_on_the_axis_as_high_as_they_are(name: str, bars: list[tuple[str, str, float]]) -> None:
    """Well-formed for any text; each column ends on the axis, and its height is its share of the chart's."""
    made = ET.fromstring(columns(name, [Column(label=label, said=said, height=high) for label, said, high in bars]))
    assert made.get("role") == "img"
    assert made.get("aria-label") == name
    rects = made.findall("rect")
    assert len(rects) == len(bars)
    for rect, (_, _, high) in zip(rects, bars, strict=True):
        y, height = float(rect.get("y", "")), float(rect.get("height", ""))
        assert y + height == pytest.approx(HEIGHT - BOTTOM, abs=0.11)
        assert height == pytest.approx(high * (HEIGHT - BOTTOM - TOP), abs=0.11)
        assert float(rect.get("x", "")) >= LEFT
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= WIDTH - RIGHT + 0.1
    assert {label for label, _, _ in bars} <= {text.text or "" for text in made.findall("text")}


@given(any_text, st.lists(st.tuples(share, share), min_size=1, max_size=12), share)
def test_a_curve_goes_through_its_points_within_the_chart(
    name: str, points: list[tuple[float, float]], mark: float
) -> None:
    """Well-formed; one dot a point, none outside the axes; the mark says what it is."""
    line = Curve(name=name, kind=1, points=tuple(points))
    made = ET.fromstring(curves(name, [line], end=1.0, mark=(mark, name)))
    dots = made.findall("circle")
    assert len(dots) == len(points)
    for dot, (x, y) in zip(dots, points, strict=True):
        assert float(dot.get("cx", "")) == pytest.approx(LEFT + x * (WIDTH - LEFT - RIGHT), abs=0.11)
        assert float(dot.get("cy", "")) == pytest.approx(HEIGHT - BOTTOM - y * (HEIGHT - BOTTOM - TOP), abs=0.11)
    assert name in {text.text or "" for text in made.findall("text")}


def test_without_a_mark_there_is_none() -> None:
    made = ET.fromstring(curves("c", [], end=0.3, mark=None))
    assert not [line for line in made.findall("line") if line.get("class") == "mark"]
    assert [text.text for text in made.findall("text")[-2:]] == ["0.25", "0.30"]

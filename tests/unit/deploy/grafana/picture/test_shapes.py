"""The shapes are well formed whatever words they are given."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from deploy.grafana.picture.shapes import COLOURS, area, box, colour, line, rule, text


def test_words_cannot_break_out_of_their_element() -> None:
    element = ET.fromstring(text(1, 2, "</text><script>&"))
    assert element.text == "</text><script>&"
    assert list(element) == []


def test_every_shape_is_one_element() -> None:
    points = [(0.0, 1.0), (10.0, 2.26)]
    tags = [
        ET.fromstring(made).tag
        for made in (line(points, "red"), area(points, "red"), box(0, 0, 1, 1, fill="red", opacity=0.5), rule(0, 1, 2))
    ]
    assert tags == ["polyline", "polygon", "rect", "path"]
    assert ET.fromstring(line(points, "red")).get("points") == "0,1.0 10,2.3"


def test_lines_beyond_the_last_colour_begin_again() -> None:
    assert colour(len(COLOURS)) == colour(0)

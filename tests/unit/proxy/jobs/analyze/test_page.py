"""The page stands alone, holds what the report says, and lets nothing of the collection out of its place."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.analyses import planted, report
from vecsieve.proxy.jobs.analyze.page import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    STYLE,
    TOP,
    WIDTH,
    Column,
    columns,
    page,
)
from vecsieve.proxy.jobs.source import Point

VOID = {"meta", "line", "rect", "circle", "polyline"}
HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "</title></head><body><iframe src='//evil'>",
    "<!-- ]]> & &lt;b&gt;",
)


class Reader(HTMLParser):
    """Every tag, attribute and text; tags must be closed in order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.declared = ""
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert not self._open

    def handle_decl(self, decl: str) -> None:
        self.declared = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data


def hostile() -> list[Point]:
    return [
        Point(
            id=each.id,
            vector=each.vector,
            payload={
                "text": f"{HOSTILE[at % len(HOSTILE)]} and {HOSTILE[at % len(HOSTILE)]}",
                "source": HOSTILE[at % 3],
            },
        )
        for at, each in enumerate(planted())
    ]


def test_the_page_is_a_document_with_a_language_and_a_title() -> None:
    read = Reader(page(report()))
    assert read.declared == "doctype html"
    assert ("lang", "en") in read.attributes
    assert read.text.strip().startswith("Redundancy of planted")
    assert read.tags.count("h1") == 1


def test_every_chart_has_a_name_and_a_table_beside_it() -> None:
    read = Reader(page(report()))
    charts = read.tags.count("svg")
    assert charts == 3
    assert read.attributes.count(("role", "img")) == charts
    assert read.tags.count("table") >= charts
    assert read.tags.count("caption") == read.tags.count("table")


def test_nothing_is_loaded_and_nothing_runs() -> None:
    content = page(report())
    read = Reader(content)
    assert {"script", "link", "img", "iframe", "object", "base", "form"}.isdisjoint(read.tags)
    names = {name for name, _ in read.attributes}
    assert not {name for name in names if name in {"src", "href", "srcset", "action"} or name.startswith("on")}
    assert "url(" not in content
    assert "@import" not in content
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in read.attributes


def test_hostile_texts_sources_and_names_stay_text() -> None:
    plain, read = Reader(page(report())), Reader(page(report(hostile())))
    assert set(read.tags) <= {*plain.tags, "span"}  # "the same text"
    assert {name for name, _ in read.attributes} <= {name for name, _ in plain.attributes}
    for each in HOSTILE:
        assert each in read.text


def test_what_the_report_says_is_on_the_page() -> None:
    found = report()
    read = Reader(page(found))
    for said in (
        "48 %",
        "24 of 50 points",
        "24 (48 %)",
        "wiki",
        "contained",
        "Subject 0 as the page of the day has it.",
    ):
        assert said in read.text, said


@pytest.mark.parametrize("points", [planted()[-14:], [planted()[0]], planted()[:2]])
def test_a_collection_without_repeats_or_sources_has_a_page_too(points: list[Point]) -> None:
    bare = [Point(id=each.id, vector=each.vector, payload={}) for each in points]
    if len(bare) == 2:
        bare[1] = Point(id=bare[1].id, vector=bare[0].vector, payload={})
    read = Reader(page(report(bare)))
    assert "Repeats between sources" not in read.text
    assert ("The largest families" in read.text) == (len(points) == 2)


def test_a_page_says_how_its_pairs_were_found() -> None:
    assert "the database's own index" in Reader(page(report(limit=10))).text
    assert "hashes of their texts" in Reader(page(report())).text


def test_the_same_report_is_the_same_page() -> None:
    assert page(report()) == page(report(planted()))


# Charts are well-formed pictures of what they are given.


any_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
share = st.floats(0.0, 1.0)


@given(any_text, st.lists(st.tuples(any_text, any_text, share), max_size=12))
def test_columns_stand_on_the_axis_as_high_as_they_are(name: str, bars: list[tuple[str, str, float]]) -> None:
    """Well-formed for any text; each column ends on the axis, and its height is its share of the chart's."""
    made = ET.fromstring(columns(name, [Column(label=label, text=said, height=high) for label, said, high in bars]))
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


# The page can be read in the light, in the dark and on paper: every class is styled, every colour stands out enough.


# WCAG 2.2, level AA: 4.5 to 1 for text, 3 to 1 for the parts of a picture that must be told apart.
TEXT, PICTURE = 4.5, 3.0
BLOCKS = re.compile(r":root \{([^}]*)\}")
COLOUR = re.compile(r"--([a-z]+): (#[0-9a-f]{3,6})\b")


def themes() -> list[dict[str, str]]:
    """Light, dark and paper; what a theme does not say it has from the light one."""
    light, dark, paper = (dict(COLOUR.findall(block)) for block in BLOCKS.findall(STYLE))
    return [light, {**light, **dark}, {**light, **paper}]


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rgb or #rrggbb."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255.0 for at in (0, 2, 4)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_is_wcags() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark", "paper"])
def test_text_and_pictures_stand_out(theme: int) -> None:
    colours = themes()[theme]
    for ground in ("paper", "panel"):
        for ink in ("ink", "soft"):
            assert contrast(colours[ink], colours[ground]) >= TEXT, (ink, ground)
    assert contrast(colours["one"], colours["paper"]) >= PICTURE


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark", "paper"])
def test_the_darkest_cell_of_the_heat_table_can_still_be_read(theme: int) -> None:
    colours = themes()[theme]
    strongest = re.search(r"calc\(var\(--share\) \* (\d+)%\)", STYLE)
    assert strongest is not None
    part = int(strongest[1]) / 100.0

    def mixed(one: str, other: str) -> str:
        pairs = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
        return "#" + "".join(f"{round(part * left + (1 - part) * right):02x}" for left, right in pairs)

    paper, ink = (colours[name] if len(colours[name]) == 7 else f"#{colours[name][1] * 6}" for name in ("paper", "ink"))
    assert contrast(ink, mixed(colours["one"], paper)) >= TEXT


def test_every_class_of_the_page_is_styled() -> None:
    used = {name for names in re.findall(r'class="([^"]*)"', page(report())) for name in names.split()}
    styled = set(re.findall(r"\.([a-z][a-z0-9]*)", STYLE))
    assert used - {"start"} <= styled  # `start` is where SVG text begins by itself

"""A page stands alone, and lets nothing of a collection out of its place; neither does the terminal."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from vecsieve.proxy.jobs.pages import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Examples,
    Figures,
    Page,
    Section,
    as_html,
    columns,
    in_terminal,
    style,
)

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


def page_with(*words: str) -> Page:
    """A page with these words in every place."""
    one, two = (" ".join(words[at:]) for at in (0, 1))
    figures = Figures(
        caption=one, heads=(one, two, two), rows=[(one, two, "3"), (two, one, "5")], bars=[(one, 3), (two, 5)],
        has_total=True, shares=[(0.25,), (0.5,)],
    )  # fmt: skip
    examples = Examples(caption=two, heads=("why", "id", "source", "text"), rows=[(one, two, one, two)])
    return Page(
        title=one, facts=two, tiles=[(one, two, one)], sentences=[one], cautions=[two], made=one,
        sections=[Section(title=one, note=two, tables=[figures, examples]), Section(title=two, tables=[figures])],
    )  # fmt: skip


HARMLESS = page_with("harmless", "words")


def read(page: Page) -> Reader:
    return Reader(as_html(page).decode())


def test_the_page_is_a_document_with_a_language_and_a_title() -> None:
    page = read(HARMLESS)
    assert page.declared == "doctype html"
    assert ("lang", "en") in page.attributes
    assert page.tags.count("h1") == 1


def test_every_chart_has_a_name_and_a_table_beside_it() -> None:
    page = read(HARMLESS)
    assert page.tags.count("svg") == page.attributes.count(("role", "img")) == 2
    assert page.tags.count("caption") == page.tags.count("table") == 3


def test_nothing_is_loaded_and_nothing_runs() -> None:
    page, content = read(HARMLESS), as_html(HARMLESS).decode()
    assert {"script", "link", "img", "iframe", "object", "base", "form"}.isdisjoint(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name in {"src", "href", "srcset", "action"} or name.startswith("on")}
    assert "url(" not in content
    assert "@import" not in content
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_hostile_words_stay_words_in_every_place() -> None:
    plain, hostile = read(HARMLESS), read(page_with(*HOSTILE))
    assert hostile.tags == plain.tags
    assert {name for name, _ in hostile.attributes} == {name for name, _ in plain.attributes}
    assert all(attack in hostile.text for attack in HOSTILE)
    assert b"\\ud800" in as_html(page_with("\ud800", "x"))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_markup_is_text(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, color_system=None)
    console.print(in_terminal(page_with("漢字 " * 50, "来源", "[bold red]x[/]")))
    assert max(cell_len(line) for line in out.getvalue().splitlines()) <= width
    assert "[/]" in out.getvalue()


def test_a_terminal_shows_the_first_columns_with_shades() -> None:
    out = io.StringIO()
    wide = Figures(caption="", heads=("name", *"abcdefgh"), rows=[("row", *"12345678")], shares=[(0.5,) * 8])
    page = replace(HARMLESS, sections=[Section(title="", tables=[wide])])
    Console(file=out, width=120, color_system=None).print(in_terminal(page))
    assert "the first 6 of 8 columns" in out.getvalue()
    assert "7" not in out.getvalue()


any_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(any_text, st.lists(st.tuples(any_text, st.integers(0, 10_000)), max_size=12))
def test_columns_stand_on_the_axis_as_high_as_they_are(name: str, bars: list[tuple[str, int]]) -> None:
    """Well-formed for any text; each column ends on the axis, and its height is its share of the largest."""
    made = ET.fromstring(columns(name, bars))
    assert made.get("aria-label") == name
    rects, most = made.findall("rect"), max([1, *(count for _, count in bars)])
    for rect, (_, count) in zip(rects, bars, strict=True):
        y, height = float(rect.get("y", "")), float(rect.get("height", ""))
        assert y + height == pytest.approx(HEIGHT - BOTTOM, abs=0.11)
        assert height == pytest.approx(count / most * (HEIGHT - BOTTOM - TOP), abs=0.11)
        assert float(rect.get("x", "")) >= LEFT
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= WIDTH - RIGHT + 0.1
    assert {label for label, _ in bars} <= {text.text or "" for text in made.findall("text")}


# The page can be read in the light, in the dark and on paper: every class is styled, every colour stands out enough.


# WCAG 2.2, level AA: 4.5 to 1 for text, 3 to 1 for the parts of a picture that must be told apart.
TEXT, PICTURE = 4.5, 3.0
BLOCKS = re.compile(r":root \{([^}]*)\}")
COLOUR = re.compile(r"--([a-z]+): (#[0-9a-f]{3,6})\b")


def themes() -> list[dict[str, str]]:
    """Light, dark and paper; what a theme does not say it has from the light one."""
    light, dark, paper = (dict(COLOUR.findall(block)) for block in BLOCKS.findall(style()))
    return [light, {**light, **dark}, {**light, **paper}]


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rgb or #rrggbb."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255.0 for at in (0, 2, 4)]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
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
    strongest = re.search(r"calc\(var\(--share\) \* (\d+)%\)", style())
    assert strongest is not None
    part = int(strongest[1]) / 100.0

    def mixed(one: str, other: str) -> str:
        pairs = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
        return "#" + "".join(f"{round(part * left + (1 - part) * right):02x}" for left, right in pairs)

    paper, ink = (colours[name] if len(colours[name]) == 7 else f"#{colours[name][1] * 6}" for name in ("paper", "ink"))
    assert contrast(ink, mixed(colours["one"], paper)) >= TEXT


def test_every_class_of_the_page_is_styled() -> None:
    used = {name for names in re.findall(r'class="([^"]*)"', as_html(HARMLESS).decode()) for name in names.split()}
    styled = set(re.findall(r"\.([a-z][a-z0-9]*)", style()))
    assert used <= styled | {"text"}

"""The page stands alone, holds what the report says, and lets nothing of the collection out of its place."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from support.analyzed import planted, report
from vecsieve.proxy.jobs.analyze.page import page
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
            payload={"text": f"{HOSTILE[each_at % len(HOSTILE)]} {each_at}", "source": HOSTILE[each_at % 3]},
        )
        for each_at, each in enumerate(planted())
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
    assert set(read.tags) <= set(plain.tags)
    assert {name for name, _ in read.attributes} <= {name for name, _ in plain.attributes}
    for each in HOSTILE:
        assert each in read.text


def test_what_the_report_says_is_on_the_page() -> None:
    found = report()
    read = Reader(page(found))
    for said in ("72 %", "36 of 50 points", "24 (48 %)", "wiki", "the same text", "Subject 0 as the page has it."):
        assert said in read.text, said


@pytest.mark.parametrize("points", [planted()[-14:], [planted()[0]], planted()[:2]])
def test_a_collection_without_copies_or_sources_has_a_page_too(points: list[Point]) -> None:
    bare = [Point(id=each.id, vector=each.vector, payload={}) for each in points]
    read = Reader(page(report(bare)))
    assert "Who repeats whom" not in read.text
    assert ("The largest families" in read.text) == (len(points) == 2)


def test_a_sample_says_what_it_does_not_know() -> None:
    assert "not known" in Reader(page(report(limit=10))).text


def test_the_same_report_is_the_same_page() -> None:
    assert page(report()) == page(report())

"""A sheet of a whole dashboard, of what a scripted Prometheus answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import pytest
from live.picture.__main__ import draw
from live.picture.asking import QueryRefusedError, Span, ask
from live.picture.sheet import OWN_WORDS, sheet

from deploy.grafana.overview import overview
from deploy.grafana.quality import quality
from support.deploy.dashboard_lint import panels, queries, substituted
from support.deploy.prometheus_tools import ROOT

SPAN = Span(100.0, 160.0, 10.0, "1m")


class Scripted(BaseHTTPRequestHandler):
    """Answers every query with two series, one value of which is no number; a query that says `wrong` is refused."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        expression = query["query"][0]
        self.asked.append(expression)
        start = float(query["start"][0])
        values = [[start, "0.5"], [start + 10, "NaN"], [start + 20, "1.5"]]
        result = [{"metric": {"le": bound, "instance": "a"}, "values": values} for bound in ("0.1", "+Inf")]
        is_refused = "wrong" in expression
        answer: dict[str, Any] = {"status": "success", "data": {"result": result}}
        body = json.dumps({"status": "error", "error": "parse error"} if is_refused else answer).encode()
        self.send_response(400 if is_refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Scripted.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_values_that_are_no_numbers_are_gaps(url: str) -> None:
    first, second = ask(url, "up", SPAN)
    assert first.points == second.points == ((100.0, 0.5), (120.0, 1.5))
    assert first.last == 1.5


def test_a_query_that_is_refused_is_an_error_that_names_it(url: str) -> None:
    with pytest.raises(QueryRefusedError, match="wrong: parse error"):
        ask(url, "wrong", SPAN)


@pytest.mark.parametrize("board", [overview(), quality()], ids=["overview", "quality"])
def test_every_panel_is_asked_for_and_stands_on_the_sheet(url: str, board: dict[str, Any]) -> None:
    made = sheet(board, url, SPAN, about="Nothing ran")
    root = ET.fromstring(made)
    words = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert {panel["title"] for panel in panels(board)} <= words
    assert Scripted.asked == [substituted(query) for _, query in queries(board)]
    assert {"Nothing ran.", f"{OWN_WORDS}. 1970-01-01 00:02 UTC, 60 s."} <= words, (
        "it says who drew it, of what and when"
    )
    assert len(made) < 200_000


def test_both_dashboards_are_written(url: str, tmp_path: Path) -> None:
    files = draw(url, tmp_path / "new", seconds=60.0, window="1m", about="Nothing ran")
    assert [file.name for file in files] == ["vecsieve-overview.svg", "vecsieve-quality.svg"]
    assert all(file.read_text(encoding="utf-8").startswith("<svg") for file in files)


@pytest.mark.parametrize("name", ["vecsieve-overview", "vecsieve-quality"])
def test_the_pictures_in_the_documents_say_who_drew_them_and_are_small(name: str) -> None:
    text = (ROOT / f"docs/dashboards/{name}.svg").read_text(encoding="utf-8")
    assert OWN_WORDS in text
    assert ">no data<" not in text
    assert len(text.encode()) < 200_000
    ET.fromstring(text)

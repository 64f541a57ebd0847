"""The examples of docs/api.md: each request is sent, and what the page says is the answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from support.network.api import served
from vecsieve.config.applications import ApiSettings
from vecsieve.proxy.api.fuse import MOST_LISTS, FuseRequest
from vecsieve.proxy.api.messages import MOST_CHUNKS, OptimizeRequest
from vecsieve.proxy.api.routes import routes_of

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
EXAMPLE = re.compile(r"```json\nPOST (\S+)\n(.*?)```\n\n```json\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE)


def timeless(answer: str) -> object:
    return json.loads(re.sub(r'"latency_ms": ?[0-9.]+', '"latency_ms": 0', answer))


@pytest.mark.parametrize(("path", "request_", "answer"), EXAMPLES, ids=[path for path, _, _ in EXAMPLES])
async def test_an_example_has_the_answer_that_the_page_shows(path: str, request_: str, answer: str) -> None:
    async with served() as api:
        got = await api.client.post(path, content=request_, headers={"Content-Type": "application/json"})
        assert timeless(got.text) == timeless(answer)


@pytest.mark.parametrize("path", ["/v1/optimize", "/v1/fuse"])
def test_there_is_an_example(path: str) -> None:
    assert path in [example for example, _, _ in EXAMPLES]


@pytest.mark.parametrize("route", routes_of(ApiSettings()), ids=lambda route: str(route.path))
def test_the_page_names_every_endpoint(route: object) -> None:
    assert getattr(route, "path", "") in PAGE


@pytest.mark.parametrize(
    ("path", "first", "request_"), [("/v1/optimize", "chunks", OptimizeRequest), ("/v1/fuse", "lists", FuseRequest)]
)
def test_the_page_has_every_field_of_a_request(path: str, first: str, request_: type[msgspec.Struct]) -> None:
    section = PAGE.partition(f"\n## POST {path}\n")[2].partition("\n## ")[0]
    fields = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert fields == [first, *(name for name in request_.__struct_fields__ if name != first)]


def test_the_page_has_the_limits_of_a_request() -> None:
    assert f"at most {MOST_CHUNKS}" in PAGE
    assert f"at most {MOST_LISTS}, with {MOST_CHUNKS} results in all" in PAGE


async def test_the_stream_of_the_page_gives_the_events_that_it_shows() -> None:
    lines, events = re.findall(r"Accept: text/event-stream\n\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)[0]
    head = {"Content-Type": "application/x-ndjson", "Accept": "text/event-stream"}
    async with served() as api:
        got = await api.client.post("/v1/optimize", content=lines, headers=head)
        assert re.sub(r'"stats":\{.*?\}', '"stats":{…}', got.text).strip() == events.strip()

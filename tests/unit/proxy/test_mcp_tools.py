"""The tools by the official client, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import jsonschema
import mcp
import pytest
from qdrant_client import QdrantClient, models

from support.network.streams import serving
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy import mcp as tools
from vecsieve.proxy.jobs.embeddings import Embeddings
from vecsieve.proxy.mcp import Places, server_of, tools_of

NOWHERE = "http://127.0.0.1:1"
TOKEN = "a token of a good length"
RECORDS = {"keep": 50, "records": [{"number": n, "collection": c} for n, c in ((3, "docs"), (2, "other"), (1, "docs"))]}


def places(**changed: Any) -> Places:
    settings: dict[str, Any] = {
        "backend": "qdrant",
        "url": NOWHERE,
        "admin": NOWHERE,
        "admin_token": None,
        "tokenizer": None,
        "api_key_env": None,
        "environment": {},
    }
    return Places(**{**settings, **changed})


@asynccontextmanager
async def client(**changed: Any) -> AsyncIterator[mcp.Client]:
    async with mcp.Client(server_of(tools_of(places(**changed)))) as made:
        yield made


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


@asynccontextmanager
async def admin(answer: bytes, status: str = "200 OK") -> AsyncIterator[tuple[str, list[bytes]]]:
    """An admin port that answers so; and the heads it was sent."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(answer), answer))
        await writer.drain()

    async with serving(handle) as port:
        yield f"http://127.0.0.1:{port}", heads


async def test_there_are_four_tools_whose_arguments_are_described() -> None:
    async with client() as model:
        listed = (await model.list_tools()).tools
        assert [tool.name for tool in listed] == ["optimize", "search", "analyze", "explain"]
        for tool in listed:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.input_schema["type"] == "object"
            assert tool.description
        assert listed[0].input_schema["properties"]["target_k"]["type"] == "integer"


async def test_optimize_is_the_work_of_the_endpoint() -> None:
    chunks = [{"id": 1, "text": "a text"}, {"id": 2, "text": "a text"}]
    async with client() as model:
        result = await model.call_tool("optimize", {"chunks": chunks})
        assert not result.is_error
        assert result.structured_content == json.loads(text_of(result))
        assert [chunk["id"] for chunk in result.structured_content["chunks"]] == [1]
        assert result.structured_content["removed"] == [
            {"id": 2, "stage": "equal_text", "covered_by": [1], "reason": "says the same as 1"}
        ]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("optimize", {}, "chunks"),
        ("optimize", {"chunks": [{"id": 1}]}, "$.chunks[0]"),
        ("search", {"collection": "docs", "vector": []}, "$.vector"),
        ("search", {"vector": [1.0]}, "collection"),
        ("search", {"collection": "docs"}, "wanted one of query and vector"),
        ("search", {"collection": "docs", "query": "a", "vector": [1.0]}, "wanted one of query and vector"),
        ("search", {"collection": "docs", "query": "a"}, "--embeddings URL"),
        ("analyze", {"collection": "docs", "points": 1}, "$.points"),
        ("explain", {"count": 0}, "$.count"),
        ("explain", {"colour": "red"}, "colour"),
        ("sing", {}, "unknown tool 'sing'; the tools are optimize, search, analyze, explain"),
    ],
)
async def test_arguments_that_cannot_be_used_are_an_error_for_the_model(
    tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with client() as model:
        result = await model.call_tool(tool, arguments)
        assert result.is_error
        assert words in text_of(result)


@pytest.mark.parametrize("tool", ["search", "analyze"])
async def test_a_database_that_does_not_answer_is_an_error_for_the_model(tool: str) -> None:
    arguments = {"collection": "docs", **({"vector": [1.0]} if tool == "search" else {})}
    async with client() as model:
        result = await model.call_tool(tool, arguments)
        assert result.is_error
        assert NOWHERE in text_of(result)


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """The URL of a database that takes connections and never answers."""

    async def handle(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(handle) as port:
        yield f"http://127.0.0.1:{port}"


SEARCH: dict[str, Any] = {"collection": "docs", "vector": [1.0]}


@pytest.mark.parametrize("tool", ["search", "analyze"])
async def test_a_call_to_a_silent_database_has_one_deadline(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, f"{tool.upper()}_SECONDS", 0.2)
    async with silent() as url, client(url=url) as model:
        result = await model.call_tool(tool, SEARCH if tool == "search" else {"collection": "docs"})
        assert result.is_error
        assert f"{url}: waited 0.2 seconds for its reply" in text_of(result)


async def test_late_calls_leave_a_bounded_number_of_threads_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MOST_CALLS", 1)
    async with AsyncExitStack() as stack:
        server = AsyncExitStack()
        await stack.enter_async_context(server)
        url = await server.enter_async_context(silent())
        model = await stack.enter_async_context(client(url=url))
        monkeypatch.setattr(tools, "SEARCH_SECONDS", 0.2)
        assert "for its reply" in text_of(await model.call_tool("search", SEARCH))
        assert "for one of 1 earlier calls" in text_of(await model.call_tool("search", SEARCH))
        monkeypatch.setattr(tools, "SEARCH_SECONDS", tools.ANALYZE_SECONDS)
        await server.aclose()  # the late call ends
        assert "Cannot reach" in text_of(await model.call_tool("search", SEARCH))


@pytest.mark.parametrize(
    ("arguments", "numbers"), [({}, [3, 2, 1]), ({"count": 1}, [3]), ({"collection": "docs", "count": 2}, [3, 1])]
)
async def test_explain_shows_the_last_searches_of_a_collection(arguments: dict[str, Any], numbers: list[int]) -> None:
    async with admin(json.dumps(RECORDS).encode()) as (url, heads), client(admin=url, admin_token=TOKEN) as model:
        result = await model.call_tool("explain", arguments)
        assert [record["number"] for record in result.structured_content["records"]] == numbers
        assert result.structured_content["keep"] == 50
        assert b"Authorization: Bearer a token of a good length\r\n" in heads[0]


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        ("401 Unauthorized", b"{}", "--admin-token-file"),
        ("404 Not Found", b"{}", "answers with status 404"),
        ("302 Found", b"", "answers with status 302"),
        ("200 OK", b"<html>", "is it VecSieve's admin port?"),
        ("200 OK", b'{"records": 1}', "is it VecSieve's admin port?"),
    ],
)
async def test_an_admin_port_that_explains_nothing_is_an_error_for_the_model(
    status: str, answer: bytes, words: str
) -> None:
    async with admin(answer, status) as (url, heads), client(admin=url) as model:
        result = await model.call_tool("explain", {})
        assert result.is_error
        assert words in text_of(result)
        assert b"Authorization" not in heads[0]


async def test_without_a_vecsieve_explain_says_where_to_name_one() -> None:
    async with client() as model:
        assert "--admin" in text_of(await model.call_tool("explain", {}))


@asynccontextmanager
async def embedding(answer: bytes, status: str = "200 OK") -> AsyncIterator[tuple[Embeddings, list[bytes]]]:
    async with admin(answer, status) as (url, heads):
        yield Embeddings(url=f"{url}/v1/embeddings", model="m", key="c4nary-key"), heads


async def test_words_are_embedded_where_an_endpoint_is_set() -> None:
    with start_embedded_process() as url:
        engine = QdrantClient(url=url, timeout=30)
        engine.create_collection("docs", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
        points = [models.PointStruct(id=n, vector=v, payload={}) for n, v in ((1, [1.0, 0.0]), (2, [0.0, 1.0]))]
        engine.upsert("docs", points, wait=True)
        engine.close()
        async with (
            embedding(b'{"data":[{"embedding":[0.1,0.9]}]}') as (embeddings, heads),
            client(url=url, embeddings=embeddings) as model,
        ):
            result = await model.call_tool("search", {"collection": "docs", "query": "where is it?", "top_k": 1})
            assert [hit["id"] for hit in result.structured_content["results"]] == [2]
            assert b"POST /v1/embeddings" in heads[0]
            assert b"Bearer c4nary-key" in heads[0]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (b"{}", "200 OK", "in OpenAI's form"),
        (b'{"data":[]}', "200 OK", "in OpenAI's form"),
        (b"no", "401 Unauthorized", "status 401"),
    ],
)
async def test_embeddings_that_fail_are_an_error_for_the_model(answer: bytes, status: str, words: str) -> None:
    async with embedding(answer, status) as (embeddings, _), client(embeddings=embeddings) as model:
        result = await model.call_tool("search", {"collection": "docs", "query": "a"})
        assert result.is_error
        assert words in text_of(result)
        assert "c4nary" not in text_of(result)

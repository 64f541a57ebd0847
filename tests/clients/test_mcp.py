"""`vecsieve mcp` as a process, by the official client, over both transports, in front of the real engine and a running VecSieve."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import mcp
import numpy as np
import pytest
from qdrant_client import QdrantClient

from support.network.api import TOKEN, token_file
from support.process import stack
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process

COPIES, DISTINCT = 4, 6
COMMAND = ("mcp", "--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """``engine``, and ``serve`` and ``admin`` of a VecSieve in front of it. Each text is stored four times."""
    with start_embedded_process() as engine, stack.serve(engine) as (data, admin):
        database = QdrantClient(url=engine, check_compatibility=False)
        vectors = np.random.default_rng(7).standard_normal((DISTINCT, 16)).astype(np.float32)
        numbers = [(n, n // COPIES) for n in range(COPIES * DISTINCT)]
        planted.fill(database, "docs", [(n, vectors[text].tolist(), {"text": f"text {text}"}) for n, text in numbers])
        database.close()
        yield {"engine": engine, "serve": data, "admin": admin}


def query() -> list[float]:
    vector: list[float] = np.random.default_rng(7).standard_normal(16).astype(np.float32).tolist()
    return vector


async def use(client: mcp.Client) -> None:
    """All four tools."""
    assert [tool.name for tool in (await client.list_tools()).tools] == ["optimize", "search", "analyze", "explain"]
    answer = await call(client, "search", collection="docs", vector=query(), top_k=3)
    texts = [result["payload"]["text"] for result in answer["results"]]
    assert len(set(texts)) == 3, "through VecSieve the results are different"
    explained = await call(client, "explain", collection="docs", count=1)
    assert len(explained["records"]) == 1
    report = await call(client, "analyze", collection="docs")
    assert report["repeats"]["equal"] == (COPIES - 1) * DISTINCT
    chunks = [{"id": str(n), "text": text} for n, text in enumerate([*texts, *texts])]
    optimized = await call(client, "optimize", chunks=chunks)
    assert [chunk["id"] for chunk in optimized["chunks"]] == ["0", "1", "2"]


async def call(client: mcp.Client, tool: str, **arguments: object) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


async def test_a_model_uses_all_tools_over_standard_input_and_output(urls: dict[str, str]) -> None:
    options = ("--url", urls["serve"], "--admin", urls["admin"])
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "vecsieve.proxy", "mcp", *options])
    async with mcp.Client(server) as client:
        await use(client)


async def test_a_model_uses_all_tools_over_http(urls: dict[str, str]) -> None:
    with stack.command(*COMMAND, "--url", urls["serve"], "--admin", urls["admin"]) as running:
        async with mcp.Client(running.addresses(1)["mcp"] + "/mcp") as client:
            await use(client)


async def test_directly_at_the_database_a_search_has_its_copies(urls: dict[str, str]) -> None:
    with stack.command(*COMMAND, "--url", urls["engine"]) as running:
        async with mcp.Client(running.addresses(1)["mcp"] + "/mcp") as client:
            answer = await call(client, "search", collection="docs", vector=query(), top_k=3)
            assert len({result["payload"]["text"] for result in answer["results"]}) == 1
            wrong = await client.call_tool("search", {"collection": "docs", "vector": [1.0, 2.0]})
            assert wrong.is_error
            assert "wanted 16" in text_of(wrong)
            missing = await client.call_tool("analyze", {"collection": "nothing"})
            assert missing.is_error
            assert "nothing" in text_of(missing)


def test_over_http_requests_need_the_token_where_there_is_one(tmp_path: Path) -> None:
    with stack.command(*COMMAND, "--token-file", token_file(tmp_path)) as running:
        url = running.addresses(1)["mcp"] + "/mcp"
        assert httpx.post(url, json={}).status_code == 401
        assert httpx.post(url, json={}, headers={"Authorization": f"Bearer {TOKEN}"}).status_code != 401


def test_over_http_a_request_for_another_host_is_refused() -> None:
    with stack.command(*COMMAND) as running:
        url = running.addresses(1)["mcp"] + "/mcp"
        head = {"Host": "example.com", "Accept": "application/json, text/event-stream"}
        assert httpx.post(url, json={"jsonrpc": "2.0"}, headers=head).status_code in {403, 421}

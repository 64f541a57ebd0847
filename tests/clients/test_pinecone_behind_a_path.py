"""Indexes whose host has a path: VecSieve behind VecSieve, and another gateway. They are searched, and made distinct."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pinecone import Pinecone, ServerlessSpec

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.pinecone.emulator import emulated
from support.process.running import running
from support.process.stack import exchange, serve

SPEC = ServerlessSpec(cloud="aws", region="us-east-1")
VECTORS = [
    *({"id": f"a{number}", "values": [1.0, 0.0]} for number in range(6)),
    *({"id": f"b{number}", "values": [0.2, 1.0 - 0.3 * number]} for number in range(3)),
]
NAMED = re.compile(r"/_i/127\.0\.0\.1:\d+")


@pytest.fixture(scope="module")
def proxies() -> Iterator[dict[str, tuple[str, str]]]:
    """The front's URL and admin URL, by the mode of the one behind it. An index is behind both."""
    with ExitStack() as opened:
        emulator = opened.enter_context(emulated())
        made = {}
        for mode in ("off", "on"):
            back, _ = opened.enter_context(serve(emulator.url, "--backend", "pinecone", "--mode", mode))
            made[mode] = opened.enter_context(serve(back, "--backend", "pinecone"))
        with Pinecone(api_key="key", host=emulator.url) as client:
            client.create_index(name="docs", dimension=2, metric="cosine", spec=SPEC)
            with client.index("docs") as index:
                index.upsert(vectors=VECTORS)
        yield made


@pytest.mark.parametrize("setting", ["off", "on"])
def test_the_client_follows_its_index_through_both_and_finds_distinct_results(
    proxies: dict[str, tuple[str, str]], setting: str
) -> None:
    front, admin = proxies[setting]
    with Pinecone(api_key="key", host=front) as client:
        host = client.describe_index("docs").host
        assert host is not None
        assert host.startswith(front)
        assert len(NAMED.findall(host)) == 2, "the front's own way, and behind it the other's"
        with client.index("docs") as index:
            ids = [match.id for match in index.query(vector=[1.0, 0.0], top_k=3).matches]
            assert index.fetch(ids=["a0"]).vectors["a0"].values == [1.0, 0.0]
    assert ids[0] == "a0"
    assert len([identifier for identifier in ids if identifier.startswith("a")]) == 1
    metrics = exchange(admin, "GET", "/metrics").body.decode()
    assert re.search(r'^vecsieve_requests_total\{[^}]*operation="query"[^}]*\} [1-9]', metrics, re.MULTILINE)


def axis(number: int) -> list[float]:
    return [float(place == number) for place in range(8)]


def query(path: str, top_k: int = 3) -> bytes:
    body = json.dumps({"vector": axis(0), "topK": top_k}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: vs\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def matches(body: bytes) -> list[str]:
    return [match["id"] for match in json.loads(body)["matches"]]


def gateway(received: Received) -> bytes:
    """Two indexes of one host: one of copies alone, and in the other the same ids are all different."""
    content = json.loads(received.content)
    is_copies = b"/copies/" in received.line
    hits = [
        {"id": f"r{rank}", "score": 0.9 - rank / 100, "values": axis(0 if is_copies and rank < 5 else rank)}
        for rank in range(8)
    ][: content["topK"]]
    if not content.get("includeValues"):
        hits = [{"id": match["id"], "score": match["score"]} for match in hits]
    body = json.dumps({"matches": hits, "namespace": "", "usage": {"readUnits": 1}}).encode()
    return reply(body, headers=[(b"content-type", b"application/json")])


async def test_two_indexes_of_one_gateway_share_nothing_that_was_learned() -> None:
    """Vectors are remembered by index and id, and both indexes have the same ids at the same host."""

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await talk.send(gateway(received))

    async with FaultyUpstream(script) as upstream:
        settings = {"index_host": upstream.url}
        async with running(upstream.url, backend="pinecone", pinecone=settings) as proxy:
            at = f"/_i/127.0.0.1:{upstream.port}/pinecone"

            async def ids_of(name: str) -> list[str]:
                answer = await raw_exchange(proxy.port, query(f"{at}/{name}/query"))
                return matches(answer.split(b"\r\n\r\n", 1)[1])

            for _ in range(12):
                assert await ids_of("plain") == ["r0", "r1", "r2"]
                assert await ids_of("copies") == ["r0", "r5", "r6"]


@pytest.mark.parametrize("path", ["/pinecone/../docs/query", "/pinecone/%2e%2E/docs/query", "/docs/queries"])
async def test_a_path_that_is_no_way_to_an_index_goes_on_untouched(path: str) -> None:
    seen: list[Received] = []

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            seen.append(received)
            await talk.send(reply(b"its own"))

    async with (
        FaultyUpstream(script) as upstream,
        running(upstream.url, backend="pinecone", pinecone={"index_host": upstream.url}) as proxy,
    ):
        raw = query(f"/_i/127.0.0.1:{upstream.port}{path}")
        answer = await raw_exchange(proxy.port, raw)
    assert answer.endswith(b"its own")
    assert [(received.line.split()[1], received.body) for received in seen] == [
        (path.encode(), raw.split(b"\r\n\r\n", 1)[1])
    ]

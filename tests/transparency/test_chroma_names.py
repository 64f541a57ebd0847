"""Rules name collections, Chroma's paths carry ids: names are read from answers that pass, and nothing of them changes."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest

from support.chroma.model import Server, Stored
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, answering, reply
from support.process.running import Running, running

ID = "97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
DATABASE = "/api/v2/tenants/t/databases/d"
COLLECTIONS = f"{DATABASE}/collections"
DOCUMENT = json.dumps({"id": ID, "name": "docs", "tenant": "t", "database": "d", "metadata": None}).encode()
JSON = ((b"content-type", b"application/json"),)
QUERY = b'{"query_embeddings":[[1.0,0.0]],"n_results":2,"include":[]}'
NEAR = Server(
    lists=((Stored(id='"a"', distance="0", embedding="[1,0]"), Stored(id='"b"', distance="1", embedding="[0,1]")),)
)
OFF_FOR_DOCS = {"rules": ({"collection": "t/d/docs", "policy": {"mode": "off"}},)}


def database(received: Received) -> bytes:
    """Queries are answered, everything else is told of the one collection."""
    if received.line.split()[1].endswith(b"/query"):
        return reply(NEAR.answer(received.body), headers=JSON)
    return reply(DOCUMENT, headers=JSON)


async def sent(client: RawClient, method: str, target: str, body: bytes = b"") -> bytes:
    framing = b"Content-Length: %d\r\n" % len(body) if body else b""
    await client.send(f"{method} {target} HTTP/1.1\r\nHost: c\r\n".encode() + framing + b"\r\n" + body)
    return (await client.reply()).body


async def is_widened(client: RawClient, upstream: FaultyUpstream) -> bool:
    await sent(client, "POST", f"{COLLECTIONS}/{ID}/query", QUERY)
    return upstream.requests[-1].body != QUERY


def unnamed(proxy: Running) -> float:
    return proxy.count("searches_by_id_total", backend="chroma", result="unknown")


async def test_a_rule_by_name_holds_as_soon_as_the_name_went_by_and_until_it_may_have_changed() -> None:
    async with (
        FaultyUpstream(answering(database)) as upstream,
        running(upstream.url, backend="chroma", mode=None, **OFF_FOR_DOCS) as proxy,
    ):
        client = await RawClient.connect(proxy.port)
        assert await is_widened(client, upstream)
        assert unnamed(proxy) == 1
        assert await sent(client, "GET", f"{COLLECTIONS}/docs") == DOCUMENT
        assert not await is_widened(client, upstream)
        assert unnamed(proxy) == 1
        await sent(client, "DELETE", f"{COLLECTIONS}/docs")
        assert await is_widened(client, upstream)
        assert unnamed(proxy) == 2
        await client.close()


@pytest.mark.parametrize(
    ("pattern", "holds"), [("t/d/*", True), ("t/*", True), ("*", True), ("t/d/docs", False), ("*9*", False)]
)
async def test_until_then_rules_hold_that_ask_nothing_of_the_name(pattern: str, *, holds: bool) -> None:
    async with (
        FaultyUpstream(answering(database)) as upstream,
        running(upstream.url, backend="chroma", rules=({"collection": pattern, "policy": {"mode": "off"}},)) as proxy,
    ):
        client = await RawClient.connect(proxy.port)
        assert await is_widened(client, upstream) is not holds
        await client.close()


async def test_a_name_is_known_before_the_last_byte_that_tells_it_reaches_the_client() -> None:
    """A client may search on another connection as soon as it has the document."""
    body = DOCUMENT + b" " * 300_000
    async with (
        FaultyUpstream(
            answering(lambda r: reply(body, headers=JSON) if r.line[:3] == b"GET" else database(r))
        ) as upstream,
        running(upstream.url, backend="chroma", **OFF_FOR_DOCS) as proxy,
    ):
        one, other = await RawClient.connect(proxy.port), await RawClient.connect(proxy.port)
        assert await sent(one, "GET", f"{COLLECTIONS}/docs") == body
        assert not await is_widened(other, upstream)
        await one.close()
        await other.close()


async def test_a_description_is_sent_on_piece_by_piece_in_its_own_coding() -> None:
    packed = zlib.compress(DOCUMENT, wbits=31)
    may_go_on = asyncio.Event()

    async def script(talk: Talk) -> None:
        while (request := await talk.request()) is not None:
            if request.line[:3] != b"GET":
                await talk.send(database(request))
                continue
            head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
            await talk.send(head + packed[:20])
            await may_go_on.wait()
            await talk.send(packed[20:])

    async with FaultyUpstream(script) as upstream, running(upstream.url, backend="chroma", **OFF_FOR_DOCS) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"GET {COLLECTIONS}/docs HTTP/1.1\r\nHost: c\r\nAccept-Encoding: gzip, br\r\n\r\n".encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert b"gzip" in head
        assert await asyncio.wait_for(reader.readexactly(20), 10) == packed[:20]  # while the rest is still to come
        may_go_on.set()
        assert await asyncio.wait_for(reader.readexactly(len(packed) - 20), 10) == packed[20:]
        assert upstream.requests[0].header(b"accept-encoding") == b"gzip, br"
        client = await RawClient.connect(proxy.port)
        assert not await is_widened(client, upstream)
        await client.close()
        writer.close()
        await writer.wait_closed()


async def test_a_description_that_is_cut_teaches_nothing() -> None:
    async def script(talk: Talk) -> None:
        while (request := await talk.request()) is not None:
            if request.line[:3] != b"GET":
                await talk.send(database(request))
                continue
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(DOCUMENT) + 1) + DOCUMENT)
            return

    async with FaultyUpstream(script) as upstream, running(upstream.url, backend="chroma", **OFF_FOR_DOCS) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"GET {COLLECTIONS}/docs HTTP/1.1\r\nHost: c\r\n\r\n".encode())
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
        await writer.wait_closed()
        client = await RawClient.connect(proxy.port)
        assert await is_widened(client, upstream)
        await client.close()

"""A port with one index behind it: plain paths reach that index, everything else what it reaches on the main port."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, answering, raw_exchange, reply
from support.network.ports import free_ports
from support.process.running import Running, running


def echo(received: Received) -> bytes:
    return reply(received.line)


def in_front(control: FaultyUpstream, ports: dict[int, str], **section: object) -> AbstractAsyncContextManager[Running]:
    return running(control.url, backend="pinecone", pinecone={"index_ports": ports, **section})


def request_for(path: bytes, method: bytes = b"GET", body: bytes = b"") -> bytes:
    framing = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%s %s HTTP/1.1\r\nHost: vs:6343\r\n%sConnection: close\r\n\r\n%s" % (method, path, framing, body)


async def answered(port: int, raw: bytes) -> bytes:
    return (await raw_exchange(port, raw)).partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "path",
    [
        *(b"/query", b"//query", b"/vectors/fetch?ids=b+c&ids=b%20c&namespace=", b"/records/namespaces//search"),
        *(b"/namespaces/a%2Fb/documents/search", b"/describe_index_stats", b"/bulk/imports"),
    ],
)
async def test_plain_paths_reach_the_index_behind_their_port_byte_for_byte(path: bytes) -> None:
    docs_port, chat_port = free_ports(2)
    async with (
        FaultyUpstream(answering(echo)) as docs,
        FaultyUpstream(answering(echo)) as chat,
        FaultyUpstream(answering(echo)) as control,
        in_front(control, {docs_port: docs.url, chat_port: chat.url}) as proxy,
    ):
        assert proxy.index_ports == tuple(sorted((docs_port, chat_port)))
        for port in (docs_port, chat_port, docs_port):
            assert await answered(port, request_for(path)) == b"GET " + path + b" HTTP/1.1"
        assert b"--index-host" in await answered(proxy.port, request_for(path))
        hosts = [received.header(b"host") for received in (*docs.requests, *chat.requests)]
        assert hosts == [b"127.0.0.1:%d" % port for port in (docs.port, docs.port, chat.port)]
    assert control.connections == 0


async def test_the_control_plane_and_named_hosts_are_reached_at_every_port() -> None:
    docs_port, chat_port = free_ports(2)
    async with (
        FaultyUpstream(answering(echo)) as docs,
        FaultyUpstream(answering(echo)) as chat,
        FaultyUpstream(answering(echo)) as control,
        in_front(control, {docs_port: docs.url, chat_port: chat.url}) as proxy,
    ):
        for port in (proxy.port, docs_port):
            assert await answered(port, request_for(b"/collections")) == b"GET /collections HTTP/1.1"
            assert await answered(port, request_for(b"/_i/127.0.0.1:%d/query" % chat.port)) == b"GET /query HTTP/1.1"
            assert b"allowed_hosts" in await answered(port, request_for(b"/_i/127.0.0.1:1/query"))
    assert (len(control.requests), len(chat.requests), docs.connections) == (2, 2, 0)


async def test_the_main_port_keeps_its_fixed_index() -> None:
    (docs_port,) = free_ports(1)
    async with (
        FaultyUpstream(answering(reply(b"docs"))) as docs,
        FaultyUpstream(answering(reply(b"fixed"))) as fixed,
        FaultyUpstream(answering(echo)) as control,
        in_front(control, {docs_port: docs.url}, index_host=fixed.url) as proxy,
    ):
        assert await answered(proxy.port, request_for(b"/query")) == b"fixed"
        assert await answered(docs_port, request_for(b"/query")) == b"docs"


async def test_a_search_at_a_port_is_widened_under_its_indexs_policy() -> None:
    empty = reply(b'{"results":[],"matches":[],"namespace":"","usage":{"readUnits":1}}')
    docs_port, chat_port = free_ports(2)
    search = request_for(b"/query", b"POST", b'{"topK":3,"vector":[1.0,0.5]}')
    async with FaultyUpstream(answering(empty)) as docs, FaultyUpstream(answering(empty)) as chat:
        rules = ({"collection": f"127.0.0.1:{chat.port}", "policy": {"mode": "off"}},)
        section = {"index_ports": {docs_port: docs.url, chat_port: chat.url}}
        async with running("http://127.0.0.1:1", backend="pinecone", pinecone=section, rules=rules):
            for port in (docs_port, chat_port):
                await raw_exchange(port, search)
    assert json.loads(docs.requests[0].body)["topK"] > 3
    assert [received.content for received in chat.requests] == [b'{"topK":3,"vector":[1.0,0.5]}']


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            b"/indexes/docs",
            {"status": 502, "error": {"code": "UNAVAILABLE", "message": "The database cannot be reached"}},
        ),
        (b"/rerank", {"status": 502, "error": {"code": "UNAVAILABLE", "message": "The database cannot be reached"}}),
        (b"/query", {"code": 14, "message": "The database cannot be reached", "details": []}),
    ],
)
async def test_an_answer_of_ours_has_the_shape_of_the_plane_that_was_asked(path: bytes, expected: object) -> None:
    (port,) = free_ports(1)
    section = {"index_ports": {port: "http://127.0.0.1:9"}}
    async with running("http://127.0.0.1:9", backend="pinecone", pinecone=section):
        assert json.loads(await answered(port, request_for(path))) == expected


async def test_documents_search_of_the_preview_passes_and_that_of_its_successor_is_widened() -> None:
    (port,) = free_ports(1)
    body = b'{"score_by":[{"type":"dense_vector","field":"v","values":[1.0,0.5]}],"top_k":3}'
    async with FaultyUpstream(answering(reply(b'{"matches":[],"namespace":"n","usage":{"read_units":1}}'))) as index:
        section = {"index_ports": {port: index.url}}
        async with running("http://127.0.0.1:9", backend="pinecone", pinecone=section):
            for version in (b"2026-01.alpha", b"2026-07"):
                head = b"POST /namespaces/n/documents/search HTTP/1.1\r\nHost: vs\r\nX-Pinecone-API-Version: %s\r\n"
                sent = head + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
                await raw_exchange(port, sent % (version, len(body), body))
    assert index.requests[0].content == body
    assert index.requests[1].content != body

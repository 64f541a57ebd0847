"""What the database sees: the client's request, byte for byte, less what belongs to the client's own hop."""

from __future__ import annotations

import asyncio

import pytest

from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, answering, raw_exchange, reply
from support.network.relay_server import bare_relay, relayed

CLOSE = b"Connection: close\r\n"


async def seen(request: bytes) -> Received:
    """What arrives upstream of one request."""
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, bare_relay(upstream.url) as relay:
        await raw_exchange(relay.port, request)
        assert len(upstream.requests) == 1
        return upstream.requests[0]


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/a/../b",
        b"/a/./b/",
        b"/%2e%2e/%2E",
        b"/collections/a%2Fb/points/search",
        b"//evil.example/a",
        b"/collections//x/points/search//",
        b"/a?",
        b"/a?x=1&x=2&y=%zz&+",
        b"/a?b?c",
        b"/%C3%A9%00",
        b"/a;b=c,d:e@f!$&'()*+=~",
    ],
)
async def test_the_raw_target_is_forwarded_untouched(target: bytes) -> None:
    request = await seen(b"GET " + target + b" HTTP/1.1\r\nHost: client\r\n" + CLOSE + b"\r\n")
    assert request.line == b"GET " + target + b" HTTP/1.1"


async def test_fields_keep_their_order_case_and_number() -> None:
    request = await seen(
        b"GET / HTTP/1.1\r\nX-B: 1\r\nx-a: 2\r\nHost: client:1\r\nX-b: 3\r\nACCEPT: a\r\nAccept: b\r\n"
        b"X-Empty:\r\nX-Cafe: caf\xc3\xa9\r\n" + CLOSE + b"\r\n"
    )
    names = [name for name, _ in request.headers]
    assert names == [b"X-B", b"x-a", b"Host", b"X-b", b"ACCEPT", b"Accept", b"X-Empty", b"X-Cafe"]
    values = [value for name, value in request.headers if name != b"Host"]
    assert values == [b"1", b"2", b"3", b"a", b"b", b"", b"caf\xc3\xa9"]


async def test_nothing_is_added_to_a_request() -> None:
    request = await seen(b"GET / HTTP/1.1\r\nHost: client\r\n" + CLOSE + b"\r\n")
    assert [name for name, _ in request.headers] == [b"Host"]


async def test_host_is_the_databases_own() -> None:
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url) as relay:
        await raw_exchange(relay.port, b"GET / HTTP/1.1\r\nhost: evil.example\r\n" + CLOSE + b"\r\n")
        assert upstream.requests[0].headers == [(b"host", b"127.0.0.1:%d" % upstream.port)]


async def test_a_client_without_host_gets_one_upstream() -> None:
    request = await seen(b"GET / HTTP/1.0\r\n\r\n")
    assert request.line == b"GET / HTTP/1.1"
    assert request.header(b"host") is not None


async def test_fields_of_the_hop_stay_on_it() -> None:
    request = await seen(
        b"GET / HTTP/1.1\r\nHost: c\r\nConnection: close, x-mine, Content-Length, host\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"
        b"Proxy-Authorization: secret\r\nProxy-Connection: close\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\n"
        b"Expect: 200-maybe\r\nx-vecsieve-mode: off\r\nX-VecSieve-Fetch-K: 3\r\nX-Theirs: 2\r\n\r\n"
    )
    assert [name for name, _ in request.headers] == [b"Host", b"X-Theirs"]


async def test_a_body_with_a_length_keeps_it() -> None:
    request = await seen(b"POST / HTTP/1.1\r\nHost: c\r\nconTent-length: 5\r\nX-After: 1\r\n" + CLOSE + b"\r\nhello")
    assert [name for name, _ in request.headers] == [b"Host", b"conTent-length", b"X-After"]
    assert request.body == b"hello"


async def test_a_chunked_body_stays_chunked() -> None:
    request = await seen(
        b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n"
        + CLOSE
        + b"\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n"
    )
    assert request.header(b"transfer-encoding") == b"chunked"
    assert request.header(b"content-length") is None
    assert request.content == b"hello!"


@pytest.mark.parametrize("method", [b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"])
async def test_a_request_without_a_body_gets_no_framing(method: bytes) -> None:
    request = await seen(method + b" / HTTP/1.1\r\nHost: c\r\n" + CLOSE + b"\r\n")
    assert request.header(b"content-length") is None
    assert request.header(b"transfer-encoding") is None


@pytest.mark.parametrize("method", [b"GET", b"POST", b"DELETE"])
async def test_content_length_zero_is_preserved(method: bytes) -> None:
    request = await seen(method + b" / HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n" + CLOSE + b"\r\n")
    assert request.header(b"content-length") == b"0"
    assert request.header(b"transfer-encoding") is None


async def test_an_empty_chunked_body_stays_chunked() -> None:
    request = await seen(b"PUT / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n0\r\n\r\n")
    assert request.body == b"0\r\n\r\n"


async def test_a_get_with_a_body_keeps_it() -> None:
    request = await seen(b"GET /x HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n" + CLOSE + b"\r\n{}")
    assert request.body == b"{}"


async def test_a_compressed_body_is_not_opened() -> None:
    body = b"\x1f\x8bnot really gzip"
    request = await seen(
        b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n" % len(body)
        + CLOSE
        + b"\r\n"
        + body
    )
    assert request.body == body
    assert request.header(b"content-encoding") == b"gzip"


async def test_a_waiting_client_is_told_to_continue_only_when_its_body_is_requested() -> None:
    async with relayed(answering(reply(b"done"))) as (client, _, upstream):
        await client.send(b"PUT / HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hello")
        assert (await client.reply()).body == b"done"
        await client.close()
        assert upstream.requests[0].header(b"expect") is None


async def test_a_waiting_client_is_spared_its_body_when_the_database_is_down() -> None:
    async with FaultyUpstream(answering(reply())) as gone:
        url = gone.url
    async with bare_relay(url) as relay:
        client = await RawClient.connect(relay.port)
        await client.send(b"PUT / HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert (await client.reply()).status == 502
        await client.close()


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with relayed(answering(lambda request: reply(request.line))) as (client, _, _):
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: c\r\n\r\n" % number for number in range(5)))
        bodies = [(await client.reply()).body for _ in range(5)]
    assert bodies == [b"GET /%d HTTP/1.1" % number for number in range(5)]


async def test_a_body_streams_through_before_it_is_complete() -> None:
    arrived = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.reader.readexactly(len(b"5\r\nfirst\r\n"))
        arrived.set()
        await talk.reader.readuntil(b"0\r\n\r\n")
        await talk.send(reply(b"ok"))

    async with relayed(script) as (client, _, _):
        await client.send(b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await asyncio.wait_for(arrived.wait(), 5)
        await client.send(b"0\r\n\r\n")
        assert (await client.reply()).body == b"ok"

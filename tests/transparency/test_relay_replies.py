"""What the client sees: the database's answer, byte for byte, less what belongs to the database's own hop."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from support.network.faulty_upstream import FaultyUpstream, RawReply, Talk, answering, raw_exchange, reply
from support.network.relay_server import bare_relay, relayed

GET = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
GET_CLOSE = b"GET / HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"


async def got(answer: bytes, request: bytes = GET, *, bodiless: bool = False) -> RawReply:
    """The reply the client reads when the database sends ``answer`` and ends the connection."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(answer)

    async with relayed(script, request) as (client, _, _):
        result = await client.reply(bodiless=bodiless)
        await client.close()
        return result


async def test_the_whole_head_is_the_databases_own() -> None:
    head = (
        b"HTTP/1.1 200 Fine And Dandy\r\nX-B: 1\r\nx-a: 2\r\nVary: a\r\nvary: b\r\nSET-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
        b"content-length: 2\r\nX-Caf: caf\xc3\xa9\r\nX-Empty: \r\n\r\n"
    )
    assert (await got(head + b"ok")).head == head


async def test_nothing_is_added_to_a_reply() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert (await got(head + b"ok")).head == head


@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 200 ", b"HTTP/1.1 299 Custom", b"HTTP/1.1 404 N\xc3\xb6", b"HTTP/1.1 599 X"]
)
async def test_status_and_reason_are_kept(line: bytes) -> None:
    assert (await got(line + b"\r\nContent-Length: 0\r\n\r\n")).line == line


async def test_a_redirect_is_relayed_not_followed() -> None:
    result = await got(reply(status=b"307 Temporary Redirect", headers=[(b"Location", b"http://evil.example/")]))
    assert result.line == b"HTTP/1.1 307 Temporary Redirect"
    assert result.header(b"location") == b"http://evil.example/"


async def test_cookies_are_relayed_and_never_kept() -> None:
    async with relayed(answering(reply(headers=[(b"Set-Cookie", b"session=secret; Path=/")]))) as (client, _, upstream):
        for _ in range(2):
            await client.send(GET)
            assert (await client.reply()).header(b"set-cookie") == b"session=secret; Path=/"
        await client.close()
        assert all(request.header(b"cookie") is None for request in upstream.requests)


async def test_fields_of_the_hop_stay_on_it() -> None:
    result = await got(
        b"HTTP/1.1 200 OK\r\nConnection: x-mine, close\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n"
        b"Trailer: x\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\nX-Theirs: 2\r\n\r\n"
    )
    assert result.headers == [(b"Content-Length", b"0"), (b"X-Theirs", b"2")]


async def test_the_clients_connection_outlives_a_database_that_closes_its_own() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(b"ok", headers=[(b"Connection", b"close")]))

    async with relayed(script) as (client, _, _):
        for _ in range(3):
            await client.send(GET)
            assert (await client.reply()).body == b"ok"


async def test_a_chunked_reply_stays_chunked() -> None:
    result = await got(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")
    assert result.headers == [(b"Transfer-Encoding", b"chunked")]
    assert result.body == b"hello!"


async def test_a_reply_that_ends_with_the_connection_still_does() -> None:
    result = await got(b"HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nuntil the end")
    assert result.headers == [(b"X-A", b"1"), (b"Connection", b"close")]
    assert result.body == b"until the end"


async def test_compressed_bytes_are_not_opened() -> None:
    body = gzip.compress(b"x" * 5000, mtime=0)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    result = await got(head + body)
    assert result.head == head
    assert result.body == body


@pytest.mark.parametrize("framing", [b"Content-Length: 1234\r\n", b"Transfer-Encoding: chunked\r\n", b""])
async def test_an_answer_to_head_keeps_its_framing_and_has_no_body(framing: bytes) -> None:
    async with relayed(answering(b"HTTP/1.1 200 OK\r\n" + framing + b"ETag: x\r\n\r\n")) as (client, _, _):
        for _ in range(2):
            await client.send(b"HEAD / HTTP/1.1\r\nHost: c\r\n\r\n")
            assert (await client.reply(bodiless=True)).head == b"HTTP/1.1 200 OK\r\n" + framing + b"ETag: x\r\n\r\n"


async def test_204_has_no_body_and_no_framing() -> None:
    head = b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"
    assert (await got(head, bodiless=True)).head == head


async def test_304_keeps_its_content_length() -> None:
    head = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 77\r\n\r\n"
    assert (await got(head, bodiless=True)).head == head


async def test_ranges_pass_both_ways() -> None:
    async with relayed(
        answering(reply(b"bcd", status=b"206 Partial Content", headers=[(b"Content-Range", b"bytes 1-3/10")]))
    ) as (client, _, upstream):
        await client.send(b"GET /snapshot HTTP/1.1\r\nHost: c\r\nRange: bytes=1-3\r\nIf-Range: x\r\n\r\n")
        result = await client.reply()
        await client.close()
        assert upstream.requests[0].header(b"range") == b"bytes=1-3"
    assert (result.status, result.body, result.header(b"content-range")) == (206, b"bcd", b"bytes 1-3/10")


async def test_interim_answers_do_not_hide_the_final_one() -> None:
    result = await got(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + reply(b"final"))
    assert result.body == b"final"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nConnection : close\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 099 Odd\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX-A: a\rb\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
async def test_a_reply_that_two_parsers_could_read_apart_is_no_reply(head: bytes) -> None:
    result = await got(head)
    assert result.line.startswith(b"HTTP/1.1 502 ")
    assert b"abc" not in result.body


async def test_a_reply_in_the_identity_coding_ends_with_the_connection_and_says_nothing_of_it() -> None:
    result = await got(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nX-A: 1\r\n\r\nabc")
    assert (result.header(b"transfer-encoding"), result.header(b"connection"), result.body) == (None, b"close", b"abc")


async def test_a_folded_field_of_a_reply_is_passed_on_in_one_line() -> None:
    result = await got(b"HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2\r\n\r\nok")
    assert (result.header(b"x-a"), result.body) == (b"a b", b"ok")


async def test_an_old_client_gets_an_unchunked_answer_that_ends_with_the_connection() -> None:
    result = await got(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"
    )
    assert (result.line, result.headers, result.body) == (b"HTTP/1.0 200 OK", [], b"hello")


async def test_an_old_client_may_keep_its_connection() -> None:
    async with relayed(answering(reply(b"ok"))) as (client, _, _):
        for _ in range(2):
            await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await client.reply()).header(b"connection") == b"keep-alive"


async def test_a_client_that_wants_to_close_is_told_so() -> None:
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, bare_relay(upstream.url) as relay:
        answer = await raw_exchange(relay.port, GET_CLOSE)
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"body", id="a head before its body begins"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
            b"0\r\n\r\n",
            id="a body before it is complete",
        ),
    ],
)
async def test_a_reply_streams_through(first: bytes, then: bytes) -> None:
    proceed = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(first)
        await proceed.wait()
        await talk.send(then)

    async with relayed(script, GET) as (client, _, _):
        assert await client.reader.readexactly(len(first)) == first
        proceed.set()
        assert await client.reader.readexactly(len(then)) == then


@pytest.mark.parametrize("status", [b"403 Forbidden", b"413 Payload Too Large"])
async def test_an_early_refusal_is_relayed_and_the_connection_ended(status: bytes) -> None:
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(reply(b"no", status=status))
        await talk.reader.read()  # until the proxy gives the upload up

    async with relayed(script) as (client, _, _):
        await client.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 1000000\r\n\r\nonly the beginning")
        result = await client.reply()
        assert result.line == b"HTTP/1.1 " + status
        assert result.body == b"no"
        assert result.header(b"connection") == b"close"

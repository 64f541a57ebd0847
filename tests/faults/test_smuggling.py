"""Requests that two parsers could read apart: the database never sees one that the client did not frame.

Each case is followed by a poisoned request on the same connection; it must not arrive as part of, or instead of, another.
"""

from __future__ import annotations

import re

import pytest

from support.faultup import FaultyUpstream, RawClient, answering, raw_exchange, reply
from support.relay_server import bare_relay

POISON = b"GET /poison HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
HEAD = b"POST /a HTTP/1.1\r\nHost: c\r\n"
STATUS_LINE = re.compile(rb"HTTP/1\.[01] [0-9]{3} ")
CHUNK = b"0\r\n\r\n"

# (what, bytes, the status the client gets): refused, and nothing at all reaches the database.
REFUSED = [
    ("CL and TE", HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK, 400),
    ("TE and CL", HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + CHUNK, 400),
    ("two lengths apart", HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("two lengths alike", HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("a list of lengths", HEAD + b"Content-Length: 4, 4\r\n\r\nabcd", 400),
    ("a signed length", HEAD + b"Content-Length: +4\r\n\r\nabcd", 400),
    ("a negative length", HEAD + b"Content-Length: -4\r\n\r\nabcd", 400),
    ("a hexadecimal length", HEAD + b"Content-Length: 0x4\r\n\r\nabcd", 400),
    ("a length with a gap", HEAD + b"Content-Length: 1 0\r\n\r\nabcd", 400),
    ("an underscored length", HEAD + b"Content-Length: 1_0\r\n\r\nabcd", 400),
    ("an empty length", HEAD + b"Content-Length:\r\n\r\n", 400),
    ("a length beyond 64 bits", HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    ("gzip, chunked", HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNK, 501),
    ("chunked, chunked", HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + CHUNK, 400),
    ("two TE lines", HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK, 400),
    ("TE identity", HEAD + b"Transfer-Encoding: identity\r\n\r\n", 400),
    ("TE chunked, identity", HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNK, 400),
    ("TE xchunked", HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNK, 400),
    ("TE chunked;x", HEAD + b"Transfer-Encoding: chunked;x=y\r\n\r\n" + CHUNK, 400),
    ("TE quoted", HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n' + CHUNK, 400),
    ("TE with vertical tab", HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNK, 400),
    ("TE with a space before the colon", HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNK, 400),
    ("CL with a space before the colon", HEAD + b"Content-Length : 4\r\n\r\nabcd", 400),
    ("TE folded", HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNK, 400),
    ("a folded field", HEAD + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n", 400),
    ("a folded first field", b"POST /a HTTP/1.1\r\n Host: c\r\n\r\n", 400),
    ("chunked on HTTP/1.0", b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK, 400),
    ("bare LF in the head", b"POST /a HTTP/1.1\nHost: c\n\n", 400),
    ("bare CR in a value", HEAD + b"X: a\rb\r\n\r\n", 400),
    ("NUL in a value", HEAD + b"X: a\x00b\r\n\r\n", 400),
    ("NUL in a name", HEAD + b"X\x00: a\r\n\r\n", 400),
    ("a control character", HEAD + b"X: a\x01b\r\n\r\n", 400),
    ("delete in a value", HEAD + b"X: a\x7fb\r\n\r\n", 400),
    ("a space in a name", HEAD + b"X y: a\r\n\r\n", 400),
    ("no name", HEAD + b": a\r\n\r\n", 400),
    ("no colon", HEAD + b"justwords\r\n\r\n", 400),
    ("bytes that are no UTF-8", HEAD + b"X: caf\xe9\r\n\r\n", 400),
    ("two hosts", HEAD + b"Host: d\r\n\r\n", 400),
    ("no host", b"GET /a HTTP/1.1\r\n\r\n", 400),
    ("HTTP/2.0", b"GET /a HTTP/2.0\r\nHost: c\r\n\r\n", 400),
    ("the HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("HTTP/1.2", b"GET /a HTTP/1.2\r\nHost: c\r\n\r\n", 400),
    ("HTTP/0.9", b"GET /a\r\n\r\n", 400),
    ("HTTP/1.10", b"GET /a HTTP/1.10\r\nHost: c\r\n\r\n", 400),
    ("a lower-case protocol", b"GET /a http/1.1\r\nHost: c\r\n\r\n", 400),
    ("absolute form", b"GET http://evil.example/a HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("absolute form of another scheme", b"GET gopher://evil.example/a HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("authority form", b"GET evil.example:80 HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("userinfo as target", b"GET @evil.example/a HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("a query alone", b"GET ?a HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("asterisk form", b"OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("CONNECT", b"CONNECT evil.example:443 HTTP/1.1\r\nHost: c\r\n\r\n", 405),
    ("a space in the target", b"GET /a b HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("bytes beyond ASCII in the target", b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("a tab in the target", b"GET /a\tb HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("an unknown method", b"FROBNICATE /a HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("a lower-case method", b"get /a HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ("too long a line", b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\nHost: c\r\n\r\n", 431),
    ("too long a field", HEAD + b"X: " + b"a" * 17_000 + b"\r\n\r\n", 431),
    ("too many fields", HEAD + b"X: a\r\n" * 200 + b"\r\n", 431),
]


@pytest.mark.parametrize(("data", "status"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_an_ambiguous_request_is_refused_and_ends_its_connection(data: bytes, status: int) -> None:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        answer = await raw_exchange(relay.port, data + POISON)
        assert upstream.requests == []
        assert upstream.connections == 0
    assert answer.split(b" ")[1] == b"%d" % status
    assert len(STATUS_LINE.findall(answer)) == 1, "the poisoned request was answered too"
    assert b"x-vecsieve-origin: proxy" in answer
    assert b"Server:" not in answer
    assert b"Date:" not in answer


# Framing that goes wrong within a body: the request has begun upstream, and is never completed there.
BROKEN_BODIES = [
    ("a chunk size that is none", b"zz\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size with a sign", b"+3\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size in 0x form", b"0x3\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size beyond 64 bits", b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    ("a negative chunk size", b"-3\r\nabc\r\n0\r\n\r\n"),
    ("a chunk longer than its size", b"3\r\nabcd\r\n0\r\n\r\n"),
    ("a chunk size ended by a bare LF", b"3\nabc\r\n0\r\n\r\n"),
    ("a chunk ended by a bare LF", b"3\r\nabc\n0\r\n\r\n"),
    ("spaces before a chunk size", b"  3\r\nabc\r\n0\r\n\r\n"),
    ("a space after a chunk size", b"3 \r\nabc\r\n0\r\n\r\n"),
    ("a length among the trailers", b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n"),
    ("a coding among the trailers", b"3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("a bare CR in an extension", b"3;a\rb\r\nabc\r\n0\r\n\r\n"),
]


@pytest.mark.parametrize("body", [case[1] for case in BROKEN_BODIES], ids=[case[0] for case in BROKEN_BODIES])
@pytest.mark.parametrize("apart", [False, True])
async def test_a_body_with_broken_chunks_is_never_completed_upstream(body: bytes, apart: bool) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    good = b"2\r\nok\r\n" if apart else b""
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        answer = await raw_exchange(relay.port, head + good + body + POISON)
        assert upstream.requests == []
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert b"seen" not in answer


@pytest.mark.parametrize(
    ("name", "data", "bodies"),
    [
        (
            "upgrade to websocket",
            b"GET /a HTTP/1.1\r\nHost: c\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            [b"", b""],
        ),
        (
            "a large extension",
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;" + b"x" * 900 + b"\r\nabc\r\n0\r\n\r\n",
            [b"abc", b""],
        ),
        ("trailers", HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Checksum: 9\r\n\r\n", [b"abc", b""]),
        ("TE in capitals", HEAD + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n", [b"abc", b""]),
        (
            "Connection names the length",
            HEAD + b"Connection: content-length\r\nContent-Length: 3\r\n\r\nabc",
            [b"abc", b""],
        ),
        ("an underscored name", HEAD + b"Content_Length: 9\r\nContent-Length: 3\r\n\r\nabc", [b"abc", b""]),
        ("empty lines before", b"\r\n\r\n" + HEAD + b"Content-Length: 3\r\n\r\nabc", [b"abc", b""]),
        ("a length with zeros", HEAD + b"Content-Length: 0003\r\n\r\nabc", [b"abc", b""]),
        ("a request inside a body", HEAD + b"Content-Length: %d\r\n\r\n" % len(POISON) + POISON, [POISON, b""]),
    ],
)
async def test_what_is_odd_but_unambiguous_arrives_as_the_client_framed_it(
    name: str, data: bytes, bodies: list[bytes]
) -> None:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        answer = await raw_exchange(relay.port, data + POISON)
        assert [request.content for request in upstream.requests] == bodies, name
        assert upstream.requests[-1].line == b"GET /poison HTTP/1.1"
    assert answer.count(b"seen") == 2


async def test_an_upgrade_to_http2_is_answered_as_an_ordinary_request() -> None:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        client = await RawClient.connect(relay.port)
        await client.send(
            b"GET /a HTTP/1.1\r\nHost: c\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n"
        )
        assert (await client.reply()).body == b"seen"
        await client.send(POISON)
        assert (await client.reply()).body == b"seen"
        await client.close()
        assert [name for name, _ in upstream.requests[0].headers] == [b"Host"]
        assert len(upstream.requests) == 2

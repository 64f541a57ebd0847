from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from support.network.faulty_upstream import FaultyUpstream, RawClient, answering, reply
from support.network.relay_server import bare_relay
from vecsieve.proxy.http.protocol import (
    FRAMING_BYTES,
    LARGEST_PIECE_BYTES,
    LEAST_PIECE_BYTES,
    NO_TRAILERS,
    TURN_FRAMING_BYTES,
    ChunkWatch,
    ClientConnection,
    TrailerWatch,
)

HEAD = b"PUT /collections/c/points HTTP/1.1\r\nHost: db\r\nTransfer-Encoding: chunked\r\n\r\n"
TIMEOUT = 20.0


class Body:
    """What of a body's reader is looked at."""

    total_bytes = 0


def fed(watch: ChunkWatch, body: Body, *, content: int, framing: int) -> int | None:
    body.total_bytes += content
    return watch.fed(content + framing, body)  # type: ignore[arg-type]  # - it has what is looked at


def test_chunks_of_a_byte_are_a_flood_when_their_framing_has_come_to_the_bound() -> None:
    watch, body, count = ChunkWatch(), Body(), 0
    fed(watch, body, content=0, framing=80)
    while not watch.is_flood:
        assert fed(watch, body, content=100, framing=500) == 500
        count += 1
    assert count == FRAMING_BYTES // 500 + 1


@given(st.lists(st.tuples(st.integers(13, 100_000), st.integers(1, 300)), max_size=50))
def test_chunks_of_thirteen_bytes_and_more_are_never_a_flood(pieces: list[tuple[int, int]]) -> None:
    """Invariant: however much comes, a body whose chunks are not tiny is no flood, and its pieces stay within their bounds."""
    watch, body = ChunkWatch(), Body()
    for size, count in pieces:
        fed(watch, body, content=size * count, framing=(len(f"{size:x}") + 4) * count)
        assert not watch.is_flood
        assert LEAST_PIECE_BYTES <= watch.piece_bytes <= LARGEST_PIECE_BYTES


def test_the_next_body_begins_anew() -> None:
    watch, one, other = ChunkWatch(), Body(), Body()
    fed(watch, one, content=0, framing=0)
    fed(watch, one, content=10, framing=2 * FRAMING_BYTES)
    assert watch.is_flood
    fed(watch, other, content=0, framing=80)
    assert not watch.is_flood
    assert not watch.fed(10, None)
    assert watch.body is None


async def flooded(port: int, piece: bytes) -> tuple[bytes, int]:
    """What a client hears that sends this for ever, and how much it could send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD)
    sent, observer = 0, asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    with contextlib.suppress(ConnectionError):
        while not observer.done() and sent < 64 * 2**20:
            writer.write(piece * (65536 // len(piece)))
            await writer.drain()
            sent += 65536
            await asyncio.sleep(0)
    heard = await asyncio.wait_for(observer, TIMEOUT)
    writer.transport.abort()
    return heard, sent


@pytest.mark.parametrize("piece", [b"1\r\nx\r\n", b"0001;name=value\r\nx\r\n"])
async def test_a_flood_of_chunks_is_answered_400_cut_and_counted(piece: bytes) -> None:
    async with (
        asyncio.timeout(TIMEOUT),
        FaultyUpstream(answering(reply())) as upstream,
        bare_relay(upstream.url) as relay,
    ):
        heard, sent = await flooded(relay.port, piece)
        assert heard.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close" in heard.lower()
        assert sent < 16 * 2**20
        assert relay.heard.rejected == ["flood"]
        assert not any(request.content for request in upstream.requests), "half a body is no write"
        while len(relay.listener.server.rules.connections) > 0:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("beginning", "more"),
    [(HEAD, b"1\r\nx\r\n"), (HEAD, b"d\r\nthirteen byte\r\n"), (b"", b"\r\n")],
    ids=["chunks of a byte", "chunks of thirteen bytes", "empty lines"],
)
async def test_a_turn_of_the_loop_takes_little_framing(
    monkeypatch: pytest.MonkeyPatch, beginning: bytes, more: bytes
) -> None:
    turns, feed = [0], ClientConnection._feed

    def counted(self: ClientConnection, data: bytes) -> int:
        framing = feed(self, data)
        turns[-1] += framing
        return framing

    async def turning() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(0)

    async with (
        asyncio.timeout(TIMEOUT),
        FaultyUpstream(answering(reply())) as upstream,
        bare_relay(upstream.url) as relay,
    ):
        monkeypatch.setattr(ClientConnection, "_feed", counted)
        counting = asyncio.create_task(turning())
        client = await RawClient.connect(relay.port)
        await client.send(beginning + more * (2**19 // len(more)))
        while sum(turns) < 20 * TURN_FRAMING_BYTES:
            await asyncio.sleep(0)
        most = max(turns)
        counting.cancel()
        await client.close()
    assert most <= 3 * TURN_FRAMING_BYTES


def chunked(parts: Iterator[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("largest", [7, 600, 5_000, 300_000])
async def test_a_body_in_chunks_arrives_whole_however_it_was_fed(largest: int) -> None:
    content = bytes(range(256)) * 8192
    parts, at = [], 0
    for number in range(len(content)):
        size = 1 + (number * 7919) % largest
        parts.append(content[at : at + size])
        at += size
        if at >= len(content) or len(parts) == 60_000:
            break
    expected = b"".join(parts)
    async with (
        asyncio.timeout(60),
        FaultyUpstream(answering(reply(b"done"))) as upstream,
        bare_relay(upstream.url) as relay,
    ):
        client = await RawClient.connect(relay.port)
        await client.send(HEAD + chunked(iter(parts)))
        assert (await client.reply()).status == 200
        assert upstream.requests[0].content == expected
        assert relay.heard.rejected == []
        await client.close()


async def test_a_json_encoder_that_sends_a_chunk_a_token_is_no_flood() -> None:
    vectors = [[number / 7 for number in range(1536)] for _ in range(8)]
    parts = [part.encode() for part in json.JSONEncoder().iterencode({"points": vectors})]
    async with (
        asyncio.timeout(TIMEOUT),
        FaultyUpstream(answering(reply())) as upstream,
        bare_relay(upstream.url) as relay,
    ):
        client = await RawClient.connect(relay.port)
        await client.send(HEAD + chunked(iter(parts)))
        assert (await client.reply()).status == 200
        await client.close()
        assert relay.heard.rejected == []


# When a connection may go on behind a chunked body, and when its parser may still hold a trailer.

TRAILER_HEAD = b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: c\r\n\r\n"


class Fed:
    """aiohttp's parser beside the watch that follows it."""

    def __init__(self) -> None:
        self.parser = HttpRequestParser(BaseProtocol(loop=None), None, 2**16)  # type: ignore[arg-type]  # - it asks no loop
        self.watch = TrailerWatch()

    def feed(self, data: bytes) -> int | None:
        messages, _, _ = self.parser.feed_data(data)
        return self.watch.following(data, messages)


async def test_control_aiohttp_hands_the_last_trailer_to_the_next_request() -> None:
    fed = Fed()
    fed.feed(TRAILER_HEAD + b"0\r\nA: 1\r\nApi-Key: stolen\r\n\r\n")
    ((message, _),), _, _ = fed.parser.feed_data(NEXT)
    assert message.raw_headers[0] == (b"Api-Key", b"stolen"), "aiohttp was mended: the watch may go"


@pytest.mark.parametrize("body", [b"0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\n\r\n"])
async def test_a_body_without_trailers_lets_the_connection_go_on(body: bytes) -> None:
    assert Fed().feed(TRAILER_HEAD + body) is None


@pytest.mark.parametrize(
    "body", [b"0\r\nA: 1\r\n\r\n", b"0\r\nA: 0\r\n\r\n", b"3\r\nabc\r\n0\r\nA: 1\r\nB: \r\n\r\n", b"0;x\r\n\r\n"]
)
async def test_a_body_that_may_have_had_trailers_ends_it(body: bytes) -> None:
    assert Fed().feed(TRAILER_HEAD + body) == 0


async def test_a_request_in_the_same_segment_stands_behind_it() -> None:
    assert Fed().feed(TRAILER_HEAD + b"0\r\n\r\n" + NEXT * 2) == 2
    assert Fed().feed(TRAILER_HEAD + b"0\r\n\r\n" + NEXT[:9]) == 0


@given(
    trailers=st.lists(st.sampled_from([b"A: 1", b"B: 0", b"C:", b"X: \t0"]), max_size=3),
    cuts=st.lists(st.integers(0, 120), max_size=6),
)
async def test_however_it_is_cut_no_trailer_is_handed_on_and_no_clean_body_punished(
    trailers: list[bytes], cuts: list[int]
) -> None:
    """Of a connection that goes on, the next request's fields are its own; without trailers it always goes on."""
    whole = TRAILER_HEAD + b"3\r\nabc\r\n0\r\n" + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    fed = Fed()
    results = [fed.feed(whole[start:end]) for start, end in pairwise(edges)]
    assert any(result is not None for result in results) == bool(trailers)
    if not trailers:
        messages, _, _ = fed.parser.feed_data(NEXT)
        assert fed.watch.following(NEXT, messages) is None
        ((message, _),) = messages
        assert message.raw_headers == ((b"Host", b"c"),)


def test_the_clean_end_needs_the_line_before_the_last_chunk() -> None:
    assert NO_TRAILERS.startswith(b"\r\n"), "`A: 0` ends in 0 and an empty line, too"

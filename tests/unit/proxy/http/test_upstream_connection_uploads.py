"""What a connection to the database writes: heads and bodies of requests, in how many writes, and how fast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from support.network.upstream_wire import HEAD, PUT, Line, outcome
from vecsieve.proxy.http.upstream_connection import SLICE_BYTES
from vecsieve.proxy.search.errors import ClientBodyError, ClientFault, FailureKind


async def test_head_and_body_go_out_in_one_write() -> None:
    line = Line()
    exchange = line.ask(b"{}", head=PUT + b"Content-Length: 2\r\n\r\n")
    assert line.wire.writes == [PUT + b"Content-Length: 2\r\n\r\n{}"]
    assert exchange.is_upload_over


@pytest.mark.parametrize(("content", "chunks"), [(b"{}", b"2\r\n{}\r\n0\r\n\r\n"), (b"", b"0\r\n\r\n")])
async def test_so_do_head_and_chunks_of_a_body_that_is_at_hand(content: bytes, chunks: bytes) -> None:
    line = Line()
    line.ask(content, head=PUT + b"\r\n", is_chunked=True)
    assert line.wire.writes == [PUT + b"\r\n" + chunks]


async def test_a_large_body_goes_out_in_slices_each_of_which_must_be_taken() -> None:
    line, content = Line(), bytes(2 * SLICE_BYTES + 1)
    exchange = line.ask(content)
    line.connection.pause_writing()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert line.wire.writes == [HEAD, content[:SLICE_BYTES]]
    assert not exchange.is_upload_over
    line.connection.resume_writing()
    while not exchange.is_upload_over:
        await asyncio.sleep(0)
    assert b"".join(line.wire.writes) == HEAD + content


async def test_a_body_that_waits_in_our_buffer_is_not_sent_yet() -> None:
    line = Line()
    line.connection.pause_writing()
    exchange = line.ask(b"{}")
    assert line.wire.writes == [HEAD + b"{}"]
    await asyncio.sleep(0)
    assert not exchange.is_upload_over
    line.connection.resume_writing()
    while not exchange.is_upload_over:
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_source_is_read_no_faster_than_the_database_takes_it(is_chunked: bool) -> None:
    given = list[bytes]()

    async def source() -> AsyncIterator[bytes]:
        for piece in (b"ab", b"", b"c"):
            given.append(piece)
            yield piece

    line = Line()
    exchange = line.ask(source(), length=3, is_chunked=is_chunked)
    line.connection.pause_writing()
    for _ in range(5):
        await asyncio.sleep(0)
    assert given == [b"ab"]
    line.connection.resume_writing()
    while not exchange.is_upload_over:
        await asyncio.sleep(0)
    sent = b"".join(line.wire.writes).removeprefix(HEAD)
    assert sent == (b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n" if is_chunked else b"abc"), "an empty piece is no last chunk"


async def test_a_database_that_takes_nothing_of_a_body_is_a_timeout() -> None:
    line = Line(stall_seconds=0.01)
    line.connection.pause_writing()
    exchange = line.ask(b"{}")
    assert await outcome(exchange) is FailureKind.TIMEOUT
    assert line.wire.is_ended


async def test_a_source_that_fails_ends_the_connection_and_says_why() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"a"
        raise ClientBodyError(ClientFault.GONE)

    line = Line()
    exchange = line.ask(source(), length=5)
    assert await outcome(exchange) is ClientFault.GONE
    assert line.wire.is_ended
    await exchange.close()


@pytest.mark.parametrize("declared", [1, 9])
async def test_a_body_of_another_length_than_declared_is_cut(declared: int) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"abc"

    line = Line()
    exchange = line.ask(source(), length=declared)
    assert await outcome(exchange) is ClientFault.MALFORMED
    assert line.wire.is_ended
    assert not exchange.is_upload_over


async def test_an_answer_before_the_end_of_the_body_is_an_answer_and_the_connection_ends() -> None:
    begun = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        begun.set()
        await asyncio.Event().wait()
        yield b"never"

    line = Line()
    exchange = line.ask(source(), length=9)
    await begun.wait()
    line.hear(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
    assert cast("tuple[Any, ...]", await outcome(exchange))[0] == 413
    assert not exchange.is_upload_over
    await asyncio.wait_for(exchange.close(), 30)
    assert (line.wire.is_ended, line.owner.freed_ones) == (True, 0)


async def test_while_the_body_is_being_sent_silence_does_not_count() -> None:
    go_on = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        await go_on.wait()
        yield b"a"

    line = Line(stall_seconds=0.05)
    exchange = line.ask(source(), length=1)
    waiting = asyncio.create_task(outcome(exchange))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    go_on.set()
    assert await asyncio.wait_for(waiting, 30) is FailureKind.TIMEOUT, "from then on it does"

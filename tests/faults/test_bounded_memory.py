"""Large bodies stream through whole, and neither side is read faster than the other takes it."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import tracemalloc

import pytest

from support.network.faulty_upstream import Talk, answering, reply
from support.network.relay_server import relayed

MIB = 1024 * 1024
SIZE = 64 * MIB
BLOCK = bytes(range(256)) * 1024  # 256 KiB
# Two kernel socket buffers on each of two hops (tcp_rmem's and tcp_wmem's largest, 6 and 4 MiB here) and our own.
IN_FLIGHT = 24 * MIB


def digest() -> str:
    whole = hashlib.sha256()
    for _ in range(SIZE // len(BLOCK)):
        whole.update(BLOCK)
    return whole.hexdigest()


async def feed(writer: asyncio.StreamWriter, progress: list[int], *, chunked: bool) -> None:
    for _ in range(SIZE // len(BLOCK)):
        writer.write(b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK) if chunked else BLOCK)
        await writer.drain()
        progress[0] += len(BLOCK)
    if chunked:
        writer.write(b"0\r\n\r\n")


async def swallow(reader: asyncio.StreamReader, *, chunked: bool) -> str:
    whole, left = hashlib.sha256(), SIZE
    while left:
        size = int(await reader.readuntil(b"\r\n"), 16) if chunked else left
        while size:
            piece = await reader.read(min(size, 65536))
            assert piece, "cut"
            whole.update(piece)
            size -= len(piece)
            left -= len(piece)
        if chunked:
            await reader.readexactly(2)
    return whole.hexdigest()


async def settled(progress: list[int]) -> int:
    """The progress once it no longer changes."""
    before = -1
    while progress[0] != before:
        before = progress[0]
        await asyncio.sleep(0.15)
    return before


FRAMINGS = [(b"Content-Length: %d\r\n" % SIZE, False), (b"Transfer-Encoding: chunked\r\n", True)]


@pytest.mark.parametrize(("framing", "chunked"), FRAMINGS)
async def test_64_mib_down_wait_for_a_slow_client_and_arrive_whole(framing: bytes, chunked: bool) -> None:
    progress = [0]

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
        await feed(talk.writer, progress, chunked=chunked)

    async with relayed(script) as (client, _, _):
        gc.collect()
        tracemalloc.start()
        await client.send(b"GET /snapshot HTTP/1.1\r\nHost: c\r\n\r\n")
        await client.head()
        assert await settled(progress) < IN_FLIGHT, "the relay read on although its client did not"
        assert await swallow(client.reader, chunked=chunked) == digest()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 12 * MIB, "client, relay and database together held more than their buffers"


@pytest.mark.parametrize(("framing", "chunked"), FRAMINGS)
async def test_64_mib_up_wait_for_a_slow_database_and_arrive_whole(framing: bytes, chunked: bool) -> None:
    progress, proceed = [0], asyncio.Event()
    seen: list[str] = []

    async def script(talk: Talk) -> None:
        await talk.head()
        await proceed.wait()
        seen.append(await swallow(talk.reader, chunked=chunked))
        await talk.send(reply(b"stored"))

    async with relayed(script) as (client, _, _):
        gc.collect()
        tracemalloc.start()
        await client.send(b"PUT /snapshot HTTP/1.1\r\nHost: c\r\n" + framing + b"\r\n")
        feeding = asyncio.create_task(feed(client.writer, progress, chunked=chunked))
        assert await settled(progress) < IN_FLIGHT, "the relay read on although the database did not"
        proceed.set()
        await feeding
        assert (await client.reply()).body == b"stored"
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seen == [digest()]
    assert peak < 12 * MIB, "client, relay and database together held more than their buffers"


async def test_a_thousand_requests_leave_nothing_behind() -> None:
    async with relayed(answering(reply(b"x" * 100))) as (client, _, upstream):

        async def some(count: int) -> None:
            for number in range(count):
                method = b"GET" if number % 2 else b"PUT"
                await client.send(method + b" / HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{}")
                await client.reply()
            upstream.requests.clear()

        await some(100)
        gc.collect()
        tracemalloc.start()
        await some(1000)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await client.close()
        assert upstream.connections <= 10, "a busy machine may take one more now and then"
    assert size < 200_000

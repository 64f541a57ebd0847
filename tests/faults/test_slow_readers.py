"""Clients that hardly read large answers: others keep places and connections to the database, each gets the database's own bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, answering, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant.scripted import honest, request, search

LARGE = bytes(range(256)) * 40_000  # more than the kernel's buffers hold beside ours
MIDDLE = bytes(range(256)) * 24_000
GET = b"GET /%s HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n"
KERNEL_BYTES = 16_384


def sized(received: Received) -> bytes:
    """Large or middle for slow readers, a ranking for searches."""
    if received.line.startswith(b"GET /large"):
        return reply(LARGE)
    if received.line.startswith(b"GET /chunked"):
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(MIDDLE) // 4, MIDDLE[place::4]) for place in range(4))
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    return reply(MIDDLE) if received.line.startswith(b"GET /middle") else honest(received)


class Reader:
    """A client that asks and reads when it is told to."""

    def __init__(self, port: int, path: bytes) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        self._socket.connect(("127.0.0.1", port))
        self._socket.sendall(GET % path)
        self._socket.setblocking(False)

    async def some(self, size: int) -> bytes:
        """So many bytes at most."""
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, size), 10)

    async def rest(self) -> bytes:
        """The body, to its end. Raises ConnectionError when it is cut."""
        received = b""
        while piece := await self.some(2**20):
            received += piece
        return received.partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        """Leave."""
        self._socket.close()


@asynccontextmanager
async def readers(proxy: Running, path: bytes, count: int) -> AsyncIterator[list[Reader]]:
    """So many that have asked and read nothing."""
    made = []
    for _ in range(count):
        made.append(Reader(proxy.port, path))
        await asyncio.sleep(0.001)
    try:
        yield made
    finally:
        for reader in made:
            reader.close()


async def until_in_flight(proxy: Running, count: int) -> None:
    async with asyncio.timeout(10):
        while proxy.requests_in_flight < count:
            await asyncio.sleep(0.01)


def is_ok(answer: bytes) -> bool:
    return b" 200 OK" in answer.split(b"\r\n")[0]


async def test_readers_by_the_hundred_leave_a_good_client_places_and_connections() -> None:
    few = {"in_flight": 32, "in_flight_queue_seconds": 1.0, "bytes_in_flight": 2**20}
    async with (
        FaultyUpstream(answering(sized)) as upstream,
        running(upstream.url, limits=few, upstream={"pool_connections": 16}) as proxy,
        readers(proxy, b"large", 200),
    ):
        async with asyncio.timeout(5):  # while they come by the hundred, the queue itself may be full
            while not is_ok(await raw_exchange(proxy.port, request(search()))):
                await asyncio.sleep(0.05)
        for _ in range(20):
            assert is_ok(await asyncio.wait_for(raw_exchange(proxy.port, request(search())), 5))
        assert 20 < proxy.count("connections_rejected_total", reason="slow_reader") <= 200, "each is counted once"


async def test_a_place_is_free_again_while_a_client_does_not_read() -> None:
    one = {"in_flight": 1, "in_flight_queue_seconds": 2.0}
    async with (
        FaultyUpstream(answering(sized)) as upstream,
        running(upstream.url, limits=one) as proxy,
        readers(proxy, b"large", 1) as slow,
    ):
        await until_in_flight(proxy, 1)
        assert is_ok(await raw_exchange(proxy.port, request(search())))
        assert proxy.requests_in_flight == 1
        assert await slow[0].rest() == LARGE
        assert proxy.count("connections_rejected_total", reason="slow_reader") == 0


@pytest.mark.parametrize("path", [b"middle", b"chunked"])
async def test_an_answer_that_fits_frees_its_connection_and_comes_whole_however_slowly_it_is_read(path: bytes) -> None:
    roomy = {"bytes_in_flight": 32 * 16 * 2**20}
    async with (
        FaultyUpstream(answering(sized)) as upstream,
        running(upstream.url, limits=roomy, upstream={"pool_connections": 1}) as proxy,
        readers(proxy, path, 3) as slow,
    ):
        await until_in_flight(proxy, 3)
        async with asyncio.timeout(10):
            while len(upstream.requests) < 3:
                await asyncio.sleep(0.01)
        assert is_ok(await raw_exchange(proxy.port, request(search())))
        bodies = [await reader.rest() for reader in slow]
        assert proxy.count("connections_rejected_total", reason="slow_reader") == 0
        expected = MIDDLE if path == b"middle" else b"".join(MIDDLE[place::4] for place in range(4))
        assert all(unframed(body) == expected for body in bodies)


def unframed(body: bytes) -> bytes:
    """The content of a body, in chunks or not."""
    if body[:256] == MIDDLE[:256]:
        return body
    content = b""
    while True:
        line, _, body = body.partition(b"\r\n")
        size = int(line, 16)
        if not size:
            return content
        content, body = content + body[:size], body[size + 2 :]


async def test_of_two_slow_clients_the_one_that_takes_least_is_cut_and_the_other_gets_every_byte() -> None:
    async with (
        FaultyUpstream(answering(sized)) as upstream,
        running(upstream.url, upstream={"pool_connections": 2}) as proxy,
        readers(proxy, b"large", 2) as (reading, standing),
    ):
        await until_in_flight(proxy, 2)
        taken = b""
        for _ in range(20):  # both are slow by now, one of them takes a little
            taken += await reading.some(65_536)
            await asyncio.sleep(0.02)
        assert is_ok(await raw_exchange(proxy.port, request(search())))
        assert proxy.count("connections_rejected_total", reason="slow_reader") == 1
        while piece := await reading.some(2**20):
            taken += piece
        assert taken.partition(b"\r\n\r\n")[2] == LARGE
        with pytest.raises((ConnectionError, AssertionError)):
            assert await standing.rest() == LARGE


async def test_slow_clients_whom_nobody_waits_for_are_left_alone() -> None:
    async with (
        FaultyUpstream(answering(sized)) as upstream,
        running(upstream.url, upstream={"pool_connections": 3}) as proxy,
        readers(proxy, b"large", 2) as slow,
    ):
        await until_in_flight(proxy, 2)
        await asyncio.sleep(0.3)
        for _ in range(5):
            assert is_ok(await raw_exchange(proxy.port, request(search())))
        assert [await reader.rest() for reader in slow] == [LARGE] * 2
        assert proxy.count("connections_rejected_total", reason="slow_reader") == 0


async def test_what_waits_for_slow_clients_is_bounded_and_the_rest_is_for_those_who_read() -> None:
    small = {"bytes_in_flight": 2**20}
    async with (
        FaultyUpstream(answering(sized)) as upstream,
        running(upstream.url, limits=small, upstream={"pool_connections": 64}) as proxy,
        readers(proxy, b"large", 30),
    ):
        async with asyncio.timeout(10):
            while proxy.count("connections_rejected_total", reason="slow_reader") < 10:
                await asyncio.sleep(0.01)
        async with readers(proxy, b"large", 1) as good:
            assert await good[0].rest() == LARGE

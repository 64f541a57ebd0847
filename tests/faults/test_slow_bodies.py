"""Clients whose bodies dribble in, more of them than there are places: those whose requests are here are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.network.faulty_upstream import FaultyUpstream, RawClient, answering, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant.scripted import honest, request, search

UPLOAD = b"PUT /collections/c/points HTTP/1.1\r\nHost: db\r\nContent-Length: 1000\r\n\r\n"
SEARCH = b"POST /collections/c/points/query HTTP/1.1\r\nHost: db\r\nContent-Length: 1000\r\n\r\n"
LARGE = b"PUT /collections/c/points HTTP/1.1\r\nHost: db\r\nContent-Length: 100000\r\n\r\n"
FEW = {"in_flight": 16, "in_flight_queue_seconds": 0.1}


@asynccontextmanager
async def attackers(port: int, beginning: bytes, count: int) -> AsyncIterator[list[RawClient]]:
    """So many whose bodies have begun and go no further, each of which has been read."""
    clients = [await RawClient.connect(port) for _ in range(count)]
    for client in clients:
        await client.send(beginning + b" ")
    try:
        yield clients
    finally:
        for client in clients:
            client.reset()


async def until_read(proxy: Running, count: int) -> None:
    async with asyncio.timeout(10):
        while proxy.requests_in_flight < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("beginning", [UPLOAD, SEARCH], ids=["uploads", "searches"])
async def test_bodies_that_dribble_in_take_an_eighth_of_the_places_and_the_rest_is_for_whole_requests(
    beginning: bytes,
) -> None:
    async with (
        FaultyUpstream(answering(honest)) as upstream,
        running(upstream.url, limits=FEW) as proxy,
        attackers(proxy.port, beginning, 60),
    ):
        await until_read(proxy, 60)
        answers = await asyncio.gather(*(raw_exchange(proxy.port, request(search())) for _ in range(14)))
        assert all(b" 200 OK" in answer.split(b"\r\n")[0] for answer in answers)
        assert proxy.count("requests_shed_total", reason="in_flight") == 0


@pytest.mark.parametrize(("beginning", "left"), [(UPLOAD, 999), (LARGE, 99_999)], ids=["gathered", "streamed"])
async def test_a_body_that_waited_for_its_rest_goes_out_from_its_first_byte_and_once(
    beginning: bytes, left: int
) -> None:
    async with FaultyUpstream(answering(reply(b"kept"))) as upstream, running(upstream.url, limits=FEW) as proxy:
        async with attackers(proxy.port, beginning, 10) as clients:
            await until_read(proxy, 10)
            for client in clients:
                await client.send(b"x" * left)
            assert [(await client.reply()).body for client in clients] == [b"kept"] * 10
        assert [received.content for received in upstream.requests] == [b" " + b"x" * left] * 10


async def test_a_body_that_stands_still_outside_is_told_so_at_its_deadline_and_takes_no_place() -> None:
    limits = {"in_flight": 8, "stream_idle_timeout_seconds": 0.3}
    async with FaultyUpstream(answering(reply())) as upstream, running(upstream.url, limits=limits) as proxy:
        async with attackers(proxy.port, UPLOAD, 3) as clients:
            answers = [await client.reply() for client in clients]
            assert all(answer.head.startswith(b"HTTP/1.1 408 ") for answer in answers)
        assert upstream.requests == []


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on_while_it_waits_outside() -> None:
    async with FaultyUpstream(answering(reply(b"kept"))) as upstream, running(upstream.url, limits=FEW) as proxy:
        async with attackers(proxy.port, UPLOAD, 4):
            await until_read(proxy, 4)
            client = await RawClient.connect(proxy.port)
            await client.send(b"PUT /x HTTP/1.1\r\nHost: db\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert (await client.head()).startswith(b"HTTP/1.1 100 ")
            await client.send(b"ab")
            assert (await client.reply()).body == b"kept"
            await client.close()
        assert [received.content for received in upstream.requests if received.content == b"ab"] == [b"ab"]

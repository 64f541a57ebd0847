"""Indexes behind one listener do not feel each other's troubles."""

from __future__ import annotations

import asyncio

from support.network.faulty_upstream import FaultyUpstream, Talk, answering, raw_exchange, reply
from support.process.running import running


def query(path: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: vs\r\nConnection: close\r\n\r\n"


async def test_an_index_that_stays_silent_holds_no_connection_of_another() -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def silent(talk: Talk) -> None:
        await talk.request()
        arrived.set()
        await ended.wait()

    async with FaultyUpstream(silent) as stuck, FaultyUpstream(answering(reply(b"well"))) as well:
        described = b'{"indexes":[{"host":"%s"},{"host":"%s"}]}' % (stuck.url.encode(), well.url.encode())
        async with (
            FaultyUpstream(answering(reply(described))) as control,
            running(control.url, backend="pinecone", upstream={"pool_connections": 1}) as proxy,
        ):
            await raw_exchange(proxy.port, query(b"/indexes"))
            waiting = asyncio.create_task(
                raw_exchange(proxy.port, query(b"/_i/127.0.0.1:%d/vectors/list" % stuck.port))
            )
            await asyncio.wait_for(arrived.wait(), 5)
            for _ in range(3):
                answer = query(b"/_i/127.0.0.1:%d/vectors/list" % well.port)
                assert (await asyncio.wait_for(raw_exchange(proxy.port, answer), 5)).endswith(b"well")
            ended.set()
            await waiting


async def test_an_index_that_is_gone_is_a_502_there_and_nothing_elsewhere() -> None:
    async with FaultyUpstream(answering(reply())) as gone:
        url = gone.url
    async with FaultyUpstream(answering(reply(b"well"))) as well:
        described = b'{"indexes":[{"host":"%s"},{"host":"%s"}]}' % (url.encode(), well.url.encode())
        async with (
            FaultyUpstream(answering(reply(described))) as control,
            running(control.url, backend="pinecone") as proxy,
        ):
            await raw_exchange(proxy.port, query(b"/indexes"))
            lost = await raw_exchange(proxy.port, query(b"/_i/" + url.removeprefix("http://").encode() + b"/"))
            answer = await raw_exchange(proxy.port, query(b"/_i/127.0.0.1:%d/" % well.port))
    assert lost.startswith(b"HTTP/1.1 502 ")
    assert b'"code":14' in lost
    assert answer.endswith(b"well")

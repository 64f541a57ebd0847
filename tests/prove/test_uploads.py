"""The judges of uploads see a write that arrives twice, a shorter body, and bytes that are not the client's."""

from __future__ import annotations

from collections import Counter
from typing import cast

import aiohttp

from prove.stack import Proxy
from prove.uploads import answers_once_then_dies, hashes, judged_once, takes_all, uploaded, written
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, reply
from support.process.stack import Command


def behind(upstream: FaultyUpstream) -> Proxy:
    """The upstream itself where a proxy would be."""
    return Proxy(cast(Command, None), upstream.port, "")  # the judges ask only for the port


async def test_a_client_that_sends_again_by_itself_is_found() -> None:
    async with FaultyUpstream(answers_once_then_dies) as upstream, aiohttp.ClientSession() as session:
        for number in range(2):
            async with session.put(upstream.url, data=b"{}", headers={"x-number": str(number)}) as response:
                await response.read()
        found = judged_once(upstream, 2, "aiohttp by itself", Counter({200: 1, 502: 1}))
    assert (found.met, found.measured) == (False, "1 of 2 (1 × 200, 1 × 502)")


async def test_a_trap_that_nothing_fell_into_proves_nothing() -> None:
    async with FaultyUpstream(takes_all) as upstream:
        client = await RawClient.connect(upstream.port)
        await client.send(written(b"PUT", 0))
        await client.reply()
        await client.close()
        assert judged_once(upstream, 1, "no trap", Counter({200: 1})).met is False


async def test_a_body_that_arrives_otherwise_is_found() -> None:
    async def loses_a_byte(talk: Talk) -> None:
        request = await talk.request()
        assert isinstance(request, Received)
        await talk.send(reply(b"another hash"))

    async with FaultyUpstream(hashes) as honest, FaultyUpstream(loses_a_byte) as other:
        for size in (0, 1, 300_000):
            for is_chunked in (False, True):
                assert await uploaded(behind(honest), size, is_chunked=is_chunked)
                assert not await uploaded(behind(other), size, is_chunked=is_chunked)

"""A write reaches the database at most once, whatever the connection does, and none that was acknowledged is missing."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator

import aiohttp
import pytest

from support.network.faulty_upstream import FaultyUpstream, RawClient, Script, Talk, answering, reply
from support.network.relay_server import bare_relay, relayed
from support.network.upstream_wire import sending
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.search.errors import ClientBodyError

# `PUTS=10000` is the deep run.
PUTS = int(os.environ.get("PUTS", "500"))
METHODS = ["PUT", "POST", "DELETE", "PATCH", "GET"]


async def answers_once_then_dies(talk: Talk) -> None:
    """The stale-connection trap: the second request on a connection is read whole, then the connection drops."""
    await talk.request()
    await talk.send(reply(b"ok"))
    await talk.request()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "GET"])
async def test_control_a_default_aiohttp_session_sends_again(method: str) -> None:
    async with FaultyUpstream(answers_once_then_dies) as upstream, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.request(method, upstream.url) as response:
                await response.read()
        assert len(upstream.requests) == 3, "aiohttp's client no longer re-sends, and the trap proves nothing"


@pytest.mark.parametrize("method", METHODS)
async def test_a_request_on_a_dying_kept_connection_is_not_sent_again(method: str) -> None:
    async with relayed(answers_once_then_dies) as (client, relay, upstream):
        message = f"{method} /x HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        await client.send(message)
        assert (await client.reply()).status == 200
        await client.send(message)
        assert (await client.reply()).status == 502
        await client.close()
        assert [request.connection for request in upstream.requests] == [0, 0], "the trap needs the kept connection"
        assert relay.heard.upstream == ["reset"]


async def test_a_search_that_reads_is_not_sent_again_by_the_transport_either() -> None:
    async with relayed(answers_once_then_dies, searches=True) as (client, _, upstream):
        for _ in range(2):
            await client.send(b"POST /s HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{}")
            await client.reply()
        await client.close()
        assert len(upstream.requests) == 2


async def test_a_write_never_uses_a_connection_that_idled_beyond_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecsieve.proxy.http.upstream.WRITE_IDLE_SECONDS", 0.05)
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream:
        client = Upstream(UpstreamSettings(url=upstream.url))
        for method in ("PUT", "GET"):
            for _ in range(2):
                async with sending(client, method=method, raw_target="/", headers=[], body=None) as answer:
                    await answer.read_bounded(10)
                await asyncio.sleep(0.1)
        await client.close()
        numbers = [request.connection for request in upstream.requests]
    assert numbers == [0, 1, 2, 2], "writes on two connections, reads on one"


def drops_at_random(chance: random.Random) -> tuple[Script, list[bytes]]:
    applied: list[bytes] = []

    async def script(talk: Talk) -> None:
        while True:
            fate = chance.random()
            if fate < 0.05:
                break
            if fate < 0.10:
                await talk.reader.read(chance.randrange(1, 60))  # part of a request, then nothing
                break
            request = await talk.request()
            if request is None:
                break
            applied.append(request.content)
            if fate < 0.20:
                break  # applied, never acknowledged
            await talk.send(reply(b"ok"), slice_bytes=7 if fate < 0.3 else None)
            if fate < 0.40:
                return talk.close()
        if chance.random() < 0.7:
            talk.reset()
        return talk.close()

    return script, applied


async def test_puts_arrive_at_most_once_and_acknowledged_ones_all_while_connections_drop() -> None:
    script, applied = drops_at_random(random.Random(7))
    acknowledged: list[bytes] = []

    async with FaultyUpstream(script) as upstream, bare_relay(upstream.url) as relay:

        async def client(numbers: range) -> None:
            link = await RawClient.connect(relay.port)
            for number in numbers:
                body = b"%d" % number
                await link.send(b"PUT /p HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                answer = await link.reply()
                if answer.status == 200:
                    acknowledged.append(body)
                else:
                    assert answer.status == 502
                    assert answer.header(b"x-vecsieve-origin") == b"proxy"
            await link.close()

        await asyncio.gather(*(client(range(start, PUTS, 10)) for start in range(10)))
    assert len(applied) == len(set(applied)), "a PUT arrived twice"
    assert set(acknowledged) <= set(applied), "an acknowledged PUT is missing"
    assert 0 < len(acknowledged) < PUTS, "the faults did not happen, or nothing else did"


async def test_a_write_sent_whole_is_seen_through_when_its_client_goes() -> None:
    arrived, proceed, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended: list[bytes] = []

    async def script(talk: Talk) -> None:
        await talk.request()
        arrived.set()
        rest = asyncio.create_task(talk.reader.read(1))
        await proceed.wait()
        ended.extend([rest.result()] if rest.done() else [])
        rest.cancel()
        await talk.send(reply(b"ok"))
        done.set()

    async with relayed(script, b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{}") as (client, relay, _):
        await arrived.wait()
        client.reset()
        while len(relay.writes) == 0:
            await asyncio.sleep(0.01)
        assert ended == []
        proceed.set()
        await asyncio.wait_for(done.wait(), 5)
        await relay.writes.close(grace_seconds=5)
        assert len(relay.writes) == 0
    assert ended == [], "the database saw its connection end before it had answered"


async def test_a_write_cut_short_by_its_client_is_cut_short_upstream() -> None:
    outcome: list[object] = []
    over = asyncio.Event()

    async def script(talk: Talk) -> None:
        outcome.append(await talk.request())
        over.set()

    async with relayed(script) as (client, _, upstream):
        await client.send(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 100000\r\n\r\nsome")
        while upstream.connections == 0:
            await asyncio.sleep(0.01)
        client.reset()
        await asyncio.wait_for(over.wait(), 5)
    assert outcome == [None], "a shorter body passed for a whole one"


async def test_a_read_is_cancelled_upstream_when_its_client_goes() -> None:
    arrived, over = asyncio.Event(), asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        arrived.set()
        await talk.reader.read()
        over.set()

    async with relayed(script, b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") as (client, relay, _):
        await arrived.wait()
        client.reset()
        await asyncio.wait_for(over.wait(), 5)
        assert len(relay.writes) == 0


async def test_an_upload_longer_or_shorter_than_declared_is_never_completed() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"too long"

    async with FaultyUpstream(answering(reply())) as upstream:
        client = Upstream(UpstreamSettings(url=upstream.url))
        for declared in (3, 100):
            with pytest.raises(ClientBodyError):
                async with sending(
                    client,
                    method="PUT",
                    raw_target="/",
                    headers=[],
                    body=pieces(),
                    content_length=declared,
                ):
                    pass
        await client.close()
        assert upstream.requests == []

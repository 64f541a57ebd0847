"""Clients that are slow, silent or too many: each is let go at its own deadline, the others notice nothing."""

from __future__ import annotations

import asyncio
import socket

import pytest

from support.network.faulty_upstream import (
    TIMEOUT_SECONDS,
    FaultyUpstream,
    RawClient,
    Talk,
    answering,
    raw_exchange,
    reply,
)
from support.network.loops import on_both_loops
from support.network.relay_server import bare_relay, relayed
from vecsieve.config.schema import LimitSettings

GET = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
GET_CLOSE = b"GET / HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
HURRIED = LimitSettings(head_timeout_seconds=0.2)


async def test_a_head_that_dribbles_in_gets_408_at_the_deadline() -> None:
    async with relayed(answering(reply()), limits=HURRIED) as (client, relay, upstream):
        dribble = asyncio.create_task(_dribble(client, GET))
        # At once: what dribbles in after the close is answered by a reset, which takes what was not yet read with it.
        answer = await asyncio.wait_for(client.reader.read(65536), TIMEOUT_SECONDS)
        dribble.cancel()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"x-vecsieve-origin: proxy" in answer
        assert b"Connection: close" in answer
        assert relay.heard.rejected == ["head_timeout"]
        assert upstream.connections == 0


async def _dribble(client: RawClient, data: bytes) -> None:
    for position in range(len(data)):
        client.writer.write(data[position : position + 1])
        await asyncio.sleep(0.02)


@on_both_loops
async def test_a_head_whose_beginning_came_before_the_connection_was_served_gets_408_too() -> None:
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url, limits=HURRIED) as relay:
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(GET[:-4])  # in the kernel before the loop looks at either
            answer = await asyncio.to_thread(client.recv, 65_536)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert relay.heard.rejected == ["head_timeout"]


async def test_a_later_head_that_stops_gets_408_too() -> None:
    async with relayed(answering(reply(b"ok")), GET, limits=HURRIED) as (client, _, _):
        assert (await client.reply()).body == b"ok"
        await client.send(b"GET / HT")
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")


async def test_an_idle_kept_connection_is_not_a_slow_head() -> None:
    async with relayed(answering(reply(b"ok")), limits=HURRIED) as (client, relay, _):
        await client.send(
            b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{}\r\n"
        )  # and an old client's extra line
        assert (await client.reply()).body == b"ok"
        await asyncio.sleep(0.4)
        await client.send(GET)
        assert (await client.reply()).body == b"ok"
        await client.close()
        assert relay.heard.rejected == []


async def test_a_connection_on_which_nothing_comes_is_closed_without_a_word() -> None:
    async with relayed(answering(reply()), limits=HURRIED) as (client, relay, _):
        assert await client.rest() == b""
        assert relay.heard.rejected == ["silent"]


async def test_a_request_slower_than_the_head_deadline_is_not_cut() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await asyncio.sleep(0.5)
        await talk.send(reply(b"late"))

    async with relayed(script, limits=HURRIED) as (client, _, _):
        await client.send(GET + b"GET /half")  # and a pipelined head that stays half
        assert (await client.reply()).body == b"late"
        await client.send(b"-a-head")
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")


async def test_an_idle_connection_ends_at_the_keep_alive_deadline() -> None:
    limits = LimitSettings(keep_alive_seconds=0.2)
    async with relayed(answering(reply(b"ok")), GET, limits=limits) as (client, _, _):
        await client.reply()
        assert await client.rest() == b""


@pytest.mark.parametrize("framing", [b"Content-Length: 10\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"])
async def test_a_body_that_stops_gets_408_and_never_completes_upstream(framing: bytes) -> None:
    limits = LimitSettings(stream_idle_timeout_seconds=0.2)
    async with relayed(answering(reply()), limits=limits) as (client, relay, upstream):
        await client.send(b"PUT / HTTP/1.1\r\nHost: c\r\n" + framing)
        answer = await client.reply()
        assert answer.status == 408
        assert answer.header(b"connection") == b"close"
        assert relay.heard.answered == ["body_timeout"]
        assert upstream.requests == []
        client.reset()


async def test_a_slow_but_steady_body_is_waited_for() -> None:
    limits = LimitSettings(stream_idle_timeout_seconds=3.0)
    async with relayed(answering(reply(b"ok")), limits=limits) as (client, _, upstream):
        await client.send(b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 10\r\n\r\n")
        await _dribble(client, b"0123456789")
        assert (await client.reply()).body == b"ok"
        await client.close()
        assert upstream.requests[0].body == b"0123456789"


async def test_a_client_that_does_not_read_its_answer_is_let_go() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(b"x" * 30_000_000))

    async with relayed(script, GET, upstream_settings={"stream_idle_timeout_seconds": 0.3}) as (client, relay, _):
        while len(relay.listener.server.rules.connections):
            await asyncio.sleep(0.02)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.reply()


async def test_connections_beyond_the_limit_are_closed_at_once_and_the_others_live() -> None:
    limits = LimitSettings(connections=3)
    proceed = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await proceed.wait()
        await talk.send(reply(b"ok"))

    async with FaultyUpstream(script) as upstream, bare_relay(upstream.url, limits=limits) as relay:
        busy = [await RawClient.connect(relay.port) for _ in range(3)]
        for client in busy:
            await client.send(GET)
        while upstream.connections < 3:
            await asyncio.sleep(0.01)
        assert await raw_exchange(relay.port, GET_CLOSE) == b""
        assert relay.heard.rejected == ["limit"]
        proceed.set()
        for client in busy:
            answer = await client.reply()
            assert answer.body == b"ok"
            assert answer.header(b"connection") == b"close", "crowded: answers end their connections"
            await client.close()


async def test_above_four_fifths_the_oldest_idle_connection_makes_room() -> None:
    limits = LimitSettings(connections=5)
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, bare_relay(upstream.url, limits=limits) as relay:
        clients = []
        for _ in range(4):
            client = await RawClient.connect(relay.port)
            await client.send(GET)
            assert (await client.reply()).header(b"connection") is None
            clients.append(client)
        newcomer = await RawClient.connect(relay.port)
        await newcomer.send(GET)
        assert (await newcomer.reply()).body == b"ok"
        assert await clients[0].rest() == b"", "the oldest went"
        await clients[1].send(GET)
        assert (await clients[1].reply()).body == b"ok"
        assert relay.heard.rejected == ["crowded"]
        assert len(relay.listener.server.rules.connections) == 4
        for client in [*clients, newcomer]:
            await client.close()


async def test_draining_ends_each_connection_with_its_next_answer_and_idle_ones_with_the_listener() -> None:
    arrived, proceed = asyncio.Event(), asyncio.Event()

    async def script(talk: Talk) -> None:
        while (request := await talk.request()) is not None:
            if request.line.startswith(b"GET /slow"):
                arrived.set()
                await proceed.wait()
            await talk.send(reply(b"ok"))

    async with FaultyUpstream(script) as upstream, bare_relay(upstream.url) as relay:
        idle, kept, busy = [await RawClient.connect(relay.port) for _ in range(3)]
        for client in (idle, kept):
            await client.send(GET)
            await client.reply()
        await busy.send(b"GET /slow HTTP/1.1\r\nHost: c\r\n\r\n")
        await arrived.wait()
        relay.listener.drain()
        await kept.send(GET)  # on its way when the process was told to end: nobody may reset it
        answer = await kept.reply()
        assert (answer.body, answer.header(b"connection")) == (b"ok", b"close")
        proceed.set()
        answer = await busy.reply()
        assert (answer.body, answer.header(b"connection")) == (b"ok", b"close")
        assert await busy.rest() == b""
        began = asyncio.get_running_loop().time()
        await relay.listener.close(grace_seconds=60)
        assert await idle.rest() == b""
        assert asyncio.get_running_loop().time() - began < 20, "an idle connection held the end up"
        for client in (idle, kept, busy):
            await client.close()


async def test_the_rest_of_a_body_that_was_answered_early_is_no_slow_head() -> None:
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(reply(b"no", status=b"413 Payload Too Large"))
        await talk.reader.read()

    limits = LimitSettings(head_timeout_seconds=0.1)
    async with relayed(script, limits=limits) as (client, relay, _):
        await client.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 20\r\n\r\n0123456789")
        assert (await client.reply()).status == 413
        await _dribble(client, b"0123456789")  # lasts longer than a head may
        assert await client.rest() == b"", "the answer was followed by another"
        assert relay.heard.rejected == []

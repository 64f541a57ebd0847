"""A connection that has reached its age ends between two requests, and no request is lost by it."""

from __future__ import annotations

import asyncio

import grpc

from support.grpc.calls import ask_on
from support.network.faulty_upstream import FaultyUpstream, RawClient, answering, reply
from support.network.relay_server import bare_relay, relayed
from support.qdrant.scripted_grpc import QUERY, ids, in_front, search
from vecsieve.config.schema import LimitSettings

GET = b"GET /a HTTP/1.1\r\nHost: db\r\n\r\n"
AGED = LimitSettings(connection_age_seconds=0.05)


async def is_served(client: RawClient) -> bool:
    """One request; whether its answer ends the connection."""
    await client.send(GET)
    answer = await client.reply()
    assert answer.status == 200
    return answer.header(b"connection") == b"close"


async def test_an_old_connection_ends_with_its_next_answer_and_says_so() -> None:
    async with relayed(answering(reply(b"ok")), limits=AGED) as (client, _, _):
        assert not await is_served(client)
        await asyncio.sleep(0.1)
        assert await is_served(client), "an idle connection is not closed under a request that may be on its way"
        assert await client.rest() == b""


async def test_an_old_connection_answers_all_that_was_asked_at_once() -> None:
    async with relayed(answering(reply(b"ok")), limits=AGED) as (client, _, _):
        assert not await is_served(client)
        await asyncio.sleep(0.1)
        await client.send(GET * 3)
        closing = [(await client.reply()).header(b"connection") == b"close" for _ in range(3)]
        assert closing == [False, False, True]


async def test_under_load_no_request_is_lost_to_the_age_of_its_connection() -> None:
    connections = 0

    async def client(port: int) -> None:
        nonlocal connections
        made: RawClient | None = None
        for _ in range(60):
            if made is None:
                made = await RawClient.connect(port)
                connections += 1
            if await is_served(made):
                await made.close()
                made = None
            await asyncio.sleep(0.005)
        if made is not None:
            await made.close()

    async with FaultyUpstream(answering(reply(b"ok"))) as database, bare_relay(database.url, limits=AGED) as relay:
        await asyncio.gather(*(client(relay.port) for _ in range(4)))
        assert len(database.requests) == 240
        assert connections > 8, "ages did end connections"


async def test_a_connection_to_the_database_is_replaced_when_it_is_old() -> None:
    settings = {"pool_age_seconds": 3.0}
    async with relayed(answering(reply(b"ok")), upstream_settings=settings) as (client, _, database):
        for pause in (0.0, 0.0, 4.5):
            await asyncio.sleep(pause)
            await is_served(client)
        await client.close()
        first, second, third = (request.connection for request in database.requests)
        assert first == second != third


async def test_under_load_no_call_is_lost_to_the_age_of_its_connection() -> None:
    async with (
        in_front(limits={"connection_age_seconds": 0.2}) as (_, proxy),
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        begun = asyncio.get_running_loop().time()
        calls = 0
        while asyncio.get_running_loop().time() < begun + 1.0 or calls < 20:
            seen = await asyncio.gather(*(ask_on(channel, "unary_unary", (search(),), method=QUERY) for _ in range(4)))
            assert [answer.code for answer in seen] == [grpc.StatusCode.OK] * 4
            assert [ids(answer) for answer in seen] == [[0, 2, 3]] * 4
            calls += 4

"""Connections to the database that break, at any moment of a search or of a write, and a database that stops and comes back."""

from __future__ import annotations

import asyncio
import os
import random

import grpc
import pytest

from support.grpc.calls import ask_on
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.network.severed_link import Link, link_to
from support.qdrant.scripted_grpc import (
    TRAILING,
    UPSERT,
    before,
    honest,
    ids,
    messages,
    query,
    say,
    scripted,
    search,
    upsert,
    widened,
)

# `PUTS=10000` is the deep run, as of writes over HTTP.
WRITES = int(os.environ.get("PUTS", "500")) // 2
SECONDS = 20.0


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_connection_lost_in_mid_search_costs_the_improvement_and_nothing_else(*, is_warm: bool) -> None:
    links: list[Link] = []

    async def cuts(_: Arrived, __: Context, ___: bytes) -> None:
        links[0].cut()
        await asyncio.sleep(SECONDS)

    async with (
        grpc_upstream(Query=scripted(cuts)) as database,
        link_to(database.port) as link,
        before(link.address) as proxy,
    ):
        links.append(link)
        direct = await query(database.port)
        if is_warm:  # the connections of what is only relayed are open as well, and die with the others
            for _ in range(3):
                await query(proxy.port, metadata=(("x-vecsieve-mode", "off"),))
        count = len(database.calls)
        answered = await query(proxy.port)
        if is_warm and answered.code is grpc.StatusCode.UNAVAILABLE:
            # The original went out on one of those before its end was noticed: what a client without us sees of its own.
            assert messages(database)[count + 1 :] == [], "it never arrived"
            return
        assert answered.from_database == direct
        assert messages(database)[count + 1 :] == [search()], "the original, once"
        assert proxy.failed_open() == {"overfetch_reset": 1.0}
        assert proxy.count("upstream_errors_total", backend="qdrant", kind="reset") == 1


async def test_a_reply_cut_in_the_middle_is_not_an_answer() -> None:
    links: list[Link] = []

    async def cuts_after_message(_: Arrived, context: Context, message: bytes) -> None:
        await say(context, honest(message))
        await asyncio.sleep(0.05)  # the message is over there, its status is not
        links[0].cut()
        await asyncio.sleep(SECONDS)

    async with (
        grpc_upstream(Query=scripted(cuts_after_message)) as database,
        link_to(database.port) as link,
        before(link.address) as proxy,
    ):
        links.append(link)
        assert (await query(proxy.port)).from_database == await query(database.port)
        assert proxy.failed_open() == {"overfetch_reset": 1.0}
        assert len(widened(database)) == 1


async def test_a_database_that_stops_is_unavailable_in_our_words_and_is_found_when_it_is_back() -> None:
    async with grpc_upstream(Query=scripted()) as database:
        port = database.port
    async with before(f"127.0.0.1:{port}") as proxy:
        for _ in range(2):
            async with grpc_upstream(port=port, Query=scripted()) as again, asyncio.timeout(10):
                # The first answer may be the plain one: the original may find the new connection before a widened search does.
                while (answer := await query(proxy.port)).code is not grpc.StatusCode.OK or ids(answer) != [0, 2, 3]:
                    await asyncio.sleep(0.05)
                assert answer.trailing == TRAILING
                assert again.calls
            gone = await query(proxy.port)
            assert (gone.code, gone.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
            assert gone.trailing == (("x-vecsieve-origin", "proxy"),)
            assert proxy.count("local_errors_total", backend="qdrant", kind="no_upstream") >= 1
            assert proxy.count("upstream_errors_total", backend="qdrant", kind="connect") >= 2


@pytest.mark.parametrize("service", ["qdrant.Points", "nobody.Knows"])
async def test_a_write_whose_connection_dies_is_never_sent_again(service: str) -> None:
    links: list[Link] = []
    applied: list[bytes] = []

    async def applies_and_dies(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        assert message is not None
        applied.append(message)
        links[0].cut()
        await asyncio.sleep(SECONDS)

    async with (
        grpc_upstream(Upsert=applies_and_dies) as database,
        link_to(database.port) as link,
        before(link.address) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        links.append(link)
        for number in range(3):
            through = await ask_on(channel, "unary_unary", (upsert(number),), method=f"/{service}/Upsert")
            assert through.code is grpc.StatusCode.UNAVAILABLE
            assert "127.0.0.1" not in through.details
        # A later write may go out on a connection whose end was not noticed yet: it is lost on the way, and never sent again.
        assert applied[0] == upsert(0)
        assert len(applied) == len(set(applied)), "a write arrived twice"
        assert set(applied) <= {upsert(0), upsert(1), upsert(2)}
        assert proxy.count("upstream_errors_total", backend="qdrant", kind="reset") >= len(applied)


async def test_writes_arrive_at_most_once_and_acknowledged_ones_all_while_connections_drop() -> None:
    chance, links = random.Random(7), list[Link]()
    applied: list[bytes] = []

    async def apply(call: Arrived, context: Context) -> None:
        fate = chance.random()
        if fate < 0.03:
            links[0].cut()
        message = await call.read(context)
        if message is None:
            return
        applied.append(message)
        if fate > 0.97:
            links[0].cut()
        await context.write(b"ok")

    acknowledged: list[bytes] = []

    async def client(channel: grpc.aio.Channel, numbers: range) -> None:
        for number in numbers:
            through = await ask_on(channel, "unary_unary", (upsert(number),), method=UPSERT)
            if through.code is grpc.StatusCode.OK:
                acknowledged.append(upsert(number))
            else:
                assert through.code is grpc.StatusCode.UNAVAILABLE
                await asyncio.sleep(0.02)  # as clients do

    async with (
        grpc_upstream(Upsert=apply) as database,
        link_to(database.port) as link,
        before(link.address) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        links.append(link)
        await asyncio.gather(*(client(channel, range(start, WRITES, 5)) for start in range(5)))
    assert len(applied) == len(set(applied)), "a write arrived twice"
    assert set(acknowledged) <= set(applied), "an acknowledged write is missing"
    assert WRITES // 4 < len(acknowledged) < WRITES, "the faults did not happen, or nothing else did"
    assert link.connections > 3, "connections were made anew"


async def test_an_upload_that_the_client_breaks_off_is_not_taken_for_a_whole_one() -> None:
    async def collects(call: Arrived, context: Context) -> None:
        while await call.read(context) is not None:
            pass
        await context.write(b"committed")

    async with (
        grpc_upstream(Restore=collects) as database,
        before(database.address) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        call: grpc.aio.StreamUnaryCall[bytes, bytes] = channel.stream_unary("/qdrant.Snapshots/Restore")()
        await call.write(b"a part")
        arrived = await database.next_call()
        while not arrived.messages:
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait_for(arrived.over.wait(), 5)
        assert arrived.is_cancelled
        assert not arrived.is_whole

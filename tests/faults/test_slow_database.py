"""A client whose timeout a direct call would have met never misses it because of us."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from support.grpc.upstream import grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, raw_exchange
from support.process.running import Running, running
from support.qdrant.scripted import Delay, is_answered, request, search, slowed
from support.qdrant.scripted_grpc import before, query
from support.qdrant.scripted_grpc import slowed as slowed_message
from vecsieve.proxy.search.hedge import HEDGE_TIMES
from vecsieve.proxy.telemetry.labels import BreakerState

CLIENT_SECONDS, SLOW = 6.0, 3.0  # a search is hedged after half a second: 2.5 s are left for a busy machine


@asynccontextmanager
async def slow(delay: Delay, **settings: object) -> AsyncIterator[tuple[FaultyUpstream, Running]]:
    async with (
        FaultyUpstream(slowed(delay)) as upstream,
        running(upstream.url, **{"hedge_times": HEDGE_TIMES, **settings}) as proxy,
    ):
        yield upstream, proxy


async def in_time(port: int, *, count: int, at_once: int) -> int:
    """How many of so many searches were answered before their clients had waited too long."""
    answered = 0
    for _ in range(0, count, at_once):
        searches = [is_answered(port, within_seconds=CLIENT_SECONDS) for _ in range(at_once)]
        answered += sum(await asyncio.gather(*searches))
    return answered


DELAYS: dict[str, Delay] = {
    "all": lambda _: SLOW,
    "widened twice as slow": lambda widened: SLOW * (1 + widened),
    "widened never": lambda widened: 30.0 if widened else SLOW / 2,
}


async def test_all_searches_of_a_slow_database_are_answered_in_time() -> None:
    """Each case has a database and a proxy of its own; all wait at once, because one after another takes a minute."""

    async def answered(name: str, at_once: int, count: int) -> int:
        async with slow(DELAYS[name], limits={"attempt_timeout_seconds": 5.0}) as (_, proxy):
            return await in_time(proxy.port, count=count, at_once=at_once)

    expected = {(name, at_once, count): count for name in DELAYS for at_once, count in ((1, 3), (8, 24))}
    assert dict(zip(expected, await asyncio.gather(*(answered(*case) for case in expected)), strict=True)) == expected


async def test_a_hedge_that_is_first_is_the_answer_and_the_widened_request_is_let_go() -> None:
    async with slow(lambda widened: 30.0 if widened else 0.0) as (upstream, proxy):
        direct = await raw_exchange(upstream.port, request(search()))
        begun = time.monotonic()
        answer = await raw_exchange(proxy.port, request(search()))
        assert comparable(answer) == comparable(direct)
        assert b"x-vecsieve: fail_open=overfetch_timeout\r\n" in answer
        assert time.monotonic() - begun < CLIENT_SECONDS
        await idle(proxy)
        assert proxy.failed_open() == {"overfetch_timeout": 1.0}
        assert proxy.count("own_reads_total", kind="hedge") == 1
        assert proxy.count("own_reads_total", kind="replay") == 0
        assert proxy.count("selection_bytes_in_flight") == 0
        assert proxy.process.breaker.state is BreakerState.CLOSED


async def test_a_client_that_goes_away_ends_both() -> None:
    async with slow(lambda _: 30.0) as (upstream, proxy):
        exchange = asyncio.create_task(raw_exchange(proxy.port, request(search())))
        async with asyncio.timeout(60.0):
            while len(upstream.requests) < 2:
                await asyncio.sleep(0.01)
        exchange.cancel()
        with pytest.raises(asyncio.CancelledError):
            await exchange
        await idle(proxy)
        assert len(upstream.requests) == 2
        assert proxy.count("selection_bytes_in_flight") == 0


async def test_a_fast_database_sees_hedges_within_the_budget_alone() -> None:
    async with slow(lambda _: 0.0) as (upstream, proxy):
        assert await in_time(proxy.port, count=40, at_once=1) == 40
        hedges = proxy.count("own_reads_total", kind="hedge")
        assert len(upstream.requests) == 40 + hedges
        assert hedges <= 1 + 40 // 10, "none, but for a machine so busy that an answer takes a quarter of a second"


async def test_over_grpc_all_searches_are_answered_within_their_deadline() -> None:
    """The cases wait at once, as above."""

    async def codes(delay: Delay) -> list[grpc.StatusCode]:
        script, seen = slowed_message(delay), []
        async with grpc_upstream(Query=script) as database, before(database.address, hedge_times=HEDGE_TIMES) as proxy:
            for _ in range(2):
                seen += await asyncio.gather(*[query(proxy.port, timeout=CLIENT_SECONDS) for _ in range(8)])
        return [answer.code for answer in seen]

    results = await asyncio.gather(*map(codes, DELAYS.values()))
    assert dict(zip(DELAYS, results, strict=True)) == dict.fromkeys(DELAYS, [grpc.StatusCode.OK] * 16)


async def idle(proxy: Running) -> None:
    """Nothing is under way."""
    async with asyncio.timeout(60.0):
        while proxy.process.in_flight:
            await asyncio.sleep(0.01)


def comparable(answer: bytes) -> bytes:
    """An answer without the field that is about the connection, and without the one that says why VecSieve did nothing."""
    return re.sub(rb"(Connection: close|x-vecsieve: fail_open=\w+)\r\n", b"", answer)

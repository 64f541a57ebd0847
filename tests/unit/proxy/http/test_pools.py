"""Which connection a request gets, when it waits for one, and when one is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network.faulty_upstream import FaultyUpstream, Talk, answering, reply
from support.network.known_names import Names
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.http.connections import Events
from vecsieve.proxy.http.names import Addresses
from vecsieve.proxy.http.pools import LOOKED_AT, Census, Loan, Loans, Pool
from vecsieve.proxy.http.upstream_connection import Exchange, UpstreamConnection
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import FailureKind, UpstreamExchangeError

HEAD = b"GET / HTTP/1.1\r\nHost: db\r\n\r\n"
OK = reply(b"ok")


@asynccontextmanager
async def pool(
    url: str = "http://127.0.0.1:1", *, idle: float = 60.0, most: int = 0, **settings: float
) -> AsyncIterator[Pool]:
    made = Pool(
        UpstreamSettings.model_validate({"url": url, **settings}),
        events=Events(),
        idle_seconds=idle,
        tls=None,
        most=most,
    )
    try:
        yield made
    finally:
        await made.close()


def at(upstream: FaultyUpstream) -> Origin:
    return Origin.of(upstream.url)


async def ask(connection: UpstreamConnection) -> None:
    """One whole exchange; the connection is idle then."""
    exchange = Exchange(connection, None, is_head=False, deadline_at=None)
    exchange.send(HEAD, is_chunked=False)
    await exchange.head()
    while await exchange.read():
        pass
    await exchange.close()


async def until(met: object, pool: Pool) -> None:
    async with asyncio.timeout(30):
        while pool.census() != met:
            await asyncio.sleep(0.005)


async def test_the_connection_freed_last_is_used_first() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool() as connections:
        first, second = [await connections.connection(at(upstream)) for _ in range(2)]
        await ask(first)
        await ask(second)
        assert await connections.connection(at(upstream)) is second
        assert await connections.connection(at(upstream)) is first
        assert connections.census() == Census(busy=2, idle=0, waiting=0, opened=2)


async def test_one_that_idled_for_too_long_is_closed_without_being_asked_for() -> None:
    ended = asyncio.Event()

    async def script(talk: Talk) -> None:
        await answering(OK)(talk)
        ended.set()

    async with FaultyUpstream(script) as upstream, pool(idle=0.05) as connections:
        await ask(await connections.connection(at(upstream)))
        await asyncio.wait_for(ended.wait(), 30)
        await until(Census(busy=0, idle=0, waiting=0, opened=1), connections)
        assert connections._hosts == {}, "a host without connections is forgotten"


async def test_one_that_is_too_old_is_not_used_again() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_age_seconds=0.05) as connections:
        old = await connections.connection(at(upstream))
        await ask(old)
        await asyncio.sleep(0.1)
        assert await connections.connection(at(upstream)) is not old


async def test_one_that_the_database_closes_is_forgotten() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK)

    async with FaultyUpstream(script) as upstream, pool() as connections:
        await ask(await connections.connection(at(upstream)))
        await until(Census(busy=0, idle=0, waiting=0, opened=1), connections)
        assert connections.idle(at(upstream)) is None


async def test_requests_wait_in_turn_and_get_what_is_freed() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=1) as connections:
        only = await connections.connection(at(upstream))
        got = list[int]()

        async def wants(number: int) -> None:
            connection = await connections.connection(at(upstream))
            assert connection is only
            got.append(number)
            await ask(connection)

        waiting = [asyncio.create_task(wants(number)) for number in range(3)]
        await until(Census(busy=1, idle=0, waiting=3, opened=1), connections)
        await ask(only)
        await asyncio.gather(*waiting)
        assert got == [0, 1, 2]
        assert connections.census() == Census(busy=0, idle=1, waiting=0, opened=1)


async def test_an_eighth_of_the_connections_is_kept_for_searches() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=8) as connections:
        others = [await connections.connection(at(upstream), is_search=False) for _ in range(7)]
        waiting = asyncio.create_task(connections.connection(at(upstream), is_search=False))
        await until(Census(busy=7, idle=0, waiting=1, opened=7), connections)
        search = await asyncio.wait_for(connections.connection(at(upstream)), 30)
        await ask(search)
        await asyncio.sleep(0.01)
        assert not waiting.done(), "what a search has freed is for the next search"
        assert connections.idle(at(upstream), is_search=False) is None
        await ask(others[0])
        assert await asyncio.wait_for(waiting, 30) is others[0]


async def test_searches_and_other_requests_that_wait_get_connections_by_turns() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=1) as connections:
        only = await connections.connection(at(upstream))
        got = list[str]()

        async def wants(name: str, *, is_search: bool) -> None:
            connection = await connections.connection(at(upstream), is_search=is_search)
            got.append(name)
            await ask(connection)

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(wants(f"other {number}", is_search=False))
                await asyncio.sleep(0)
            for number in range(2):
                group.create_task(wants(f"search {number}", is_search=True))
                await asyncio.sleep(0)
            await until(Census(busy=1, idle=0, waiting=5, opened=1), connections)
            await ask(only)
        assert got == ["other 0", "search 0", "other 1", "search 1", "other 2"]


async def test_a_connection_that_is_lost_makes_room_for_one_who_waits() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=1) as connections:
        only = await connections.connection(at(upstream))
        waiting = asyncio.create_task(connections.connection(at(upstream)))
        await until(Census(busy=1, idle=0, waiting=1, opened=1), connections)
        only.abort()
        assert await waiting is not only
        assert connections.census() == Census(busy=1, idle=0, waiting=0, opened=2)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_is_given_to_one_who_has_just_left_goes_to_the_next(is_lost: bool) -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=1) as connections:
        only = await connections.connection(at(upstream))
        leaving, staying = (asyncio.create_task(connections.connection(at(upstream))) for _ in range(2))
        await until(Census(busy=1, idle=0, waiting=2, opened=1), connections)
        exchange = Exchange(only, None, is_head=False, deadline_at=None)
        if is_lost:
            exchange.abandon()
        else:
            only.data_received(OK)  # whole: the connection is free at once
        leaving.cancel()
        got = await asyncio.wait_for(staying, 30)
        assert leaving.cancelled()
        assert (got is only) is not is_lost
        assert connections.census().busy == 1


async def test_one_who_leaves_the_queue_is_not_waited_for() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=1) as connections:
        only = await connections.connection(at(upstream))
        leaving = asyncio.create_task(connections.connection(at(upstream)))
        await until(Census(busy=1, idle=0, waiting=1, opened=1), connections)
        leaving.cancel()
        await until(Census(busy=1, idle=0, waiting=0, opened=1), connections)
        await ask(only)
        assert connections.census() == Census(busy=0, idle=1, waiting=0, opened=1)


async def test_the_wait_for_a_connection_is_bounded() -> None:
    async with (
        FaultyUpstream(answering(OK)) as upstream,
        pool(pool_connections=1, stream_idle_timeout_seconds=0.05) as connections,
    ):
        await connections.connection(at(upstream))
        with pytest.raises(UpstreamExchangeError) as caught:
            await connections.connection(at(upstream))
    assert caught.value.kind is FailureKind.CONNECT


async def test_the_bound_of_all_hosts_holds_for_each_and_room_at_one_serves_another() -> None:
    async with (
        FaultyUpstream(answering(OK)) as one,
        FaultyUpstream(answering(OK)) as other,
        pool(most=2) as connections,
    ):
        connected = [await connections.connection(at(one)) for _ in range(2)]
        waiting = asyncio.create_task(connections.connection(at(other)))
        await until(Census(busy=2, idle=0, waiting=1, opened=2), connections)
        connected[0].abort()
        await waiting
        assert connections.census() == Census(busy=2, idle=0, waiting=0, opened=3)


async def test_idle_connections_of_one_host_make_room_for_another() -> None:
    async with (
        FaultyUpstream(answering(OK)) as one,
        FaultyUpstream(answering(OK)) as other,
        pool(most=2) as connections,
    ):
        connected = [await connections.connection(at(one)) for _ in range(2)]
        for connection in connected:
            await ask(connection)
        await connections.connection(at(other))
        assert connections.census() == Census(busy=1, idle=1, waiting=0, opened=3)
        assert not connected[0].is_open, "the one that had idled longest"


async def test_a_host_that_cannot_be_reached_holds_no_room() -> None:
    async with FaultyUpstream(answering(OK)) as gone:
        origin = at(gone)
    async with pool(pool_connections=1) as connections:
        for _ in range(3):
            with pytest.raises(UpstreamExchangeError) as caught:
                await connections.connection(origin)
            assert caught.value.kind is FailureKind.CONNECT
        assert connections.census().busy == 0


async def test_the_next_address_is_tried_when_one_refuses() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool() as connections:
        connections._addresses = Addresses(Names("127.0.0.2", "127.0.0.1"), seconds=10.0, timeout_seconds=5.0)
        origin = Origin("http", f"db.example:{upstream.port}")
        await ask(await connections.connection(origin))
    assert len(upstream.requests) == 1


async def test_a_closed_pool_ends_its_connections_and_gives_none() -> None:
    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=1) as connections:
        busy = await connections.connection(at(upstream))
        exchange = Exchange(busy, None, is_head=False, deadline_at=None)
        waiting = asyncio.create_task(connections.connection(at(upstream)))
        await until(Census(busy=1, idle=0, waiting=1, opened=1), connections)
        await connections.close()
        with pytest.raises(UpstreamExchangeError):
            await exchange.head()
        for attempt in (waiting, connections.connection(at(upstream))):
            with pytest.raises(UpstreamExchangeError) as caught:
                await attempt
            assert caught.value.kind is FailureKind.CONNECT
        assert connections.census() == Census(busy=0, idle=0, waiting=0, opened=0)


async def test_requests_that_come_together_end_one_slow_clients_answer_each() -> None:
    """A client is cut in one turn of the loop, and its connection is gone some turns later."""
    cut: list[UpstreamConnection] = []

    def end(connection: UpstreamConnection) -> None:
        cut.append(connection)
        asyncio.get_running_loop().call_later(0.02, connection.abort)

    async with FaultyUpstream(answering(OK)) as upstream, pool(pool_connections=8) as connections:
        busy = [await connections.connection(at(upstream)) for _ in range(8)]
        for client in busy:
            client.owner.lend(client, lambda: 0.0, partial(end, client))
        await asyncio.gather(*(connections.connection(at(upstream)) for _ in range(3)))
        assert cut == busy[:3]
        await connections.connection(at(upstream))
        assert cut == busy[:4]


def test_of_those_who_take_nothing_the_one_that_has_waited_longest_goes_first() -> None:
    ended: list[str] = []
    loans = Loans()
    for name, speed in (("reads", 10.0), ("stands longest", 0.0), ("stands", 0.0)):
        loans.add(name, Loan(None, partial(float, speed), partial(ended.append, name)))
    assert loans.call_in()
    assert loans.call_in()
    assert loans.call_in()
    assert not loans.call_in()
    assert ended == ["stands longest", "stands", "reads"]


def test_what_was_taken_back_is_not_called_in() -> None:
    loans = Loans()
    loans.add("back", Loan(None, lambda: 0.0, lambda: None))
    loans.take_back("back")
    loans.take_back("back")
    assert not loans.call_in()
    assert len(loans) == 0


@given(st.lists(st.floats(min_value=0, max_value=1e9), max_size=LOOKED_AT))
def test_each_is_called_in_once_and_slower_ones_first(speeds: list[float]) -> None:
    """Invariant: calling in until nothing is left ends each loan once, in the order of speed."""
    ended: list[float] = []
    loans = Loans()
    for holder, speed in enumerate(speeds):
        loans.add(holder, Loan(None, partial(float, speed), partial(ended.append, speed)))
    while loans.call_in():
        pass
    assert ended == sorted(speeds)


@given(st.lists(st.floats(min_value=0.001, max_value=1e9), min_size=1, max_size=5 * LOOKED_AT))
def test_of_many_clients_a_bounded_number_is_compared_and_all_in_turn(speeds: list[float]) -> None:
    """Invariant: each call asks LOOKED_AT clients at most, ends the slowest of them, and all have been asked after two rounds."""
    compared: list[int] = []
    ended: list[int] = []
    loans = Loans()

    def speed_of(holder: int) -> float:
        compared.append(holder)
        return speeds[holder]

    for holder in range(len(speeds)):
        loans.add(holder, Loan(None, partial(speed_of, holder), partial(ended.append, holder)))
    seen: set[int] = set()
    for call in range(1, len(speeds) + 1):
        compared.clear()
        assert loans.call_in()
        assert len(compared) <= LOOKED_AT
        assert speeds[ended[-1]] == min(speeds[number] for number in compared)
        seen.update(compared)
        assert len(seen) >= min(len(speeds), call * (LOOKED_AT - 1))
    assert sorted(ended) == list(range(len(speeds)))

"""Recent pools: a bounded sample, taken beside the answers, that keeps nobody waiting."""

from __future__ import annotations

import asyncio

import pytest

from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange
from support.process.clocks import ManualClock
from support.process.running import Running, running
from support.qdrant.scripted import honest, request, search
from vecsieve.proxy.admin.pools import PER_SECOND


async def until_taken(proxy: Running, count: int) -> None:
    async with asyncio.timeout(20):
        while len(proxy.process.pools.kept()) < count:
            await asyncio.sleep(0.01)


async def test_a_search_is_taken_after_its_answer_with_its_number_and_policy() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        (sampled,) = proxy.process.pools.kept()
        (numbered,) = proxy.process.recent.newest()
        assert (sampled.collection, sampled.number) == ("c", numbered.number)
        assert sampled.pool.top_k == 3
        assert len(sampled.pool.bare.scores) == 8
        assert proxy.process.pools.size_bytes == sampled.pool.size_bytes


@pytest.mark.parametrize("offset", [0, 2])
async def test_a_page_by_offset_is_taken_with_its_place_in_the_list(offset: int) -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, request(search(extra={"offset": offset})))
        await until_taken(proxy, 1)
        (sampled,) = proxy.process.pools.kept()
        assert (sampled.pool.offset, sampled.pool.top_k) == (offset, 3)


async def test_where_no_searches_are_kept_no_pools_are() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url, explain={"keep": 0}) as proxy:
        await raw_exchange(proxy.port, request(search()))
        await asyncio.sleep(0.05)
        assert proxy.process.pools.kept() == []


async def test_a_reload_that_keeps_nothing_drops_what_is_held() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        proxy.process.pools.resize(keep=False)
        assert (proxy.process.pools.kept(), proxy.process.pools.size_bytes) == ([], 0)


async def test_more_searches_than_the_budget_are_not_taken_until_time_passes() -> None:
    clock = ManualClock()
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        proxy.process.pools._clock = clock
        proxy.process.pools._at = clock()
        proxy.process.pools._allowed = 1.0
        for _ in range(3):
            await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        await asyncio.sleep(0.05)
        assert len(proxy.process.pools.kept()) == 1
        clock.now += 1.0 / PER_SECOND
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 2)


async def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        pools = proxy.process.pools
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        pools._most_bytes = 3 * pools.size_bytes
        (first,) = pools.kept()
        for _ in range(6):
            pools._add(first)
        assert len(pools.kept()) == 3
        assert pools.size_bytes <= pools._most_bytes


async def test_closing_ends_what_is_being_taken() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        for _ in range(4):
            await raw_exchange(proxy.port, request(search()))
        await proxy.process.pools.close()
        assert proxy.process.pools._task is None or proxy.process.pools._task.done()

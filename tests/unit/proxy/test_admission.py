from __future__ import annotations

import asyncio

from vecsieve.proxy.admission import Admission


async def hold(gate: Admission, until: asyncio.Event) -> bool:
    if not await gate.enter():
        return False
    try:
        await until.wait()
        return True
    finally:
        gate.leave()


async def test_a_place_that_was_left_is_free_again() -> None:
    gate = Admission(limit=1, wait_seconds=0.01)
    assert await gate.enter()
    assert gate.in_flight == 1
    assert not await gate.enter()
    gate.leave()
    assert gate.in_flight == 0
    assert await gate.enter()


async def test_whoever_finds_no_place_is_refused_after_the_wait() -> None:
    gate, until = Admission(limit=1, wait_seconds=0.01), asyncio.Event()
    first = asyncio.create_task(hold(gate, until))
    await asyncio.sleep(0)
    assert await hold(gate, until) is False
    until.set()
    assert await first is True


async def test_whoever_waits_gets_the_place_that_comes_free() -> None:
    gate, until = Admission(limit=1, wait_seconds=5), asyncio.Event()
    first, second = (asyncio.create_task(hold(gate, until)) for _ in range(2))
    await asyncio.sleep(0)
    until.set()
    assert (await first, await second) == (True, True)


async def test_the_queue_is_bounded_too() -> None:
    gate, until = Admission(limit=2, wait_seconds=5), asyncio.Event()
    tasks = [asyncio.create_task(hold(gate, until)) for _ in range(4)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(hold(gate, until), 1) is False, "the fifth neither fits nor may wait"
    until.set()
    assert await asyncio.gather(*tasks) == [True] * 4


async def test_a_cancelled_waiter_takes_no_place_with_it() -> None:
    gate, until = Admission(limit=1, wait_seconds=5), asyncio.Event()
    first, second = (asyncio.create_task(hold(gate, until)) for _ in range(2))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    until.set()
    await first
    assert await hold(gate, until) is True
    assert gate.in_flight == 0

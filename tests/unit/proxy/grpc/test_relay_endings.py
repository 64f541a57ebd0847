from __future__ import annotations

import asyncio

import pytest

from vecsieve.proxy.grpc.relay import hold_end


async def test_an_end_that_is_meant_is_let_through() -> None:
    held = asyncio.create_task(hold_end())
    done, _ = await asyncio.wait({held}, timeout=5)
    assert done == {held}
    assert held.exception() is None


async def test_a_cancellation_that_follows_finds_the_end_still_held() -> None:
    held = asyncio.create_task(hold_end())
    await asyncio.sleep(0)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held


async def test_a_cancellation_that_is_on_its_way_when_the_time_is_over_comes_first() -> None:
    """A loop that was busy all the while finds the timer and grpcio's news in the same turn; the news has further to go."""
    held = asyncio.create_task(hold_end())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    news = loop.create_future()

    async def hear() -> None:
        await news
        for _ in range(2):
            await asyncio.sleep(0)
        held.cancel()

    hearing = asyncio.create_task(hear())
    await asyncio.sleep(0)
    while loop.time() < began + 0.1:
        pass
    news.set_result(None)
    await hearing
    with pytest.raises(asyncio.CancelledError):
        await held

"""The loop's lag is what a sleep took beyond what it asked for."""

from __future__ import annotations

import asyncio

import pytest

from support.manual_time import ManualTime, settle
from vecsieve.proxy.runtime import PERIOD_SECONDS, LoopLag


async def test_lag_is_measured_ten_times_a_second() -> None:
    time, seen = ManualTime(), list[float]()
    lag = LoopLag(seen.append, clock=time, pause=time.pause)
    lag.start()
    await time.advance(1.05)
    await lag.close()
    assert seen == pytest.approx([0.0] * 10)
    assert time.asked == [PERIOD_SECONDS] * 11


async def test_a_late_waking_is_seen_with_its_length() -> None:
    time, seen = ManualTime(), list[float]()

    async def late(seconds: float) -> None:
        time.now += seconds + 0.03
        await asyncio.sleep(0)

    lag = LoopLag(seen.append, clock=time, pause=late)
    lag.start()
    await settle()
    await lag.close()
    assert seen[:3] == pytest.approx([0.03] * 3)


async def test_a_clock_that_stands_still_gives_no_negative_lag() -> None:
    seen: list[float] = []
    lag = LoopLag(seen.append, clock=lambda: 5.0, pause=lambda _: asyncio.sleep(0))
    lag.start()
    await settle()
    await lag.close()
    assert set(seen) == {0.0}


async def test_each_waking_beats() -> None:
    time, beats = ManualTime(), list[float]()
    lag = LoopLag(lambda _: None, clock=time, pause=time.pause, beat=lambda: beats.append(time.now))
    lag.start()
    await time.advance(0.35)
    await lag.close()
    assert beats == pytest.approx([0.1, 0.2, 0.3])


async def test_it_is_started_once_and_closed_any_number_of_times() -> None:
    lag = LoopLag(lambda _: None, clock=lambda: 0.0)
    await lag.close()
    lag.start()
    with pytest.raises(RuntimeError, match="already"):
        lag.start()
    await lag.close()
    await lag.close()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "vecsieve-loop-lag"] == []


async def test_what_ended_the_measuring_is_not_lost() -> None:
    def broken(_seconds: float) -> None:
        raise ZeroDivisionError

    lag = LoopLag(broken, clock=lambda: 0.0, pause=lambda _: asyncio.sleep(0))
    lag.start()
    await settle()
    with pytest.raises(ZeroDivisionError):
        await lag.close()

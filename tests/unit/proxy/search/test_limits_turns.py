from __future__ import annotations

import asyncio
import time

import pytest

from support.process.turning import Turning
from vecsieve.proxy.search.limits import Turns


def test_a_standing_queue_is_seen_at_the_third_long_turn() -> None:
    loop, seen = Turning(), []
    for _ in range(3):
        loop.turn(0.05)
        seen.append(loop.turns.lag_seconds)
    assert seen == [0.0, 0.0, pytest.approx(0.05)]


def test_one_large_decode_is_no_lag() -> None:
    loop = Turning()
    for seconds in (0.001, 0.2, 0.001, 0.2, 0.2):
        loop.turn(seconds)
        assert loop.turns.lag_seconds < 0.01


def test_one_short_turn_ends_the_lag() -> None:
    loop = Turning()
    for seconds in (0.05, 0.05, 0.05, 0.002):
        loop.turn(seconds)
    assert loop.turns.lag_seconds == pytest.approx(0.002)


def test_what_was_long_ago_says_nothing_of_now() -> None:
    loop = Turning()
    for _ in range(3):
        loop.turn(0.05)
    loop.clock.advance(1.0)
    assert loop.turns.lag_seconds == 0.0
    loop.turn(0.05)
    assert loop.turns.lag_seconds == 0.0, "the three before it do not count"


def test_turns_longer_than_the_memory_are_lag_while_they_last() -> None:
    loop = Turning()
    for _ in range(3):
        loop.turn(2.0)
    assert loop.turns.lag_seconds == pytest.approx(2.0)


def test_only_one_turn_is_measured_at_a_time() -> None:
    loop = Turning()
    for _ in range(5):
        loop.turns.measure()
    assert len(loop.soon) == 1


async def test_work_that_fills_a_real_loop_shows_as_its_lag() -> None:
    running = asyncio.get_running_loop()
    turns = Turns(time.monotonic, running.call_soon)

    async def busy() -> None:
        for _ in range(8):
            turns.measure()
            time.sleep(0.005)  # the work of one of four requests
            await asyncio.sleep(0)

    await asyncio.gather(*(busy() for _ in range(4)))
    assert turns.lag_seconds >= 0.02

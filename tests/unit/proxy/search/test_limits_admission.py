from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.manual_time import settle
from support.process.turning import Turning, calm
from vecsieve.proxy.search.limits import Admission, Place, Turns

LAG_SECONDS = 0.06


def gate_of(limit: int, wait_seconds: float, turns: Turns | None = None) -> Admission:
    turns = calm() if turns is None else turns
    return Admission(limit=limit, wait_seconds=wait_seconds, turns=turns, lag_seconds=LAG_SECONDS)


def lagging() -> Turning:
    loop = Turning()
    for _ in range(3):
        loop.turn(2 * LAG_SECONDS)
    return loop


async def hold(gate: Admission, until: asyncio.Event) -> bool:
    if not await gate.enter():
        return False
    try:
        await until.wait()
        return True
    finally:
        gate.leave()


async def test_a_place_that_was_left_is_free_again() -> None:
    gate = gate_of(1, 0.01)
    assert await gate.enter()
    assert gate.in_flight == 1
    assert not await gate.enter()
    gate.leave()
    assert gate.in_flight == 0
    assert await gate.enter()


@pytest.mark.parametrize(("limit", "unfinished"), [(1, 1), (8, 1), (16, 2), (1024, 128)])
async def test_an_eighth_of_the_places_is_for_requests_whose_bodies_are_on_their_way(
    limit: int, unfinished: int
) -> None:
    gate = gate_of(limit, 0.01)
    for _ in range(unfinished):
        assert gate.in_flight < gate.unfinished
        assert await gate.enter()
    assert gate.in_flight == gate.unfinished


async def test_a_search_finds_a_place_however_many_other_requests_are_inside_and_wait() -> None:
    gate = gate_of(16, 5)
    assert all([await gate.enter(is_search=False) for _ in range(14)])
    others = [asyncio.create_task(gate.enter(is_search=False)) for _ in range(5)]
    await settle()
    assert not any(other.done() for other in others)
    assert await asyncio.wait_for(gate.enter(), 1)
    for other in others:
        other.cancel()


async def test_others_that_came_before_the_loop_lagged_leave_searches_their_share() -> None:
    loop = Turning()
    gate = gate_of(64, 5, loop.turns)
    assert all([await gate.enter(is_search=False) for _ in range(50)])
    for _ in range(3):
        loop.turn(2 * LAG_SECONDS)
    assert [await asyncio.wait_for(gate.enter(), 1) for _ in range(2)] == [True, True]
    waiting = asyncio.create_task(gate.enter())
    await settle()
    assert not waiting.done(), "an eighth of a quarter of 64 places"
    waiting.cancel()


async def test_searches_and_other_requests_that_wait_are_let_in_by_turns() -> None:
    gate, order = gate_of(4, 5), list[str]()

    async def one(name: str, *, is_search: bool) -> None:
        assert await gate.enter(is_search=is_search)
        order.append(name)
        gate.leave(is_search=is_search)

    assert all([await gate.enter() for _ in range(4)])
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(one(f"other {number}", is_search=False))
            await settle()
        for number in range(2):
            group.create_task(one(f"search {number}", is_search=True))
            await settle()
        gate.leave()
    assert order == ["search 0", "other 0", "search 1", "other 1", "other 2"]


async def test_whoever_finds_no_place_is_refused_after_the_wait() -> None:
    gate, until = gate_of(1, 0.01), asyncio.Event()
    first = asyncio.create_task(hold(gate, until))
    await asyncio.sleep(0)
    assert await hold(gate, until) is False
    until.set()
    assert await first is True


async def test_whoever_waits_gets_the_place_that_comes_free() -> None:
    gate, until = gate_of(1, 5), asyncio.Event()
    first, second = (asyncio.create_task(hold(gate, until)) for _ in range(2))
    await asyncio.sleep(0)
    until.set()
    assert (await first, await second) == (True, True)


async def test_the_queue_is_bounded_too() -> None:
    gate, until = gate_of(2, 5), asyncio.Event()
    tasks = [asyncio.create_task(hold(gate, until)) for _ in range(4)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(hold(gate, until), 1) is False, "the fifth neither fits nor may wait"
    until.set()
    assert await asyncio.gather(*tasks) == [True] * 4


async def test_a_cancelled_waiter_takes_no_place_with_it() -> None:
    gate, until = gate_of(1, 5), asyncio.Event()
    first, second = (asyncio.create_task(hold(gate, until)) for _ in range(2))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    until.set()
    await first
    assert await hold(gate, until) is True
    assert gate.in_flight == 0


async def test_those_who_wait_enter_in_the_order_in_which_they_came() -> None:
    gate, order = gate_of(3, 5), list[int]()

    async def one(number: int) -> None:
        assert await gate.enter()
        order.append(number)
        await asyncio.sleep(0)
        gate.leave()

    await asyncio.gather(*(one(number) for number in range(6)))
    assert order == [0, 1, 2, 3, 4, 5]


async def test_once_one_has_waited_in_vain_the_last_enters_first_until_nobody_waits() -> None:
    gate, order = gate_of(2, 0.05), list[int]()
    assert await gate.enter()
    assert await gate.enter()

    async def one(number: int) -> None:
        if await gate.enter():
            order.append(number)

    late = asyncio.create_task(one(0))
    await late
    waiting = [asyncio.create_task(one(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    gate.leave()
    gate.leave()
    await asyncio.gather(*waiting)
    assert order == [2, 1]
    order.clear()
    again = [asyncio.create_task(one(number)) for number in (3, 4)]
    await asyncio.sleep(0)
    gate.leave()
    gate.leave()
    await asyncio.gather(*again)
    assert order == [3, 4]
    assert gate.in_flight == 2


async def test_while_the_loop_lags_a_quarter_of_the_places_is_given() -> None:
    loop = lagging()
    gate = gate_of(8, 5, loop.turns)
    assert [await gate.enter(), await gate.enter()] == [True, True]
    third = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not third.done()
    gate.leave()
    assert await third
    for _ in range(3):
        loop.turn(0.001)
    assert [await gate.enter() for _ in range(6)] == [True] * 6, "a loop that turns quickly has all places again"


@pytest.mark.parametrize(("is_lagging", "is_refused"), [(True, True), (False, False)])
async def test_while_the_loop_lags_the_wait_is_half_as_long(is_lagging: bool, is_refused: bool) -> None:
    gate = gate_of(1, 2, lagging().turns if is_lagging else None)
    assert await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    done, _ = await asyncio.wait([waiting], timeout=1.5)
    assert bool(done) is is_refused
    gate.leave()
    assert await waiting is not is_refused


async def test_a_gate_of_one_place_gives_it_though_the_loop_lags() -> None:
    gate = gate_of(1, 0.01, lagging().turns)
    assert await gate.enter()


async def test_whoever_is_cancelled_at_the_turn_that_gave_him_a_place_gives_it_back() -> None:
    gate = gate_of(1, 5)
    assert await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    gate.leave()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert gate.in_flight == 0


@given(st.lists(st.sampled_from(["search", "other", "leave", "cancel", "lag", "calm", "turn"]), max_size=80))
def test_no_place_is_lost_or_given_twice(steps: list[str]) -> None:
    """However requests come, go and give up: as many are inside as were let in and have not left, never more than the limit."""

    async def play() -> None:
        loop = Turning()
        gate, tasks, inside = gate_of(16, 5, loop.turns), dict[asyncio.Task[bool], bool](), list[bool]()

        def count() -> None:
            for task in [task for task in tasks if task.done()]:
                is_search = tasks.pop(task)
                if not task.cancelled() and task.result():
                    inside.append(is_search)

        for step in [*["search", "other"] * 8, *steps]:
            match step:
                case "search" | "other":
                    tasks[asyncio.create_task(gate.enter(is_search=step == "search"))] = step == "search"
                case "leave" if inside:
                    gate.leave(is_search=inside.pop(0))
                case "cancel" if tasks:
                    task = next(iter(tasks))
                    del tasks[task]
                    task.cancel()
                case "lag" | "calm":
                    for _ in range(3):
                        loop.turn(1.0 if step == "lag" else 0.0)
                case "turn":
                    await settle()
            count()
            assert gate.in_flight <= 16
        await settle()
        count()
        while tasks or inside:
            assert gate.in_flight == len(inside), "and whoever waits is let in, or nobody would be"
            gate.leave(is_search=inside.pop(0))
            await settle()
            count()
        assert gate.in_flight == 0

    asyncio.run(play())


async def test_a_place_is_given_back_once_however_often_it_is_left() -> None:
    gate = gate_of(2, 0.01)
    assert await gate.enter()
    assert await gate.enter()
    place = Place(gate)
    place.leave()
    place.leave()
    assert gate.in_flight == 1

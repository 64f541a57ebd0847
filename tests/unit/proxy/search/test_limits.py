from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from support.process.manual_time import settle
from support.process.turning import Turning, calm
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.limits import (
    CANDIDATE_BYTES,
    LEARNED_SECONDS,
    PAYLOAD_BYTES,
    TEXT_NUMBER_BYTES,
    Admission,
    BytesInFlight,
    Hold,
    Place,
    Turns,
)

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


ONE, OTHER = (Operation(backend="toy", name="query", collection=name) for name in ("one", "other"))


def in_flight_bytes(limit: int, clock: ManualClock | None = None) -> BytesInFlight:
    return BytesInFlight(limit, reply_bytes=1 << 24, clock=ManualClock() if clock is None else clock)


def taken(in_flight: BytesInFlight, operation: Operation, *sizes: int | None) -> Hold:
    hold = in_flight.hold(sizes, in_flight.candidate_bytes(operation, vector_bytes=None))
    assert hold is not None
    return hold


def test_of_an_unknown_collection_a_reply_is_expected_to_hold_the_text_of_large_vectors() -> None:
    in_flight = in_flight_bytes(1 << 30)
    taken(in_flight, ONE, 24, None, 6)
    assert in_flight.total == 30 * CANDIDATE_BYTES


def test_what_a_collections_last_reply_came_to_is_expected_of_the_next_until_it_is_forgotten() -> None:
    clock = ManualClock()
    in_flight = in_flight_bytes(1 << 30, clock)
    in_flight.learn(ONE, (10, None, 10), 2001)
    hold = taken(in_flight, ONE, 5)
    assert in_flight.total == 5 * 101
    hold.release()
    taken(in_flight, OTHER, 1).release()
    clock.advance(LEARNED_SECONDS)
    taken(in_flight, ONE, 1)
    assert in_flight.total == CANDIDATE_BYTES


def test_of_an_unknown_collection_the_searched_vector_tells_how_large_a_candidate_is() -> None:
    in_flight = in_flight_bytes(1 << 30)
    assert (
        in_flight.candidate_bytes(ONE, vector_bytes=768 * TEXT_NUMBER_BYTES) == 768 * TEXT_NUMBER_BYTES + PAYLOAD_BYTES
    )
    in_flight.learn(ONE, (10,), 1000)
    assert in_flight.candidate_bytes(ONE, vector_bytes=768 * TEXT_NUMBER_BYTES) == 100


def test_a_reply_without_candidates_or_bytes_teaches_nothing() -> None:
    in_flight = in_flight_bytes(1 << 30)
    in_flight.learn(ONE, (None,), 100)
    in_flight.learn(ONE, (10,), 0)
    taken(in_flight, ONE, 1)
    assert in_flight.total == CANDIDATE_BYTES


def test_where_there_is_no_room_nothing_is_held() -> None:
    in_flight = in_flight_bytes(3 * CANDIDATE_BYTES)
    hold = taken(in_flight, ONE, 2)
    assert in_flight.hold((2,), CANDIDATE_BYTES) is None
    assert in_flight.total == 2 * CANDIDATE_BYTES
    hold.release()
    assert taken(in_flight, ONE, 2) is not None


def test_one_search_alone_is_never_without_room() -> None:
    in_flight = in_flight_bytes(10)
    hold = taken(in_flight, ONE, 24)
    assert hold.arriving()(1 << 24)
    hold.came(1 << 24)
    assert in_flight.total == 1 << 24
    assert in_flight.hold((1,), CANDIDATE_BYTES) is None
    hold.release()
    assert in_flight.total == 0


def test_a_reply_that_arrives_larger_than_expected_must_still_fit() -> None:
    in_flight = in_flight_bytes(4 * CANDIDATE_BYTES)
    second, hold = taken(in_flight, ONE, 2), taken(in_flight, ONE, 1)
    fits = hold.arriving()
    assert fits(2 * CANDIDATE_BYTES)
    assert not fits(2 * CANDIDATE_BYTES + 1)
    second.release()
    assert fits(2 * CANDIDATE_BYTES + 1)


def test_a_second_reply_is_held_beside_the_first_until_the_search_ends() -> None:
    in_flight = in_flight_bytes(1 << 30)
    hold = taken(in_flight, ONE, 1)
    hold.came(100)
    assert in_flight.total == 100
    assert hold.arriving()(50)
    hold.came(50)
    assert in_flight.total == 150
    hold.release()
    hold.release()
    assert in_flight.total == 0


def test_replies_that_arrive_at_once_are_held_beside_each_other() -> None:
    in_flight = in_flight_bytes(4 * CANDIDATE_BYTES)
    second, hold = taken(in_flight, ONE, 1), taken(in_flight, ONE, 1)
    one, other = hold.arriving(), hold.arriving()
    assert one(CANDIDATE_BYTES)
    assert one(2 * CANDIDATE_BYTES)
    assert other(CANDIDATE_BYTES)
    assert in_flight.total == 4 * CANDIDATE_BYTES
    assert not other(CANDIDATE_BYTES + 1)
    hold.came(2 * CANDIDATE_BYTES)
    hold.came(CANDIDATE_BYTES)
    assert in_flight.total == 4 * CANDIDATE_BYTES, "none is counted twice"
    hold.release()
    second.release()
    assert in_flight.total == 0


STEPS = st.tuples(st.sampled_from(["hold", "arrive", "release"]), st.integers(0, 7), st.integers(0, 5000))


@pytest.mark.parametrize("limit", [1, 4000, 20_000])
@given(steps=st.lists(STEPS, max_size=40))
def test_never_more_than_the_limit_and_one_reply(limit: int, steps: list[tuple[str, int, int]]) -> None:
    """Held is at most the limit, or what one search alone holds; when all have ended it is 0."""
    in_flight, holds, alone = in_flight_bytes(limit), dict[int, Hold](), 0
    in_flight.learn(ONE, (1,), 100)
    for step, who, size in steps:
        match step:
            case "hold" if who not in holds and (hold := in_flight.hold((1 + size // 100,), 100)) is not None:
                holds[who] = hold
                alone = max(alone, in_flight.total if len(holds) == 1 else 0)
            case "arrive" if who in holds and holds[who].arriving()(size):
                holds[who].came(size)
                alone = max(alone, in_flight.total if len(holds) == 1 else 0)
            case "release" if who in holds:
                holds.pop(who).release()
        assert 0 <= in_flight.total <= max(limit, alone)
    for hold in holds.values():
        hold.release()
    assert in_flight.total == 0

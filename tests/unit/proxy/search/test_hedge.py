"""How long a widened request is waited for alone: bounds, what is learned, and what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.toy_backend import OPERATION
from support.process.clocks import ManualClock
from support.process.manual_time import Timers, settle
from vecsieve.proxy.search.hedge import (
    GAVE_UP_SECONDS,
    HEDGE_TIMES,
    LATE_SAMPLES,
    SAMPLES,
    AttemptTimeout,
    Gate,
    Race,
    Replays,
)

OTHER = replace(OPERATION, collection="other")


def attempt_timeout(
    *widened: float, plain: tuple[float, ...] = (), longest: float = 5.0, clock: ManualClock | None = None
) -> AttemptTimeout:
    made = AttemptTimeout(longest_seconds=longest, clock=ManualClock() if clock is None else clock)
    for seconds in widened:
        made.of(OPERATION).widened.append(seconds)
    for seconds in plain:
        made.of(OPERATION).plain.append(seconds)
    return made


def test_while_nothing_is_known_the_original_follows_after_half_a_second() -> None:
    assert attempt_timeout().of(OPERATION).times(None)[0] == HEDGE_TIMES.hedge_most
    assert attempt_timeout().of(OPERATION).times(None)[1] == 2.5


@pytest.mark.parametrize(("usual", "seconds"), [(0.002, 0.25), (0.2, 0.4), (3.0, 0.5)])
def test_it_follows_after_twice_the_usual_time_within_bounds(usual: float, seconds: float) -> None:
    assert attempt_timeout(*[usual] * SAMPLES).of(OPERATION).times(None)[0] == pytest.approx(seconds)


@pytest.mark.parametrize(("timeout", "seconds"), [(0.4, 0.1), (1.0, 0.25), (60.0, 6.0)])
def test_a_timeout_that_is_known_leaves_three_quarters_for_the_original(timeout: float, seconds: float) -> None:
    assert attempt_timeout(*[3.0] * SAMPLES, longest=30.0).of(OPERATION).times(timeout)[0] == pytest.approx(seconds)


def test_where_the_clients_own_take_nearly_as_long_as_its_timeout_both_go_out_at_once() -> None:
    assert attempt_timeout(plain=(0.9,) * 5).of(OPERATION).times(1.0)[0] == 0.0


def test_a_fast_database_is_waited_for_at_least_a_second() -> None:
    assert attempt_timeout(0.002).of(OPERATION).times(None)[1] == HEDGE_TIMES.attempt_least


def test_a_slow_database_is_waited_for_four_times_its_95th_percentile() -> None:
    assert attempt_timeout(*[0.5] * SAMPLES).of(OPERATION).times(None)[1] == pytest.approx(2.0)


def test_one_outlier_in_thirty_two_does_not_stretch_the_patience_and_old_samples_are_forgotten() -> None:
    assert attempt_timeout(*[0.5] * (SAMPLES - 1), 10.0, longest=60.0).of(OPERATION).times(None)[1] == pytest.approx(
        2.0
    )
    old = attempt_timeout(*[10.0] * SAMPLES, *[0.5] * SAMPLES, longest=60.0)
    assert old.of(OPERATION).times(None)[1] == pytest.approx(2.0)


def test_who_went_away_after_a_second_or_more_has_shown_a_timeout_for_ten_minutes() -> None:
    clock = ManualClock()
    made = attempt_timeout(*[3.0] * SAMPLES, plain=(3.0,) * SAMPLES, longest=30.0, clock=clock)
    made.of(OPERATION).gave_up(0.9)
    assert made.of(OPERATION).times(None)[0] == HEDGE_TIMES.hedge_most
    made.of(OPERATION).gave_up(5.0)
    assert made.of(OPERATION).times(None)[0] == pytest.approx(0.5)
    assert made.of(OPERATION).times(None)[1] == 2.5
    assert made.of(OPERATION).times(40.0)[1] == 12.0, "what a client says itself goes before"
    clock.advance(GAVE_UP_SECONDS)
    assert made.of(OPERATION).times(None)[1] == 12.0


def test_a_collection_of_which_nothing_is_known_is_in_doubt_and_one_timely_answer_ends_that() -> None:
    made = attempt_timeout()
    assert made.of(OPERATION).is_doubtful
    made.of(OPERATION).late.append(False)
    assert not made.of(OPERATION).is_doubtful
    assert made.of(OTHER).is_doubtful


def test_when_half_of_the_last_were_late_it_is_in_doubt_again() -> None:
    made = attempt_timeout(0.01)
    for is_late in [False] * LATE_SAMPLES + [True]:
        made.of(OPERATION).late.append(is_late)
    assert not made.of(OPERATION).is_doubtful
    made.of(OPERATION).late.append(True)
    assert made.of(OPERATION).is_doubtful


@pytest.mark.parametrize(("widened", "plain", "is_doubtful"), [(3.0, 3.0, False), (3.1, 2.9, False), (3.0, 1.0, True)])
def test_a_database_that_is_as_slow_to_its_clients_is_no_reason_for_doubt(
    widened: float, plain: float, is_doubtful: bool
) -> None:
    made = attempt_timeout(widened, widened, plain=(plain, plain))
    for _ in range(LATE_SAMPLES):
        made.of(OPERATION).late.append(True)
    assert made.of(OPERATION).is_doubtful is is_doubtful


def test_only_so_many_collections_are_remembered() -> None:
    made = AttemptTimeout(longest_seconds=5.0, clock=ManualClock(), entries=2)
    for name in "abc":
        made.of(replace(OPERATION, collection=name)).late.append(False)
    assert len(made) == 2
    assert made.of(replace(OPERATION, collection="a")).is_doubtful


@given(
    longest=st.floats(0.1, 60.0),
    client=st.none() | st.floats(0.001, 600.0),
    widened=st.lists(st.floats(0.0, 100.0), max_size=80),
    plain=st.lists(st.floats(0.0, 100.0), max_size=80),
)
def test_the_original_is_never_later_than_its_bounds(
    longest: float, client: float | None, widened: list[float], plain: list[float]
) -> None:
    """A hedge never comes after the last moment, nor after a quarter of a known timeout, nor after half a second without one."""
    made = attempt_timeout(*widened, plain=tuple(plain), longest=longest)
    last, first = made.of(OPERATION).times(client)[1], made.of(OPERATION).times(client)[0]
    assert 0.0 <= first <= last <= longest
    assert first <= (HEDGE_TIMES.hedge_most if client is None else client / 4)
    assert client is None or last <= client / 2
    assert first >= min(HEDGE_TIMES.hedge_least, last) or client is not None
    assert made.of(OPERATION).times(client)[2] <= longest


# Two ways to one answer: which is first, what becomes of the other, and that nothing is left behind.


class Original:
    """The client's own search, whose answer begins and ends when a test says so."""

    def __init__(self, *, is_success: bool = True) -> None:
        self.is_success = is_success
        self.head, self.end = asyncio.Event(), asyncio.Event()
        self.passed = self.is_cancelled = False

    async def send(self, gate: Gate) -> str:
        try:
            await self.head.wait()
            await gate(self.is_success)
            self.passed = True
            await self.end.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return "original"


class May:
    """Says yes or no, and remembers what it was asked."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.requested: list[bool] = []

    def __call__(self, *, is_last: bool) -> bool:
        self.requested.append(is_last)
        return self.answers.pop(0)


class Steps:
    """What is raced against."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False

    async def __call__(self) -> str | None:
        try:
            return await self.outcome
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


async def started(
    send: Callable[[Gate], Awaitable[str]], may: May, *, fired: bool = True
) -> tuple[Race[str], Timers, Steps, asyncio.Task[str | None]]:
    """A race under way. ``fired``: the moment to send the original has come."""
    timers, widened = Timers(), Steps()
    race = Race(send, may, timers, 0.5, 2.5)
    running = asyncio.create_task(race.run(widened))
    await settle()
    if fired:
        assert timers.fire() == 0.5
        await settle()
    return race, timers, widened, running


async def test_what_climbs_in_time_is_the_answer_and_nothing_is_sent() -> None:
    original, may = Original(), May()
    race, timers, widened, running = await started(original.send, may, fired=False)
    widened.outcome.set_result("climbed")
    assert await running == "climbed"
    await race.drop()
    assert (timers.waiting, may.requested, race.is_sent) == ([], [], False)


async def test_the_original_is_first_when_the_head_of_its_success_is_here() -> None:
    original = Original()
    race, _, widened, running = await started(original.send, May(True))
    assert race.is_sent
    assert not race.is_first
    original.head.set()
    assert await running is None
    assert race.is_first
    assert widened.is_cancelled
    assert not original.passed, "nothing goes out before it is asked for"
    original.end.set()
    assert await race.answer() == "original"


async def test_what_climbs_first_cancels_the_original_before_anything_of_it_goes_out() -> None:
    original = Original()
    race, _, widened, running = await started(original.send, May(True))
    widened.outcome.set_result("climbed")
    assert await running == "climbed"
    await race.drop()
    assert (original.is_cancelled, original.passed, race.is_first) == (True, False, False)


@pytest.mark.parametrize("climbed", ["climbed", None])
async def test_a_failure_of_the_original_waits_until_it_is_known_whether_it_is_needed(climbed: str | None) -> None:
    original = Original(is_success=False)
    race, _, widened, running = await started(original.send, May(True))
    original.head.set()
    await settle()
    assert not original.passed
    widened.outcome.set_result(climbed)
    assert await running == climbed
    if climbed is None:
        original.end.set()
        assert await race.answer() == "original"
    else:
        await race.drop()
        assert not original.passed


async def test_a_failure_of_the_original_is_the_answer_at_the_last_moment() -> None:
    original = Original(is_success=False)
    race, timers, widened, running = await started(original.send, May(True))
    original.head.set()
    await settle()
    assert not race.is_first
    assert timers.fire() == 2.0
    assert await running is None
    assert (race.is_first, widened.is_cancelled) == (True, True)
    original.end.set()
    assert await race.answer() == "original"


async def test_from_the_last_moment_on_any_answer_of_the_original_will_do() -> None:
    original = Original(is_success=False)
    race, timers, _, running = await started(original.send, May(False, True))
    timers.fire()
    original.head.set()
    assert await running is None
    assert race.is_first
    original.end.set()
    assert await race.answer() == "original"


async def test_where_it_may_not_be_sent_it_is_asked_once_more_at_the_last_moment() -> None:
    original, may = Original(), May(False, True)
    race, timers, widened, running = await started(original.send, may)
    assert not race.is_sent
    assert timers.fire() == 2.0
    assert race.is_sent
    assert may.requested == [False, True]
    widened.outcome.set_result("climbed")
    assert await running == "climbed"
    await race.drop()


async def test_a_client_that_goes_away_ends_both() -> None:
    timers, widened, original = Timers(), Steps(), Original()
    race = Race(original.send, May(True), timers, 0.5, 2.5)

    async def handled() -> None:
        try:
            await race.run(widened)
        finally:
            await race.drop()

    handling = asyncio.create_task(handled())
    await settle()
    timers.fire()
    await settle()
    handling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handling
    assert (widened.is_cancelled, original.is_cancelled, timers.waiting) == (True, True, [])


async def test_an_original_that_broke_says_so_to_whoever_asks_for_it_alone() -> None:
    async def breaks(_: Gate) -> str:
        raise KeyError

    race, _, widened, running = await started(breaks, May(True))
    widened.outcome.set_result(None)
    assert await running is None
    with pytest.raises(KeyError):
        await race.answer()
    await race.drop()


async def test_both_at_once_is_one_answer() -> None:
    original = Original()
    race, _, widened, running = await started(original.send, May(True))
    original.head.set()
    widened.outcome.set_result("climbed")
    outcome = await running
    assert race.is_first or outcome == "climbed"
    original.end.set()
    await race.drop()


async def test_once_the_original_is_over_dropping_it_gives_the_loop_no_turn() -> None:
    """The client has its whole answer and may close the connection: its handler would be cancelled before the search is counted."""
    original = Original()
    race, _, _, running = await started(original.send, May(True))
    original.head.set()
    original.end.set()
    await running
    assert await race.answer() == "original"
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await race.drop()
    assert turns == []


@pytest.mark.parametrize(("in_flight", "most"), [(1, 3), (10, 3), (15, 3), (20, 4), (100, 20), (1000, 200)])
def test_a_fifth_of_what_is_in_flight_may_be_asked_again_and_at_least_three(in_flight: int, most: int) -> None:
    replays = Replays(lambda: in_flight)
    with ExitStack() as under_way:
        for _ in range(most):
            assert not replays.is_spent
            under_way.enter_context(replays.one())
        assert replays.is_spent
    assert not replays.is_spent


def test_one_that_breaks_is_no_longer_under_way() -> None:
    replays = Replays(lambda: 0)
    for _ in range(4):
        with pytest.raises(ZeroDivisionError), replays.one():
            raise ZeroDivisionError
    assert not replays.is_spent

"""Two ways to one answer: which is first, what becomes of the other, and that nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from support.process.manual_time import Timers, settle
from vecsieve.proxy.search.hedge import Gate, Race


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
        self.asked: list[bool] = []

    def __call__(self, *, is_last: bool) -> bool:
        self.asked.append(is_last)
        return self.answers.pop(0)


class Climb:
    """What is raced against."""

    def __init__(self) -> None:
        self.found: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False

    async def __call__(self) -> str | None:
        try:
            return await self.found
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


def run(race: Race[str], widened: Climb) -> asyncio.Task[str | None]:
    return asyncio.create_task(race.run(widened))


async def test_what_climbs_in_time_is_the_answer_and_nothing_is_sent() -> None:
    timers, widened, original, may = Timers(), Climb(), Original(), May()
    race = Race(original.send, may, timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    widened.found.set_result("climbed")
    assert await running == "climbed"
    await race.drop()
    assert (timers.waiting, may.asked, race.is_sent) == ([], [], False)


async def test_the_original_is_first_when_the_head_of_its_success_is_here() -> None:
    timers, widened, original = Timers(), Climb(), Original()
    race = Race(original.send, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    assert timers.fire() == 0.5
    await settle()
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
    timers, widened, original = Timers(), Climb(), Original()
    race = Race(original.send, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    await settle()
    widened.found.set_result("climbed")
    assert await running == "climbed"
    await race.drop()
    assert (original.is_cancelled, original.passed, race.is_first) == (True, False, False)


@pytest.mark.parametrize("climbed", ["climbed", None])
async def test_a_failure_of_the_original_waits_until_it_is_known_whether_it_is_needed(climbed: str | None) -> None:
    timers, widened, original = Timers(), Climb(), Original(is_success=False)
    race = Race(original.send, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    original.head.set()
    await settle()
    assert not original.passed
    widened.found.set_result(climbed)
    assert await running == climbed
    if climbed is None:
        original.end.set()
        assert await race.answer() == "original"
    else:
        await race.drop()
        assert not original.passed


async def test_a_failure_of_the_original_is_the_answer_at_the_last_moment() -> None:
    timers, widened, original = Timers(), Climb(), Original(is_success=False)
    race = Race(original.send, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    original.head.set()
    await settle()
    assert not race.is_first
    assert timers.fire() == 2.0
    assert await running is None
    assert (race.is_first, widened.is_cancelled) == (True, True)
    original.end.set()
    assert await race.answer() == "original"


async def test_from_the_last_moment_on_any_answer_of_the_original_will_do() -> None:
    timers, widened, original = Timers(), Climb(), Original(is_success=False)
    race = Race(original.send, May(False, True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    timers.fire()
    original.head.set()
    assert await running is None
    assert race.is_first
    original.end.set()
    assert await race.answer() == "original"


async def test_where_it_may_not_be_sent_it_is_asked_once_more_at_the_last_moment() -> None:
    timers, widened, original, may = Timers(), Climb(), Original(), May(False, True)
    race = Race(original.send, may, timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    await settle()
    assert not race.is_sent
    assert timers.fire() == 2.0
    assert race.is_sent
    assert may.asked == [False, True]
    widened.found.set_result("climbed")
    assert await running == "climbed"
    await race.drop()


async def test_a_client_that_goes_away_ends_both() -> None:
    timers, widened, original = Timers(), Climb(), Original()
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

    timers, widened = Timers(), Climb()
    race = Race(breaks, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    await settle()
    widened.found.set_result(None)
    assert await running is None
    with pytest.raises(KeyError):
        await race.answer()
    await race.drop()


async def test_both_at_once_is_one_answer() -> None:
    timers, widened, original = Timers(), Climb(), Original()
    race = Race(original.send, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    await settle()
    original.head.set()
    widened.found.set_result("climbed")
    found = await running
    assert race.is_first or found == "climbed"
    original.end.set()
    await race.drop()


async def test_once_the_original_is_over_dropping_it_gives_the_loop_no_turn() -> None:
    """The client has its whole answer and may close the connection: its handler would be cancelled before the search is counted."""
    timers, widened, original = Timers(), Climb(), Original()
    race = Race(original.send, May(True), timers, 0.5, 2.5)
    running = run(race, widened)
    await settle()
    timers.fire()
    await settle()
    original.head.set()
    original.end.set()
    await running
    assert await race.answer() == "original"
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await race.drop()
    assert turns == []

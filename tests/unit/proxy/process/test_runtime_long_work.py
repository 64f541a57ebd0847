"""One thread does what would hold the loop; the loop turns meanwhile, and who is cancelled waits for nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

import pytest

from vecsieve.proxy.process import runtime
from vecsieve.proxy.process.runtime import SWITCH_SECONDS, LongWork
from vecsieve.proxy.selection.values import Steps


@pytest.fixture
def work() -> Iterator[LongWork]:
    interval = sys.getswitchinterval()
    made = LongWork()
    yield made
    made.close()
    sys.setswitchinterval(interval)


async def test_what_it_comes_to_is_handed_back_from_another_thread(work: LongWork) -> None:
    assert await work.run(threading.get_ident) != threading.get_ident()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)


async def test_what_it_raises_is_raised(work: LongWork) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await work.run(lambda: int("x"))


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_that_was_found_or_read_is_kept_until_garbage_is_collected(
    work: LongWork, *, fails: bool
) -> None:
    class Large:
        """Stands for a reply and its bytes."""

    def read() -> Large:
        large = Large()
        seen.append(weakref.ref(large))
        if fails:
            raise ValueError("not to be read")
        return large

    async def asked() -> None:
        with contextlib.suppress(ValueError):
            await work.run(read)

    seen: list[weakref.ref[Large]] = []
    gc.disable()
    try:
        await asked()
        await work.run(lambda: None)
        assert [each() for each in seen] == [None]
    finally:
        gc.enable()


async def test_the_loop_turns_while_python_works(work: LongWork) -> None:
    """Counted: half a second of pure Python would be one turn on the loop."""
    turns, working = 0, asyncio.ensure_future(work.run(_busy))
    while not working.done():
        turns += 1
        await asyncio.sleep(0.001)
    assert turns > 10


async def test_works_of_many_are_done_one_after_another_in_their_order(work: LongWork) -> None:
    begun: list[int] = []
    now: list[int] = []
    most: list[int] = []

    def one(number: int) -> None:
        begun.append(number)
        now.append(number)
        most.append(len(now))
        time.sleep(0.001)
        now.remove(number)

    await asyncio.gather(*(work.run(partial(one, number)) for number in range(20)))
    assert begun == list(range(20))
    assert max(most) == 1


async def test_who_is_cancelled_is_let_go_at_once_and_what_waited_never_begins(work: LongWork) -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def first() -> None:
        begun.set()
        go_on.wait(10)
        seen.append("first")

    running = asyncio.ensure_future(work.run(first))
    waiting = asyncio.ensure_future(work.run(lambda: seen.append("second")))
    await asyncio.to_thread(begun.wait, 10)
    for each in (running, waiting):
        each.cancel()
    ended = await asyncio.wait_for(asyncio.gather(running, waiting, return_exceptions=True), 1)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2
    go_on.set()
    assert await work.run(lambda: "third") == "third"
    assert seen == ["first"]


async def test_who_waits_too_long_is_told(work: LongWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "WAIT_SECONDS", 0.05)
    go_on = threading.Event()
    with pytest.raises(TimeoutError):
        await work.run(lambda: go_on.wait(10))
    go_on.set()


@pytest.mark.parametrize("is_long", [False, True])
async def test_steps_are_taken_to_their_end_with_a_turn_of_the_loop_between(
    work: LongWork, monkeypatch: pytest.MonkeyPatch, *, is_long: bool
) -> None:
    monkeypatch.setattr("vecsieve.proxy.process.runtime.STRETCH_SECONDS", 0.0)
    seen: list[str] = []

    def stepping() -> Steps[str]:
        for step in "ab":
            seen.append(step)
            yield
        return "found"

    async def beside() -> None:
        seen.append("beside")

    turn = asyncio.ensure_future(beside())
    assert await work.finished(stepping(), nullcontext(), is_long=is_long) == "found"
    await turn
    assert [each for each in seen if each != "beside"] == ["a", "b"]
    assert seen.index("beside") in {0, 1}


class Counted:
    """Counts how often it is entered."""

    def __init__(self) -> None:
        self.times = 0

    def __enter__(self) -> None:
        self.times += 1

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("is_long", "most"), [(False, 201), (True, 100)])
async def test_short_steps_in_the_thread_are_taken_together(work: LongWork, *, is_long: bool, most: int) -> None:
    def stepping() -> Steps[str]:
        for _ in range(200):
            yield
        return "found"

    turns = Counted()
    assert await work.finished(stepping(), turns, is_long=is_long) == "found"
    assert (turns.times == most) if not is_long else (turns.times < most)


async def test_a_step_that_fails_ends_them_as_it_would_on_the_loop(work: LongWork) -> None:
    def failing() -> Steps[None]:
        yield
        raise ValueError("a step")

    with pytest.raises(ValueError, match="a step"):
        await work.finished(failing(), nullcontext(), is_long=True)


async def test_after_the_end_nothing_begins(work: LongWork) -> None:
    work.close()
    with pytest.raises(RuntimeError):
        await work.run(lambda: None)


def _busy() -> None:
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        sum(range(100))

"""The board's numbers belong to one place each, and a child's are seen by its parent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.runtime import loop as runtime
from vecsieve.proxy.runtime.lifecycle import Board, Phase
from vecsieve.proxy.runtime.loop import SWITCH_SECONDS, LongWork
from vecsieve.proxy.selection.values import Steps


def test_everything_is_zero_at_first() -> None:
    board = Board(2)
    assert [(board.pid(n), board.phase(n), board.restarts(n), board.heartbeat_ms(n)) for n in range(2)] == [
        (0, Phase.EMPTY, 0, 0)
    ] * 2
    assert not board.is_draining


def test_a_process_takes_its_place() -> None:
    board = Board(2)
    board.begin(1, 4711, now_ms=5000)
    board.set_phase(1, Phase.READY)
    board.count_restart(1)
    board.count_restart(1)
    board.beat(1, 6000)
    assert (board.pid(1), board.phase(1), board.restarts(1), board.heartbeat_ms(1)) == (4711, Phase.READY, 2, 6000)
    assert (board.pid(0), board.phase(0), board.restarts(0), board.heartbeat_ms(0)) == (0, Phase.EMPTY, 0, 0)


def test_draining_touches_no_place() -> None:
    board = Board(1)
    board.drain()
    assert board.is_draining
    assert board.pid(0) == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**62)), max_size=40))
def test_writes_to_one_place_are_never_seen_in_another(writes: list[tuple[int, int]]) -> None:
    """Invariant: each place reads back the last number written to it, and no other."""
    board, last = Board(5), dict.fromkeys(range(5), 0)
    for place, number in writes:
        board.beat(place, number)
        last[place] = number
    assert [board.heartbeat_ms(place) for place in range(5)] == list(last.values())


def test_a_child_writes_and_its_parent_reads() -> None:
    program = (
        "import os\n"
        "from vecsieve.proxy.runtime.lifecycle import Board, Phase\n"
        "board = Board(1)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    board.set_phase(0, Phase.READY)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(board.phase(0).name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "READY\n"


@pytest.mark.parametrize("place", [1, 7])
def test_there_is_nothing_beyond_the_last_place(place: int) -> None:
    with pytest.raises(IndexError):
        Board(1).pid(place)


# One thread does what would hold the loop; the loop turns meanwhile, and who is cancelled waits for nothing.


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

    async def search() -> None:
        with contextlib.suppress(ValueError):
            await work.run(read)

    seen: list[weakref.ref[Large]] = []
    gc.disable()
    try:
        await search()
        await work.run(lambda: None)
        assert [reference() for reference in seen] == [None]
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
    for task in (running, waiting):
        task.cancel()
    ended = await asyncio.wait_for(asyncio.gather(running, waiting, return_exceptions=True), 1)
    assert [type(task) for task in ended] == [asyncio.CancelledError] * 2
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
    monkeypatch.setattr("vecsieve.proxy.runtime.loop.STRETCH_SECONDS", 0.0)
    seen: list[str] = []

    def stepping() -> Steps[str]:
        for step in "ab":
            seen.append(step)
            yield
        return "found"

    async def others() -> None:
        seen.append("beside")

    turn = asyncio.ensure_future(others())
    assert await work.finished(stepping(), is_long=is_long) == "found"
    await turn
    assert [entry for entry in seen if entry != "beside"] == ["a", "b"]
    assert seen.index("beside") in {0, 1}


async def test_short_steps_in_the_thread_are_taken_together(work: LongWork) -> None:
    threads: list[int] = []

    def stepping() -> Steps[str]:
        for _ in range(200):
            threads.append(threading.get_ident())
            yield
        return "found"

    runs, run = 0, LongWork.run

    async def counted(long_work: LongWork, several: Callable[[], object]) -> object:
        nonlocal runs
        runs += 1
        return await run(long_work, several)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LongWork, "run", counted)
        assert await work.finished(stepping(), is_long=True) == "found"
    assert threading.get_ident() not in threads
    assert runs < 100


async def test_a_step_that_fails_ends_them_as_it_would_on_the_loop(work: LongWork) -> None:
    def failing() -> Steps[None]:
        yield
        raise ValueError("a step")

    with pytest.raises(ValueError, match="a step"):
        await work.finished(failing(), is_long=True)


async def test_after_the_end_nothing_begins(work: LongWork) -> None:
    work.close()
    with pytest.raises(RuntimeError):
        await work.run(lambda: None)


def _busy() -> None:
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        sum(range(100))

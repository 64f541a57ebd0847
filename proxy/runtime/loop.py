"""The event loop of one process: long work runs beside it, and its lag is measured."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from ..selection.values import Steps

LOGGER = logging.getLogger("vecsieve.loop")
Pause = Callable[[float], Awaitable[None]]
"""Waits for this many seconds."""


# Long work runs in one thread beside the loop: reading a large reply or comparing a large pool takes tens of milliseconds.
# It is pure, so a thread may do it. Python switches to the loop every SWITCH_SECONDS, and numpy releases the GIL while it
# multiplies. One thread, because two would compete with each other and with the loop.

T = TypeVar("T")

# Python's default is 5 ms. uvloop takes the GIL for each callback, so one turn of the loop waited several times that long.
SWITCH_SECONDS = 0.001
# Seconds, including the queue, in which each piece of work takes about 0.1 s. After this the search falls back.
WAIT_SECONDS = 5.0
# Seconds of consecutive steps in the thread, while others wait.
STRETCH_SECONDS = 0.02


class Owner:
    """Owns tasks that go on when their waiters are cancelled, as a handler whose client disconnects is."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin work that nobody waits for: its exception is logged."""
        task = self._begin(work)
        task.add_done_callback(_logged)
        return task

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """The result. A waiter that is cancelled waits for the end, unless it is cancelled again."""
        task = self._begin(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_logged)
            await asyncio.wait([task])
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name="vecsieve-owned")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, *, grace_seconds: float = 0.0) -> None:
        """Wait for the tasks, then cancel the rest."""
        if self._tasks and grace_seconds:
            await asyncio.wait(list(self._tasks), timeout=grace_seconds)
        late = list(self._tasks)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


@contextlib.contextmanager
def background(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Within the block the work runs as a task; what is left of it is cancelled."""
    task = asyncio.create_task(work, name="vecsieve-background")
    try:
        yield
    finally:
        task.cancel()


def _logged(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        LOGGER.error("work in the background failed", exc_info=error)


class LongWork:
    """One worker thread per process; it starts with the first work."""

    __slots__ = ("_executor",)

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "vecsieve-long-work", initializer=_take_turns)

    def begin(self, work: Callable[[], object]) -> None:
        """Queue work that nobody waits for."""
        self._executor.submit(work)

    async def run(self, work: Callable[[], T], *, is_kept: bool = False) -> T:
        """The result or exception of ``work``. Work runs in order. ``work`` must be pure: cancelling drops its result but does not stop it.
        ``is_kept``: it runs even if its waiter is cancelled or late before it was begun.

        Raises TimeoutError after WAIT_SECONDS.
        """
        # One future instead of run_in_executor's two, so that nothing here keeps a reference to the result.
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def notify(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing waits
                loop.call_soon_threadsafe(over.set)

        job = self._executor.submit(work)
        job.add_done_callback(notify)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await over.wait()
            return job.result()
        finally:
            if not is_kept:
                job.cancel()
            del job  # an error refers to this frame

    async def done(self, work: Callable[[], T], *, is_long: bool) -> T:
        """Run ``work`` in the thread if it is long, else here."""
        return await self.run(work) if is_long else work()

    async def finished(self, steps: Steps[T], *, is_long: bool) -> T:
        """The result of all steps, with a turn of the loop after each. In the thread, where a turn costs two switches, after several."""
        while True:
            end = await self.run(partial(_several, steps)) if is_long else _end(steps)
            if end is not None:
                result: T = end.value
                return result
            await asyncio.sleep(0)

    def close(self) -> None:
        """Start no further work."""
        self._executor.shutdown(wait=False, cancel_futures=True)


async def in_thread(work: Callable[[], T]) -> T:
    """The result or exception of work that may take seconds, such as reading settings, in a thread of its own."""

    def run() -> T:
        _take_turns()
        return work()

    return await asyncio.to_thread(run)


def _end(steps: Steps[T]) -> StopIteration | None:
    """Take one step. Returns the StopIteration after the last one, because a future cannot carry it as an exception."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None


def _several(steps: Steps[T]) -> StopIteration | None:
    """Take steps for STRETCH_SECONDS, at least one."""
    until = time.monotonic() + STRETCH_SECONDS
    while (end := _end(steps)) is None and time.monotonic() < until:
        pass
    return end


def _take_turns() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)


PERIOD_SECONDS = 0.1  # seconds between measurements


class LoopLag:
    """A task that sleeps and reports how much it overslept. ``clock``: monotonic seconds.

    ``observe`` gets seconds, never negative. ``beat`` is called at each wake-up, as a proof that the loop runs.
    """

    __slots__ = ("_beat", "_clock", "_observe", "_pause", "_task")

    def __init__(
        self,
        observe: Callable[[float], None],
        *,
        clock: Callable[[], float],
        pause: Pause = asyncio.sleep,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._observe = observe
        self._clock = clock
        self._pause = pause
        self._beat = beat
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Raises RuntimeError if it already runs."""
        if self._task is not None:
            raise RuntimeError("the loop's lag is already being measured")
        self._task = asyncio.create_task(self._run(), name="vecsieve-loop-lag")

    async def close(self) -> None:
        """Cancel the task. Raises the exception that ended it before."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise

    async def _run(self) -> None:
        while True:
            before = self._clock()
            await self._pause(PERIOD_SECONDS)
            self._observe(max(0.0, self._clock() - before - PERIOD_SECONDS))
            self._beat()

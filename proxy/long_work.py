"""Work that takes tens of milliseconds, in one thread beside the loop: reading a large reply, comparing a large pool.

It is pure, so a thread may do it. Python gives the loop its turn every SWITCH_SECONDS meanwhile, and numpy gives up the interpreter's
lock while it multiplies. One thread, because two would only take turns from one another and from the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from vecsieve.proxy.selection.steps import Steps

T = TypeVar("T")

# Python's own is 5 ms. uvloop takes the lock for each callback, so that one turn of the loop waited several times as long.
SWITCH_SECONDS = 0.001
# For the works before it, which take some 0.1 s each, and its own: one that waits longer is given up, and a lower rung answers.
WAIT_SECONDS = 5.0


class LongWork:
    """The thread of one process; it starts with the first work."""

    __slots__ = ("_executor",)

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "vecsieve-long-work", initializer=_take_turns)

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises. It must be pure: who is cancelled leaves it running to its end, and nobody hears of it.

        Raises TimeoutError when it is not done in time. Works begin in the order in which they came.
        """
        # One future instead of run_in_executor's two: once it is handed out, nothing here refers to what was found.
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(over.set)

        job = self._executor.submit(work)
        job.add_done_callback(tell)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await over.wait()
            return job.result()
        finally:
            job.cancel()
            del job  # an error refers to this frame

    async def done(self, work: Callable[[], T], *, is_long: bool) -> T:
        """The same where it is long; else it is done here."""
        return await self.run(work) if is_long else work()

    async def finished(self, steps: Steps[T], timed: AbstractContextManager[object], *, is_long: bool) -> T:
        """What all steps come to, a turn of the loop for each: a list may be a thousand ranks long, and texts long and many."""
        while True:
            with timed:
                end = await self.done(partial(_end, steps), is_long=is_long)
            if end is not None:
                found: T = end.value
                return found
            await asyncio.sleep(0)

    def close(self) -> None:
        """Begin no other work."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _end(steps: Steps[T]) -> StopIteration | None:
    """Take one step; the end behind the last. It is returned, because no future takes it for an exception."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None


def _take_turns() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)

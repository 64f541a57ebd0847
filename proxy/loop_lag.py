"""How late the event loop wakes, measured ten times a second: the first sign of a decode that is too large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vecsieve.proxy.lifecycle import Pause

PERIOD_SECONDS = 0.1


class LoopLag:
    """A task that sleeps, and reports by how much it overslept. ``clock``: monotonic seconds.

    ``observe`` gets seconds, never negative. ``beat`` is called at each waking: it proves that the loop runs. Whoever
    starts it closes it.
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
        """Begin to measure. Raises RuntimeError when it already does."""
        if self._task is not None:
            raise RuntimeError("the loop's lag is already being measured")
        self._task = asyncio.create_task(self._run(), name="vecsieve-loop-lag")

    async def close(self) -> None:
        """End the task. Raises what ended it before."""
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

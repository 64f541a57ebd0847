"""Mode shadow: the pipeline beside the untouched answer. It measures, and nothing of it reaches a client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from vecsieve.proxy.fence import first_standing
from vecsieve.proxy.report import Report
from vecsieve.proxy.search import Attempt
from vecsieve.proxy.tally import Tally

LOGGER = logging.getLogger("vecsieve.shadow")

ROUNDING = 1e-9  # twenty times 0.05 is not one

Measure = Callable[[], Awaitable[Report | None]]
"""Runs the pipeline of one search for its figures alone."""


class Shadow:
    """Owns the measurements that are under way: a bounded number, ended with the process.

    A measurement starts after the client's answer has gone out, so that it adds nothing to its time. They run one after
    another: nobody waits for them, and each holds a reply, of which grpcio makes three copies (three of 15 MB: 120 MiB).
    """

    def __init__(self, *, tally: Tally, limit: int) -> None:
        self._tally = tally
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._debt = 1.0
        self._alone = asyncio.Lock()

    @property
    def running(self) -> int:
        """How many are under way, all but one of which wait."""
        return len(self._running)

    def is_due(self, sample: float) -> bool:
        """Whether the next search is to be measured: one in so many, and no more at once than the limit.

        The sample is taken evenly, not at random: at 0.25 the first search is measured, and every fourth after it.
        """
        if sample <= 0.0:
            return False
        is_owed = self._debt > 1.0 - ROUNDING
        is_due = is_owed and len(self._running) < self._limit
        if is_owed and not is_due:
            self._debt = 1.0  # of those that found no room one is made up for
        else:
            self._debt += sample - is_due
        return is_due

    def follow(self, measure: Measure, attempt: Attempt) -> None:
        """Measure this search of which ``attempt`` is the memory."""
        task = asyncio.create_task(self._measure(measure, attempt), name="vecsieve-shadow")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """End what is under way."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _measure(self, measure: Measure, attempt: Attempt) -> None:
        async with self._alone:
            attempt.watch.restart()
            report = await first_standing(
                [measure], lambda error: LOGGER.warning("not measured: %s", type(error).__name__)
            )
        if report is not None:
            self._tally.measured(report, attempt)

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

Measure = Callable[[], Awaitable[Report | None]]
"""Runs the pipeline of one search for its figures alone."""


class Shadow:
    """Owns the measurements that are under way: a bounded number, ended with the process.

    A measurement starts after the client's answer has gone out, so that it adds nothing to its time.
    """

    def __init__(self, *, tally: Tally, limit: int) -> None:
        self._tally = tally
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._debt = 0.0

    def follow(self, measure: Measure, attempt: Attempt, *, sample: float) -> bool:
        """Measure this search of which ``attempt`` is the memory, unless it is not sampled or too many are being measured.

        The sample is taken evenly, not at random: at 0.25 every fourth search is measured.
        """
        self._debt += sample
        if self._debt < 1.0 or len(self._running) >= self._limit:
            self._debt = min(self._debt, 1.0)
            return False
        self._debt -= 1.0
        task = asyncio.create_task(self._measure(measure, attempt), name="vecsieve-shadow")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return True

    async def close(self) -> None:
        """End what is under way."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _measure(self, measure: Measure, attempt: Attempt) -> None:
        attempt.watch.restart()
        report = await first_standing([measure], lambda error: LOGGER.warning("not measured: %s", type(error).__name__))
        if report is not None:
            self._tally.measured(report, attempt)

"""The client's own search, sent beside a widened one that is late: the first usable answer is the client's.

Only a search is hedged, and a search reads. What loses is cancelled: its connection is closed, and nothing of it counts as a
failure of the database. A refusal or an error of the original waits until the widened request has ended too, or for the last
moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

A = TypeVar("A")
T = TypeVar("T")

Gate = Callable[[bool], Awaitable[None]]
"""Waited for when the head of the original's answer is here, and nothing of it has gone out; told whether it is a success."""


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None:
        """It will not."""
        ...


class May(Protocol):
    """Whether the original may go out now."""

    def __call__(self, *, is_last: bool) -> bool:
        """``is_last``: whether it is not asked again."""
        ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after so many seconds."""


def later(seconds: float, call: Callable[[], None]) -> Timer:
    """By the running loop."""
    return asyncio.get_running_loop().call_later(seconds, call)


class Race(Generic[A]):
    """Of one search. ``send``: sends the original through the gate. ``may``: whether to, asked ``first`` and, where it was no, at ``last``."""

    def __init__(self, send: Callable[[Gate], Awaitable[A]], may: May, later: Later) -> None:
        self._send = send
        self._may = may
        self._later = later
        self._task: asyncio.Future[A] | None = None
        self._limit: asyncio.Timeout | None = None
        self._wanted = asyncio.Event()
        self._is_over = self._is_here = self._is_lapsed = False
        self.is_first = False

    @property
    def is_sent(self) -> bool:
        """Whether the original has gone out."""
        return self._task is not None

    async def run(self, climb: Callable[[], Awaitable[T | None]], *, first: float, last: float) -> T | None:
        """What ``climb`` comes to; None also where the original was first (``is_first``)."""
        rest = max(0.0, last - first)

        def due() -> None:
            if self._may(is_last=False):
                self._start()
                timers.append(self._later(rest, self._lapse))
            else:
                timers.append(self._later(rest, overdue))

        def overdue() -> None:
            if self._may(is_last=True):
                self._start()
                self._lapse()

        timers = [self._later(first, due)]
        try:
            async with asyncio.timeout(None) as self._limit:
                return await climb()
        except TimeoutError:
            return None  # only the gate ends the block like this: what climbs lets no exception out
        finally:
            for timer in timers:
                timer.cancel()
            self._is_over = True

    async def answer(self) -> A:
        """The original's, when it is over."""
        assert self._task is not None  # noqa: S101 - asked only of one that was sent
        self._wanted.set()
        return await self._task

    async def drop(self) -> None:
        """It is not wanted, or it is over."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if not self._is_over:
            self._task = asyncio.ensure_future(self._send(self._pass))

    async def _pass(self, is_success: bool) -> None:
        self._is_here = True
        if is_success or self._is_lapsed:
            self._win()
        await self._wanted.wait()

    def _lapse(self) -> None:
        """From now on any answer of the original will do."""
        self._is_lapsed = True
        if self._is_here:
            self._win()

    def _win(self) -> None:
        if not self._is_over:
            self.is_first = True
            assert self._limit is not None  # noqa: S101 - nothing is sent before the race begins
            self._limit.reschedule(asyncio.get_running_loop().time())

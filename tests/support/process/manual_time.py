"""Time that passes when a test says so, for code that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


class ManualTime:
    """A clock and the sleep that belongs to it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.requested: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.requested.append(seconds)
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, sleeper))
        await sleeper

    async def advance(self, seconds: float) -> None:
        """Pass time, waking each sleeper at its moment."""
        await settle()
        end = self.now + seconds
        while due := [(at, sleeper) for at, sleeper in self._sleepers if at <= end + 1e-9 and not sleeper.done()]:
            at, sleeper = min(due, key=lambda entry: entry[0])
            self.now = max(self.now, at)
            sleeper.set_result(None)
            await settle()
        self.now = end


class Timers:
    """Calls that are due when a test says so. ``waiting``: seconds and function of each, in order; cancelled ones are gone."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> Cancel:
        entry = (seconds, call)
        self.waiting.append(entry)
        return Cancel(self, entry)

    def fire(self) -> float:
        """Make the first call; returns its seconds."""
        seconds, call = self.waiting.pop(0)
        call()
        return seconds


class Cancel:
    """Takes a call back."""

    def __init__(self, timers: Timers, entry: tuple[float, Callable[[], None]]) -> None:
        self._timers = timers
        self._entry = entry

    def cancel(self) -> None:
        if self._entry in self._timers.waiting:
            self._timers.waiting.remove(self._entry)

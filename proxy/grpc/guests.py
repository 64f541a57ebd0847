"""The connections of shared ports that aiohttp does not know: how many, whose tasks, and their end.

They count in the same ledger as aiohttp's, so that one limit holds for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from vecsieve.proxy.http.connections import Connection, Connections

# A cut connection is gone after one turn of the loop; this only keeps a fault of ours from holding up the exit.
CUT_SECONDS = 1.0


class Guest(Connection, Protocol):
    """What is asked of such a connection beside what the ledger asks."""

    @property
    def may_finish(self) -> bool:
        """Whether closing waits for its end."""
        ...

    @property
    def is_owed(self) -> bool:
        """Whether something that was said has not reached the client yet, as far as can be told."""
        ...

    def say_goodbye(self) -> None:
        """Ask the client to send nothing new this way, if there is a way to ask. Told once."""
        ...

    def cut(self) -> None:
        """End now, whatever is under way."""
        ...


class Guests:
    """Enters them in the ledger, owns their tasks, and ends them. One for all ports of a listener."""

    def __init__(self, ledger: Connections) -> None:
        self._ledger = ledger
        self._open: dict[Guest, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_leaving = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def owed(self) -> int:
        """How many clients have not got all of their answers yet."""
        return sum(each.is_owed for each in self._open)

    def enter(self, guest: Guest) -> bool:
        """Take a place; False when there is none, or no longer: then it is to be closed at once."""
        if self._is_closed or not self._ledger.admit(guest):
            return False
        self._open[guest] = None
        self._is_empty.clear()
        if self._is_leaving:
            guest.say_goodbye()
        return True

    def asked(self, guest: Guest) -> None:
        """Its first request is here: it is no longer new."""
        self._ledger.asked(guest)

    def say_goodbye(self) -> None:
        """Ask all clients to send nothing new this way, those who come later too."""
        if not self._is_leaving:
            self._is_leaving = True
            for each in self._open:
                each.say_goodbye()

    def leave(self, guest: Guest) -> None:
        """Give the place back. One that has none, or has left before, may say so again."""
        self._ledger.forget(guest)
        self._open.pop(guest, None)
        if not self._open:
            self._is_empty.set()

    def cut_flood(self) -> None:
        """One of them is cut because it sends more than it may."""
        self._ledger.cut_flood()

    def refused_message(self) -> None:
        """A call of one of them was ended because its message inflates to too much."""
        self._ledger.refused_message()

    def start(self, work: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Run what a guest has to wait for."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, *, grace_seconds: float) -> None:
        """Cut those that have not said what they want, wait for the others, then cut these too. Nobody enters any more."""
        self._is_closed = True
        self._cut([each for each in self._open if not each.may_finish])
        await self._emptied(grace_seconds)
        self._cut(list(self._open))
        await self._emptied(CUT_SECONDS)
        for task in (left := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _cut(self, guests: list[Guest]) -> None:
        for each in guests:
            each.cut()

    async def _emptied(self, seconds: float) -> None:
        if self._open:
            await asyncio.wait({waiting := asyncio.ensure_future(self._is_empty.wait())}, timeout=seconds)
            waiting.cancel()

"""The connections of shared ports that aiohttp does not own: their places, tasks and end.

They are counted with aiohttp's, so that one limit holds for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from vecsieve.proxy.http.connections import Connection, Connections

# A cut connection is gone after one turn of the loop; this only keeps a fault of ours from holding up the exit.
CUT_SECONDS = 1.0


class SharedConnection(Connection, Protocol):
    @property
    def may_finish(self) -> bool:
        """Whether closing waits for its end."""
        ...

    @property
    def is_unsent(self) -> bool:
        """Whether an answer has not reached the client yet, as far as can be known."""
        ...

    def send_goaway(self) -> None:
        """Ask the client to send nothing new, where that is possible. Called once."""
        ...

    def cut(self) -> None:
        """End now, whatever is under way."""
        ...


class SharedConnections:
    """Registers them, owns their tasks, and ends them. One for all ports of a listener."""

    def __init__(self, ledger: Connections) -> None:
        self.ledger = ledger
        self._open: dict[SharedConnection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_leaving = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def unsent(self) -> int:
        """How many clients have not received all of their answers."""
        return sum(each.is_unsent for each in self._open)

    def enter(self, connection: SharedConnection) -> bool:
        """Register a connection; False when it must be closed at once."""
        if self._is_closed or not self.ledger.admit(connection):
            return False
        self._open[connection] = None
        self._is_empty.clear()
        if self._is_leaving:
            connection.send_goaway()
        return True

    def send_goaway(self) -> None:
        """Ask all clients to send nothing new, later ones too."""
        if not self._is_leaving:
            self._is_leaving = True
            for each in self._open:
                each.send_goaway()

    def leave(self, connection: SharedConnection) -> None:
        """Remove a connection; one that is not registered is ignored."""
        self.ledger.forget(connection)
        self._open.pop(connection, None)
        if not self._open:
            self._is_empty.set()

    def start(self, work: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Run a task of a connection."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, *, grace_seconds: float) -> None:
        """Cut those whose protocol is unknown, wait for the others, then cut these too. None is registered any more."""
        self._is_closed = True
        self._cut([each for each in self._open if not each.may_finish])
        await self._emptied(grace_seconds)
        self._cut(list(self._open))
        await self._emptied(CUT_SECONDS)
        for task in (left := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _cut(self, connections: list[SharedConnection]) -> None:
        for each in connections:
            each.cut()

    async def _emptied(self, seconds: float) -> None:
        if self._open:
            await asyncio.wait({waiting := asyncio.ensure_future(self._is_empty.wait())}, timeout=seconds)
            waiting.cancel()

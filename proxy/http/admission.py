"""How many requests are in flight at once: a bounded number, a short bounded queue, then a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """A gate of ``limit`` places. Whoever finds none waits at most ``wait_seconds``, at most ``limit`` of them."""

    def __init__(self, *, limit: int, wait_seconds: float) -> None:
        self._places = asyncio.Semaphore(limit)
        self._limit = limit
        self._wait_seconds = wait_seconds
        self._waiting = 0
        self._inside = 0

    @property
    def in_flight(self) -> int:
        """How many hold a place."""
        return self._inside

    @asynccontextmanager
    async def place(self) -> AsyncIterator[bool]:
        """Hold a place for the block; False inside means there was none, and the request is to be refused."""
        if not await self._enter():
            yield False
            return
        self._inside += 1
        try:
            yield True
        finally:
            self._inside -= 1
            self._places.release()

    async def _enter(self) -> bool:
        if not self._places.locked():
            return await self._places.acquire()
        if self._waiting >= self._limit:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await self._places.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

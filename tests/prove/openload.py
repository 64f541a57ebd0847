"""An open-loop load generator: requests leave on a fixed schedule and are timed from when they were due, so that a slow
server cannot slow the asking down (no coordinated omission). No request is ever sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from prove.histogram import Histogram
from support.network.faulty_upstream import RawClient, RawReply

GAVE_UP_SECONDS = 10.0
FAILED = 0  # the status of a request that got no whole answer

Ask = Callable[[bytes], Awaitable[int]]
"""Sends a request once; the status of its whole answer, 0 for none."""
Invalidation = Callable[[int, int, float], None]
"""Hears number, status (0: no whole answer) and seconds since it was due."""


@dataclass
class RequestRecorder:
    """What became of the requests, and how long those with a whole answer took from when they were due."""

    statuses: Counter[int] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=Histogram)

    def heard(self, _number: int, status: int, seconds: float) -> None:
        """Note one outcome."""
        self.statuses[status] += 1
        if status != FAILED:
            self.latency.record(seconds)

    @property
    def failed(self) -> int:
        """Requests that were not answered 200."""
        return sum(count for status, count in self.statuses.items() if status != 200)

    def words(self) -> str:
        """The statuses as a phrase; a status of 0 is a request without a whole answer."""
        return ", ".join(f"{count} × {status or 'no answer'}" for status, count in sorted(self.statuses.items()))


class Pool:
    """Keep-alive connections to one port, each for one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[RawClient] = []

    async def ask(self, raw: bytes) -> int:
        """The status of the whole answer, or ``FAILED``."""
        client = None
        try:
            async with asyncio.timeout(GAVE_UP_SECONDS):
                client = self._take() or await RawClient.connect(self._port)
                await client.send(raw)
                answer: RawReply = await client.reply()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            if client is not None:
                client.writer.close()
            return FAILED
        if answer.header(b"connection") == b"close":
            client.writer.close()
        else:
            self._idle.append(client)
        return answer.status

    def _take(self) -> RawClient | None:
        while self._idle:
            client = self._idle.pop()
            if not client.reader.at_eof():
                return client
            client.writer.close()
        return None

    async def close(self) -> None:
        """End the idle connections."""
        while self._idle:
            with contextlib.suppress(OSError):
                await self._idle.pop().close()


async def open_load(
    port: int,
    made: Callable[[int], bytes],
    *,
    rate: float,
    count: int,
    heard: Invalidation,
    ask: Ask | None = None,
) -> None:
    """Send ``count`` requests, ``rate`` per second, ``made(number)`` each; returns when all have ended."""
    loop, pool = asyncio.get_running_loop(), Pool(port)
    begun, send = loop.time(), ask or pool.ask

    async def one(number: int, due: float) -> None:
        status = await send(made(number))
        heard(number, status, loop.time() - due)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due = begun + number / rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            group.create_task(one(number, due))
    await pool.close()


async def capacity(port: int, raw: bytes, *, seconds: float, clients: int = 8) -> float:
    """Answers per second in a closed loop of so many clients."""
    loop, pool, answered = asyncio.get_running_loop(), Pool(port), 0
    until = loop.time() + seconds

    async def client() -> None:
        nonlocal answered
        while loop.time() < until:
            is_answered = await pool.ask(raw) == 200
            answered += is_answered  # after the wait: the others count meanwhile

    await asyncio.gather(*(client() for _ in range(clients)))
    await pool.close()
    return answered / seconds

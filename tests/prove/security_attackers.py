"""Clients that mean harm, thousands at once on one event loop: they connect, say a beginning, and take their time."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast

AT_ONCE = 100  # connections being made; more would overflow the kernel's queue and measure that
SECOND = 1.0
# A slow reader announces a small window, as slowhttptest's do. With the kernel's own, the attackers' machine takes whole answers: on one
# machine that is 2 GiB of socket memory, and every process there waits for it, also those that nobody attacks.
SMALL_WINDOW_BYTES = 4096
PACED_SECONDS = 0.005  # those that come in this time come together
SLICES = 20  # of a second: writing to all at once would hold up the good client's clock


class Attacker(asyncio.Protocol):
    """One connection. ``reads``: whether it takes what comes."""

    def __init__(self, beginning: bytes, *, reads: bool) -> None:
        self._beginning = beginning
        self._reads = reads
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._ended: float | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def life_seconds(self) -> float | None:
        """How long it was suffered; None while it is."""
        return None if self._ended is None else self._ended - self._begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._begun = self._loop.time()
        self._transport.write(self._beginning)
        if not self._reads:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note when."""
        self._ended = self._loop.time()

    def say(self, letters: bytes) -> None:
        """Go on, a little."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(letters)

    def leave(self) -> None:
        """Reset."""
        if self._transport is not None:
            self._transport.abort()


@dataclass
class Crowd:
    """Attackers of one port, all gone with the block."""

    port: int
    beginning: bytes
    reads: bool = True
    attackers: list[Attacker] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for attacker in self.attackers:
            attacker.leave()

    async def connect(self, count: int, a_second: float = 0.0) -> None:
        """Let so many come, ``a_second`` at most, or as fast as they can; those that cannot connect are not among them."""
        loop = asyncio.get_running_loop()
        begun, at_once = loop.time(), max(1, int(a_second * PACED_SECONDS)) if a_second else AT_ONCE
        for start in range(0, count, at_once):
            if a_second:
                await asyncio.sleep(begun + start / a_second - loop.time())
            some = min(at_once, count - start)
            await asyncio.gather(*(self._one() for _ in range(some)), return_exceptions=True)

    async def _one(self) -> None:
        loop = asyncio.get_running_loop()
        raw = socket.socket()
        raw.setblocking(False)
        if not self.reads:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW_BYTES)
        await loop.sock_connect(raw, ("127.0.0.1", self.port))
        _, made = await loop.create_connection(lambda: Attacker(self.beginning, reads=self.reads), sock=raw)
        self.attackers.append(made)


async def dribbled(crowd: Crowd, letters: bytes, *, until: float) -> None:
    """Each says its letters once a second, until the loop's clock says so."""
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        for part in range(SLICES):
            for attacker in crowd.attackers[part::SLICES] if letters else ():
                attacker.say(letters)
            await asyncio.sleep(SECOND / SLICES)

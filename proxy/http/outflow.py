"""Sends answers to clients without letting slow ones hold a place or an upstream connection.

A database writes its answer into the kernel's buffer. Behind the proxy the rest of an answer waits in memory, within a bound per answer and
one for all. An answer that does not fit stays on its upstream connection. While requests lack a connection, or the memory bound is
exceeded, the slowest client is cut. A single slow client never is.

Large answers share a bound on the bytes sent per turn of the loop, so that they do not delay small ones.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable

from aiohttp import web

from .answers import RawResponse
from .connections import Events
from .pools import Loan, Loans
from .upstream_connection import Exchange, UpstreamConnection

# The bound per answer, of the bound for all: 2 MiB of 64. A hundred results with vectors of 1,536 numbers are 1.9 MB of text.
ANSWER_SHARE = 32
# What is read ahead may fill this share of it; what has arrived already may fill all. Otherwise each slow client that is cut makes room to read
# another answer ahead: 1 MiB takes 1.6 to 2.8 ms of CPU, more than all else that such a client costs.
AHEAD_SHARE = 0.5
# Seconds: a client counts as slow if its buffer did not empty for this long. Four round trips on a mobile line.
SLOW_SECONDS = 0.1

# From this size on an answer is large: its pieces take turns with those of others.
LARGE_BYTES = 256 * 1024
# Bytes of large answers per turn of the loop; the last piece may exceed it. Reading and writing them takes 0.2 to 0.35 ms of CPU on
# loopback, most of it in the kernel.
TURN_BYTES = 128 * 1024
LOOKS = 4  # checks whether a client has read anything, within the time allowed


class LargeAnswers:
    """Sends the pieces of large answers, TURN_BYTES per turn of the loop; twice as much in a turn that other work begins.

    Hundreds of clients that requested answers at once and read nothing blocked each turn for 0.1 to 0.3 s together, until they were known
    as slow. A piece that waits stops reading from its connection to the database.
    """

    __slots__ = ("_is_next", "_spent", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._spent = 0  # in this turn
        self._is_next = False

    async def take(self, size: int) -> None:
        """Wait for a turn. An answer that had one waits behind the others."""
        if self._spent < TURN_BYTES and not self._waiting:
            self._spend(size)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((waiter, size))
        await waiter

    def _spend(self, size: int) -> None:
        self._spent += size
        if not self._is_next:
            self._is_next = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_next = False
        self._spent = 0
        while self._waiting and self._spent < TURN_BYTES:
            waiter, size = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._spend(size)


class Backlog:
    """The bytes of answers that wait in memory for their clients. ``limit_bytes``: for all of them. ``large``: their turns."""

    __slots__ = ("_limit", "_loans", "each_bytes", "large", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._loans = Loans()
        self.each_bytes = limit_bytes // ANSWER_SHARE
        self.total_bytes = 0
        self.large = LargeAnswers()

    def grew(self, reserved: int, size: int) -> bool:
        """Let an answer that holds ``reserved`` bytes hold ``size``, to be read ahead; False, without a change, if they do not fit."""
        if size > self.each_bytes or self.total_bytes + size - reserved > AHEAD_SHARE * self._limit:
            return False
        self.total_bytes += size - reserved
        return True

    def changed(self, more: int) -> None:
        """Add ``more`` bytes (negative for fewer) that have already arrived, even if they exceed the bound."""
        self.total_bytes += more
        if more > 0:
            self._trim()

    def lend(self, holder: object, loan: Loan) -> None:
        """Offer what a slow client's answer holds. While too much is held, the slowest are cut."""
        self._loans.add(holder, loan)
        self._trim()

    def take_back(self, holder: object) -> None:
        self._loans.take_back(holder)

    def _trim(self) -> None:
        while self.total_bytes > self._limit and len(self._loans) > 1:  # a single one is never cut
            self._loans.call_in()


class Outflow:
    """One upstream reply on its way to a client. Close it.

    ``stall_seconds``: how long the client may take nothing. ``leave``: gives the request's place back, early for a slow
    client.
    """

    __slots__ = (
        "_backlog",
        "_events",
        "_is_cut",
        "_leave",
        "_length",
        "_lent",
        "_next_look",
        "_reply",
        "_request",
        "_reserved",
        "_response",
        "_sent",
        "_stall_seconds",
    )

    def __init__(
        self,
        request: web.BaseRequest,
        response: RawResponse,
        reply: Exchange,
        *,
        backlog: Backlog,
        events: Events,
        stall_seconds: float,
        leave: Callable[[], None],
    ) -> None:
        self._request = request
        self._response = response
        self._reply = reply
        self._backlog = backlog
        self._events = events
        self._stall_seconds = stall_seconds
        self._leave = leave
        self._lent: UpstreamConnection | None = None
        self._reserved = 0
        self._next_look: asyncio.TimerHandle | None = None
        self._length = reply.content_length
        self._sent = 0
        self._is_cut = False

    async def send(self, piece: bytes) -> None:
        """Send a piece; wait while the client reads nothing and the answer finds no room in memory.

        Raises TimeoutError when the client reads nothing for too long, ConnectionError when it is gone.
        """
        if max(self._length or 0, self._sent + len(piece)) > LARGE_BYTES:
            await self._backlog.large.take(len(piece))
        await self._response.put(piece)
        self._sent += len(piece)
        if self._request.protocol.writing_paused:
            if not self._has_room():
                await self._emptied()
        elif self._reserved:
            self._release()

    async def end(self) -> None:
        """End the body and wait until the client has read it. Raises as `send`."""
        if self._request.protocol.writing_paused:
            await self._emptied()  # `write_eof` adds at most an empty chunk
        await self._response.write_eof()

    def close(self) -> None:
        self._release()

    def _has_room(self) -> bool:
        """Whether to read more. The whole rest is counted at once: half an answer would free no connection."""
        coming = 0 if self._length is None else self._length - self._sent
        size = self._waiting_bytes() + coming
        if not self._backlog.grew(self._reserved, size):
            return False
        self._reserved = size
        return True

    async def _emptied(self) -> None:
        waiting = max(self._reserved, self._waiting_bytes() + self._reply.received_bytes - self._sent)
        self._backlog.changed(waiting - self._reserved)
        self._reserved = waiting
        loop, left = asyncio.get_running_loop(), self._left_bytes()
        slow = loop.call_later(SLOW_SECONDS, self._is_slow, loop.time(), left)
        try:
            async with asyncio.timeout(self._stall_seconds) as deadline:
                self._look(deadline, left)
                await self._response.emptied()
        finally:
            slow.cancel()
            if self._next_look is not None:
                self._next_look.cancel()
            if self._lent is not None:
                self._lent.owner.take_back(self._lent)
                self._lent = None
            self._backlog.take_back(self)
        self._release()

    def _look(self, deadline: asyncio.Timeout, before: int) -> None:
        """Extend the deadline while the client reads anything."""
        loop, left = asyncio.get_running_loop(), self._left_bytes()
        if left < before:
            deadline.reschedule(loop.time() + self._stall_seconds)
        self._next_look = loop.call_later(self._stall_seconds / LOOKS, self._look, deadline, left)

    def _is_slow(self, since: float, left: int) -> None:
        clock = asyncio.get_running_loop().time

        def speed() -> float:
            return (left - self._left_bytes()) / (clock() - since)

        self._leave()
        if (connection := self._reply.connection) is not None:  # else the whole reply has been received
            self._lent = connection
            connection.owner.lend(connection, speed, self._cut)
        self._backlog.lend(self, Loan(None, speed, self._cut))

    def _waiting_bytes(self) -> int:
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def _left_bytes(self) -> int:
        """Unsent bytes here and in the kernel; the kernel's change long before ours do."""
        transport = self._request.transport
        raw: socket.socket | None = None if transport is None else transport.get_extra_info("socket")
        if raw is None:
            return 0
        try:
            (queued,) = struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)))
        except (OSError, ValueError):  # not Linux, or closed
            queued = 0
        return self._waiting_bytes() + int(queued)

    def _cut(self) -> None:
        """Called by either of the two that this answer is lent to, or by both."""
        if self._is_cut:
            return
        self._is_cut = True
        self._events.connection_rejected("slow_reader")
        self._reply.abandon()
        if self._request.transport is not None:
            self._request.transport.abort()
        self._release()

    def _release(self) -> None:
        self._backlog.changed(-self._reserved)
        self._reserved = 0

"""Sends answers to clients without letting slow ones hold a place or an upstream connection.

A database writes its answer into the kernel's buffer. Behind the proxy the rest of an answer waits in memory, within a bound per answer and
one for all. An answer that does not fit stays on its upstream connection. While requests lack a connection, or the memory bound is
exceeded, the slowest client is cut. A single slow client never is.

Large answers share a bound on the bytes sent per turn of the loop, so that they do not delay small ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from ..search.errors import UpstreamExchangeError
from .answers import AT_ONCE_BYTES, RawResponse, plain_of
from .connections import Events, reset, unacknowledged_bytes
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


@dataclass(slots=True)
class LargeAnswers:
    """Sends the pieces of large answers, TURN_BYTES per turn of the loop; twice as much in a turn that other work begins.

    Hundreds of clients that requested answers at once and read nothing blocked each turn for 0.1 to 0.3 s together, until they were known
    as slow. A piece that waits stops reading from its connection to the database.
    """

    _waiting: deque[tuple[asyncio.Future[None], int]] = field(default_factory=deque)
    _spent: int = 0  # in this turn
    _is_next: bool = False

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


@dataclass(slots=True)
class Backlog:
    """The bytes of answers that wait in memory for their clients. ``_limit``: for all of them. ``large``: their turns."""

    _limit: int
    _loans: Loans = field(default_factory=Loans)
    large: LargeAnswers = field(default_factory=LargeAnswers)
    total_bytes: int = 0

    def grew(self, reserved: int, size: int) -> bool:
        """Let an answer that holds ``reserved`` bytes hold ``size``, to be read ahead; False, without a change, if they do not fit."""
        if size > self._limit // ANSWER_SHARE or self.total_bytes + size - reserved > AHEAD_SHARE * self._limit:
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


# A list of a thousand Chroma collections; reading it takes a few milliseconds.
OBSERVED_BYTES = 2 * 1024 * 1024


@dataclass(slots=True)
class ReplyObserver:
    """Reads one reply while it passes, without delaying or changing it.

    Oversized, truncated, failed or undecodable replies are ignored. ``learn``: total; gets the whole decoded body, at most once.
    """

    _learn: Callable[[bytes], None]
    limit_bytes: int = OBSERVED_BYTES
    _reply: Exchange | None = None
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0

    def begin(self, reply: Exchange) -> None:
        self._reply = reply if 200 <= reply.status < 300 else None

    def receive(self, piece: bytes) -> None:
        """Add a piece before it is sent. After the last piece the body is read first, because a client that has a collection's document may
        search it at once.
        """
        if self._reply is None:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self.limit_bytes:
            self._reply, self._pieces = None, []
        elif self._size == self._reply.content_length:
            self.end()

    def end(self) -> None:
        reply, self._reply = self._reply, None
        plain = None if reply is None else plain_of(reply, b"".join(self._pieces), limit_bytes=self.limit_bytes)
        if plain is not None:
            self._learn(plain)


@dataclass(slots=True, eq=False)
class Outflow:
    """One upstream reply on its way to a client.

    ``stall_seconds``: how long the client may take nothing. ``leave``: gives the request's place back, early for a slow
    client.
    """

    _request: web.BaseRequest
    _response: RawResponse
    _reply: Exchange
    _observer: ReplyObserver | None
    _backlog: Backlog
    _events: Events
    _stall_seconds: float
    _leave: Callable[[], None]
    _sent: int = 0
    _reserved: int = 0  # bytes in the backlog
    _next_look: asyncio.TimerHandle | None = None
    _lent: UpstreamConnection | None = None
    _is_cut: bool = False

    async def send(self, begun: list[bytes] | None = None) -> bool:
        """Send the answer; return False, with the client's connection ended, if the reply ended early. ``begun``: its pieces that were read; None:
        none was.
        """
        request, response = self._request, self._response
        try:
            await self._passed(begun)
        except UpstreamExchangeError:
            if response.is_close_delimited and request.transport is not None:
                reset(request.transport)  # the only sign by which a close-delimited body can show that it was cut
            request.protocol.force_close()
            return False
        except (TimeoutError, ConnectionError):  # the client is too slow, or gone: an orderly close could wait forever
            if request.transport is not None:
                request.transport.abort()
            request.protocol.force_close()
        finally:
            if self._reserved:
                self._release()
        return True

    async def _passed(self, begun: list[bytes] | None) -> None:
        request, reply, observer = self._request, self._reply, self._observer
        if observer is not None:
            observer.begin(reply)
        is_free = begun is None and not request.protocol.writing_paused
        if is_free and (whole := reply.at_once(AT_ONCE_BYTES)) is not None:
            if observer is not None:
                observer.receive(whole)
                observer.end()
            self._response.send_whole(request, whole)
            return
        await self._response.prepare(request)
        for piece in begun or ():
            await self._send(piece)
        while piece := await reply.read():
            if observer is not None:
                observer.receive(piece)
            await self._send(piece)
        if observer is not None:
            observer.end()
        if request.protocol.writing_paused:
            await self._emptied()  # `write_eof` adds at most an empty chunk
        await self._response.write_eof()

    async def _send(self, piece: bytes) -> None:
        """Send a piece; wait while the client reads nothing and the answer finds no room in memory.

        Raises TimeoutError when the client reads nothing for too long, ConnectionError when it is gone.
        """
        if max(self._reply.content_length or 0, self._sent + len(piece)) > LARGE_BYTES:
            await self._backlog.large.take(len(piece))
        await self._response.put(piece)
        self._sent += len(piece)
        if self._request.protocol.writing_paused:
            if not self._has_room():
                await self._emptied()
        elif self._reserved:
            self._release()

    def _has_room(self) -> bool:
        """Whether to read more. The whole rest is counted at once: half an answer would free no connection."""
        coming = 0 if self._reply.content_length is None else self._reply.content_length - self._sent
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
        return 0 if transport is None else self._waiting_bytes() + unacknowledged_bytes(transport)

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

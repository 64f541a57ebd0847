"""One HTTP/1.1 connection to the database: sends a request once, reads its reply, and is then free for the next.

aiohttp's C parser reads the replies, the one that its own client uses. Each reply has a new one, because a parser keeps the last trailer of
a body and gives it to the next head (aiohttp 3.14.5). Data that arrives without a request ends the connection, because it would be read as
the reply to the next request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol, cast

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpResponseParser, RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from ..search.errors import (
    ClientBodyError,
    ClientFault,
    FailureKind,
    LostReplyError,
    UpstreamExchangeError,
    words_of_tls,
)
from ..search.hedge import Fits
from ..telemetry.labels import FailOpen
from .headers import RawHeaders, Shape, is_reply_sound, shape_of, without_identity

# A larger reply field is refused; aiohttp's 8190 is less than Qdrant's own clients accept.
REPLY_FIELD_BYTES = 65_536
REPLY_FIELDS = 1024
# Unread bytes of a reply: above twice this number reading pauses, below it resumes. libuv reads 256 kB at once, and again while the buffer
# was full: with this number one read is a turn's share of a large reply.
UNREAD_BYTES = 64 * 1024
# A body up to this size is sent in one write with its head; a larger one in slices, so that a database that stops reading is noticed within
# one of them.
SLICE_BYTES = 256 * 1024
LAST_CHUNK = b"0\r\n\r\n"


def any_size(_size: int) -> bool:
    return True


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for start in range(0, len(view), SLICE_BYTES):
        yield bytes(view[start : start + SLICE_BYTES])


class Exchange:
    """One request and its reply. Close it.

    ``source``: the body, which is sent once; the database must take each slice of it within the connection's ``stall_seconds``. ``length_bytes``:
    of the body, if it was declared. ``fault``: the client's failure, if it ended the source. ``status``, ``reason``, ``raw_headers``, ``shape``,
    ``content_length``: of the reply, after `head`. The parser uses it as the protocol of an aiohttp connection: the reply's reader pauses and resumes it.
    """

    status: int
    reason: str
    raw_headers: RawHeaders
    shape: Shape
    content_length: int | None

    def __init__(
        self,
        connection: UpstreamConnection,
        source: bytes | AsyncIterator[bytes] | None,
        length_bytes: int | None = None,
        *,
        is_head: bool,
        deadline_at: float | None,
    ) -> None:
        """``is_head``: the reply to HEAD has no body, whatever its head says."""
        self.connection: UpstreamConnection | None = connection  # None once the reply is complete, or lost
        self._loop = loop = connection.loop
        self._owner = connection.owner
        self._source = source
        self._length_bytes = length_bytes
        self._sending: asyncio.Task[None] | None = None
        self._message: RawResponseMessage | None = None
        self._payload: StreamReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_paused = False
        self._is_clean = True
        self._late = None if deadline_at is None else loop.call_at(deadline_at, self.fail, FailureKind.TIMEOUT)
        self.is_upload_over = source is None  # the request body was sent whole; False when the database answered early
        self.fault: ClientBodyError | None = None
        self.failure: tuple[FailureKind, int | None, str] | None = None  # and its number and words, as for `cause_of`
        self._parser: HttpResponseParser | None = HttpResponseParser(
            cast(BaseProtocol, self),
            loop,
            UNREAD_BYTES,
            max_line_size=REPLY_FIELD_BYTES,
            max_field_size=REPLY_FIELD_BYTES,
            max_headers=REPLY_FIELDS,
            response_with_body=not is_head,
            read_until_eof=True,
            auto_decompress=False,
        )
        connection.begin(self)

    @property
    def is_owed(self) -> bool:
        """Whether the database must send something now, so that its silence counts."""
        return not self._is_paused and (self._message is not None or self.is_upload_over)

    def send(self, head: bytes, *, is_chunked: bool) -> None:
        """Send the request, in one write if its body is available; otherwise the rest of it while waiting for the reply."""
        connection, source = self.connection, self._source
        body = source if isinstance(source, bytes) and len(source) <= SLICE_BYTES else None
        parts: tuple[bytes, ...] = (head,) if body is None else (head, body)
        if body is not None and is_chunked:
            parts = (head, b"%x\r\n" % len(body), body, b"\r\n", LAST_CHUNK) if body else (head, LAST_CHUNK)
        if connection is None or not connection.write_all(parts):
            self.fail(FailureKind.RESET)
            return
        self.is_upload_over = source is None or (body is not None and not connection.is_writing_paused)
        if not self.is_upload_over:
            pieces = _slices(source) if body is None and isinstance(source, bytes) else source
            rest = self._sent(connection, None if isinstance(pieces, bytes) else pieces, is_chunked=is_chunked)
            self._sending = self._loop.create_task(rest, name="vecsieve-upload")

    async def _sent(
        self, connection: UpstreamConnection, pieces: AsyncIterator[bytes] | None, *, is_chunked: bool
    ) -> None:
        """Send the body, or wait until the written part has been accepted (None). A truncated body ends the connection."""
        try:
            if pieces is None:
                await connection.drained()
            else:
                await self._send_pieces(connection, pieces, is_chunked=is_chunked)
            self.is_upload_over = True
            connection.heard_at = self._loop.time()  # from now on the reply is waited for
        except ClientBodyError as error:
            self.fault = error
            self.fail(FailureKind.RESET)
        except TimeoutError:
            self.fail(FailureKind.TIMEOUT)
        except ConnectionError:
            self.fail(FailureKind.RESET)
        finally:
            if not self.is_upload_over:
                connection.abort()

    async def _send_pieces(
        self, connection: UpstreamConnection, pieces: AsyncIterator[bytes], *, is_chunked: bool
    ) -> None:
        """Raises TimeoutError when the database stops reading, ClientBodyError as the source does, ConnectionError. More or fewer bytes than
        declared are refused, because the rest would be read as the next request.
        """
        length, written = self._length_bytes, 0
        async for piece in pieces:
            if not piece:  # an empty chunk would be the last one
                continue
            written += len(piece)
            if length is not None and written > length:
                raise ClientBodyError(ClientFault.MALFORMED)
            connection.write_all((b"%x\r\n" % len(piece), piece, b"\r\n") if is_chunked else (piece,))
            await connection.drained()
        if length is not None and written < length:
            raise ClientBodyError(ClientFault.MALFORMED)
        if is_chunked and not connection.write_all((LAST_CHUNK,)):
            raise ConnectionResetError

    async def head(self) -> None:
        """Wait for the head of the final reply; interim ones are dropped. Raises UpstreamExchangeError, or the client's failure."""
        while self._payload is None:
            if self.fault is not None:
                raise self.fault
            await self._woken()

    async def read(self) -> bytes:
        """The next bytes of the raw body, after its head; empty at its end. Raises UpstreamExchangeError once what arrived has been read."""
        payload = cast(StreamReader, self._payload)
        while not (piece := payload.read_nowait()) and not payload.at_eof():
            await self._woken()
        return piece

    async def read_bounded(self, limit_bytes: int, *, fits: Fits = any_size) -> bytes:
        """The whole raw body. Raises LostReplyError past the limit or without room, UpstreamExchangeError when it ends early.

        ``fits``: whether so many bytes may be held, called for the announced length and as bytes arrive.
        """
        pieces, received, coming = list[bytes](), 0, self.content_length or 0
        if (whole := self.at_once(limit_bytes)) is not None:
            pieces, received, coming = [whole], len(whole), len(whole)
        while True:
            if coming > limit_bytes:
                raise LostReplyError(FailOpen.TOO_LARGE, received_bytes=limit_bytes)
            if not fits(coming):
                raise LostReplyError(FailOpen.OVERLOAD, received_bytes=received)
            if whole is not None or not (piece := await self.read()):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.append(piece)
            received = coming = received + len(piece)

    async def _woken(self) -> None:
        """Wait for more. Raises UpstreamExchangeError after a failure."""
        if self.failure is not None:
            raise self._owner.failed(*self.failure)
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def received_bytes(self) -> int:
        """Body bytes received from the database."""
        return cast(StreamReader, self._payload).total_bytes

    @property
    def has_more_to_wait_for(self) -> bool:
        """Whether a body is expected and none of it has arrived: the head should then not wait for it."""
        payload = cast(StreamReader, self._payload)
        return not payload.is_eof() and payload.total_bytes == 0

    def at_once(self, limit_bytes: int) -> bytes | None:
        """The whole body, if it has arrived and is no larger than ``limit_bytes``; it counts as read."""
        payload = cast(StreamReader, self._payload)
        return payload.read_nowait() if payload.is_eof() and payload.total_bytes <= limit_bytes else None

    def feed(self, data: bytes) -> None:
        """Read what arrived; called with b"" for the rest after reading paused."""
        if self._parser is None:
            return
        try:
            messages, _, _ = self._parser.feed_data(data)
        except HttpProcessingError:
            self.fail(FailureKind.PROTOCOL if self._message is None else FailureKind.TRUNCATED)
            return
        for message, payload in messages:
            if self._message is not None:
                self._is_clean = False  # two replies to one request
            elif (message.code == 101 or not 100 <= message.code <= 199) and not self._begin(message, payload):
                self.fail(FailureKind.PROTOCOL)
                return
        if self._payload is not None:
            if self._payload.is_eof():
                self._whole()
            self._wake()

    def _begin(self, message: RawResponseMessage, payload: StreamReader) -> bool:
        """Whether the head can be forwarded unchanged. A 101 that nobody requested cannot."""
        reason = message.reason.encode("utf-8", "surrogateescape")
        if message.code == 101 or not is_reply_sound(message.code, message.version, message.raw_headers, reason):
            return False
        self._message, self._payload = message, payload
        self.status, self.reason, self.raw_headers = message.code, message.reason, message.raw_headers
        self.shape = shape_of(self.raw_headers)
        if not self.shape.is_plain:
            self.raw_headers = without_identity(self.raw_headers)
            self.shape = shape_of(self.raw_headers)
        length_at = self.shape.length_at
        self.content_length = None if length_at is None else int(self.raw_headers[length_at][1])
        return True

    def lost(self, error: Exception | None) -> None:
        """The connection has ended: the end of a close-delimited body, or a failure."""
        if self._message is None:
            # With TLS 1.3 a server refuses the client's certificate after the handshake.
            words = words_of_tls(error) if isinstance(error, ssl.SSLError) else ""
            self.fail(FailureKind.RESET, error.errno if isinstance(error, OSError) else None, words)
            return
        if error is None and self._parser is not None and not self._is_paused:
            with suppress(HttpProcessingError):  # neither the announced length nor the last chunk has arrived
                self._parser.feed_eof()
        if self._payload is not None and self._payload.is_eof():
            self._whole()
            self._wake()
        else:
            self.fail(FailureKind.TRUNCATED)

    def fail(self, kind: FailureKind, number: int | None = None, words: str = "") -> None:
        """End the exchange and its connection, unless the reply is whole."""
        if self.failure is None and self.connection is not None:
            self.failure = (kind, number, words)
            self._leave(is_clean=False)
            self._wake()

    def _whole(self) -> None:
        message = cast(RawResponseMessage, self._message)
        is_clean = self._is_clean and not message.should_close and self.is_upload_over
        if is_clean and self._parser is not None and self._parser.feed_eof() is not None:
            is_clean = False  # another reply has begun after it
        self._leave(is_clean=is_clean)

    def _leave(self, *, is_clean: bool) -> None:
        """Return the connection; close it unless the next request may use it."""
        connection, self.connection = self.connection, None
        self._parser = None  # it refers to this object, and a cycle costs a garbage collection
        if self._late is not None:
            self._late.cancel()
        if self._sending is not None:
            self._sending.cancel()
        if connection is not None:
            connection.end(is_clean=is_clean)

    def abandon(self) -> None:
        """End the connection unless the reply is whole."""
        self.fail(FailureKind.RESET)

    async def close(self) -> None:
        """End the connection unless the reply is complete; wait until the source of the body is no longer read."""
        if self.connection is not None:
            self.abandon()
        self._payload = None
        if self._sending is not None and not self._sending.done():
            await asyncio.wait({self._sending})

    def pause_reading(self) -> None:
        """Pause: the reader has enough. Part of aiohttp's contract, as the next method."""
        if not self._is_paused and self._parser is not None and self.connection is not None:
            self._is_paused = True
            self._parser.pause_reading()
            self.connection.pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        if not self._is_paused:
            return
        self._is_paused = False
        if resume_parser:
            self.feed(b"")
        if not self._is_paused and self.connection is not None:
            self.connection.resume_reading()


class Owner(Protocol):
    """The owner of connections: a pool."""

    def failed(self, kind: FailureKind, number: int | None, words: str) -> UpstreamExchangeError:
        """Count a failure. ``number``: the system's error number, if there is one. ``words``: as for `cause_of`."""
        ...

    def lend(self, connection: UpstreamConnection, speed: Callable[[], float], end: Callable[[], None]) -> None:
        """Offer it, until `take_back`, to requests that lack one, after ``end`` was called. ``speed``: of its client, bytes per second."""
        ...

    def take_back(self, connection: UpstreamConnection) -> None: ...

    def ended(self, connection: UpstreamConnection, *, is_free: bool) -> None:
        """``is_free``: the next request may use it; else it has ended, or is about to. The latter is reported once."""
        ...


@dataclass(slots=True, eq=False)
class UpstreamConnection(asyncio.Protocol):
    """``stall_seconds``: how long the database may be silent while it owes a reply; ``heard_at``: since when it is. ``ends_at``: for the owner."""

    owner: Owner
    _: KW_ONLY
    stall_seconds: float
    ends_at: float
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    heard_at: float = 0.0
    idle_since: float = 0.0
    is_writing_paused: bool = False
    _is_reading_paused: bool = False
    _is_gone: bool = False
    _transport: asyncio.Transport | None = None
    _exchange: Exchange | None = None
    _drain: asyncio.Future[None] | None = None
    # One timer while the connection is used, instead of one for each read: it checks when something last arrived.
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, exchange: Exchange) -> None:
        if self._exchange is not None:
            raise RuntimeError("one exchange at a time: the next request would get this one's reply")
        self._exchange = exchange
        self.heard_at = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_at(self.heard_at + self.stall_seconds, self._look)

    def end(self, *, is_clean: bool) -> None:
        """The exchange is over. ``is_clean``: the connection can be used again."""
        self._exchange = None
        if is_clean and self.is_open:
            if self._is_reading_paused:
                self.resume_reading()  # a large reply was complete before its reader had enough room
            self.idle_since = self.loop.time()
            self.owner.ended(self, is_free=True)
        else:
            self.abort()

    def _look(self) -> None:
        """End the exchange if its database has been silent for too long."""
        self._timer = None
        exchange, now = self._exchange, self.loop.time()
        if exchange is None:
            return
        if not exchange.is_owed:
            self.heard_at = now
        if now - self.heard_at >= self.stall_seconds:
            exchange.fail(FailureKind.TIMEOUT)
        else:
            self._timer = self.loop.call_at(self.heard_at + self.stall_seconds, self._look)

    def abort(self) -> None:
        """End now: no complete data is left to deliver, and a peer that reads nothing is not waited for."""
        if self._transport is not None:
            self._transport.abort()
        self._forget()

    def close(self) -> None:
        """End an idle connection."""
        if self._transport is not None:
            self._transport.close()
        self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_gone:
            self._is_gone = True
            self.owner.ended(self, is_free=False)

    def write_all(self, parts: tuple[bytes, ...]) -> bool:
        """Write in one piece; False if the connection has ended."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        # Not `writelines`, which never pauses writing in CPython 3.12.0 to 3.12.8 and 3.13.0 to 3.13.1 (CVE-2024-12254).
        transport.write(b"".join(parts))
        return True

    async def drained(self) -> None:
        """Wait until writing is no longer paused. Raises ConnectionError, TimeoutError when the database takes nothing for too long."""
        if self.is_writing_paused and self._transport is not None:
            waiter = self._drain = self.loop.create_future()
            try:
                async with asyncio.timeout(self.stall_seconds):
                    await waiter
            finally:
                self._drain = None
        if not self.is_open:
            raise ConnectionResetError

    def pause_reading(self) -> None:
        self._is_reading_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self.heard_at = self.loop.time()
        if self._transport is not None:
            self._transport.resume_reading()

    # required by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._resume_writer()
        if self._exchange is not None:
            self._exchange.lost(exc)
        self._forget()

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:
            self.abort()
            return
        self.heard_at = self.loop.time()
        self._exchange.feed(data)

    def pause_writing(self) -> None:
        self.is_writing_paused = True

    def resume_writing(self) -> None:
        self.is_writing_paused = False
        self._resume_writer()

    def _resume_writer(self) -> None:
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

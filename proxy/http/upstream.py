"""The way to the database, or to the many hosts of one: two pools, no retries, no opinions.

Every request goes out exactly once: aiohttp's silent re-send of PUT, DELETE and GET on a dying connection is switched
off and proven off. Reads share a pool whose idle time stays below the database's own; writes use connections that have
been idle for at most ``WRITE_IDLE_SECONDS``, because a write lost on a dying connection cannot be asked for again.
The URL is built from an origin and the raw target; the origin is the settings' own unless a route names another, and
nothing else in a request can change where it goes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler

from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.http.events import Events, Unheard
from vecsieve.proxy.http.headers import (
    RawHeaders,
    for_upstream,
    framed,
    is_forwardable,
    is_reply_sound,
    values,
    without_identity,
)
from vecsieve.proxy.http.message import Outgoing, Upload
from vecsieve.proxy.http.pools import Census, CleanConnector, audit_library, open_session
from vecsieve.proxy.search.errors import ClientBodyError, FailureKind, UpstreamExchangeError

# The one table that reads aiohttp's exceptions.

# First match wins: aiohttp's classes inherit from several of the later ones.
_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (aiohttp.ClientConnectorCertificateError, FailureKind.TLS),
    (aiohttp.ClientConnectorSSLError, FailureKind.TLS),
    (aiohttp.ClientSSLError, FailureKind.TLS),
    (ssl.SSLError, FailureKind.TLS),
    (aiohttp.ClientConnectorDNSError, FailureKind.DNS),
    (aiohttp.ConnectionTimeoutError, FailureKind.CONNECT),
    (aiohttp.ClientConnectorError, FailureKind.CONNECT),
    (TimeoutError, FailureKind.TIMEOUT),
    (aiohttp.ClientPayloadError, FailureKind.TRUNCATED),
    (aiohttp.ClientResponseError, FailureKind.PROTOCOL),
    (aiohttp.ClientConnectionError, FailureKind.RESET),
    (OSError, FailureKind.RESET),
)


def kind_of(error: BaseException) -> FailureKind:
    """The kind that a failure of aiohttp's client is counted as; what is not in the table broke the protocol."""
    return next((kind for family, kind in _KINDS if isinstance(error, family)), FailureKind.PROTOCOL)


# A reply of the database whose head has arrived: its body is read once, raw, streamed or up to a limit.


class ReplyTooLargeError(Exception):
    """The body is longer than the limit it was read with."""


class NoRoomError(Exception):
    """What arrives may not be held now. ``received_bytes``: of what is dropped."""

    def __init__(self, received_bytes: int) -> None:
        super().__init__(received_bytes)
        self.received_bytes = received_bytes


class Lending(Protocol):
    """The pool that a reply's connection came from."""

    def lend(self, protocol: ResponseHandler, speed: Callable[[], float], end: Callable[[], None]) -> None:
        """Whoever lacks a connection may have this one, once ``end`` was called. ``speed``: of its client, in bytes a second."""
        ...

    def take_back(self, protocol: ResponseHandler) -> None:
        """No longer."""
        ...


class UpstreamReply:
    """An open reply. Close it; a reply read to its end gives its connection back to the pool."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        upload: Upload | None,
        deadline_at: float | None,
        events: Events,
        lending: Lending | None,
    ) -> None:
        self._response = response
        self._upload = upload
        self._deadline_at = deadline_at
        self._events = events
        self._lending = lending
        self._lent: ResponseHandler | None = None
        self.status = response.status
        self.reason = response.reason or ""
        self.raw_headers: RawHeaders = without_identity(response.raw_headers)
        self._ending = _ending_of(response)
        if self._ending is not None:
            self._ending.add_done_callback(self._connection_ended)

    @property
    def is_upload_over(self) -> bool:
        """Whether the request body was sent whole; False when the database answered before it had all of it."""
        return self._upload is None or self._upload.is_sent

    @property
    def content_length(self) -> int | None:
        """The announced length of the body."""
        return self._response.content_length

    @property
    def received_bytes(self) -> int:
        """How much of the body has come from the database."""
        return self._response.content.total_bytes

    @property
    def has_more_to_wait_for(self) -> bool:
        """Whether nothing of the body is here yet although some is to come: the head should not wait for it."""
        return not self._response.content.is_eof() and self._response.content.total_bytes == 0

    async def iter(self) -> AsyncIterator[bytes]:
        """The raw bytes of the body as they arrive. Raises UpstreamExchangeError when they end early."""
        while chunk := await self._next():
            yield chunk

    async def read_bounded(self, limit_bytes: int, *, fits: Callable[[int], bool] = lambda _: True) -> bytes:
        """The whole raw body. Raises ReplyTooLargeError past the limit, UpstreamExchangeError when it ends early.

        ``fits``: whether so many bytes may be held, asked at their announcement and as they arrive; else NoRoomError.
        """
        announced = self._response.content_length or 0
        if announced > limit_bytes:
            raise ReplyTooLargeError
        if not fits(announced):
            raise NoRoomError(0)
        pieces: list[bytes] = []
        size = 0
        while chunk := await self._next():
            size += len(chunk)
            if size > limit_bytes:
                raise ReplyTooLargeError
            if not fits(size):
                raise NoRoomError(size)
            pieces.append(chunk)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def lend_connection(self, speed: Callable[[], float], cut: Callable[[], None]) -> None:
        """Until `keep_connection`, whoever lacks a connection may have this one; the reply then ends, after ``cut``.

        ``speed``: of its client, in bytes a second. Does nothing when all of the reply has been received.
        """
        protocol = None if self._response.connection is None else self._response.connection.protocol
        if protocol is None or self._lending is None:
            return

        def end() -> None:
            cut()
            self._response.close()

        self._lent = protocol
        self._lending.lend(protocol, speed, end)

    def keep_connection(self) -> None:
        """The client reads again, or the reply has ended."""
        if self._lent is not None and self._lending is not None:
            self._lending.take_back(self._lent)
            self._lent = None

    async def close(self) -> None:
        """Let go: the connection is closed unless the body was read to its end and the request sent whole."""
        if self._ending is not None:
            self._ending.remove_done_callback(self._connection_ended)
        self._response.close()
        if self._upload is not None:
            await self._upload.wait_ended()

    async def _next(self) -> bytes:
        """The next bytes, empty at the end. sock_read, set on the session, bounds the wait between two of them."""
        content = self._response.content
        try:
            piece = content.read_nowait()
            if not piece and not content.at_eof():
                # A timeout without a deadline costs as much as one with it, and this is every request's path.
                if self._deadline_at is None:
                    piece = await content.readany()
                else:
                    async with asyncio.timeout_at(self._deadline_at):
                        piece = await content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(kind_of(error)) from None
        if not piece and self._is_cut:
            raise self._failure(FailureKind.TRUNCATED)
        return piece

    @property
    def _is_cut(self) -> bool:
        """Whether what looks like the end of a body that only the connection ends was a reset.

        aiohttp (3.14.5) takes the one for the other.
        """
        ending = self._ending
        if ending is None or not ending.done() or ending.exception() is None:
            return False
        return self._response.content_length is None and not values(self.raw_headers, b"transfer-encoding")

    def _connection_ended(self, _: asyncio.Future[None]) -> None:
        """Wake a reader that would wait for its deadline.

        When a chunk is malformed, aiohttp (3.14.5) closes the connection and forgets the stream being read.
        """
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError())

    def _failure(self, kind: FailureKind) -> UpstreamExchangeError:
        self._events.upstream_failed(kind.value)
        return UpstreamExchangeError(kind)


def _ending_of(response: aiohttp.ClientResponse) -> asyncio.Future[None] | None:
    """The future of the connection's end, while the body is still arriving; an exception in it means a reset."""
    connection = response.connection
    if response.content.is_eof() or connection is None or connection.protocol is None:
        return None
    ending = connection.protocol.closed
    if ending is not None:
        # Once per connection, however many replies it carries: somebody must look, or asyncio complains.
        ending.remove_done_callback(_look)
        ending.add_done_callback(_look)
    return ending


def _look(ending: asyncio.Future[None]) -> None:
    if not ending.cancelled():
        ending.exception()


__all__ = ["ReplyTooLargeError", "Upstream", "UpstreamReply", "is_write"]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Measured on loopback, 2 kB PUTs one after another: 0.24 ms on a kept connection, 0.60 ms and half the throughput on a new
# one each; elsewhere a round trip and a handshake more. One second is a fifth of what Qdrant grants (5 s), and a client's
# own pool runs the same risk with more. Whatever happens on it, nothing is sent twice.
WRITE_IDLE_SECONDS = 1.0


def is_write(method: str, *, is_search: bool) -> bool:
    """Whether a request may change something: everything unknown does."""
    return method not in SAFE_METHODS and not is_search


class Upstream:
    """One database. Create it inside the event loop and close it there.

    ``tls``: how to verify an https upstream; None is the system's trust store with host names checked.
    ``may_be_private``: whether a host name may lead to an address that is not public; None where no request names hosts.
    ``most``: connections of each of the two pools, to all hosts together; 0 is any number.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        *,
        events: Events | None = None,
        tls: ssl.SSLContext | None = None,
        may_be_private: Callable[[str], bool] | None = None,
        most: int = 0,
    ) -> None:
        audit_library()
        self._stall_seconds = settings.stream_idle_timeout_seconds
        self._events = events if events is not None else Unheard()
        self._origin = Origin.of(settings.url)
        reads, writes = settings.pool_idle_seconds, min(settings.pool_idle_seconds, WRITE_IDLE_SECONDS)
        self._reads = open_session(settings, idle_seconds=reads, tls=tls, may_be_private=may_be_private, most=most)
        self._writes = open_session(settings, idle_seconds=writes, tls=tls, may_be_private=may_be_private, most=most)

    def census(self) -> Census:
        """What the pools hold now."""
        return _census(self._reads) + _census(self._writes)

    async def close(self) -> None:
        """Close all connections. Close the listener first."""
        await self._reads.close()
        await self._writes.close()

    @asynccontextmanager
    async def send(  # noqa: PLR0913 - a request has so many parts
        self,
        *,
        method: str,
        raw_target: str,
        headers: RawHeaders,
        body: bytes | AsyncIterator[bytes] | None,
        content_length: int | None = None,
        is_search: bool = False,
        deadline_seconds: float | None = None,
        origin: Origin | None = None,
    ) -> AsyncIterator[UpstreamReply]:
        """Send one request once and hold its reply for the block.

        ``headers``: the client's raw list; what belongs to its hop is removed here. A body of bytes is framed by its
        length, an iterator by ``content_length`` or, without one, in chunks; None sends no body, with ``Content-Length:
        0`` when that is the given length. ``deadline_seconds``: for the whole exchange, the body included. ``origin``:
        where to; None is the configured one.

        Raises UpstreamExchangeError; what the body's iterator raises as ClientBodyError comes back as it was.
        """
        upload = self.upload(body, content_length=content_length)
        reply = await self.open(
            method=method,
            raw_target=raw_target,
            headers=headers,
            upload=upload,
            content_length=len(body) if isinstance(body, bytes) else content_length,
            is_search=is_search,
            deadline_seconds=deadline_seconds,
            origin=origin,
        )
        try:
            yield reply
        finally:
            await reply.close()

    def upload(self, body: bytes | AsyncIterator[bytes] | None, *, content_length: int | None) -> Upload | None:
        """Prepare a body for `open`."""
        if body is None:
            return None
        length = len(body) if isinstance(body, bytes) else content_length
        return Upload(body, length_bytes=length, stall_seconds=self._stall_seconds)

    async def open(  # noqa: PLR0913 - a request has so many parts
        self,
        *,
        method: str,
        raw_target: str,
        headers: RawHeaders,
        upload: Upload | None,
        content_length: int | None,
        is_search: bool,
        deadline_seconds: float | None = None,
        origin: Origin | None = None,
    ) -> UpstreamReply:
        """Send one request once and return its reply, which the caller closes. As `send`, for whoever must outlive it."""
        origin = self._origin if origin is None else origin
        deadline_at = None if deadline_seconds is None else asyncio.get_running_loop().time() + deadline_seconds
        is_chunked = upload is not None and content_length is None
        head = framed(for_upstream(headers, origin.authority), length=content_length, chunked=is_chunked)
        session = self._writes if is_write(method, is_search=is_search) else self._reads
        try:
            request = session.request(
                method, origin.url(raw_target), data=Outgoing(head, upload), allow_redirects=False
            )
            if deadline_at is None:
                response = await request
            else:
                async with asyncio.timeout_at(deadline_at):
                    response = await request
        except (aiohttp.ClientError, OSError, ClientBodyError) as error:
            raise self._failed(error, upload) from None
        pool = _pool(session)
        reply = UpstreamReply(response, upload=upload, deadline_at=deadline_at, events=self._events, lending=pool)
        if not _may_pass(response):
            await reply.close()
            raise self._failure(FailureKind.PROTOCOL)
        return reply

    def _failed(self, error: Exception, upload: Upload | None) -> Exception:
        if upload is not None and upload.fault is not None:
            return upload.fault
        return self._failure(kind_of(error))

    def _failure(self, kind: FailureKind) -> UpstreamExchangeError:
        self._events.upstream_failed(kind.value)
        return UpstreamExchangeError(kind)


def _may_pass(response: aiohttp.ClientResponse) -> bool:
    """Whether the head is one that we can pass on as it is. A 101 that nobody asked for is not."""
    raw, version = response.raw_headers, response.version
    if response.status == 101 or version is None or not is_reply_sound(response.status, version, raw):
        return False
    return is_forwardable([*raw, (b"", _bytes(response.reason or ""))])


def _census(session: aiohttp.ClientSession) -> Census:
    pool = _pool(session)
    return Census(0, 0, 0, 0) if pool is None else pool.census()


def _pool(session: aiohttp.ClientSession) -> CleanConnector | None:
    """None once it is closed."""
    return session.connector if isinstance(session.connector, CleanConnector) else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

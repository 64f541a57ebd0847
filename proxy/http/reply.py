"""A reply of the database whose head has arrived: its body is read once, raw, streamed or up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler

from vecsieve.proxy.failures import FailureKind, UpstreamFailure
from vecsieve.proxy.http.events import Events
from vecsieve.proxy.http.failures import kind_of
from vecsieve.proxy.http.framing import without_identity
from vecsieve.proxy.http.headers import RawHeaders, values
from vecsieve.proxy.http.raw_request import Upload


class ReplyTooLarge(Exception):  # noqa: N818 - a verdict on the reply, not a fault of the database
    """The body is longer than the limit it was read with."""


class NoRoom(Exception):  # noqa: N818 - a verdict on the moment, not a fault of the database
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
        """The raw bytes of the body as they arrive. Raises UpstreamFailure when they end early."""
        while chunk := await self._next():
            yield chunk

    async def read_bounded(self, limit_bytes: int, *, fits: Callable[[int], bool] = lambda _: True) -> bytes:
        """The whole raw body. Raises ReplyTooLarge past the limit, UpstreamFailure when it ends early.

        ``fits``: whether so many bytes may be held, asked at their announcement and as they arrive; else NoRoom.
        """
        announced = self._response.content_length or 0
        if announced > limit_bytes:
            raise ReplyTooLarge
        if not fits(announced):
            raise NoRoom(0)
        pieces: list[bytes] = []
        size = 0
        while chunk := await self._next():
            size += len(chunk)
            if size > limit_bytes:
                raise ReplyTooLarge
            if not fits(size):
                raise NoRoom(size)
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

    def _failure(self, kind: FailureKind) -> UpstreamFailure:
        self._events.upstream_failed(kind.value)
        return UpstreamFailure(kind)


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

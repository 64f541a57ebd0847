"""Sends requests to the database, or to the many hosts of one, each exactly once.

Nothing is ever sent again, even if the connection turns out to be dying. Reads share a pool whose idle time is below the database's own;
writes use connections idle for at most ``WRITE_IDLE_SECONDS``, because a write lost on a dying connection cannot be sent again. The origin
is the settings' unless a route names another.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass

from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

from vecsieve.adapters.contract import Question
from vecsieve.config.schema import UpstreamSettings

from ..runtime.addresses import Origin
from ..search.errors import FailureKind, LostReplyError, RefusedReplyError, UpstreamExchangeError, cause_of
from ..search.hedge import Fits
from ..telemetry.labels import AttemptKind, FailOpen
from ..telemetry.tracing import Leg, Trace
from .connections import Events
from .headers import (
    IDENTITY,
    RawHeaders,
    request_head,
    shape_of,
    traced,
    without_identity,
)
from .pools import Census, Pool
from .upstream_connection import BrokenExchangeError, Exchange, Upload, UpstreamConnection


class ReplyTooLargeError(Exception):
    pass


class NoRoomError(Exception):
    """The reply may not be held now. ``received_bytes``: how much was dropped."""

    def __init__(self, received_bytes: int) -> None:
        super().__init__(received_bytes)
        self.received_bytes = received_bytes


class UpstreamReply:
    """A reply whose head has arrived; its body is read once. Close it; if it was read to its end, this returns its connection."""

    def __init__(
        self, exchange: Exchange, message: RawResponseMessage, payload: StreamReader, pool: Pool, failed: Failed
    ) -> None:
        self._exchange = exchange
        self._payload = payload
        self._pool = pool
        self._failed = failed
        self._lent: UpstreamConnection | None = None
        self.status = message.code
        self.reason = message.reason
        self.raw_headers: RawHeaders = message.raw_headers
        self.shape = shape_of(self.raw_headers)
        if not self.shape.is_plain:
            self.raw_headers = without_identity(self.raw_headers)
            self.shape = shape_of(self.raw_headers)
        length_at = self.shape.length_at
        self.content_length = None if length_at is None else int(self.raw_headers[length_at][1])

    @property
    def is_upload_over(self) -> bool:
        """Whether the request body was sent whole; False when the database answered early."""
        return self._exchange.is_upload_over

    @property
    def received_bytes(self) -> int:
        """Body bytes received from the database."""
        return self._payload.total_bytes

    @property
    def has_more_to_wait_for(self) -> bool:
        """Whether a body is expected and none of it has arrived: the head should then not wait for it."""
        return not self._payload.is_eof() and self._payload.total_bytes == 0

    def at_once(self, limit_bytes: int) -> bytes | None:
        """The whole body, if it has arrived and is no larger than ``limit_bytes``; it counts as read."""
        payload = self._payload
        return payload.read_nowait() if payload.is_eof() and payload.total_bytes <= limit_bytes else None

    async def iter(self) -> AsyncIterator[bytes]:
        """The raw body as it arrives. Raises UpstreamExchangeError when it ends early."""
        while chunk := await self._next():
            yield chunk

    async def read_bounded(self, limit_bytes: int, *, fits: Callable[[int], bool] = lambda _: True) -> bytes:
        """The whole raw body. Raises ReplyTooLargeError past the limit, UpstreamExchangeError when it ends early.

        ``fits``: whether so many bytes may be held, called for the announced length and as bytes arrive; raises NoRoomError if not.
        """
        if (whole := self.at_once(limit_bytes)) is not None:
            if not fits(len(whole)):
                raise NoRoomError(len(whole))
            return whole
        announced = self.content_length or 0
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
        """Offer the connection until `keep_connection`; the reply then ends, after ``cut``.

        ``speed``: of its client, bytes per second. Does nothing if the whole reply has been received.
        """
        connection = self._exchange.connection
        if connection is None:
            return

        def end() -> None:
            cut()
            self._exchange.abandon()

        self._lent = connection
        self._pool.lend(connection, speed, end)

    def keep_connection(self) -> None:
        if self._lent is not None:
            self._pool.take_back(self._lent)
            self._lent = None

    async def close(self) -> None:
        """Close the connection unless the body was read to its end and the request was sent completely."""
        await self._exchange.close()

    async def _next(self) -> bytes:
        """The next bytes, empty at the end."""
        try:
            return await self._exchange.read()
        except BrokenExchangeError as error:
            raise self._failed(error) from None


Failed = Callable[[BrokenExchangeError], UpstreamExchangeError]
"""Counts a failure."""


# An unknown method may change something.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Measured on loopback, 2 kB PUTs one after another: 0.24 ms on a kept connection, 0.60 ms and half the throughput with a new one each;
# elsewhere a round trip and a handshake more. One second is a fifth of Qdrant's keep-alive (5 s), and a client's own pool takes the same
# risk with more. Nothing is sent twice in any case.
WRITE_IDLE_SECONDS = 1.0


class Upstream:
    """One database. Create it inside the event loop and close it there.

    ``tls``: how to verify an https upstream; None: as the settings say. ``may_be_private``: whether a host
    name may have a private address; None if no request names hosts. ``most``: connections of each pool to all hosts; 0 is unbounded.
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
        self._stall_seconds = settings.stream_idle_timeout_seconds
        self._events = Events() if events is None else events
        self._origin = Origin.of(settings.url)
        reads, writes = settings.pool_idle_seconds, min(settings.pool_idle_seconds, WRITE_IDLE_SECONDS)
        self._reads = Pool(settings, idle_seconds=reads, tls=tls, may_be_private=may_be_private, most=most)
        self._writes = Pool(
            settings, idle_seconds=writes, tls=tls, may_be_private=may_be_private, most=most, has_searches=False
        )

    def census(self) -> Census:
        return self._reads.census() + self._writes.census()

    async def close(self) -> None:
        """Close all connections. Close the listener first."""
        await self._reads.close()
        await self._writes.close()

    async def open(  # noqa: PLR0913 - a request has so many parts
        self,
        *,
        method: str,
        raw_target: str,
        headers: RawHeaders,
        body: bytes | AsyncIterator[bytes] | None,
        content_length: int | None,
        is_search: bool = False,
        deadline_seconds: float | None = None,
        origin: Origin | None = None,
        leave: Callable[[Coroutine[None, None, None]], object] | None = None,
    ) -> UpstreamReply:
        """Send one request once and return its reply, which the caller closes.

        ``headers``: the client's raw list; hop-by-hop fields are removed here. ``content_length``: None sends a body in chunks; without a
        body, ``Content-Length: 0`` is sent when that is the given length. ``deadline_seconds``: for the whole exchange, the body included.
        ``origin``: None is the configured one. ``leave``: takes the rest of a write that was sent whole when this is cancelled; None cuts
        it. Raises UpstreamExchangeError; the body's ClientBodyError is raised unchanged.
        """
        at = self._origin if origin is None else origin
        is_chunked, upload = body is not None and content_length is None, None
        if body is not None:
            upload = Upload(body, len(body) if isinstance(body, bytes) else content_length, self._stall_seconds)
        head = request_head(
            method, raw_target, headers, authority=at.authority, length=content_length, is_chunked=is_chunked
        )
        pool = self._reads if is_search or method in SAFE_METHODS else self._writes
        failed = self._failed if origin is None else self._failed_elsewhere
        deadline_at = None if deadline_seconds is None else asyncio.get_running_loop().time() + deadline_seconds
        connection = pool.idle(at, is_search=is_search)
        if connection is None:
            connection = await _connection(pool, at, failed, is_search=is_search, deadline_at=deadline_at)
        exchange = Exchange(connection, upload, is_head=method == "HEAD", deadline_at=deadline_at)
        try:
            exchange.send(head, is_chunked=is_chunked)
            message, payload = await exchange.head()
        except BrokenExchangeError as error:
            await exchange.close()
            if upload is not None and upload.fault is not None:
                raise upload.fault from None
            raise failed(error) from None
        except asyncio.CancelledError:
            if pool is self._writes and leave is not None and exchange.is_upload_over:
                leave(self._finished(exchange, failed))
            else:
                exchange.abandon()
            raise
        return UpstreamReply(exchange, message, payload, pool, failed)

    async def _finished(self, exchange: Exchange, failed: Failed) -> None:
        try:
            await exchange.head()
        except BrokenExchangeError as error:
            failed(error)
        finally:
            await exchange.close()

    def _failed(self, error: BrokenExchangeError, place: str = "") -> UpstreamExchangeError:
        self._events.upstream_failed(error.kind.value)
        return UpstreamExchangeError(
            error.kind,
            cause_of(error.kind, place or self._origin.authority, number=error.number, words=error.words),
        )

    def _failed_elsewhere(self, error: BrokenExchangeError) -> UpstreamExchangeError:
        return self._failed(error, "the index's host")  # a host that a request names is not for the log


async def _connection(
    pool: Pool, origin: Origin, failed: Failed, *, is_search: bool, deadline_at: float | None
) -> UpstreamConnection:
    """Wait for a connection. Raises UpstreamExchangeError."""
    try:
        async with asyncio.timeout_at(deadline_at):
            return await pool.connection(origin, is_search=is_search)
    except BrokenExchangeError as error:
        raise failed(error) from None
    except TimeoutError:
        raise failed(BrokenExchangeError(FailureKind.TIMEOUT)) from None


# Statuses of refusals that may be caused by the size of the request.
TOO_LARGE = frozenset({400, 413, 422})


def success_of(reply: UpstreamReply, body: bytes) -> bytes:
    """The body of a readable success. Raises LostReplyError or RefusedReplyError."""
    status = reply.status
    if not 200 <= status < 300:
        raise RefusedReplyError(status, body, is_server_error=status >= 500, may_be_size=status in TOO_LARGE)
    codings = reply.shape.codings
    if codings and any(reply.raw_headers[place][1].strip().lower() != IDENTITY for place in codings):
        raise LostReplyError(FailOpen.MALFORMED, received_bytes=len(body))  # identity was requested
    return body


def any_size(_size: int) -> bool:
    return True


async def fetched(  # noqa: PLR0913 - a request has so many parts
    upstream: Upstream,
    trace: Trace | None,
    kind: AttemptKind,
    method: str,
    target: str,
    headers: RawHeaders,
    body: bytes | None,
    *,
    seconds: float,
    most_bytes: int,
    origin: Origin | None = None,
    fits: Fits = any_size,
    is_search: bool = True,
) -> tuple[UpstreamReply, bytes]:
    """One reply to a request of ours, and its whole body, of at most ``most_bytes``. Raises LostReplyError."""
    leg = Leg() if trace is None else trace.leg(kind, method, origin)
    try:
        reply = await upstream.open(
            method=method,
            raw_target=target,
            headers=headers if leg.traceparent is None else traced(headers, leg.traceparent),
            body=body,
            content_length=None if body is None else len(body),
            is_search=is_search,
            deadline_seconds=seconds,
            origin=origin,
        )
        leg.status = reply.status
        try:
            return reply, await reply.read_bounded(most_bytes, fits=fits)
        except (UpstreamExchangeError, ReplyTooLargeError, NoRoomError):
            leg.is_cut = True
            raise
        finally:
            await reply.close()
    except UpstreamExchangeError as failure:
        is_late = failure.kind is FailureKind.TIMEOUT
        raise LostReplyError(FailOpen.OVERFETCH_TIMEOUT if is_late else FailOpen.OVERFETCH_RESET) from failure
    except ReplyTooLargeError as failure:
        raise LostReplyError(FailOpen.TOO_LARGE, received_bytes=most_bytes) from failure
    except NoRoomError as failure:
        raise LostReplyError(FailOpen.OVERLOAD, received_bytes=failure.received_bytes) from failure
    finally:
        if trace is not None:
            trace.ended(leg)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQuestions:
    """Requests of our own, without a client. ``prefix``: before the database's own paths. ``headers``: our credential."""

    upstream: Upstream
    prefix: str
    headers: RawHeaders
    reply_body_bytes: int
    seconds: float

    async def ask(self, question: Question) -> bytes:
        """Send a read; return the body of a successful reply. Raises LostReplyError or RefusedReplyError."""
        headers = (*self.headers, (b"accept-encoding", b"identity"), (b"content-type", b"application/json"))
        reply, body = await fetched(
            self.upstream,
            None,
            AttemptKind.LOOKUP,
            question.method,
            f"{self.prefix}{question.target}",
            headers,
            question.body or None,
            seconds=self.seconds,
            most_bytes=self.reply_body_bytes,
            is_search=question.method != "PUT",  # a write is never sent twice
        )
        return success_of(reply, body)


def questions_over_rest(
    questions: Callable[..., OwnQuestions],
) -> Callable[[Iterable[tuple[str, str | bytes]], Question, float], Awaitable[bytes]]:
    """Additional REST reads beside gRPC calls, for databases that answer them over REST only."""

    async def ask(metadata: Iterable[tuple[str, str | bytes]], question: Question, seconds: float) -> bytes:
        """``metadata``: of the call. Its credentials become header fields of the same names; nothing else is sent."""
        kept = [
            (key.encode(), str(value).encode()) for key, value in metadata if key == "authorization" or _is_own(key)
        ]
        return await questions(headers=kept, seconds=seconds).ask(question)

    return ask


def _is_own(key: str) -> bool:
    """Whether metadata with this key is text for a database or a cloud: a credential, or the address of a cluster."""
    return key.startswith("x-") and not key.endswith("-bin")

"""Sends requests to the database, or to the many hosts of one, each exactly once.

Nothing is ever sent again, even if the connection turns out to be dying. Reads share a pool whose idle time is below the database's own;
writes use connections idle for at most ``WRITE_IDLE_SECONDS``, because a write lost on a dying connection cannot be sent again. The origin
is the settings' unless a route names another.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial

from vecsieve.adapters.contract import Question
from vecsieve.config.schema import UpstreamSettings

from ..runtime.addresses import Origin
from ..search.errors import ClientBodyError, FailureKind, LostReplyError, RefusedReplyError, UpstreamExchangeError
from ..search.hedge import Fits
from ..telemetry.labels import AttemptKind, FailOpen
from ..telemetry.tracing import Leg, Trace
from .connections import Events
from .headers import IDENTITY, RawHeaders, request_head, traced
from .pools import Census, Pool
from .upstream_connection import Exchange, any_size

# An unknown method may change something.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Measured on loopback, 2 kB PUTs one after another: 0.24 ms on a kept connection, 0.60 ms and half the throughput with a new one each;
# elsewhere a round trip and a handshake more. One second is a fifth of Qdrant's keep-alive (5 s), and a client's own pool takes the same
# risk with more. Nothing is sent twice in any case.
WRITE_IDLE_SECONDS = 1.0


class Upstream:
    """One database. Create it inside the event loop and close it there.

    ``tls``: how to verify an https upstream; None: as the settings say. ``may_be_private``: whether a host
    name may have a private address; None if no request names hosts. ``most``: connections of each pool to all hosts; 0 is unbounded. ``reply_bytes``: the largest body that is read here.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        *,
        events: Events | None = None,
        tls: ssl.SSLContext | None = None,
        may_be_private: Callable[[str], bool] | None = None,
        most: int = 0,
        reply_bytes: int = sys.maxsize,
    ) -> None:
        self._prefix = settings.prefix
        self._reply_bytes = reply_bytes
        self._origin = Origin.of(settings.url)
        pool = partial(Pool, settings, events=events or Events(), tls=tls, may_be_private=may_be_private, most=most)
        reads, writes = settings.pool_idle_seconds, min(settings.pool_idle_seconds, WRITE_IDLE_SECONDS)
        self._reads, self._writes = pool(idle_seconds=reads), pool(idle_seconds=writes, has_searches=False)

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
    ) -> Exchange:
        """Send one request once and return its reply, which the caller closes.

        ``headers``: the client's raw list; hop-by-hop fields are removed here. ``content_length``: None sends a body in chunks; without a
        body, ``Content-Length: 0`` is sent when that is the given length. ``deadline_seconds``: for the whole exchange, the body included.
        ``origin``: None is the configured one. ``leave``: takes the rest of a write that was sent whole when this is cancelled; None cuts
        it. Raises UpstreamExchangeError; the body's ClientBodyError is raised unchanged.
        """
        at = self._origin if origin is None else origin
        is_chunked = body is not None and content_length is None
        length = len(body) if isinstance(body, bytes) else content_length
        head = request_head(
            method, raw_target, headers, authority=at.authority, length=content_length, is_chunked=is_chunked
        )
        pool = self._reads if is_search or method in SAFE_METHODS else self._writes
        deadline_at = None if deadline_seconds is None else asyncio.get_running_loop().time() + deadline_seconds
        connection = pool.idle(at, is_search=is_search)
        if connection is None:
            try:
                async with asyncio.timeout_at(deadline_at):
                    connection = await pool.connection(at, is_search=is_search)
            except TimeoutError:
                raise pool.failed(at, FailureKind.TIMEOUT) from None
        exchange = Exchange(connection, body, length, is_head=method == "HEAD", deadline_at=deadline_at)
        try:
            exchange.send(head, is_chunked=is_chunked)
            await exchange.head()
        except (UpstreamExchangeError, ClientBodyError):
            await exchange.close()
            raise
        except asyncio.CancelledError:
            if pool is self._writes and leave is not None and exchange.is_upload_over:
                leave(_finished(exchange))
            else:
                exchange.abandon()
            raise
        return exchange

    async def fetch(  # noqa: PLR0913 - a request has so many parts
        self,
        kind: AttemptKind,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes | None,
        *,
        seconds: float,
        trace: Trace | None = None,
        origin: Origin | None = None,
        fits: Fits = any_size,
        is_search: bool = True,
    ) -> tuple[Exchange, bytes]:
        """One reply to a request of ours, and its whole body. Raises LostReplyError."""
        leg = Leg() if trace is None else trace.leg(kind, method, origin)
        try:
            reply = await self.open(
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
                return reply, await reply.read_bounded(self._reply_bytes, fits=fits)
            except (UpstreamExchangeError, LostReplyError):
                leg.is_cut = True
                raise
            finally:
                await reply.close()
        except UpstreamExchangeError as failure:
            is_late = failure.kind is FailureKind.TIMEOUT
            raise LostReplyError(FailOpen.OVERFETCH_TIMEOUT if is_late else FailOpen.OVERFETCH_RESET) from failure
        finally:
            if trace is not None:
                trace.ended(leg)

    async def ask(self, credentials: RawHeaders, question: Question, seconds: float) -> bytes:
        """Send a request of our own, without a client; return the body of a successful reply. Raises LostReplyError or RefusedReplyError."""
        headers = (*credentials, (b"accept-encoding", b"identity"), (b"content-type", b"application/json"))
        reply, body = await self.fetch(
            AttemptKind.LOOKUP,
            question.method,
            f"{self._prefix}{question.target}",
            headers,
            question.body or None,
            seconds=seconds,
            is_search=question.method != "PUT",  # a write is never sent twice
        )
        return success_of(reply, body)

    async def ask_for_call(
        self, metadata: Iterable[tuple[str, str | bytes]], question: Question, seconds: float
    ) -> bytes:
        """`ask` beside a gRPC call, of databases that answer over REST only. ``metadata``: of the call. Its credentials, and the address of a
        cluster, become header fields of the same names; nothing else is sent.
        """
        texts = [(key, str(value)) for key, value in metadata if not key.endswith("-bin")]
        credentials = [pair for pair in texts if pair[0] == "authorization" or pair[0].startswith("x-")]
        return await self.ask([(key.encode(), value.encode()) for key, value in credentials], question, seconds)


async def _finished(exchange: Exchange) -> None:
    try:
        with suppress(UpstreamExchangeError):
            await exchange.head()
    finally:
        await exchange.close()


# Statuses of refusals that may be caused by the size of the request.
TOO_LARGE = frozenset({400, 413, 422})


def success_of(reply: Exchange, body: bytes) -> bytes:
    """The body of a readable success. Raises LostReplyError or RefusedReplyError."""
    status = reply.status
    if not 200 <= status < 300:
        raise RefusedReplyError(status, body, is_server_error=status >= 500, may_be_size=status in TOO_LARGE)
    codings = reply.shape.codings
    if codings and any(reply.raw_headers[place][1].strip().lower() != IDENTITY for place in codings):
        raise LostReplyError(FailOpen.MALFORMED, received_bytes=len(body))  # identity was requested
    return body

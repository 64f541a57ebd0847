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

import aiohttp

from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.failures import ClientBodyError, FailureKind, UpstreamFailure
from vecsieve.proxy.http.audit import audit_library
from vecsieve.proxy.http.events import Events, Unheard
from vecsieve.proxy.http.failures import kind_of
from vecsieve.proxy.http.framing import is_reply_sound
from vecsieve.proxy.http.headers import RawHeaders, for_upstream, framed, is_forwardable
from vecsieve.proxy.http.pools import Census, CleanConnector, open_session
from vecsieve.proxy.http.raw_request import Outgoing, Upload
from vecsieve.proxy.http.reply import ReplyTooLarge, UpstreamReply
from vecsieve.proxy.origin import Origin

__all__ = ["ReplyTooLarge", "Upstream", "UpstreamReply", "is_write"]

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

        Raises UpstreamFailure; what the body's iterator raises as ClientBodyError comes back as it was.
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

    def _failure(self, kind: FailureKind) -> UpstreamFailure:
        self._events.upstream_failed(kind.value)
        return UpstreamFailure(kind)


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

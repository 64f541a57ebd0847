"""One connection to the database, on a transport of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.http.upstream_connection import Exchange, UpstreamConnection
from vecsieve.proxy.search.errors import ClientBodyError, FailureKind, UpstreamExchangeError

HEAD = b"GET / HTTP/1.1\r\nHost: db\r\n\r\n"
PUT = b"PUT / HTTP/1.1\r\nHost: db\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Wire(asyncio.Transport):
    """A transport that remembers."""

    writes: list[bytes] = field(default_factory=list)
    is_ended: bool = False
    is_paused: bool = False

    def write(self, data: bytes) -> None:  # type: ignore[override]  # - bytes are all that is written
        assert not self.is_ended, "nothing is written on a connection that has ended"
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.is_ended

    def abort(self) -> None:
        self.is_ended = True

    def close(self) -> None:
        self.is_ended = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@dataclass
class Owner:
    freed_ones: int = 0
    gone_ones: int = 0

    def failed(self, kind: FailureKind, number: int | None, words: str) -> UpstreamExchangeError:
        return UpstreamExchangeError(kind)

    def lend(self, connection: UpstreamConnection, speed: Callable[[], float], end: Callable[[], None]) -> None:
        raise NotImplementedError

    def take_back(self, connection: UpstreamConnection) -> None:
        raise NotImplementedError

    def ended(self, connection: UpstreamConnection, *, is_free: bool) -> None:
        self.freed_ones += is_free
        self.gone_ones += not is_free


class Line:
    """A connection, its transport and its owner."""

    def __init__(self, *, stall_seconds: float = 60.0) -> None:
        self.owner, self.wire = Owner(), Wire()
        self.connection = UpstreamConnection(self.owner, stall_seconds=stall_seconds, ends_at=0.0)
        self.connection.connection_made(self.wire)

    def ask(
        self,
        source: bytes | AsyncIterator[bytes] | None = None,
        *,
        length: int | None = None,
        head: bytes = HEAD,
        is_head: bool = False,
        is_chunked: bool = False,
        deadline_at: float | None = None,
    ) -> Exchange:
        size = len(source) if isinstance(source, bytes) else length
        exchange = Exchange(self.connection, source, size, is_head=is_head, deadline_at=deadline_at)
        exchange.send(head, is_chunked=is_chunked)
        return exchange

    def hear(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)

    def end(self, error: Exception | None = None) -> None:
        """The database ends the connection."""
        self.wire.is_ended = True
        self.connection.connection_lost(error)


async def body_of(exchange: Exchange) -> bytes:
    pieces = []
    while piece := await exchange.read():
        pieces.append(piece)
    return b"".join(pieces)


async def outcome(exchange: Exchange) -> object:
    """Status, reason, fields and body; or the kind of failure, and how much of the body came before it."""
    try:
        await exchange.head()
    except (UpstreamExchangeError, ClientBodyError) as failure:
        return failure.kind if isinstance(failure, UpstreamExchangeError) else failure.fault
    seen = (exchange.status, exchange.reason, exchange.raw_headers)
    pieces = []
    try:
        while piece := await exchange.read():
            pieces.append(piece)
    except UpstreamExchangeError as failure:
        return (*seen, b"".join(pieces), failure.kind)
    return (*seen, b"".join(pieces))


@asynccontextmanager
async def sending(
    upstream: Upstream, *, body: bytes | AsyncIterator[bytes] | None, content_length: int | None = None, **rest: Any
) -> AsyncIterator[Exchange]:
    """A reply for the block; bytes are sent with their length."""
    length = len(body) if isinstance(body, bytes) else content_length
    reply = await upstream.open(body=body, content_length=length, **rest)
    try:
        yield reply
    finally:
        await reply.close()

"""Servers of tests on asyncio's loop, none of whose connections outlives its server.

support.network.accepted says why some would. A test may also rely on it that the block has ended them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from support.network.accepted import TURNS, end_connections

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _end(server: asyncio.Server, handlers: _Handlers | None = None) -> None:
    """Close the server and all connections. What a peer has not read is dropped."""
    server.close()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    if handlers is not None:
        await handlers.end()
    await end_connections(server)


@asynccontextmanager
async def serving(
    handler: Handler,
    *,
    port: int = 0,
    sock: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
    limit: int = 2**16,
    backlog: int = 100,
) -> AsyncIterator[int]:
    """A server on 127.0.0.1, or on a bound socket, for the block; yields its port.

    A connection ends with its handler, and at the latest with the block.
    """
    bound = socket.create_server(("127.0.0.1", port)) if sock is None else sock
    handlers = _Handlers(handler)
    server = await asyncio.start_server(handlers.connected, sock=bound, limit=limit, backlog=backlog, ssl=tls)
    try:
        yield bound.getsockname()[1]
    finally:
        await _end(server, handlers)


@asynccontextmanager
async def serving_at(path: str, handler: Handler) -> AsyncIterator[None]:
    """The same on a Unix socket."""
    at = socket.socket(socket.AF_UNIX)
    at.bind(path)
    handlers = _Handlers(handler)
    server = await asyncio.start_unix_server(handlers.connected, sock=at)
    try:
        yield
    finally:
        await _end(server, handlers)


@asynccontextmanager
async def listening(
    protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int = 100
) -> AsyncIterator[asyncio.Server]:
    """A server on 127.0.0.1 of a protocol for each connection, for the block. Connections end at the latest with the block."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(protocol, sock=bound, backlog=backlog)
    try:
        yield server
    finally:
        await _end(server)


class _Handlers:
    """The tasks of one server's handlers."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._streams: set[asyncio.Task[None]] = set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._handled(reader, writer))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        task.add_done_callback(lambda _: writer.close())

    async def _handled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await self._handler(reader, writer)

    async def end(self) -> None:
        running = list(self._streams)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

"""Servers of tests on asyncio's loop, none of whose connections outlives its server.

Closing a server of asyncio ends no connection: not one that was accepted a moment ago and has no protocol yet, not one whose handler was
cancelled before its first step, not one whose handshake or reader does not come. Such a socket is collected during some later test, which
fails by a ResourceWarning. So what listens here knows all that it accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TURNS = 4  # of the loop, from an accepted socket to its stream


class Listening(socket.socket):
    """A listening socket, and the sockets that it accepted."""

    def __init__(self, bound: socket.socket) -> None:
        super().__init__(bound.family, bound.type, bound.proto, bound.detach())
        self.accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self.accepted.append(connection)
        return connection, address

    async def end(self, server: asyncio.Server, handlers: _Handlers | None = None) -> None:
        """Close the server and all connections. What a peer has not read is dropped."""
        server.close()
        await _turns()
        if handlers is not None:
            await handlers.end()
        loop: Any = asyncio.get_running_loop()
        for each in self.accepted:
            if each.fileno() >= 0 and (transport := loop._transports.get(each.fileno())) is not None:
                transport.abort()
        await _turns()


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


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
    bound = Listening(socket.create_server(("127.0.0.1", port)) if sock is None else sock)
    handlers = _Handlers(handler)
    server = await asyncio.start_server(handlers.connected, sock=bound, limit=limit, backlog=backlog, ssl=tls)
    try:
        yield bound.getsockname()[1]
    finally:
        await bound.end(server, handlers)


@asynccontextmanager
async def serving_at(path: str, handler: Handler) -> AsyncIterator[None]:
    """The same on a Unix socket."""
    at = socket.socket(socket.AF_UNIX)
    at.bind(path)
    bound, handlers = Listening(at), _Handlers(handler)
    server = await asyncio.start_unix_server(handlers.connected, sock=bound)
    try:
        yield
    finally:
        await bound.end(server, handlers)


@asynccontextmanager
async def listening(
    protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int = 100
) -> AsyncIterator[asyncio.Server]:
    """A server on 127.0.0.1 of a protocol for each connection, for the block. Connections end at the latest with the block."""
    bound = Listening(socket.create_server(("127.0.0.1", 0)))
    server = await asyncio.get_running_loop().create_server(protocol, sock=bound, backlog=backlog)
    try:
        yield server
    finally:
        await bound.end(server)


class _Handlers:
    """The tasks of one server's handlers."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._each: set[asyncio.Task[None]] = set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._handled(reader, writer))
        self._each.add(task)
        task.add_done_callback(self._each.discard)
        task.add_done_callback(lambda _: writer.close())

    async def _handled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await self._handler(reader, writer)

    async def end(self) -> None:
        running = list(self._each)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

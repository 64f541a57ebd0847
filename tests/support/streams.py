"""Servers of tests on asyncio's loop, none of whose connections outlives its server.

asyncio starts a handler as a task: one that is cancelled before its first step never closes its stream. The socket is then
collected during some later test, which fails by a ResourceWarning. Here a stream is known as soon as it is made.

A server of protocols has the same fault: a loop that ends right after its server was closed leaves the accepted sockets open.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TURNS = 4  # of the loop, from an accepted socket to its stream


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
    streams = _Streams(handler)
    server = await asyncio.start_server(streams.connected, sock=bound, limit=limit, backlog=backlog, ssl=tls)
    async with streams.until_the_end_of(server):
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def serving_at(path: str, handler: Handler) -> AsyncIterator[None]:
    """The same on a Unix socket."""
    streams = _Streams(handler)
    async with streams.until_the_end_of(await asyncio.start_unix_server(streams.connected, path)):
        yield


@asynccontextmanager
async def listening(
    protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int = 100
) -> AsyncIterator[asyncio.Server]:
    """A server on 127.0.0.1 of a protocol for each connection, for the block. Connections end at the latest with the block."""
    accepted: list[asyncio.Transport] = []

    def entrance() -> asyncio.Protocol:
        return _Entrance(protocol, accepted)

    server = await asyncio.get_running_loop().create_server(entrance, "127.0.0.1", 0, backlog=backlog)
    try:
        yield server
    finally:
        await _closed(server)
        await _aborted(accepted)


class _Entrance(asyncio.Protocol):
    """Keeps the transport, and hands it to the protocol of the test."""

    def __init__(self, protocol: Callable[[], asyncio.BaseProtocol], accepted: list[asyncio.Transport]) -> None:
        self._protocol, self._accepted = protocol, accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        own = cast(asyncio.Transport, transport)
        self._accepted.append(own)
        inside = self._protocol()
        own.set_protocol(inside)
        inside.connection_made(own)


class _Streams:
    """The streams of one server, each with the task of its handler."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._each: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._handled(reader, writer))
        self._each[task] = writer
        task.add_done_callback(self._over)

    async def _handled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await self._handler(reader, writer)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._each.pop(task).close()

    @asynccontextmanager
    async def until_the_end_of(self, server: asyncio.Server) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await _closed(server)
            writers = list(self._each.values())
            for task in list(self._each):
                task.cancel()
            await asyncio.gather(*self._each, return_exceptions=True)
            await asyncio.sleep(0)  # the streams are closed, and let go of their sockets at the next turn
            await _aborted([writer.transport for writer in writers])


async def _closed(server: asyncio.Server) -> None:
    server.close()
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _aborted(transports: Sequence[asyncio.WriteTransport]) -> None:
    """What a peer has not read is dropped."""
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)

"""TCP servers of tests over asyncio's streams, none of whose connections outlives its server.

asyncio starts a handler as a task: one that is cancelled before its first step never closes its stream. The socket is then
collected during some later test, which fails by a ResourceWarning. Here a stream is known as soon as it is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

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
    streams: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await handler(reader, writer)

    def over(task: asyncio.Task[None]) -> None:
        streams.pop(task).close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(handled(reader, writer))
        streams[task] = writer
        task.add_done_callback(over)

    bound = socket.create_server(("127.0.0.1", port)) if sock is None else sock
    server = await asyncio.start_server(connected, sock=bound, limit=limit, backlog=backlog, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        writers = list(streams.values())
        for task in list(streams):
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        await asyncio.sleep(0)  # the streams are closed, and let go of their sockets at the next turn
        for writer in writers:
            writer.transport.abort()  # what a peer has not read is dropped
        await asyncio.sleep(0)

"""What the servers on asyncio's loops accepted, so that no such connection outlives its server or its loop.

Closing a server of asyncio ends no connection: not one that was accepted a moment ago and has no protocol yet, not one whose handler was
cancelled before its first step, not one whose handshake or reader does not come. Such a socket is collected during some later test, which
fails by a ResourceWarning. A loop of the tests therefore ends, when it closes, what its closed servers accepted. Connections that the
tests or the product opened, and those of servers that nobody closed, are left: the warning about them is a finding.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

TURNS = 4  # of the loop, from an accepted socket to its stream

_Accepted = dict[int, tuple[socket.socket, asyncio.Server]]
_ACCEPTED: WeakKeyDictionary[asyncio.AbstractEventLoop, _Accepted] = WeakKeyDictionary()


def watch_accepted() -> None:
    """For the rest of this process, on every loop but uvloop's, which closes all of its connections itself."""
    loops: Any = BaseSelectorEventLoop
    loops._accept_connection2 = _noting(loops._accept_connection2)
    loops.close = _ending(loops.close)


async def end_connections(server: asyncio.Server | None = None) -> None:
    """Abort the connections of a server, or of all that are closed. What a peer has not read is dropped."""
    loop: Any = asyncio.get_running_loop()
    for connection, its_server in _open(loop):
        if its_server is server or (server is None and not its_server.sockets):
            transport = loop._transports.get(connection.fileno())
            (connection.close if transport is None else transport.abort)()
    for _ in range(TURNS):
        await asyncio.sleep(0)


def _open(loop: asyncio.AbstractEventLoop) -> list[tuple[socket.socket, asyncio.Server]]:
    return [noted for noted in _ACCEPTED.get(loop, {}).values() if noted[0].fileno() >= 0]


def _noting(accept: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    def noting(
        loop: asyncio.AbstractEventLoop,
        factory: object,
        connection: socket.socket,
        extra: object,
        tls: object,
        server: asyncio.Server,
        *times: float,
    ) -> Coroutine[Any, Any, None]:
        # A number is given anew only after its socket was closed.
        _ACCEPTED.setdefault(loop, {})[connection.fileno()] = connection, server

        async def accepting() -> None:
            if not server.sockets:  # asyncio would make half a transport and forget it
                connection.close()
                return
            await accept(loop, factory, connection, extra, tls, server, *times)

        return accepting()

    return noting


def _ending(close: Callable[[asyncio.AbstractEventLoop], None]) -> Callable[[asyncio.AbstractEventLoop], None]:
    def ending(loop: asyncio.AbstractEventLoop) -> None:
        if _open(loop) and not loop.is_closed():
            loop.run_until_complete(end_connections())
        close(loop)

    return ending

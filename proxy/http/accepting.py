"""Takes new connections off the kernel's queue, many at each turn of the loop.

libuv (1.45 and later, so uvloop 0.18 and later) accepts one connection a turn. A loop that is busy turns 30 times a second: the
queue of the kernel overflows, the kernel drops what greets it, and the client asks again after 1 s, 3 s and 7 s. With as many
searches as are twice too many, each on a connection of its own, 4 of 10 had no answer within 10 s; so 1 of 10,000 (measured).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence

LOGGER = logging.getLogger("vecsieve.http")
Factory = Callable[[], asyncio.Protocol]

BACKLOG = 1024  # the kernel caps it at net.core.somaxconn; 128 overflows when a pool reconnects after a restart
# With 64, turns of 0.1 s kept 1,000 new connections a second waiting; without a bound one process of several would take all that
# wait for any of them.
AT_A_TURN = 256
# Of few connections no more than this share is on its way in at once, because each holds a descriptor before it has a place.
ARRIVING_SHARE = 8
OUT_OF_FILES_SECONDS = 0.1  # asyncio pauses for 1 s: by then clients ask again


def arriving_at_most(connections: int) -> int:
    """How many connections may be accepted and without a place, where a process takes on so many."""
    return max(1, min(AT_A_TURN, connections // ARRIVING_SHARE))


class Arrivals:
    """The connections of all ports of one process that are accepted and have no protocol yet: at most ``most``."""

    def __init__(self, most: int = AT_A_TURN) -> None:
        self.most = most
        self.opening: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        """Whether none may be accepted in this turn of the loop."""
        return len(self.opening) >= self.most

    def start(self, opening: Coroutine[None, None, None]) -> None:
        """Open one."""
        task = asyncio.get_running_loop().create_task(opening, name="open a client connection")
        self.opening.add(task)
        task.add_done_callback(self.opening.discard)


class Accepting:
    """The listening sockets of one port, which it owns. Make it inside the event loop; it accepts until `close`."""

    def __init__(self, sockets: Sequence[socket.socket], factory: Factory, arrivals: Arrivals | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._factory = factory
        self._sockets = tuple(sockets)
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._is_out_of_files = False
        self.port: int = self._sockets[0].getsockname()[1]
        for each in self._sockets:
            each.setblocking(False)
            each.listen(BACKLOG)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Stop accepting; connections live on."""
        for each in self._sockets:
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                each.close()

    async def opened(self) -> None:
        """Wait until every connection that was accepted has its protocol."""
        if self._arrivals.opening:
            await asyncio.wait(self._arrivals.opening)

    def _accept(self, listening: socket.socket) -> None:
        while not self._arrivals.is_full:
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            self._is_out_of_files = False
            connection.setblocking(False)
            self._arrivals.start(self._open(connection))

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:  # it is gone again
            connection.close()

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Out of files or of memory for sockets: the kernel says so at every turn, until a connection ends. Logged once."""
        if not self._is_out_of_files:
            self._is_out_of_files = True
            LOGGER.error("no connection can be accepted: %s", os.strerror(error.errno or 0))
        self._loop.remove_reader(listening)
        self._loop.call_later(OUT_OF_FILES_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)


async def bound(host: str, port: int) -> tuple[socket.socket, ...]:
    """Sockets on every address of a host, as asyncio binds them. Raises OSError."""
    server = await asyncio.get_running_loop().create_server(
        asyncio.Protocol, host, port, reuse_address=True, start_serving=False
    )
    try:
        return tuple(socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets)
    finally:
        server.close()

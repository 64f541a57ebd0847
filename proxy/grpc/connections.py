"""The Unix socket of a gRPC server for connections from shared ports, and the connections that aiohttp does not own.

They are counted together with aiohttp's, so that one limit applies to all. Nothing here loads grpc: a port with TLS needs these connections
without it.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

from ..http.connections import Connections
from ..runtime.loop import Owner
from .frames import Calls

LONGEST_PATH_BYTES = 107  # sun_path has 108 bytes with its terminator, on Linux
# Connecting to a Unix socket with a full backlog fails at once, while TCP would wait.
FULL_BACKLOG_SECONDS = 0.005
# As much as one read of uvloop's: with Linux's 208 KiB a stream of messages of 8 MiB waited for the server at each read (450 instead of 590 MiB/s).
# The kernel doubles it, within net.core.wmem_max.
SEND_BYTES = 1 << 18


class InnerSocket:
    """A Unix socket that nobody else can open. ``close`` removes its directory.

    In a private directory if one can be made; otherwise, on a read-only file system, a Linux abstract name. Such a name has no permissions:
    it cannot be guessed, but a process in the same network namespace can read it in /proc. ``grpc``: its name for ``add_insecure_port``;
    ``path``: for ``socket.connect``. ``calls``: counts incoming calls.
    """

    __slots__ = ("_directory", "calls", "grpc", "path")

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._directory = _private_directory()
        if self._directory is None:
            name = f"vecsieve-{secrets.token_hex(16)}"
            self.path, self.grpc = f"\0{name}", f"unix-abstract:{name}"
        else:
            self.path = str(Path(self._directory.name) / "grpc")
            self.grpc = f"unix:{self.path}"

    def close(self) -> None:
        """Remove the directory. Stop the server first."""
        if self._directory is not None:
            self._directory.cleanup()

    async def connect(self) -> socket.socket:
        """A connected socket. Raises OSError; waits while the backlog is full, so the caller sets a deadline."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        try:
            while not self._is_let_in(connected):  # noqa: ASYNC110 - the kernel has no event for it
                await asyncio.sleep(FULL_BACKLOG_SECONDS)
        except (OSError, asyncio.CancelledError):
            connected.close()
            raise
        return connected

    def _is_let_in(self, connecting: socket.socket) -> bool:
        try:
            connecting.connect(self.path)
        except BlockingIOError:
            return False
        return True


def _private_directory() -> tempfile.TemporaryDirectory[str] | None:
    try:
        made = tempfile.TemporaryDirectory(prefix="vecsieve-")
    except OSError:
        return None
    if len(str(Path(made.name) / "grpc").encode()) > LONGEST_PATH_BYTES:
        made.cleanup()
        return None
    return made


# A cut connection is gone after one turn of the loop; this bound only prevents a bug of ours from delaying the exit.
CUT_SECONDS = 1.0


# A peer that comes back whenever it is cut costs 1.1 ms of CPU each time: a dozen of them kept all others waiting. For so long after a cut the
# connections of its address begin so far apart, which leaves four fifths of the loop. Another client of that address (a sidecar, a load balancer)
# waits its turn only for a new connection, 60 ms behind a dozen, and not longer than this.
FLOODING_SECONDS = 10.0
PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 1.0
MOST_ADDRESSES = 4096


class SharedConnection(ABC):
    """A connection that aiohttp does not own. ``may_finish``: closing waits for its end. By default its protocol is unknown: no request is in
    progress, and its first one may be on its way.
    """

    __slots__ = ()
    is_idle = may_finish = False

    @property
    def is_unsent(self) -> bool:
        """Whether an answer may not have reached the client yet."""
        return False

    @abstractmethod
    def cut(self) -> None:
        """End now, with everything in progress."""

    def leave(self) -> None:
        """As ``Connection``."""
        self.cut()

    def send_goaway(self) -> None:  # noqa: B027 - nothing: the frame depends on the protocol
        """Ask the client to send nothing new, if the protocol allows it. Called once."""


class SharedConnections:
    """Registers connections of a port, owns their tasks, and ends them."""

    def __init__(self, ledger: Connections) -> None:
        self.ledger = ledger
        self._open: dict[SharedConnection, None] = {}
        self.tasks = Owner()
        self._is_empty = asyncio.Event()
        self._is_leaving = False
        self._is_closed = False
        # By the address of a cut peer: until when its connections wait for each other, and when the next one may begin.
        self._flooding: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def unsent(self) -> int:
        """The number of clients that have not received all of their answers."""
        return sum(connection.is_unsent for connection in self._open)

    def enter(self, connection: SharedConnection) -> bool:
        """Register a connection; False when it must be closed at once."""
        if self._is_closed or not self.ledger.admit(connection):
            return False
        self._open[connection] = None
        self._is_empty.clear()
        if self._is_leaving:
            connection.send_goaway()
        return True

    def cut_flood(self, address: str) -> None:
        """A connection was cut: the next ones of this address begin one after another."""
        self.ledger.events.connection_rejected("flood")
        now = asyncio.get_running_loop().time()
        if len(self._flooding) >= MOST_ADDRESSES:
            self._flooding = {cut: times for cut, times in self._flooding.items() if times[0] > now}
        if address in self._flooding or len(self._flooding) < MOST_ADDRESSES:
            self._flooding[address] = now + FLOODING_SECONDS, self._flooding.get(address, (now, now))[1]

    def pause_seconds(self, address: str) -> float | None:
        """How long a new connection of this address waits before its first bytes are read; None if the address has not flooded."""
        now = asyncio.get_running_loop().time()
        until, turn = self._flooding.get(address, (now, now))
        if until <= now:
            return None
        turn = min(max(now, turn), now + LONGEST_PAUSE_SECONDS)
        self._flooding[address] = until, turn + PAUSE_SECONDS
        return turn - now

    def send_goaway(self) -> None:
        """Ask all clients to send nothing new, including later ones."""
        if not self._is_leaving:
            self._is_leaving = True
            for connection in self._open:
                connection.send_goaway()

    def leave(self, connection: SharedConnection) -> None:
        """Remove a connection; one that is not registered is ignored."""
        self.ledger.forget(connection)
        self._open.pop(connection, None)
        if not self._open:
            self._is_empty.set()

    async def close(self, *, grace_seconds: float) -> None:
        """Cut connections with unknown protocol, wait for the others, then cut these too. Afterwards none is registered."""
        self._is_closed = True
        self._cut([connection for connection in self._open if not connection.may_finish])
        await self._emptied(grace_seconds)
        self._cut(list(self._open))
        await self._emptied(CUT_SECONDS)
        await self.tasks.close()

    def _cut(self, connections: list[SharedConnection]) -> None:
        for connection in connections:
            connection.cut()

    async def _emptied(self, seconds: float) -> None:
        if self._open:
            await asyncio.wait({waiting := asyncio.ensure_future(self._is_empty.wait())}, timeout=seconds)
            waiting.cancel()

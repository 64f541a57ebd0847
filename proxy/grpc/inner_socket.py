"""Where the gRPC server listens for connections that came in by a shared port: a Unix socket nobody else can open.

A private directory where one can be made; else, on a read-only file system, a Linux abstract name. Such a name has no
permissions: it cannot be guessed, but a process in the same network namespace can read it in /proc and connect to it.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from pathlib import Path

from vecsieve.proxy.grpc.calls import Calls

LONGEST_PATH_BYTES = 107  # sun_path is 108 bytes with its end, on Linux
# A Unix socket whose backlog is full says so at once instead of letting the caller wait, as TCP would.
FULL_BACKLOG_SECONDS = 0.005


class InnerSocket:
    """One address in the two spellings it needs. ``close`` removes what was made for it.

    ``grpc``: for ``grpc.aio.Server.add_insecure_port``. ``path``: for ``socket.connect``. ``calls``: who counts what comes in by it.
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
        try:
            while not self._is_let_in(connected):  # noqa: ASYNC110 - the kernel tells nobody when there is room
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

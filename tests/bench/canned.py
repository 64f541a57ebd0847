"""A server of canned bytes for machines without nginx: finds the end of each request, writes one ready reply.

Usage: python -m bench.canned PORT DIRECTORY
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from bench.loops import run

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Canned(asyncio.Protocol):
    """One connection. Bodies are framed by Content-Length only; their bytes are counted, never looked at."""

    def __init__(self, replies: Mapping[bytes, bytes]) -> None:
        self._replies = replies
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end])
            size = end + 4 + _content_length(head)
            if len(self._received) < size:
                return
            del self._received[:size]
            assert self._transport is not None
            self._transport.write(self._replies.get(head.split(b" ", 2)[1], MISSING))


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def load(directory: Path) -> dict[bytes, bytes]:
    """Whole replies, head included, by request target."""
    return {
        b"/" + file.relative_to(directory).as_posix().encode(): HEAD % file.stat().st_size + file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


async def serve(port: int, replies: Mapping[bytes, bytes]) -> None:
    """Serve until cancelled."""
    server = await asyncio.get_running_loop().create_server(lambda: Canned(replies), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), load(Path(sys.argv[2]))))

"""A wire between the proxy and a database that a test can cut: TCP passed on byte for byte until then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from support.network.streams import serving


@dataclass
class Link:
    """``connections``: how many were ever made. ``is_down``: new ones are refused by a reset."""

    port: int = 0
    connections: int = 0
    is_down: bool = False
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset every connection; the next one is made anew."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def link_to(port: int) -> AsyncIterator[Link]:
    """A wire to a port of this machine, for the block."""
    link = Link()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if link.is_down:
            writer.transport.abort()
            return
        link.connections += 1
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        both = {writer, inner_writer}
        link._open |= both
        try:
            await asyncio.gather(link._pass_on(reader, inner_writer), link._pass_on(inner_reader, writer))
        finally:
            inner_writer.transport.abort()
            link._open -= both

    async with serving(join) as link.port:
        yield link
        link.is_down = True
        link.cut()

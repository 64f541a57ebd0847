"""A TCP relay with toxiproxy's eight faults, each done to what the server sends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from support.network.faulty_upstream import LINGER_RESET
from support.network.streams import serving


class Toxic(Enum):
    """The faults by toxiproxy's names."""

    LATENCY = "latency"  # each piece comes ``seconds`` later
    DOWN = "down"  # connections are ended at once
    BANDWIDTH = "bandwidth"  # ``size`` bytes per second
    SLOW_CLOSE = "slow_close"  # the end comes ``seconds`` later
    TIMEOUT = "timeout"  # nothing comes, the connection stays
    SLICER = "slicer"  # pieces of ``size`` bytes
    LIMIT_DATA = "limit_data"  # the connection ends after ``size`` bytes
    RESET_PEER = "reset_peer"  # RST instead of an answer


@dataclass
class ToxicRelay:
    """Relays 127.0.0.1:``port`` to ``upstream``; ``toxic`` None relays faithfully, and may change between connections."""

    upstream: int
    toxic: Toxic | None = None
    size: int = 1
    seconds: float = 0.05
    port: int = 0
    connections: int = 0
    _server: AbstractAsyncContextManager[int] | None = None

    async def __aenter__(self) -> Self:
        self._server = serving(self._serve)
        self.port = await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.__aexit__(kind, error, trace)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError):
            if self.toxic is not Toxic.DOWN:
                await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self.upstream)
        sending = asyncio.create_task(_copy(reader, forth))
        try:
            await self._answer(back, writer)
        finally:
            forth.close()  # first: a second cancellation may cut the wait short
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _answer(self, back: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.size
        while data := await back.read(65_536):
            if self.toxic is Toxic.RESET_PEER:
                raw: socket.socket = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
                writer.transport.abort()
                return
            if self.toxic is Toxic.LIMIT_DATA:
                await self._send(writer, data[:left])
                left -= len(data)
                if left <= 0:
                    return
            else:
                await self._send(writer, data)
        if self.toxic is Toxic.SLOW_CLOSE:
            await asyncio.sleep(self.seconds)
        if self.toxic is Toxic.TIMEOUT:
            await asyncio.Event().wait()  # the server's end is kept back too, until the relay ends

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if self.toxic is Toxic.TIMEOUT:
            return
        if self.toxic is Toxic.LATENCY:
            await asyncio.sleep(self.seconds)
        step = self.size if self.toxic is Toxic.SLICER else len(data)
        if self.toxic is Toxic.BANDWIDTH:
            step = max(1, self.size // 20)
        for start in range(0, len(data), step):
            writer.write(data[start : start + step])
            await writer.drain()
            await asyncio.sleep(0.05 if self.toxic is Toxic.BANDWIDTH else 0)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()

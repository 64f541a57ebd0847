"""Two connections tied by a splice, with a client and a server that are scripts."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import cast

import pytest
from hypothesis import strategies as st

from support.grpc.http2_frames import frame
from support.network.loops import on_both_loops
from support.network.relay_server import Invalidation
from support.network.streams import listening, serving_at
from vecsieve.proxy.grpc.connections import InnerSocket, SharedConnections
from vecsieve.proxy.grpc.frames import FRAMES, Calls
from vecsieve.proxy.grpc.shared_port import PREFACE
from vecsieve.proxy.grpc.splice import Splice
from vecsieve.proxy.http.connections import Connections

MIB = 1024 * 1024


RESET = struct.pack("ii", 1, 0)


WAIT_SECONDS = 10.0


Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class DataPort(asyncio.Protocol):
    """Splices every connection at its first byte."""

    def __init__(self, connections: SharedConnections, inner: InnerSocket) -> None:
        self.connections = connections
        self.inner = inner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        made = Splice(self.transport, self.connections, self.inner)
        assert self.connections.enter(made)
        made.begin(data)


@dataclass
class Spliced:
    """A client and a server with a splice between; the client's preface, which opened it, is already read."""

    client: Pipe
    server: Pipe
    connections: SharedConnections

    async def is_over(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.connections):
                await asyncio.sleep(0.005)


def ledger() -> SharedConnections:
    return SharedConnections(Connections(limit=100, events=Invalidation()))


@asynccontextmanager
async def spliced() -> AsyncIterator[Spliced]:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Pipe] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result((reader, writer))
        await writer.wait_closed()

    connections, inner = ledger(), InnerSocket(Calls())
    async with serving_at(inner.path, serve), listening(lambda: DataPort(connections, inner)) as before:
        client = await asyncio.open_connection(*before.sockets[0].getsockname())
        try:
            client[1].write(PREFACE)
            server = await asyncio.wait_for(accepted, WAIT_SECONDS)
            assert await server[0].readexactly(len(PREFACE)) == PREFACE
            yield Spliced(client, server, connections)
        finally:
            before.close()
            await connections.close(grace_seconds=0)
            client[1].transport.abort()
    inner.close()


def of_a_splice(case: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """A test of a splice, which is its first argument, on each loop."""

    @wraps(case)
    async def story(**arguments: object) -> None:
        async with spliced() as both:
            await case(both, **arguments)

    parameters = list(inspect.signature(case).parameters.values())[1:]
    story.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # - what pytest reads
    return on_both_loops(story)


CONTENT = st.binary(min_size=1, max_size=3000).map(lambda data: frame(0, 0, data))


# As large as data comes: a gRPC server sends no empty frames in thousands.
FRAME = b"\xff" * 65536


async def flood(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(FRAME)
        await writer.drain()


async def is_stuck(writer: asyncio.StreamWriter) -> None:
    """Wait until a flood goes no further for 50 ms, so that every buffer on its way is full."""
    left, same = -1, 0
    async with asyncio.timeout(WAIT_SECONDS):
        while same < 10:
            await asyncio.sleep(0.005)
            now = writer.transport.get_write_buffer_size()
            same = same + 1 if now == left and now > 0 else 0
            left = now


def raw(pipe: Pipe) -> socket.socket:
    return socket.socket(fileno=os.dup(pipe[1].get_extra_info("socket").fileno()))


def paused(pipe: Pipe) -> None:
    cast(asyncio.Transport, pipe[1].transport).pause_reading()


async def is_reset(both: Spliced) -> None:
    """The client's reading is paused: its socket is asked itself, for uvloop's streams tell a reset as an end."""
    await both.is_over()
    with raw(both.client) as same:
        same.settimeout(WAIT_SECONDS)
        with pytest.raises(ConnectionResetError):
            same.recv(1)


SETTINGS = bytes(3) + b"\x04" + bytes(5)


DATA = b"\x00\x00\x04\x00\x00" + bytes(3) + b"\x01"  # of 4 bytes, which follow


async def is_more(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await asyncio.wait_for(reader.read(MIB), 0.1))
    except TimeoutError:
        return False


async def owed(connections: SharedConnections, count: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while connections.unsent != count:
            await asyncio.sleep(0.005)


PINGS = frame(6, 0, bytes(8), 0) * (2 * FRAMES)

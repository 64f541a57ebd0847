"""SIGTERM while answers are on their way to clients that take them slowly: an answered call is under way until it has arrived."""

from __future__ import annotations

import asyncio
import signal
import socket
from functools import partial

import pytest
from bench import http2

from support.grpc.upstream import Arrived, Context, GrpcUpstream, grpc_upstream
from support.process.running import Running
from support.qdrant.scripted_grpc import before
from vecsieve.proxy.runtime.lifecycle import Lifecycle

UNARY, UNKNOWN = "/qdrant.Points/Count", "/nobody.Knows/Count"
ANSWER_BYTES = 8 * 2**20  # more than the kernel keeps for both ends of a connection together
DRAIN_SECONDS = 20.0


async def answers_at_length(call: Arrived, context: Context) -> None:
    await call.read(context)
    await context.write(bytes(ANSWER_BYTES))


def greeted(port: int) -> socket.socket:
    """A client of a small buffer, which acknowledges nothing."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    made.connect(("127.0.0.1", port))
    made.setblocking(False)
    return made


async def read_to_its_end(client: socket.socket) -> bytes:
    """What comes until the other side says that it was all. Raises ConnectionResetError where it was cut."""
    loop, read, looked = asyncio.get_running_loop(), bytearray(), 0
    while piece := await loop.sock_recv(client, 1 << 18):
        read += piece
        rest = bytes(read[looked:])
        for kind, flags, begins, end in http2.heads(rest):
            looked += end - begins + http2.HEAD_BYTES
            if kind == http2.PING and not flags & http2.ACK:
                await loop.sock_sendall(client, http2.frame(kind, http2.ACK, 0, rest[begins:end]))
    return bytes(read)


def message_bytes(read: bytes) -> int:
    return sum(end - begins for kind, _, begins, end in http2.heads(read) if kind == http2.DATA)


def is_ended(read: bytes) -> bool:
    return any(kind == http2.HEADERS and flags & http2.END_STREAM for kind, flags, _, _ in http2.heads(read))


async def drained(proxy: Running) -> bool:
    """As the process does it: told, drained, closed."""
    cycle = Lifecycle(drain_accept_seconds=0, drain_seconds=DRAIN_SECONDS, reload=partial(asyncio.sleep, 0))
    cycle.started()
    cycle.handle_signal(signal.SIGTERM)
    is_clean = await cycle.finish(proxy.process)
    await proxy.process.close()
    return is_clean


async def under_way(proxy: Running, database: GrpcUpstream) -> None:
    await database.next_call()
    async with asyncio.timeout(10):
        while proxy.process.in_flight > (database.calls[0].method == UNKNOWN):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)  # all buffers are full


@pytest.mark.parametrize("method", [UNARY, UNKNOWN])
@pytest.mark.parametrize("is_shared", [True, False])
async def test_an_answer_that_a_client_takes_slowly_arrives_whole_though_the_process_was_told_to_end(
    method: str, *, is_shared: bool
) -> None:
    loop = asyncio.get_running_loop()
    async with (
        grpc_upstream(Count=answers_at_length) as database,
        before(database.address, grpc={"listen": "127.0.0.1:0"}) as proxy,
    ):
        with greeted(proxy.port if is_shared else proxy.grpc_port) as client:
            await loop.sock_sendall(client, http2.greeting() + http2.on_stream(http2.request(method, b"?"), 1))
            await under_way(proxy, database)
            ending = asyncio.create_task(drained(proxy))
            await asyncio.sleep(0.5)
            read = await asyncio.wait_for(read_to_its_end(client), DRAIN_SECONDS)
        assert (message_bytes(read), is_ended(read)) == (ANSWER_BYTES + 5, True)
        assert await asyncio.wait_for(ending, 5)


async def test_a_client_that_hears_nothing_and_is_owed_nothing_does_not_hold_the_end_up() -> None:
    loop = asyncio.get_running_loop()
    async with grpc_upstream() as database, before(database.address) as proxy:
        with greeted(proxy.port) as client:
            await loop.sock_sendall(client, http2.greeting())
            await asyncio.sleep(0.1)
            begun = loop.time()
            assert await drained(proxy)
            assert loop.time() - begun < DRAIN_SECONDS / 2

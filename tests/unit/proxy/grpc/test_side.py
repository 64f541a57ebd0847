from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from support.grpc.calls import ask, ask_on
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.plane import Plane
from vecsieve.proxy.grpc.side import GrpcSide, server_options
from vecsieve.proxy.grpc.upstream import Channels
from vecsieve.proxy.runtime.addresses import DataPort, Origin

DATABASE, INDEX = Origin("http", "127.0.0.1:6334"), Origin("https", "docs.example")


@dataclass
class Made:
    """A side whose planes tell where they lead. ``go_on``: what calls wait for."""

    side: GrpcSide
    leading: list[tuple[Origin, str]] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def sides() -> AsyncIterator[Made]:
    channels = Channels(UpstreamSettings(), connections=1)

    class Description(Plane):
        def __init__(self, origin: Origin, host: str) -> None:
            made.leading.append((origin, host))
            self.words = f"{origin.authority} {host}".encode()

        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            async def tell(_: bytes, __: object) -> bytes:
                made.begun.set()
                await made.go_on.wait()
                return self.words

            return grpc.unary_unary_rpc_method_handler(tell)

    made = Made(GrpcSide(Description, channels, Calls(), server_options(5.0)))
    try:
        yield made
    finally:
        await made.side.close(grace_seconds=0)


async def refuses(inner: InnerSocket | None) -> None:
    assert inner is not None
    with pytest.raises(OSError, match=r"No such file|refused"):
        await inner.connect()


async def test_a_door_without_grpc_leads_nowhere_and_opens_nothing() -> None:
    async with sides() as made:
        assert await made.side.inner_socket(DataPort("127.0.0.1", 0)) is None
        assert made.leading == []


async def test_doors_that_lead_to_one_place_share_its_server_and_others_have_their_own() -> None:
    doors = (
        DataPort("127.0.0.1", 1, None, DATABASE),
        DataPort("127.0.0.1", 2, None, DATABASE, is_for_grpc=True),
        DataPort("127.0.0.1", 3, INDEX, INDEX),
        DataPort("127.0.0.1", 4, INDEX, DATABASE),
    )
    async with sides() as made:
        made.go_on.set()
        one, same, index, other = [await made.side.inner_socket(door) for door in doors]
        assert one is same
        assert made.leading == [(DATABASE, ""), (INDEX, "docs.example"), (DATABASE, "docs.example")]
        words: list[bytes] = []
        for inner in (one, index, other):
            assert inner is not None
            words += (await ask(inner.grpc, "unary_unary")).messages
        assert words == [b"127.0.0.1:6334 ", b"docs.example docs.example", b"127.0.0.1:6334 docs.example"]


async def test_stopping_lets_calls_finish_and_closing_removes_the_socket() -> None:
    async with sides() as made:
        inner = await made.side.inner_socket(DataPort("127.0.0.1", 0, None, DATABASE))
        assert inner is not None
        async with grpc.aio.insecure_channel(inner.grpc) as channel:
            call = asyncio.create_task(ask_on(channel, "unary_unary"))
            await made.begun.wait()
            made.side.stop(grace_seconds=20)
            made.side.stop(grace_seconds=20)  # told twice: by the drain and by the end
            await asyncio.sleep(0.05)
            assert not call.done()
            made.go_on.set()
            assert (await call).code is grpc.StatusCode.OK
        await made.side.close(grace_seconds=20)
        if not inner.path.startswith("\0"):
            assert not Path(inner.path).exists()


async def test_the_shortest_grace_period_holds() -> None:
    async with sides() as made:
        inner = await made.side.inner_socket(DataPort("127.0.0.1", 0, None, DATABASE))
        assert inner is not None
        async with grpc.aio.insecure_channel(inner.grpc) as channel:
            call = asyncio.create_task(ask_on(channel, "unary_unary"))
            await made.begun.wait()
            made.side.stop(grace_seconds=600)
            async with asyncio.timeout(10):
                await made.side.close(grace_seconds=0.05)
            assert (await call).code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


async def test_closing_twice_is_closing_once() -> None:
    async with sides() as made:
        inner = await made.side.inner_socket(DataPort("127.0.0.1", 0, None, DATABASE))
        await made.side.close(grace_seconds=0)
        await made.side.close(grace_seconds=0)
        await refuses(inner)


@pytest.mark.parametrize("count", [0, 3])
async def test_a_side_that_nobody_called_ends_as_well(count: int) -> None:
    async with sides() as made:
        doors = [DataPort("127.0.0.1", number, None, Origin("http", f"db{number}:6334")) for number in range(count)]
        behind = [await made.side.inner_socket(door) for door in doors]
        async with asyncio.timeout(10):
            await made.side.close(grace_seconds=1)
        for inner in behind:
            await refuses(inner)

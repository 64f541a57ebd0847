from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from h2.connection import H2Connection
from h2.events import RemoteSettingsChanged, StreamReset
from h2.settings import SettingCodes

from support.grpc.calls import ask, ask_on
from support.grpc.upstream import Arrived, Context, GrpcUpstream, Script, echo
from vecsieve.config.schema import Settings, UpstreamSettings
from vecsieve.proxy.grpc import side as side_module
from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.plane import Plane
from vecsieve.proxy.grpc.side import CALLS_OF_ONE_CONNECTION, GrpcSide, server_options
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
            async def emit(_: bytes, __: object) -> bytes:
                made.begun.set()
                await made.go_on.wait()
                return self.words

            return grpc.unary_unary_rpc_method_handler(emit)

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
    listeners = (
        DataPort("127.0.0.1", 1, None, DATABASE),
        DataPort("127.0.0.1", 2, None, DATABASE, is_for_grpc=True),
        DataPort("127.0.0.1", 3, INDEX, INDEX),
        DataPort("127.0.0.1", 4, INDEX, DATABASE),
    )
    async with sides() as made:
        made.go_on.set()
        one, same, index, other = [await made.side.inner_socket(listener) for listener in listeners]
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
        listeners = [DataPort("127.0.0.1", number, None, Origin("http", f"db{number}:6334")) for number in range(count)]
        inner_sockets = [await made.side.inner_socket(listener) for listener in listeners]
        async with asyncio.timeout(10):
            await made.side.close(grace_seconds=1)
        for inner in inner_sockets:
            await refuses(inner)


@asynccontextmanager
async def listening(
    script: Script = echo, *, age_seconds: float | None = None
) -> AsyncIterator[tuple[grpc.aio.Server, GrpcUpstream]]:
    """A server with the options of ours, on TCP, where its clients can be counted."""
    handler = GrpcUpstream(method=script)
    options = server_options(handshake_seconds=0.5, age_seconds=age_seconds)
    server = grpc.aio.server(handlers=(handler,), options=options)
    handler.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield server, handler
    finally:
        await server.stop(0)


@pytest.mark.parametrize(("age_seconds", "is_replaced"), [(0.1, True), (None, False)])
async def test_a_connection_is_replaced_at_its_age(age_seconds: float | None, is_replaced: bool) -> None:
    peers = list[str]()

    async def note_peer(call: Arrived, context: Context) -> None:
        peers.append(context.peer())
        await echo(call, context)

    async with (
        listening(note_peer, age_seconds=age_seconds) as (_, handler),
        grpc.aio.insecure_channel(f"127.0.0.1:{handler.port}") as channel,
    ):
        for _ in range(6):
            assert (await ask_on(channel, "unary_unary")).code is grpc.StatusCode.OK
            await asyncio.sleep(0.05)
    assert (len(set(peers)) > 1) is is_replaced


async def test_calls_that_wait_for_a_busy_loop_are_answered_however_many() -> None:
    """With grpcio's defaults the core cancels some of those beyond 1,000, by chance, and all beyond 3,000."""
    count, alone = 3500, [("grpc.use_local_subchannel_pool", 1)]
    async with listening() as (_, handler):
        address = f"127.0.0.1:{handler.port}"

        def ask_all() -> list[grpc.StatusCode]:
            channels = [grpc.insecure_channel(address, options=alone) for _ in range(4)]
            called: list[grpc.UnaryUnaryMultiCallable[bytes, bytes]] = [
                channels[number % 4].unary_unary("/test.Service/method") for number in range(count)
            ]
            calls = [calling.future(b"question", timeout=60.0) for calling in called]
            is_sent.set()
            codes = [call.code() for call in calls]
            for channel in channels:
                channel.close()
            return codes

        is_sent = threading.Event()
        calling_all = asyncio.create_task(asyncio.to_thread(ask_all))
        await asyncio.sleep(0)
        is_sent.wait(60.0)  # the loop stands still meanwhile, on purpose
        time.sleep(1.0)
        assert Counter(await calling_all) == {grpc.StatusCode.OK: count}


async def test_a_silent_connection_is_closed_when_the_handshakes_time_is_over() -> None:
    async with listening() as (_, handler):
        begun = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", handler.port)
        async with asyncio.timeout(10):
            while await reader.read(1000):
                pass
        assert time.monotonic() - begun < 9
        writer.close()


async def test_an_idle_client_that_pings_is_not_sent_away() -> None:
    """pymilvus pings without calls; a server with grpcio's defaults answers that with GOAWAY."""
    pinging = [
        ("grpc.keepalive_time_ms", 1000),
        ("grpc.keepalive_timeout_ms", 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    peers = []

    async def note_peer(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        await echo(arrived, context)

    async with (
        listening(note_peer) as (_, handler),
        grpc.aio.insecure_channel(f"127.0.0.1:{handler.port}", options=pinging) as channel,
    ):
        await ask_on(channel, "unary_unary")
        for _ in range(12):  # a server with grpcio's defaults says GOAWAY after 4 s
            await asyncio.sleep(0.5)
            assert channel.get_state() is grpc.ChannelConnectivity.READY
        await ask_on(channel, "unary_unary")
    assert peers[0] == peers[1]


async def slow(arrived: Arrived, context: Context) -> None:
    await asyncio.sleep(0.5)
    await echo(arrived, context)


async def test_closing_lets_calls_in_flight_finish_and_takes_no_more() -> None:
    async with listening(slow) as (listener, handler):
        calling = asyncio.create_task(ask(f"127.0.0.1:{handler.port}", "unary_unary"))
        await handler.next_call()
        closing = asyncio.create_task(listener.stop(5))
        await asyncio.sleep(0.1)
        late = await ask(f"127.0.0.1:{handler.port}", "unary_unary")
        assert (await calling).messages == (b"question",)
        await closing
    assert late.code is grpc.StatusCode.UNAVAILABLE
    assert len(handler.calls) == 1


async def test_what_outlasts_the_grace_period_is_cut() -> None:
    async def stuck(_: Arrived, __: Context) -> None:
        await asyncio.Event().wait()

    async with listening(stuck) as (listener, handler):
        calling = asyncio.create_task(ask(f"127.0.0.1:{handler.port}", "unary_unary"))
        arrived = await handler.next_call()
        await listener.stop(0.2)
        assert (await calling).code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        await asyncio.wait_for(arrived.over.wait(), 5)
        assert arrived.is_cancelled


async def silent(arrived: Arrived, _context: Context) -> None:
    await arrived.over.wait()


async def test_one_connection_cannot_open_calls_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """grpcio's default is no bound: 5,000 calls that never sent their message were 3,900 handlers and 77 MiB (1.85.1)."""
    monkeypatch.setattr(side_module, "CALLS_OF_ONE_CONNECTION", 8)
    head = [(":method", "POST"), (":scheme", "http"), (":path", "/a.B/method"), (":authority", "db.example")]
    async with listening(silent) as (_, handler):
        reader, writer = await asyncio.open_connection("127.0.0.1", handler.port)
        client = H2Connection()
        client.initiate_connection()
        for number in range(20):  # before the server's settings are read: as a client does that cares for none
            client.send_headers(2 * number + 1, [*head, ("te", "trailers"), ("content-type", "application/grpc")])
        writer.write(client.data_to_send())
        bounds: set[int] = set()
        refused: set[int] = set()
        async with asyncio.timeout(10):
            while len(refused) < 12:
                for event in client.receive_data(await reader.read(65536)):
                    if isinstance(event, RemoteSettingsChanged):
                        bounds.add(event.changed_settings[SettingCodes.MAX_CONCURRENT_STREAMS].new_value)
                    elif isinstance(event, StreamReset):
                        refused.add(event.stream_id)
        await handler.next_call(8)
        writer.transport.abort()
    assert bounds == {8}
    assert len(handler.calls) == 8


def test_as_many_calls_as_a_process_takes_on_fit_into_one_connection() -> None:
    assert Settings().limits.in_flight <= CALLS_OF_ONE_CONNECTION

"""Floods on one HTTP/2 connection, to a port with a real gRPC server behind it; and the clients that must never be taken for one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest

from support.grpc.http2_frames import GOAWAY_TYPE, frames_of
from support.network.floods import BEGUN, DATA, END_HEADERS, END_STREAM, FLOODS, HEADERS, Flood, frame
from support.network.shared_ports import ALONE, METHOD, both_servers, called
from vecsieve.proxy.grpc import splice
from vecsieve.proxy.grpc.frames import EMPTY_FRAMES, FRAMES, Allowance, Calls, Frames
from vecsieve.proxy.grpc.messages import Buffer

TIMEOUT = 20.0
CALM = 11  # ENHANCE_YOUR_CALM
HTTP2 = [flood for flood in FLOODS if flood.is_http2]


def looked_at() -> Calls:
    """Calls of which somebody knows as they come, as the handlers of the proxy's own plane do."""
    calls = Calls()
    calls.taken = 10**9
    return calls


async def flooded(port: int, flood: Flood) -> tuple[bytes, int]:
    """What a peer hears until it is cut, and how much it could send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard, sent = b"", 0

    async def hear() -> None:
        nonlocal heard
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                heard += data

    observer = asyncio.create_task(hear())
    with contextlib.suppress(ConnectionError):
        writer.write(flood.beginning)
        for block in flood.more():
            writer.write(block)
            await writer.drain()
            sent += len(block)
            await asyncio.sleep(0)
            if observer.done():
                break
    await asyncio.wait_for(observer, TIMEOUT)
    writer.transport.abort()
    return heard, sent


@pytest.mark.parametrize("flood", HTTP2, ids=lambda flood: flood.name)
async def test_a_flood_is_cut_with_http2s_goodbye_and_counted(flood: Flood) -> None:
    async with asyncio.timeout(TIMEOUT), both_servers(calls=looked_at()) as both:
        heard, sent = await flooded(both.port, flood)
        goodbyes = [payload for kind, _, payload in frames_of(heard) if kind == GOAWAY_TYPE]
        assert goodbyes, "cut without a word"
        assert int.from_bytes(goodbyes[-1][4:8]) == CALM
        assert sent < 8 * 2**20
        assert both.heard.rejected == ["flood"]
        while both.connections:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("flood", [flood for flood in HTTP2 if flood.is_of_frames], ids=lambda flood: flood.name)
async def test_no_turn_of_the_loop_follows_more_frames_of_a_client_than_its_share(
    flood: Flood, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, follow = [0], Frames.follow

    def counted(self: Frames, data: Buffer, **bounds: int) -> int:
        on_frame = self._on_frame

        def count(*values: int) -> int:
            begun[-1] += bool(bounds)  # without a bound it is the server who speaks
            return on_frame(*values)

        self._on_frame = count
        try:
            return follow(self, data, **bounds)
        finally:
            self._on_frame = on_frame

    async def turns() -> None:
        while True:
            await asyncio.sleep(0)
            begun.append(0)

    monkeypatch.setattr(Frames, "follow", counted)
    async with asyncio.timeout(TIMEOUT), both_servers(calls=looked_at()) as both:
        turning = asyncio.create_task(turns())
        await flooded(both.port, flood)
        turning.cancel()
    assert sum(begun) > FRAMES / EMPTY_FRAMES
    assert max(begun) <= splice.FRAMES_A_TURN


@pytest.mark.parametrize("field", [b"\x04\x02/\xff", b"\x00\x01\xff\x01v"], ids=["path", "name"])
async def test_a_call_that_ends_the_cores_server_ends_only_its_connection(field: bytes) -> None:
    """grpc.aio's server decodes the path in its main loop, and ends with the first that is not UTF-8; a call with such a name gets no answer (1.85)."""
    head = b"\x83\x86" + field + b"\x00\x02te\x08trailers\x00\x0ccontent-type\x10application/grpc"
    wire = BEGUN + frame(HEADERS, END_HEADERS, 1, head) + frame(DATA, END_STREAM, 1, bytes(5))
    async with asyncio.timeout(TIMEOUT), both_servers() as both:
        reader, writer = await asyncio.open_connection("127.0.0.1", both.port)
        writer.write(wire)
        goodbyes = [payload for kind, _, payload in frames_of(await reader.read()) if kind == GOAWAY_TYPE]
        assert [int.from_bytes(payload[4:8]) for payload in goodbyes] == [CALM]
        writer.close()
        async with grpc.aio.insecure_channel(both.address, options=ALONE) as channel:
            assert await called(channel, b"x") == b"x"


@contextlib.asynccontextmanager
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[int, list[float]]]:
    """A port, and the least that was left of any connection's allowance."""
    least = [float(FRAMES)]
    refill = Allowance.refill

    def seen(self: Allowance, now: float) -> None:
        least[0] = min(least[0], self.frames)
        refill(self, now)

    monkeypatch.setattr(Allowance, "refill", seen)
    async with both_servers() as both:
        yield both.port, least
        assert both.heard.rejected == []


async def test_thousands_of_small_calls_on_one_connection_are_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch) as (port, least):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=ALONE) as channel:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            for _ in range(20):
                answers = await asyncio.gather(*(method(b"x", timeout=TIMEOUT) for _ in range(250)))
                assert answers == [b"x"] * 250
        assert least[0] > 0.8 * FRAMES


async def test_a_client_that_pings_as_often_as_it_can_is_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    pinging = [
        ("grpc.keepalive_time_ms", 10),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        *ALONE,
    ]
    async with watched(monkeypatch) as (port, least):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=pinging) as channel:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            for _ in range(20):
                assert await method(b"x" * 100_000, timeout=TIMEOUT) == b"x" * 100_000
                await asyncio.sleep(0.03)
        assert least[0] > 0.9 * FRAMES


async def test_calls_that_are_cancelled_now_and_then_are_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch) as (port, least):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=ALONE) as channel:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            for _ in range(500):
                loser, best = method(b"x", timeout=TIMEOUT), method(b"y", timeout=TIMEOUT)
                assert await best == b"y"
                loser.cancel()
        assert least[0] > 0.8 * FRAMES

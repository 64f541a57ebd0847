"""Calls that end before their time, with and without the relay: deadlines, cancellations, connections that die."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import grpc
import pytest
from h2.events import StreamReset

from support.grpc.calls import ask
from support.grpc.raw import raw_upstream
from support.grpc.relay_server import bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, grpc_upstream

WAYS = pytest.mark.parametrize("is_unary", [False, True], ids=["relayed", "unary"])


async def endless(call: Arrived, context: Context) -> None:
    """Answers once and is never done."""
    await call.read(context)
    await context.send_initial_metadata((("began", "yes"),))
    await context.write(b"first")
    await asyncio.Event().wait()


async def stuck(call: Arrived, context: Context) -> None:
    """Takes the question and says nothing."""
    await call.read(context)
    await asyncio.Event().wait()


@WAYS
async def test_the_clients_deadline_is_the_databases(*, is_unary: bool) -> None:
    async with grpc_upstream(method=stuck) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        direct = await ask(upstream.address, "unary_unary", timeout=0.5)
        through = await ask(way.address, "unary_unary", timeout=3.0)
        first, second = upstream.calls
        await asyncio.wait_for(second.over.wait(), 5)
    assert through == direct
    assert direct.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert first.deadline_seconds is not None
    assert second.deadline_seconds is not None
    assert 0 < second.deadline_seconds < 3.1  # on its way it is rounded up
    assert second.is_cancelled


@WAYS
async def test_without_a_deadline_the_database_gets_none(*, is_unary: bool) -> None:
    async with grpc_upstream(method=echo) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        await ask(way.address, "unary_unary", timeout=None)
    assert upstream.calls[0].deadline_seconds is None


@WAYS
async def test_a_client_that_cancels_ends_the_call_upstream_at_once(*, is_unary: bool) -> None:
    async with (
        grpc_upstream(method=stuck) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
        grpc.aio.insecure_channel(way.address) as channel,
    ):
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/test.Service/method")
        call = method(b"question")
        arrived = await upstream.next_call()
        call.cancel()
        await asyncio.wait_for(arrived.over.wait(), 5)
        assert arrived.is_cancelled
    assert not way.handler.failures


async def test_a_client_that_cancels_a_stream_ends_it_upstream_at_once() -> None:
    async with (
        grpc_upstream(method=endless) as upstream,
        bare_grpc_relay(upstream.address) as way,
        grpc.aio.insecure_channel(way.address) as channel,
    ):
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/test.Service/method")
        call = method(b"question")
        assert await call.read() == b"first"
        assert tuple(await call.initial_metadata()) == (("began", "yes"),)
        call.cancel()
        arrived = await upstream.next_call()
        await asyncio.wait_for(arrived.over.wait(), 5)
        assert arrived.is_cancelled


async def test_initial_metadata_does_not_wait_for_a_message() -> None:
    async def begin(_: Arrived, context: Context) -> None:
        await context.send_initial_metadata(())
        await asyncio.Event().wait()

    async with (
        grpc_upstream(method=begin) as upstream,
        bare_grpc_relay(upstream.address) as way,
        grpc.aio.insecure_channel(way.address) as channel,
    ):
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/test.Service/method")()
        assert tuple(await asyncio.wait_for(call.initial_metadata(), 5)) == ()
        call.cancel()


STREAMING_CLIENT = """
import asyncio, os, sys, grpc
async def main():
    call = grpc.aio.insecure_channel(sys.argv[1]).stream_unary("/test.Service/method")()
    for _ in range(3):
        await call.write(b"part")
    await asyncio.sleep(0.2)
    if sys.argv[2] == "cancel":
        call.cancel()
        await asyncio.sleep(0.2)
    os._exit(0)
asyncio.run(main())
"""


@pytest.mark.parametrize("ending", ["cancel", "exit"])
async def test_a_stream_cut_short_is_never_taken_for_a_whole_one(ending: str, tmp_path: Path) -> None:
    program = tmp_path / "client.py"
    program.write_text(STREAMING_CLIENT)
    async with raw_upstream() as upstream, bare_grpc_relay(upstream.address) as way:
        clients = [
            await asyncio.create_subprocess_exec(sys.executable, str(program), way.address, ending) for _ in range(8)
        ]
        for client in clients:
            await client.wait()
        async with asyncio.timeout(5):
            while len(upstream.ends) < 8:
                await asyncio.sleep(0.01)
    assert upstream.ends == [StreamReset] * 8


async def test_a_client_gone_before_its_message_leaves_no_empty_call_upstream() -> None:
    async with grpc_upstream(method=echo) as upstream, bare_grpc_relay(upstream.address, is_unary=True) as way:
        for _ in range(20):
            async with grpc.aio.insecure_channel(way.address) as channel:
                method: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary("/test.Service/method")
                call = method()
                await call.wait_for_connection()
                await asyncio.sleep(0.01)
                call.cancel()
        await asyncio.sleep(0.1)
    assert not upstream.calls


@WAYS
async def test_a_cancellation_by_the_database_is_the_clients_answer(*, is_unary: bool) -> None:
    async def cancel(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.abort(grpc.StatusCode.CANCELLED, "shutting down", (("t", "1"),))

    async with grpc_upstream(method=cancel) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        direct = await ask(upstream.address, "unary_unary")
        assert await ask(way.address, "unary_unary") == direct


UPSTREAM_PROGRAM = """
import asyncio, sys, grpc
class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        async def play(_, context):
            await context.read()
            if details.method.endswith("/stream"):
                await context.write(b"first")
            await asyncio.sleep(60)
        return grpc.stream_stream_rpc_method_handler(play)
async def main():
    server = grpc.aio.server(handlers=(Handler(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("shape", "method", "is_unary"),
    [
        ("unary_unary", "/test.Service/one", False),
        ("unary_unary", "/test.Service/one", True),
        ("unary_stream", "/test.Service/stream", False),
    ],
)
async def test_a_database_killed_in_mid_call_looks_as_it_does_without_the_relay(
    shape: str, method: str, tmp_path: Path, *, is_unary: bool
) -> None:
    program = tmp_path / "upstream.py"
    program.write_text(UPSTREAM_PROGRAM)
    upstream = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert upstream.stdout is not None
    address = f"127.0.0.1:{int(await upstream.stdout.readline())}"
    async with bare_grpc_relay(address, is_unary=is_unary) as way:
        calls = [asyncio.create_task(ask(at, shape, method=method)) for at in (address, way.address)]
        await asyncio.sleep(1)
        upstream.kill()
        await upstream.wait()
        direct, through = await asyncio.gather(*calls)
    assert through.messages == direct.messages
    assert through.code is direct.code is grpc.StatusCode.UNAVAILABLE
    assert "127.0.0.1" not in through.details
    assert [failure.is_local for failure in way.handler.failures] == [False]
    assert [(failure.kind, failure.details) for failure in way.handler.failures] == [("reset", direct.details)]


@WAYS
async def test_a_database_that_does_not_greet_is_given_up_at_the_connect_timeout(*, is_unary: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel greets, nobody else does
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with bare_grpc_relay(address, is_unary=is_unary, connect_timeout_seconds=0.3) as way:
            begun = time.monotonic()
            through = await ask(way.address, "unary_unary", timeout=20)
            waited = time.monotonic() - begun
    assert through.code is grpc.StatusCode.UNAVAILABLE
    assert waited < 10
    assert [failure.kind for failure in way.handler.failures] == ["connect"]


@WAYS
async def test_a_database_that_is_back_is_found(*, is_unary: bool) -> None:
    async with grpc_upstream(method=echo) as upstream:
        port = upstream.port
    async with bare_grpc_relay(f"127.0.0.1:{port}", is_unary=is_unary) as way:
        assert (await ask(way.address, "unary_unary")).code is grpc.StatusCode.UNAVAILABLE
        async with grpc_upstream(method=echo, port=port), asyncio.timeout(10):
            while (await ask(way.address, "unary_unary")).code is not grpc.StatusCode.OK:
                await asyncio.sleep(0.05)


@WAYS
async def test_a_call_reaches_the_database_once_however_it_ends(*, is_unary: bool) -> None:
    """Sequences of calls against a database that refuses, stops and comes back: as many arrive as got through."""

    async def refuse(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "try again")

    async with grpc_upstream(method=refuse) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        for _ in range(20):
            assert (await ask(way.address, "unary_unary")).details == "try again"
    assert [call.messages for call in upstream.calls] == [[b"question"]] * 20


async def test_neither_side_is_read_faster_than_the_other_takes_it() -> None:
    """A client that does not read stops the database from sending: no queue grows here."""
    sent = 0

    async def flood(call: Arrived, context: Context) -> None:
        nonlocal sent
        await call.read(context)
        for _ in range(2000):
            await context.write(b"f" * 2**16)
            sent += 1

    async with (
        grpc_upstream(method=flood) as upstream,
        bare_grpc_relay(upstream.address) as way,
        grpc.aio.insecure_channel(way.address) as channel,
    ):
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/test.Service/method")
        call = method(b"question")
        assert await call.read() == b"f" * 2**16
        await asyncio.sleep(1)
        stalled = sent
        await asyncio.sleep(0.5)
        assert sent == stalled < 1000
        for _ in range(1999):
            assert await call.read() == b"f" * 2**16
        assert await call.read() is grpc.aio.EOF


async def test_the_database_is_not_sent_more_than_it_takes() -> None:
    """A database that does not read stops the client from sending."""
    go_on = asyncio.Event()

    async def wait(call: Arrived, context: Context) -> None:
        await go_on.wait()
        while (await call.read(context)) is not None:
            pass
        await context.write(b"all")

    async with (
        grpc_upstream(method=wait) as upstream,
        bare_grpc_relay(upstream.address) as way,
        grpc.aio.insecure_channel(way.address) as channel,
    ):
        call: grpc.aio.StreamUnaryCall[bytes, bytes] = channel.stream_unary("/test.Service/method")()
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(1000):
                await call.write(b"f" * 2**16)
                written += 1
            await call.done_writing()

        writing = asyncio.create_task(write())
        await asyncio.sleep(1)
        stalled = written
        assert stalled < 1000
        go_on.set()
        await writing
        assert await call == b"all"
    assert len(upstream.calls[0].messages) == 1000

from __future__ import annotations

import asyncio
import gc
import logging

import grpc
import pytest

from support.grpc.calls import ask, ask_in_a_thread, by_key
from support.grpc.relay_server import bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, ending, grpc_upstream


async def test_a_conversation_goes_back_and_forth() -> None:
    """Each answer is there before the next question is asked: nothing waits for an end."""
    async with (
        grpc_upstream(method=echo) as upstream,
        bare_grpc_relay(upstream.address) as way,
        grpc.aio.insecure_channel(way.address) as channel,
        asyncio.timeout(10),
    ):
        talking: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/test.Service/method")
        call = talking()
        for number in range(100):
            await call.write(b"%d" % number)
            assert await call.read() == b"%d" % number
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
    assert upstream.calls[0].is_whole


async def test_a_slow_reader_gets_every_answer_before_the_status() -> None:
    script = ending(grpc.StatusCode.ABORTED, "and then it broke", after=500, trailing=(("t", "1"),))
    async with (
        grpc_upstream(method=script) as upstream,
        bare_grpc_relay(upstream.address) as way,
        grpc.aio.insecure_channel(way.address) as channel,
    ):
        asking: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/test.Service/method")
        call = asking(b"question")
        for number in range(500):
            if number % 50 == 0:
                await asyncio.sleep(0.02)
            assert await call.read() == b"%d" % number
        with pytest.raises(grpc.aio.AioRpcError, match="and then it broke"):
            await call.read()
        assert by_key(await call.trailing_metadata()) == (("t", "1"),)


async def test_the_end_of_a_call_says_how_it_ended() -> None:
    script = ending(grpc.StatusCode.NOT_FOUND, "gone")
    async with grpc_upstream(method=script) as upstream, bare_grpc_relay(upstream.address) as way:
        await ask(way.address, "stream_stream")
        (failure,) = way.handler.failures
    assert (failure.code, failure.details, failure.kind, failure.is_local) == (5, "gone", None, False)


@pytest.mark.parametrize("shape", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
async def test_a_call_leaves_no_task_behind_and_nothing_in_the_log(
    shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse_early(_: Arrived, context: Context) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no key")

    with caplog.at_level(logging.WARNING):
        async with (
            grpc_upstream(method=echo, refuse=refuse_early) as upstream,
            bare_grpc_relay(upstream.address) as way,
        ):
            for method in ("method", "refuse", "unknown"):
                await ask(way.address, shape, (b"q" * 70_000,), method=f"/test.Service/{method}")
            await asyncio.sleep(0.1)
            names = [task.get_name() for task in asyncio.all_tasks()]
    gc.collect()
    assert not [name for name in names if name.startswith("gRPC")]
    assert not caplog.records


async def test_clients_that_leave_in_the_middle_leave_no_task_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def flood(arrived: Arrived, context: Context) -> None:
        await arrived.read(context)
        for _ in range(1000):
            await context.write(b"f" * 10_000)

    async def leave(channel: grpc.aio.Channel) -> None:
        asking: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/test.Service/method")
        call = asking(b"question")
        await call.read()
        call.cancel()

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        async with grpc_upstream(method=flood) as upstream, bare_grpc_relay(upstream.address) as way:
            async with grpc.aio.insecure_channel(way.address) as channel:
                await asyncio.gather(*(leave(channel) for _ in range(50)))
            for call in upstream.calls:
                await asyncio.wait_for(call.over.wait(), 10)
            await asyncio.sleep(0.2)
            names = [task.get_name() for task in asyncio.all_tasks()]
    gc.collect()
    assert not [name for name in names if name.startswith("gRPC")]
    assert not caplog.records


async def test_a_refusal_in_the_middle_of_a_stream_keeps_its_status() -> None:
    """grpcio's own write() would put INTERNAL over it, one time in four."""

    async def refuse(arrived: Arrived, context: Context) -> None:
        for _ in range(3):
            await arrived.read(context)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough", (("t", "1"),))

    async with grpc_upstream(method=refuse) as upstream, bare_grpc_relay(upstream.address) as way:
        seen = {await ask_in_a_thread(way.address, "stream_unary", (b"u" * 2**17,) * 60) for _ in range(30)}
    assert [(each.code, each.details, each.trailing) for each in seen] == [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "enough", (("t", "1"),))
    ]

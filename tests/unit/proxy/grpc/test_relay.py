from __future__ import annotations

import asyncio
import gc
import logging

import grpc
import pytest

from support.grpc.calls import ask, ask_in_a_thread, by_key
from support.grpc.raw import REPLY_HEAD, raw_upstream
from support.grpc.relay_server import BareHandler, bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, ending, grpc_upstream
from vecsieve.proxy.grpc.relay import hold_end, send
from vecsieve.proxy.grpc.status import NO_MESSAGE, UNSENDABLE, Outcome, Pairs


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
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/test.Service/method")
        call = method(b"question")
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
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/test.Service/method")
        call = method(b"question")
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
    assert [(reply.code, reply.details, reply.trailing) for reply in seen] == [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "enough", (("t", "1"),))
    ]


async def test_an_end_that_is_meant_is_let_through() -> None:
    end = asyncio.create_task(hold_end())
    done, _ = await asyncio.wait({end}, timeout=5)
    assert done == {end}
    assert end.exception() is None


async def test_a_cancellation_that_follows_finds_the_end_still_held() -> None:
    end = asyncio.create_task(hold_end())
    await asyncio.sleep(0)
    end.cancel()
    with pytest.raises(asyncio.CancelledError):
        await end


async def test_a_cancellation_that_is_on_its_way_when_the_time_is_over_comes_first() -> None:
    """A loop that was busy all the while finds the timer and grpcio's news in the same turn; the news has further to go."""
    end = asyncio.create_task(hold_end())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    news = loop.create_future()

    async def hear() -> None:
        await news
        for _ in range(2):
            await asyncio.sleep(0)
        end.cancel()

    observer = asyncio.create_task(hear())
    await asyncio.sleep(0)
    while loop.time() < began + 0.1:
        pass
    news.set_result(None)
    await observer
    with pytest.raises(asyncio.CancelledError):
        await end


async def outcome(
    handler: BareHandler, message: bytes | None = b"question", *, seconds: float | None = 5.0, metadata: Pairs = ()
) -> Outcome:
    return await send(
        handler.channels,
        message,
        method="/test.Service/method",
        origin=handler.origin,
        metadata=metadata,
        deadline_seconds=seconds,
        is_search=True,
    )


async def one(arrived: Arrived, context: Context) -> None:
    await arrived.read(context)
    await context.send_initial_metadata((("i", "1"), ("i", "2")))
    await context.write(b"answer")
    context.set_trailing_metadata((("t-bin", b"\0"),))


async def test_an_answer_has_its_message_and_both_metadata() -> None:
    async with grpc_upstream(method=one) as upstream, bare_grpc_relay(upstream.address) as way:
        assert await outcome(way.handler, metadata=(("te", "x"), ("x-vecsieve-mode", "on"), ("k", "v"))) == Outcome(
            message=b"answer", initial=(("i", "1"), ("i", "2")), trailing=(("t-bin", b"\0"),)
        )
    assert upstream.calls[0].plain_metadata() == (("k", "v"),)


async def test_a_status_is_a_failure_in_the_databases_words() -> None:
    script = ending(grpc.StatusCode.NOT_FOUND, "no collection", trailing=(("retry-after", "1"),))
    async with grpc_upstream(method=script) as upstream, bare_grpc_relay(upstream.address) as way:
        assert await outcome(way.handler) == Outcome(code=5, details="no collection", trailing=(("retry-after", "1"),))


async def test_no_message_goes_out_as_none_and_not_as_an_empty_one() -> None:
    async def count(arrived: Arrived, context: Context) -> None:
        while await arrived.read(context) is not None:
            pass
        await context.write(b"%d" % len(arrived.messages))

    async with grpc_upstream(method=count) as upstream, bare_grpc_relay(upstream.address) as way:
        assert await outcome(way.handler, None) == Outcome(message=b"0")


async def test_an_empty_message_is_one() -> None:
    async with grpc_upstream(method=echo) as upstream, bare_grpc_relay(upstream.address) as way:
        assert await outcome(way.handler, b"") == Outcome(message=b"")


async def test_status_0_without_a_message_is_a_failure_of_ours() -> None:
    bare = [(b"grpc-status", b"0")]
    async with raw_upstream(REPLY_HEAD, bare) as upstream, bare_grpc_relay(upstream.address) as way:
        assert await outcome(way.handler) == NO_MESSAGE


async def test_metadata_that_cannot_be_sent_never_leaves() -> None:
    async with grpc_upstream(method=echo) as upstream, bare_grpc_relay(upstream.address) as way:
        assert await outcome(way.handler, metadata=(("k", "grüße"),)) == UNSENDABLE
    assert not upstream.calls


@pytest.mark.parametrize("seconds", [0.0, 0.2])
async def test_a_deadline_that_passes_is_a_timeout(seconds: float) -> None:
    async def stuck(_: Arrived, __: Context) -> None:
        await asyncio.Event().wait()

    async with grpc_upstream(method=stuck) as upstream, bare_grpc_relay(upstream.address) as way:
        failure = await outcome(way.handler, seconds=seconds)
    assert (failure.status_code, failure.kind) == (grpc.StatusCode.DEADLINE_EXCEEDED, "timeout")


async def test_cancelling_is_not_swallowed_and_reaches_the_database() -> None:
    async def stuck(arrived: Arrived, context: Context) -> None:
        await arrived.read(context)
        await asyncio.Event().wait()

    async with grpc_upstream(method=stuck) as upstream, bare_grpc_relay(upstream.address) as way:
        sending = asyncio.create_task(outcome(way.handler))
        arrived = await upstream.next_call()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.wait_for(arrived.over.wait(), 5)
        assert arrived.is_cancelled

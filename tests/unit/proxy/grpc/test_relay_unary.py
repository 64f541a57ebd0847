from __future__ import annotations

import asyncio

import grpc
import pytest

from support.grpc.raw import REPLY_HEAD, raw_upstream
from support.grpc.relay_server import BareHandler, bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, ending, grpc_upstream
from vecsieve.proxy.grpc.relay import send
from vecsieve.proxy.grpc.status import NO_MESSAGE, UNSENDABLE, Outcome, Pairs


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
    assert upstream.calls[0].own_metadata() == (("k", "v"),)


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

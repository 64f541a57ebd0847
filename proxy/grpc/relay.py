"""Passthrough: one call of any shape to the database and back, message by message, nothing held, nothing re-sent.

Back-pressure goes through: the next message of either side is read when the last one was taken. There is no deadline but
the client's own, because a stream may rightly be silent for hours; its end, either side's or the connection's, ends both.

Where grpcio cannot be exact (README, limits): `user-agent` is this proxy's; `grpc-trace-bin` and `grpc-tags-bin` end
here; messages arrive compressed as either hop agrees on it, not as the other side sent them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import grpc

from vecsieve.proxy.failures import UpstreamFailure
from vecsieve.proxy.grpc.channels import Channels
from vecsieve.proxy.grpc.endings import hold_end
from vecsieve.proxy.grpc.failures import Failure, failure_of, unreachable, unsendable
from vecsieve.proxy.grpc.metadata import for_client, for_upstream, is_sendable, traced
from vecsieve.proxy.origin import Origin

Context = grpc.aio.ServicerContext[bytes, bytes]
UpstreamCall = grpc.aio.StreamStreamCall[bytes, bytes]

# For a status that came with its head, in the same frame; 0.1 ms on an idle machine.
HEAD_HELD_SECONDS = 0.02


@dataclass(slots=True)
class Relayed:
    """How a relayed call ended, and how many bytes of messages went each way."""

    failure: Failure | None = None
    request_bytes: int = 0
    response_bytes: int = 0


async def relay(
    channels: Channels, context: Context, *, method: str, origin: Origin, traceparent: str | None = None
) -> Relayed:
    """Relay a call to its end; for a stream-stream handler, which then returns: the context knows the status by then."""
    passing, relayed = traced(for_upstream(context.invocation_metadata() or ()), traceparent), Relayed()
    if not is_sendable(passing):
        return end_with(context, unsendable(), relayed)
    try:
        async with channels.lease(origin, is_search=False) as channel:
            call: UpstreamCall = channel.stream_stream(method)(timeout=context.time_remaining(), metadata=passing)
            upload = asyncio.create_task(_upload(context, call, relayed), name="gRPC upload")
            try:
                failure = await _download(call, context, channel, relayed)
            finally:
                call.cancel()
                upload.cancel()
                await asyncio.wait({upload})
    except UpstreamFailure as unresolved:
        failure = unreachable(unresolved.kind)
    return relayed if failure is None else end_with(context, failure, relayed)


async def _upload(context: Context, call: UpstreamCall, relayed: Relayed) -> None:
    """Pass the client's messages on, and their end. A call that is over is no business of ours: its status says why."""
    try:
        await call.wait_for_connection()
        while isinstance(message := await context.read(), bytes):
            relayed.request_bytes += len(message)
            # call.write() would report a call that has ended as INTERNAL, over the status that ended it (grpcio 1.85).
            await call._cython_call.send_serialized_message(message)  # type: ignore[attr-defined] # noqa: SLF001 - above
        await hold_end()
        await call.done_writing()
    except (grpc.aio.AioRpcError, grpc.aio.BaseError):
        return


async def _download(
    call: UpstreamCall, context: Context, channel: grpc.aio.Channel, relayed: Relayed
) -> Failure | None:
    """Pass everything on that comes back but the status."""
    try:
        message = await _first(call, context)
        while isinstance(message, bytes):
            relayed.response_bytes += len(message)
            await context.write(message)
            message = await call.read()
    except grpc.aio.AioRpcError as error:
        return failure_of(error, is_connected=channel.get_state() is grpc.ChannelConnectivity.READY)
    context.set_details(await call.details())
    context.set_trailing_metadata(for_client(await call.trailing_metadata()))
    return None


async def _first(call: UpstreamCall, context: Context) -> object:
    """Pass the head on and return the first message, or the end.

    A head without metadata waits a moment for what follows it: where that is the status, the answer was one of trailers
    alone and must stay one, or a client with a retry policy would take it for a call that had begun.
    """
    initial = for_client(await call.initial_metadata())
    if initial:
        await context.send_initial_metadata(initial)
        return await call.read()
    reading = asyncio.create_task(_read(call), name="gRPC first answer")
    try:
        done, _ = await asyncio.wait({reading}, timeout=HEAD_HELD_SECONDS)
        if not done:
            await context.send_initial_metadata(())
        return await reading
    finally:
        if reading.cancel():
            await asyncio.wait({reading})


async def _read(call: UpstreamCall) -> object:
    return await call.read()


def end_with(context: Context, failure: Failure, relayed: Relayed) -> Relayed:
    """Have the call end so when its handler returns."""
    context.set_code(failure.status_code)
    context.set_details(failure.details)
    context.set_trailing_metadata(failure.trailing)
    relayed.failure = failure
    return relayed

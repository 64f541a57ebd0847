"""Relays one call unchanged, of any shape or of one message each way; holds nothing, re-sends nothing.

Back-pressure is passed on: the next message is read when the last one was taken. The only deadline is the client's, because a stream may be
silent for hours; the end of either side or connection ends both.

Where grpcio cannot be exact (docs/limits.md): `user-agent` is this proxy's; `grpc-trace-bin` and `grpc-tags-bin` are not forwarded;
messages are compressed as each hop negotiates.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import grpc

from ..runtime.addresses import Origin
from ..telemetry.spans import Code
from .status import (
    NO_MESSAGE,
    UNSENDABLE,
    Outcome,
    Pairs,
    failure_of,
    for_client,
    for_upstream,
    is_sendable,
    traced,
)
from .upstream import Channels

# Seconds to hold back the end of a client's stream. A client that disconnects looks like one that has sent everything (grpcio 1.85: read()
# returns EOF for both) until the cancellation follows: usually 0.1 ms later, 9 ms with three busy processes on two cores. A truncated
# stream must not be taken for a complete one.
PAUSE_SECONDS = 0.02
PAUSE_TURNS = 3  # turns of the loop, for a cancellation that is already on its way when the time is over


async def hold_end() -> None:
    """Return once the end of a stream is certain; cancelled if the client disconnected."""
    await asyncio.sleep(PAUSE_SECONDS)
    for _ in range(PAUSE_TURNS):
        await asyncio.sleep(0)


Context = grpc.aio.ServicerContext[bytes, bytes]
UpstreamCall = grpc.aio.StreamStreamCall[bytes, bytes]

# Seconds to wait for a status that came with its head, in the same frame; it takes 0.1 ms on an idle machine.
HEAD_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class Sizes:
    """The bytes of the messages each way."""

    request_bytes: int = 0
    response_bytes: int = 0


async def relay(
    channels: Channels, context: Context, *, method: str, origin: Origin, traceparent: str | None, sizes: Sizes
) -> Outcome:
    """Relay a call to its end, except its status."""
    passing = for_upstream(context.invocation_metadata() or ())
    if traceparent is not None:
        passing = traced(passing, traceparent)
    if not is_sendable(passing):
        return UNSENDABLE
    with channels.lease(origin, is_search=False) as channel:
        call: UpstreamCall = channel.stream_stream(method)(timeout=context.time_remaining(), metadata=passing)
        upload = asyncio.create_task(_upload(context, call, sizes), name="gRPC upload")
        try:
            return await _download(call, context, sizes)
        except grpc.aio.AioRpcError as error:
            return failure_of(error, is_connected=channel.get_state() is grpc.ChannelConnectivity.READY)
        finally:
            call.cancel()
            upload.cancel()
            await asyncio.wait({upload})


async def _upload(context: Context, call: UpstreamCall, sizes: Sizes) -> None:
    """Forward the client's messages and their end. A call that is over reports its own status."""
    try:
        await call.wait_for_connection()
        while isinstance(message := await context.read(), bytes):
            sizes.request_bytes += len(message)
            # call.write() would report a call that has ended as INTERNAL and hide its real status (grpcio 1.85).
            await call._cython_call.send_serialized_message(message)  # type: ignore[attr-defined] # noqa: SLF001 - above
        await hold_end()
        await call.done_writing()
    except (grpc.aio.AioRpcError, grpc.aio.BaseError):
        return


async def _download(call: UpstreamCall, context: Context, sizes: Sizes) -> Outcome:
    """Forward everything from upstream except the status. Raises AioRpcError."""
    message = await _first(call, context)
    while isinstance(message, bytes):
        sizes.response_bytes += len(message)
        await context.write(message)
        message = await call.read()
    return Outcome(details=await call.details(), trailing=for_client(await call.trailing_metadata()))


async def _first(call: UpstreamCall, context: Context) -> object:
    """Forward the head and return the first message, or the end.

    A head without metadata waits a moment: if a status follows at once, the answer was trailers-only and must stay so, or a client with a
    retry policy would treat the call as begun.
    """
    initial = for_client(await call.initial_metadata())
    if initial:
        await context.send_initial_metadata(initial)
        return await call.read()
    reading = asyncio.create_task(_read(call), name="gRPC first answer")
    try:
        done, _ = await asyncio.wait({reading}, timeout=HEAD_PAUSE_SECONDS)
        if not done:
            await context.send_initial_metadata(())
        return await reading
    finally:
        if reading.cancel():
            await asyncio.wait({reading})


async def _read(call: UpstreamCall) -> object:
    return await call.read()


def end_with(context: Context, outcome: Outcome) -> None:
    """Set the status with which the handler ends."""
    context.set_code(outcome.status_code)
    context.set_details(outcome.details)
    context.set_trailing_metadata(outcome.trailing)


# Calls of one message each way cost two thirds of a relayed stream. Their handler is registered as stream-unary, because grpcio's own unary
# handler never answers a call without a message, which a database would refuse.
UnaryCall = grpc.aio.UnaryUnaryCall[bytes, bytes] | grpc.aio.StreamUnaryCall[bytes, bytes]


async def received(context: Context) -> bytes | None:
    """The call's one message; None if the client sent none. Cancelled if the client disconnected before."""
    message = await context.read()
    if isinstance(message, bytes):
        return message
    await hold_end()
    return None


async def send(
    channels: Channels,
    message: bytes | None,
    *,
    method: str,
    origin: Origin,
    metadata: Pairs,
    deadline_seconds: float | None,
    is_search: bool,
) -> Outcome:
    """Send one call once. ``metadata``: the client's own; hop-by-hop keys are removed here.

    ``deadline_seconds``: the client's, or less; None if it set none. Cancelling this coroutine cancels the call upstream.
    """
    passing = for_upstream(metadata)
    if not is_sendable(passing):
        return UNSENDABLE
    with channels.lease(origin, is_search=is_search) as channel:
        call: UnaryCall
        if message is None:
            empty: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(method)
            call = empty(iter(()), timeout=deadline_seconds, metadata=passing)
        else:
            single: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
            call = single(message, timeout=deadline_seconds, metadata=passing)
        try:
            answered: bytes | None = await call
        except grpc.aio.AioRpcError as error:
            return failure_of(error, is_connected=channel.get_state() is grpc.ChannelConnectivity.READY)
        if answered is None:
            return NO_MESSAGE
        return Outcome(
            message=answered,
            initial=for_client(await call.initial_metadata()),
            trailing=for_client(await call.trailing_metadata()),
        )


async def answer(context: Context, outcome: Outcome) -> bytes:
    """Send the outcome to the client; a handler returns the result. A failure ends the call here."""
    if outcome.initial:
        await context.send_initial_metadata(outcome.initial)
    if outcome.code != Code.OK:
        await context.abort(outcome.status_code, outcome.details, outcome.trailing)
    context.set_trailing_metadata(outcome.trailing)
    return outcome.message

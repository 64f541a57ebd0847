"""One message in, one out: the way of calls that are known to be of that shape, at two thirds of the relay's cost.

The handler is to be registered as stream-unary: the library's own unary handler never answers a call that brings no
message, where a database would refuse it. Every answer goes out as trailing metadata and status behind one message, as it
came; nothing is retried.
"""

from __future__ import annotations

import grpc

from vecsieve.proxy.failures import UpstreamFailure
from vecsieve.proxy.grpc.channels import Channels
from vecsieve.proxy.grpc.endings import hold_end
from vecsieve.proxy.grpc.failures import Answer, Failure, failure_of, no_message, unreachable, unsendable
from vecsieve.proxy.grpc.metadata import Pairs, for_client, for_upstream, is_sendable
from vecsieve.proxy.origin import Origin

Context = grpc.aio.ServicerContext[bytes, bytes]
UpstreamCall = grpc.aio.UnaryUnaryCall[bytes, bytes] | grpc.aio.StreamUnaryCall[bytes, bytes]


async def received(context: Context) -> bytes | None:
    """The call's one message; None where the client sent none. Cancelled where it is gone before it sent one."""
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
) -> Answer | Failure:
    """Send one call once. ``metadata``: the client's own; what belongs to its hop is removed here.

    ``deadline_seconds``: as the client set it, or less; None where it set none. Cancelling it cancels the call upstream.
    """
    passing = for_upstream(metadata)
    if not is_sendable(passing):
        return unsendable()
    try:
        async with channels.lease(origin, is_search=is_search) as channel:
            call = _started(channel, message, method=method, metadata=passing, deadline_seconds=deadline_seconds)
            return await _outcome(channel, call)
    except UpstreamFailure as failure:
        return unreachable(failure.kind)


async def answer(context: Context, outcome: Answer | Failure) -> bytes:
    """Give the client what was received; a handler returns the result. A failure ends the call here."""
    if outcome.initial:
        await context.send_initial_metadata(outcome.initial)
    if isinstance(outcome, Failure):
        await context.abort(outcome.status_code, outcome.details, outcome.trailing)
    context.set_trailing_metadata(outcome.trailing)
    return outcome.message


def _started(
    channel: grpc.aio.Channel, message: bytes | None, *, method: str, metadata: Pairs, deadline_seconds: float | None
) -> UpstreamCall:
    if message is None:
        empty: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(method)
        return empty(iter(()), timeout=deadline_seconds, metadata=metadata)
    single: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    return single(message, timeout=deadline_seconds, metadata=metadata)


async def _outcome(channel: grpc.aio.Channel, call: UpstreamCall) -> Answer | Failure:
    try:
        message: bytes | None = await call
    except grpc.aio.AioRpcError as error:
        return failure_of(error, is_connected=channel.get_state() is grpc.ChannelConnectivity.READY)
    if message is None:
        return no_message()
    return Answer(
        message=message,
        initial=for_client(await call.initial_metadata()),
        trailing=for_client(await call.trailing_metadata()),
    )

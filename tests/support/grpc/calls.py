"""A client's view of one gRPC call: everything it can see, in one value that two ways to a database are compared by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

import grpc

Pairs = tuple[tuple[str, str | bytes], ...]
SHAPES = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


@dataclass(frozen=True)
class Seen:
    """What a client was given. Metadata by key: only the values of one key have an order, here as in gRPC."""

    messages: tuple[bytes, ...]
    code: grpc.StatusCode
    details: str
    initial: Pairs
    trailing: Pairs

    @property
    def from_database(self) -> Seen:
        """Without the key that says why VecSieve did nothing."""
        return replace(self, initial=tuple(pair for pair in self.initial if pair[0] != "x-vecsieve"))


def by_key(metadata: Iterable[tuple[str, str | bytes]]) -> Pairs:
    """Pairs in the order of their keys, the values of each as they came."""
    return tuple(sorted(((key, value) for key, value in metadata), key=lambda pair: pair[0]))


async def ask(
    address: str,
    shape: str,
    messages: Sequence[bytes] = (b"question",),
    *,
    method: str = "/test.Service/method",
    metadata: Pairs = (),
    timeout: float | None = 20.0,
    compression: grpc.Compression | None = None,
) -> Seen:
    """One call of grpcio's asyncio client, on a connection of its own."""
    async with grpc.aio.insecure_channel(
        address, options=[*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        return await ask_on(
            channel, shape, messages, method=method, metadata=metadata, timeout=timeout, compression=compression
        )


async def ask_on(
    channel: grpc.aio.Channel,
    shape: str,
    messages: Sequence[bytes] = (b"question",),
    *,
    method: str = "/test.Service/method",
    metadata: Pairs = (),
    timeout: float | None = 20.0,
    compression: grpc.Compression | None = None,
) -> Seen:
    """One call on a channel that is there."""

    async def questions() -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    given = messages[0] if shape.startswith("unary_") else questions()
    call = getattr(channel, shape)(method)(given, timeout=timeout, metadata=metadata, compression=compression)
    messages_read: list[bytes] = []
    try:
        if shape.endswith("_stream"):
            await call.initial_metadata()  # once the call has failed, the asyncio client may have lost it (grpcio 1.85)
            messages_read += [message async for message in call]
        else:
            messages_read.append(await call)
    except grpc.aio.AioRpcError:
        pass  # the call says the same, and says it for answers too
    return Seen(
        tuple(messages_read),
        await call.code(),
        await call.details(),
        by_key(await call.initial_metadata()),
        by_key(await call.trailing_metadata()),
    )


async def ask_in_a_thread(address: str, shape: str, messages: Sequence[bytes], *, metadata: Pairs = ()) -> Seen:
    """The same call of grpcio's blocking client."""
    return await asyncio.to_thread(_ask_blocking, address, shape, messages, metadata)


def _ask_blocking(address: str, shape: str, messages: Sequence[bytes], metadata: Pairs) -> Seen:
    with grpc.insecure_channel(address, options=[*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]) as channel:
        ask_with = getattr(channel, shape)("/test.Service/method")
        given = messages[0] if shape.startswith("unary_") else iter(messages)
        messages_read: list[bytes] = []
        try:
            if shape.endswith("_stream"):
                call = ask_with(given, timeout=20, metadata=metadata)
                messages_read += list(call)
            else:
                answer, call = ask_with.with_call(given, timeout=20, metadata=metadata)
                messages_read.append(answer)
        except grpc.RpcError as error:
            call = error
        return Seen(
            tuple(messages_read),
            call.code(),
            call.details() or "",
            by_key(call.initial_metadata()),
            by_key(call.trailing_metadata()),
        )

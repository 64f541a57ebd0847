"""The real stack over gRPC: the embedded engine in its own process, and calls of raw messages with all that a client sees."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import grpc

from support.grpc.calls import UNLIMITED, Pairs, Seen, by_key
from support.qdrant.grpc_searches import GrpcSearch, timeless


class Asker:
    """A blocking client at one address, on a connection of its own. ``url``: with or without its scheme."""

    def __init__(self, url: str) -> None:
        address = url.removeprefix("http://")
        self._channel = grpc.insecure_channel(address, options=(*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def ask(self, spoken: GrpcSearch, *, metadata: Pairs = ()) -> Seen:
        """One call, its reply without the time it took."""
        seen = self.raw(spoken.method, spoken.message, metadata=metadata)
        return Seen(
            tuple(timeless(message) for message in seen.messages), seen.code, seen.details, seen.initial, seen.trailing
        )

    def raw(self, method: str, message: bytes, *, metadata: Pairs = ()) -> Seen:
        """One call as it is."""
        stub: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        messages: tuple[bytes, ...] = ()
        call: Any
        try:
            answer, call = stub.with_call(message, timeout=30, metadata=metadata)
            messages = (answer,)
        except grpc.RpcError as error:
            call = error  # the blocking client raises its calls
        return Seen(
            messages,
            call.code(),
            call.details() or "",
            by_key(call.initial_metadata()),
            by_key(call.trailing_metadata()),
        )

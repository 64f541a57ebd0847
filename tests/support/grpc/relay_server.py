"""The smallest gRPC proxy: a listener that relays everything, or sends everything by the way of unary calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.grpc.relay import Sizes, answer, end_with, received, relay, send
from vecsieve.proxy.grpc.side import server_options
from vecsieve.proxy.grpc.status import Outcome
from vecsieve.proxy.grpc.upstream import Channels
from vecsieve.proxy.runtime.addresses import Origin

Context = grpc.aio.ServicerContext[bytes, bytes]


@dataclass
class BareHandler(grpc.GenericRpcHandler):
    """``is_unary``: every call by the unary way. ``is_search``: as searches go. ``failures``: all there were, in order."""

    channels: Channels
    origin: Origin
    is_unary: bool
    is_search: bool
    failures: list[Outcome] = field(default_factory=list)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method

        async def stream(_: object, context: Context) -> None:
            sizes = Sizes()
            outcome = await relay(
                self.channels, context, method=method, origin=self.origin, traceparent=None, sizes=sizes
            )
            self._count(outcome)
            end_with(context, outcome)

        async def unary(_: object, context: Context) -> bytes:
            outcome = await send(
                self.channels,
                await received(context),
                method=method,
                origin=self.origin,
                metadata=tuple(context.invocation_metadata() or ()),
                deadline_seconds=context.time_remaining(),
                is_search=self.is_search,
            )
            self._count(outcome)
            return await answer(context, outcome)

        made: grpc.RpcMethodHandler[bytes, bytes] = (
            grpc.stream_unary_rpc_method_handler(unary)
            if self.is_unary
            else grpc.stream_stream_rpc_method_handler(stream)
        )
        return made

    def _count(self, outcome: Outcome) -> None:
        if not outcome.is_success:
            self.failures.append(outcome)


@dataclass
class BareRelay:
    """A running one."""

    port: int
    handler: BareHandler

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def bare_grpc_relay(
    upstream: str,
    *,
    is_unary: bool = False,
    is_search: bool = False,
    authority: Path | None = None,
    connect_timeout_seconds: float = 1.0,
) -> AsyncIterator[BareRelay]:
    """A relay before ``upstream``, host:port or a URL, for the block. ``authority``: file with what to trust."""
    ca_file = None if authority is None else str(authority)
    settings = UpstreamSettings(connect_timeout_seconds=connect_timeout_seconds, ca_file=ca_file)
    channels = Channels(settings, connections=1)
    url = upstream if "://" in upstream else f"http://{upstream}"
    handler = BareHandler(channels, Origin.of(url), is_unary, is_search)
    server = grpc.aio.server(handlers=(handler,), options=[*server_options(5), ("grpc.so_reuseport", 0)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield BareRelay(port, handler)
    finally:
        await server.stop(0)
        await channels.close()

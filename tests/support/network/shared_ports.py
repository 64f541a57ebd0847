"""A shared port with both servers behind it: aiohttp's connections as in production, and a gRPC server that echoes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from aiohttp import web

from support.network.relay_server import Invalidation, PlainDialect
from support.network.streams import listening
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.shared_port import SharedPort
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.listener import DataServer
from vecsieve.proxy.http.protocol import ConnectionRules

MIB = 1024 * 1024
METHOD = "/any.Service/Method"
CALL_SECONDS = 30.0
LARGE = (("grpc.max_receive_message_length", 64 * MIB), ("grpc.max_send_message_length", 64 * MIB))
# Each channel a connection of its own: grpc would share one among channels to the same address.
ALONE = (*LARGE, ("grpc.use_local_subchannel_pool", 1))
Echo = Callable[[bytes], Awaitable[bytes]]


async def as_it_came(message: bytes) -> bytes:
    """The plainest echo."""
    return message


class EchoService(grpc.GenericRpcHandler):
    """Every method answers with what ``echo`` makes of its message."""

    def __init__(self, echo: Echo) -> None:
        self._echo = echo

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def unary(message: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return await self._echo(message)

        return grpc.unary_unary_rpc_method_handler(unary)


@dataclass(slots=True)
class BothServers:
    """What stands behind the port. ``heads``: the raw paths that aiohttp served, ``bodies`` their bodies."""

    port: int
    shared: SharedPort
    listening: asyncio.Server
    grpc_server: grpc.aio.Server
    inner: InnerSocket
    http: DataServer
    heard: Invalidation
    direct_port: int
    served: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self.http.rules.connections)


@asynccontextmanager
async def both_servers(
    *,
    limits: LimitSettings | None = None,
    tls: ssl.SSLContext | None = None,
    echo: Echo = as_it_came,
    with_grpc: bool = True,
    calls: Calls | None = None,
) -> AsyncIterator[BothServers]:
    """A shared port on 127.0.0.1, with the gRPC server also on a port of its own for comparison."""
    limits, heard, answers = limits or LimitSettings(), Invalidation(), LocalAnswers(PlainDialect())
    served: list[tuple[str, bytes]] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        served.append((request.raw_path, body))
        return web.Response(body=body or b"http")

    http = DataServer(handler, limits, answers, heard)
    inner, server = InnerSocket(calls or Calls()), grpc.aio.server(options=(*LARGE, ("grpc.http2.max_ping_strikes", 0)))
    server.add_generic_rpc_handlers((EchoService(echo),))
    server.add_insecure_port(inner.grpc)
    direct_port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    rules = ConnectionRules(limits.head_timeout_seconds, http.rules.connections, answers, heard)
    shared = SharedPort(rules, inner=inner if with_grpc else None, tls=tls)
    async with listening(shared.before(http), backlog=512) as front:
        port = front.sockets[0].getsockname()[1]
        try:
            yield BothServers(port, shared, front, server, inner, http, heard, direct_port, served)
        finally:
            front.close()
            await asyncio.gather(server.stop(0.1), shared.close(grace_seconds=0.5), http.shutdown(0.5))
            inner.close()


async def called(channel: grpc.aio.Channel, message: bytes) -> bytes:
    """One unary call."""
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
    return await method(message, timeout=CALL_SECONDS)

"""A gRPC server in the database's place whose methods are scripts, and which remembers what reached it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from support.grpc.calls import Pairs, by_key

Context = grpc.aio.ServicerContext[bytes, bytes]


@dataclass
class Arrived:
    """One call as the database saw it. ``is_whole``: the client said that no more is to come."""

    method: str
    metadata: Pairs
    deadline_seconds: float | None
    messages: list[bytes] = field(default_factory=list)
    is_whole: bool = False
    is_cancelled: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, context: Context) -> bytes | None:
        """The next message; None at the end."""
        message = await context.read()
        if isinstance(message, bytes):
            self.messages.append(message)
            return message
        await asyncio.sleep(0.05)  # a client that broke off: the cancellation comes a moment later
        self.is_whole = True
        return None

    def plain_metadata(self) -> Pairs:
        """What the client sent, without what its library says about itself."""
        return by_key(pair for pair in self.metadata if pair[0] != "user-agent")


Script = Callable[[Arrived, Context], Awaitable[None]]


class GrpcUpstream(grpc.GenericRpcHandler):
    """Plays the script of the method's last word. ``calls``: all that came, in order."""

    def __init__(self, **scripts: Script) -> None:
        self._scripts = scripts
        self._changed = asyncio.Event()
        self.calls: list[Arrived] = []
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = handler_call_details.method
        script = self._scripts.get(method.rpartition("/")[2])
        if script is None:
            return None

        async def play(_: object, context: Context) -> None:
            remaining: float | None = context.time_remaining()
            call = Arrived(method, tuple(context.invocation_metadata() or ()), remaining)
            self.calls.append(call)
            self._changed.set()
            try:
                await script(call, context)
            except asyncio.CancelledError:
                call.is_cancelled = True
                raise
            finally:
                call.over.set()

        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(play)
        return handler

    async def next_call(self, number: int = 1) -> Arrived:
        """The call of that number, once it is here."""
        async with asyncio.timeout(10):
            while len(self.calls) < number:
                self._changed.clear()
                await self._changed.wait()
        return self.calls[number - 1]


@asynccontextmanager
async def grpc_upstream(
    *,
    compression: grpc.Compression | None = None,
    port: int = 0,
    certificate: tuple[Path, Path] | None = None,
    **scripts: Script,
) -> AsyncIterator[GrpcUpstream]:
    """An upstream at a free port of this machine, for the block. ``certificate``: files of it and its key."""
    upstream = GrpcUpstream(**scripts)
    server = grpc.aio.server(
        handlers=(upstream,),
        compression=compression,
        options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)],
    )
    if certificate is None:
        upstream.port = server.add_insecure_port(f"127.0.0.1:{port}")
    else:
        chain, key = (path.read_bytes() for path in certificate)
        upstream.port = server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(key, chain)]))
    await server.start()
    try:
        yield upstream
    finally:
        await server.stop(None)


async def echo(call: Arrived, context: Context) -> None:
    """Each message back as it comes."""
    while (message := await call.read(context)) is not None:
        await context.write(message)


def ending(
    code: grpc.StatusCode, details: str, *, after: int = 0, initial: Pairs | None = None, trailing: Pairs = ()
) -> Script:
    """A script that reads one message, writes ``after`` and ends so."""

    async def play(call: Arrived, context: Context) -> None:
        await call.read(context)
        if initial is not None:
            await context.send_initial_metadata(initial)
        for number in range(after):
            await context.write(b"%d" % number)
        context.set_code(code)
        context.set_details(details)
        context.set_trailing_metadata(trailing)

    return play

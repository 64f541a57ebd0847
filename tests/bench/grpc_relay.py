"""The baseline for gRPC: the least a proxy of grpc.aio can do. One message each way, or a stream's messages to one answer.

No reading of messages, no hygiene of metadata, no deadlines, no metrics; one connection, as a client has.

Usage: python -m bench.grpc_relay PORT UPSTREAM_PORT
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc

from bench.grpc_database import OPTIONS, SINK
from bench.loops import run

Context = grpc.aio.ServicerContext[bytes, bytes]


class Relay(grpc.GenericRpcHandler):
    """Hands every call to one channel and its answer back."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The same call, by a callable that is made once a call: the library keeps none."""
        method = handler_call_details.method
        made: grpc.RpcMethodHandler[bytes, bytes]
        if method == SINK:
            streaming: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = self._channel.stream_unary(method)

            async def stream(messages: AsyncIterator[bytes], _context: Context) -> bytes:
                return await streaming(messages)

            made = grpc.stream_unary_rpc_method_handler(stream)
        else:
            single: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)

            async def unary(message: bytes, _context: Context) -> bytes:
                return await single(message)

            made = grpc.unary_unary_rpc_method_handler(unary)
        return made


async def serve(port: int, upstream_port: int) -> None:
    """Serve until cancelled."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{upstream_port}", options=OPTIONS) as channel:
        server = grpc.aio.server(handlers=(Relay(channel),), options=OPTIONS)
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), int(sys.argv[2])))

"""A gRPC server of canned bytes: one ready message for every method and collection, and a sink for streams.

Usage: python -m bench.grpc_canned PORT DIRECTORY     (DIRECTORY/COLLECTION/METHOD, slashes of the method as they are)
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import grpc

from bench.loops import run

Context = grpc.aio.ServicerContext[bytes, bytes]
SINK = "/bench.Stream/Sink"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Canned(grpc.GenericRpcHandler):
    """``replies``: by collection and method. Of a message only its first field is looked at, the collection's name."""

    def __init__(self, replies: Mapping[tuple[str, str], bytes]) -> None:
        self._replies = replies

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Streams are counted, everything else is answered at once."""
        if handler_call_details.method == SINK:
            sink: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_unary_rpc_method_handler(_counted)
            return sink
        answer = partial(self._answer, handler_call_details.method)
        made: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
        return made

    async def _answer(self, method: str, message: bytes, context: Context) -> bytes:
        collection = message[2 : 2 + message[1]].decode()
        found = self._replies.get((collection, method))
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no canned reply of {method} for {collection}")
        return found


async def _counted(messages: AsyncIterator[bytes], _context: Context) -> bytes:
    received = 0
    async for message in messages:
        received += len(message)
    return b"%d" % received


def load(directory: Path) -> dict[tuple[str, str], bytes]:
    """Messages by collection and method."""
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    parts = [(file.relative_to(directory).parts, file) for file in files]
    return {(collection, "/" + "/".join(method)): file.read_bytes() for (collection, *method), file in parts}


async def serve(port: int, replies: Mapping[tuple[str, str], bytes]) -> None:
    """Serve until cancelled."""
    server = grpc.aio.server(handlers=(Canned(replies),), options=OPTIONS)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), load(Path(sys.argv[2]))))

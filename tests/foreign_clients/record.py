"""What a client sends and is answered, written down by a server that passes every call on to the engine."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from foreign_clients.environments import Client
from support.exchanges.foreign_verdict import is_of_copies
from support.grpc.clients import code_of, details_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "qdrant_grpc"
SECONDS = 30.0


class Recorder(grpc.GenericRpcHandler):
    """``seen``: the calls in the order they came."""

    def __init__(self, upstream: grpc.Channel) -> None:
        self._upstream = upstream
        self.seen: list[dict[str, Any]] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler of any method: each has one message each way."""
        path = handler_call_details.method

        def answer(message: bytes, context: grpc.ServicerContext) -> bytes:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._upstream.unary_unary(path)
            metadata = [[key, value] for key, value in context.invocation_metadata() if isinstance(value, str)]
            made = {"path": path, "metadata": metadata, "message": _text(message), "reply": ""}
            self.seen.append(made)
            try:
                reply = call(message, timeout=SECONDS)
            except grpc.RpcError as error:
                context.abort(code_of(error), details_of(error) or "")
            made["reply"] = _text(reply)
            return reply

        return grpc.unary_unary_rpc_method_handler(answer)


def recorded(client: Client, engine: str, plan: dict[str, Any]) -> dict[str, Any]:
    """A client's ranked searches of collections with copies, and what it calls itself."""
    with (
        tempfile.TemporaryDirectory() as folder,
        grpc.insecure_channel(engine) as upstream,
        serving(recorder := Recorder(upstream)) as address,
    ):
        file = Path(folder) / "plan.json"
        file.write_text(json.dumps(plan), encoding="utf-8")
        content = json.loads(client.messages(address, file))
    if [call["path"] for call in content] != [call["path"] for call in recorder.seen]:
        raise ValueError("the calls that came are not those that the client made")
    calls = [{"name": call["name"], **seen} for call, seen in zip(content, recorder.seen, strict=True)]
    return {"calls": [call for call in calls if is_of_copies(call["name"]) or call["name"] in {"mmr", "one", "groups"}]}


@contextmanager
def serving(recorder: Recorder) -> Iterator[str]:
    """Where it listens, for the block."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=[recorder], options=(("grpc.so_reuseport", 0),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def _text(message: bytes) -> str:
    return base64.b64encode(message).decode()

"""Servers that know nothing, keep what a client sends, and answer so that it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import grpc

Answer = Callable[[str, str], object]  # of a method and a path: the JSON of the reply


@dataclass(frozen=True, slots=True)
class Sent:
    """A request. Over gRPC the path is the method's, and the body one message."""

    method: str
    path: str
    content_type: str = ""
    body: bytes = b""


@dataclass(slots=True)
class Recorder:
    """``port``: where it listens."""

    port: int = 0
    sent: list[Sent] = field(default_factory=list)


@contextmanager
def over_http(answer: Answer) -> Iterator[Recorder]:
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answered(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path, content_type = self.path.partition("?")[0], self.headers.get("content-type") or ""
            recorder.sent.append(Sent(self.command, path, content_type, body))
            reply = json.dumps(answer(self.command, path)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else reply)

        def log_message(self, *arguments: object) -> None:
            pass

    for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"):
        setattr(Handler, f"do_{method}", Handler.answered)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    recorder.port = server.server_port
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def over_grpc(replies: Mapping[str, bytes]) -> Iterator[Recorder]:
    """``replies``: by method, the message of the reply; an empty one for all others."""
    recorder = Recorder()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            def answered(body: bytes, _: grpc.ServicerContext) -> bytes:
                recorder.sent.append(Sent("POST", details.method, "application/grpc", body))
                return replies.get(details.method, b"")

            return grpc.unary_unary_rpc_method_handler(answered)

    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Handler(),))
    recorder.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield recorder
    finally:
        server.stop(None).wait()

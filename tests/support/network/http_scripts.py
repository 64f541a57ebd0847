"""HTTP servers that are scripts: the standard library's in a thread, and aiohttp's on the test's loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType

from aiohttp import web


class Script(BaseHTTPRequestHandler):
    """What a server does, by ``do_GET`` and its like. Nothing is printed."""

    def content(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, body: bytes = b"", status: int = 200, fields: Mapping[str, str] = MappingProxyType({})) -> None:
        """As JSON where it has a body and ``fields``, of the head, say nothing else."""
        length = {} if status == 204 else {"Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in {**({"Content-Type": "application/json"} if body else {}), **length, **fields}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def in_a_thread(script: type[Script]) -> Iterator[str]:
    """Its URL, for the block. Each connection has a thread of its own, which may outlive the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), script)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def on_the_loop(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The URL of a server that answers every request so, for the block. It stops where its client leaves."""
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

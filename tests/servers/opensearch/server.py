"""Start and stop, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from servers.opensearch.rest import Request, answer
from servers.opensearch.store import Node, Product

START_SECONDS = 10
MOST_BYTES = 1 << 27


def application(node: Node) -> web.Application:
    async def handle(request: web.Request) -> web.Response:
        made = Request(
            request.method,
            request.rel_url.raw_path,
            dict(request.query),
            request.headers.get("Content-Type", ""),
            await request.read(),
            request.headers.get("Accept", ""),
        )
        status, headers, body = answer(node, made)
        return web.Response(status=status, headers=headers, body=body)

    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", handle)
    return app


@contextmanager
def serving(product: Product) -> Iterator[str]:
    """The URL of an empty server, for the block."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    urls: list[str] = []

    async def run() -> None:
        runner = web.AppRunner(application(Node(product)), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        ready.set()
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), name=product.value, daemon=True)
    thread.start()
    try:
        assert ready.wait(START_SECONDS), "the server did not start"
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(START_SECONDS)
        loop.close()

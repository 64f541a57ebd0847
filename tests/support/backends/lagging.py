"""A database whose reads lag: writes are acknowledged at once, and carried out so much later."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, web

from support.network.http_scripts import on_the_loop

HOP_BY_HOP = {"host", "content-length", "transfer-encoding", "connection"}
Acknowledged = Callable[[str, Any], Any]
"""The answer to a write, by its path and its body; None for a request that is no write."""


@asynccontextmanager
async def lagging(url: str, acknowledged: Acknowledged, *, seconds: float) -> AsyncIterator[str]:
    """The URL of a front of the database at ``url``."""
    late: set[asyncio.Task[Any]] = set()

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        head = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}

        async def forwarded() -> web.Response:
            async with session.request(request.method, url + request.raw_path, data=body, headers=head) as reply:
                return web.Response(status=reply.status, body=await reply.read(), content_type=reply.content_type)

        async def later() -> None:
            await asyncio.sleep(seconds)
            await forwarded()

        written = acknowledged(f"{request.method} {request.path}", json.loads(body) if body else None)
        if written is None:
            return await forwarded()
        task = asyncio.create_task(later())
        late.add(task)
        return web.json_response(written)

    async with ClientSession(cookie_jar=DummyCookieJar()) as session, on_the_loop(answer) as front:
        try:
            yield front
            await asyncio.gather(*late)
        finally:
            for task in late:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*late, return_exceptions=True)

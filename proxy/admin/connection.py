"""One admin connection: a whole-life deadline, a bound on how many there are, and errors in fixed words.

aiohttp has neither deadline nor bound, and repeats the bytes of a malformed request in its answer and its log. One
request a connection is enough here: probes and scrapes come every few seconds.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from vecsieve.proxy.http.raw_response import RawResponse

LIFE_SECONDS = 10.0  # a probe gives up after 3, Prometheus after 10
CONNECTIONS = 64  # a prober, two scrapers and a person, with room; the data port's clients can never use them up
HEAD_BYTES = 8192


def answer(status: int, body: bytes, *fields: tuple[str, str]) -> RawResponse:
    """A page that ends its connection, as plain text unless ``fields`` say otherwise."""
    headers = [("Content-Length", str(len(body))), ("Cache-Control", "no-store"), *fields]
    if not any(name == "Content-Type" for name, _ in fields):
        headers.append(("Content-Type", "text/plain; charset=utf-8"))
    response = RawResponse(status, HTTPStatus(status).phrase, headers, body=body)
    response.force_close()
    return response


class Crowd:
    """How many admin connections are open, and how long each may live."""

    __slots__ = ("life_seconds", "size")

    def __init__(self, life_seconds: float) -> None:
        self.life_seconds = life_seconds
        self.size = 0


class AdminConnection(RequestHandler):
    """Ended when its life is over, whatever happens; refused when there are too many."""

    __slots__ = ("_crowd", "_end", "_is_admitted")

    def __init__(self, manager: web.Server, crowd: Crowd) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=crowd.life_seconds,
            access_log=None,  # type: ignore[arg-type]  # - None turns it off; the annotation forgets it
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            max_headers=64,
            lingering_time=0.0,
            auto_decompress=False,
        )
        self._crowd = crowd
        self._end: asyncio.TimerHandle | None = None
        self._is_admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, or go."""
        if self._crowd.size >= CONNECTIONS:
            cast(asyncio.Transport, transport).abort()  # uvloop's transports are no instances of it
            return
        self._crowd.size += 1
        self._is_admitted = True
        super().connection_made(transport)
        self._end = self._loop.call_later(self._crowd.life_seconds, self._abort)

    def data_received(self, data: bytes) -> None:
        """Read on, unless there was no place."""
        if self._is_admitted:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place back."""
        if not self._is_admitted:
            return
        self._crowd.size -= 1
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer with the status alone: aiohttp's own words quote the request."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun: only closing is left")
        return answer(status, b"bad request\n" if status < 500 else b"internal error\n")

    def log_exception(self, *args: object, **kw: object) -> None:
        """Nothing: aiohttp's words may quote a request."""

    def log_debug(self, *args: object, **kw: object) -> None:
        """Nothing: aiohttp's words may quote a request."""

"""Our own listener: six small pages, one request a connection, every connection with a deadline.

It never asks the database: readiness says whether this process takes requests, and a database that is down is no reason
to take the proxy out of service, since its error belongs to the client. It runs on the loop it reports on, on purpose:
a blocked loop then fails its liveness probe.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from vecsieve.proxy.admin.status import Status
from vecsieve.proxy.http.message import RawResponse
from vecsieve.proxy.telemetry.exposition import Scrape

# One admin connection: a whole-life deadline, a bound on how many there are, and errors in fixed words.
#
# aiohttp has neither deadline nor bound, and repeats the bytes of a malformed request in its answer and its log. One
# request a connection is enough here: probes and scrapes come every few seconds.

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


BACKLOG = 64
CLOSE_SECONDS = 1.0
NO_EXPLAIN = b"not found: with several workers no process knows all searches; /explain needs workers: 1\n"
NO_EGRESS = b"not found: with several workers no process knows all searches; /egress needs workers: 1\n"
NO_SUCH_PAGE = b"not found: /livez /readyz /metrics /status /explain /egress\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Where the pages' content comes from. Each is called per request, on the loop, and must be quick.

    ``is_ready``: whether new requests should come here. ``metrics``: the exposition for an Accept field. ``status``: a reading.
    ``explain``: the last searches; ``egress``: what they cost in bytes, per collection; None in a process that answers no
    search, because others do.
    """

    is_ready: Callable[[], bool]
    metrics: Callable[[str], Scrape]
    status: Callable[[], Status]
    explain: Callable[[], bytes] | None = None
    egress: Callable[[], bytes] | None = None


class AdminServer:
    """Answers on a port of its own between ``start`` and ``close``. ``life_seconds``: of one connection."""

    __slots__ = ("_life_seconds", "_pages", "_server", "_sockets")

    def __init__(self, pages: Pages, *, life_seconds: float = LIFE_SECONDS) -> None:
        self._pages = pages
        self._life_seconds = life_seconds
        self._server: web.Server | None = None
        self._sockets: asyncio.Server | None = None

    async def start(self, where: tuple[str, int] | socket.socket) -> None:
        """Listen on (host, port), port 0 picking one, or on a bound socket. Raises OSError when it cannot be bound."""
        server, crowd = web.Server(self._answer), Crowd(self._life_seconds)

        def connection() -> AdminConnection:
            return AdminConnection(server, crowd)

        loop = asyncio.get_running_loop()
        if isinstance(where, socket.socket):
            self._sockets = await loop.create_server(connection, sock=where, backlog=BACKLOG)
        else:
            self._sockets = await loop.create_server(connection, *where, backlog=BACKLOG, reuse_address=True)
        self._server = server

    @property
    def port(self) -> int:
        """The port that was bound. Raises RuntimeError unless started."""
        if self._sockets is None:
            raise RuntimeError("the admin listener was not started")
        port: int = self._sockets.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening and end every connection. Does nothing unless started."""
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self._server is not None:
            await self._server.shutdown(CLOSE_SECONDS)
            self._server = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        # The raw target: an absolute-form request for another host must not find our pages.
        page = _PAGES.get(request.raw_path.split("?", 1)[0])
        if page is None:
            return answer(404, NO_SUCH_PAGE)
        if request.method not in {"GET", "HEAD"}:
            return answer(405, b"method not allowed\n", ("Allow", "GET, HEAD"))
        return page(self._pages, request)


def _livez(_pages: Pages, _request: web.BaseRequest) -> RawResponse:
    return answer(200, b"ok\n")


def _readyz(pages: Pages, _request: web.BaseRequest) -> RawResponse:
    return answer(200, b"ok\n") if pages.is_ready() else answer(503, b"not ready\n")


def _metrics(pages: Pages, request: web.BaseRequest) -> RawResponse:
    scraped = pages.metrics(request.headers.get("Accept", ""))
    return answer(200, scraped.body, ("Content-Type", scraped.content_type))


def _status(pages: Pages, _request: web.BaseRequest) -> RawResponse:
    return answer(200, pages.status().as_json(), ("Content-Type", "application/json"))


def _explain(pages: Pages, _request: web.BaseRequest) -> RawResponse:
    if pages.explain is None:
        return answer(404, NO_EXPLAIN)
    return answer(200, pages.explain(), ("Content-Type", "application/json"))


def _egress(pages: Pages, _request: web.BaseRequest) -> RawResponse:
    if pages.egress is None:
        return answer(404, NO_EGRESS)
    return answer(200, pages.egress(), ("Content-Type", "application/json"))


_PAGES: Mapping[str, Callable[[Pages, web.BaseRequest], RawResponse]] = MappingProxyType(
    {
        "/livez": _livez,
        "/readyz": _readyz,
        "/metrics": _metrics,
        "/status": _status,
        "/explain": _explain,
        "/egress": _egress,
    }
)

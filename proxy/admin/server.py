"""The inspector's page: files of this package, served from memory, with a policy that forbids loading anything from elsewhere."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import cast

import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from ..http.answers import RawResponse
from ..telemetry.exposition import Scrape
from .inspector import BODY_BYTES, Inspector, InspectorRequest, RefusedError
from .knowledge import egress_of, failed_reload_of, texts_of
from .status import Status
from .verdicts import verdict_page

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# For every page that a browser may open: no guessing of types, no frames, no referrer to other sites.
GUARDS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
_FILES = (
    "app.js",
    "requests.js",
    "views.js",
    "whatif.js",
    "style.css",
    "icon.svg",
    "vendor/htm-preact.js",
    "vendor/uplot.js",
    "vendor/uplot.css",
)


@cache
def page_file(path: str) -> tuple[bytes, str] | None:
    """The content and type of the file at this path of the admin port; None if there is none."""
    name = "index.html" if path == "/" else path.removeprefix("/static/")
    if path != "/" and (not path.startswith("/static/") or name not in _FILES):
        return None
    content = files("vecsieve.proxy.admin").joinpath("static", *name.split("/")).read_bytes()
    return content, _TYPES[name[name.rindex(".") :]]


LIFE_SECONDS = 10.0  # seconds: a probe gives up after 3, Prometheus after 10
CONNECTIONS = 64  # enough for a prober, two scrapers and a person; clients of the data port cannot take them
HEAD_BYTES = 8192


def answer(status: int, body: bytes, *fields: tuple[str, str]) -> RawResponse:
    """A page that closes its connection; plain text unless ``fields`` say otherwise."""
    headers = [("Content-Length", str(len(body))), ("Cache-Control", "no-store"), *fields]
    if not any(name == "Content-Type" for name, _ in fields):
        headers.append(("Content-Type", "text/plain; charset=utf-8"))
    response = RawResponse(status, HTTPStatus(status).phrase, headers, body=body)
    response.force_close()
    return response


class AdminConnection(RequestHandler):
    """Closed at its deadline in any case; refused if there are too many."""

    __slots__ = ("_admin", "_end", "_is_admitted")

    def __init__(self, manager: web.Server, admin: AdminServer) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=admin.life_seconds,
            access_log=None,  # type: ignore[arg-type]  # - None turns it off; the annotation forgets it
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            max_headers=64,
            lingering_time=0.0,
            auto_decompress=False,
        )
        self._admin = admin
        self._end: asyncio.TimerHandle | None = None
        self._is_admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._admin.connections >= CONNECTIONS:
            cast(asyncio.Transport, transport).abort()  # uvloop's transports do not inherit from it
            return
        self._admin.connections += 1
        self._is_admitted = True
        super().connection_made(transport)
        self._end = self._loop.call_later(self._admin.life_seconds, self._abort)

    def data_received(self, data: bytes) -> None:
        """Ignore the data of a refused connection."""
        if self._is_admitted:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self._is_admitted:
            return
        self._admin.connections -= 1
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
        """Answer with fixed words: aiohttp's own quote the request."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun: only closing is left")
        return answer(status, b"bad request\n" if status < 500 else b"internal error\n")

    def log_exception(self, *args: object, **kw: object) -> None:
        """Nothing: aiohttp's words may quote a request."""

    def log_debug(self, *args: object, **kw: object) -> None:
        """Nothing: aiohttp's words may quote a request."""


BACKLOG = 64
CLOSE_SECONDS = 1.0
NO_SUCH_PAGE = b"not found: / /livez /readyz /metrics /status /explain /egress /api/\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The content of the pages. Each function is called per request, on the loop, and must be quick.

    ``is_ready``: whether the process accepts new requests. ``metrics``: the exposition for an Accept field. ``inspector``: the last searches;
    it asks the serving processes for other pages, too.
    """

    is_ready: Callable[[], bool]
    metrics: Callable[[str], Scrape]
    status: Callable[[], Status]
    inspector: Inspector


class AdminServer:
    """The admin listener. ``life_seconds``: the deadline of one connection. ``connections``: the most open ones."""

    __slots__ = ("_pages", "_server", "_sockets", "connections", "life_seconds")

    def __init__(self, pages: Pages, *, life_seconds: float = LIFE_SECONDS) -> None:
        self._pages = pages
        self.life_seconds = life_seconds
        self.connections = 0
        self._server: web.Server | None = None
        self._sockets: asyncio.Server | None = None

    async def start(self, where: tuple[str, int] | socket.socket) -> None:
        """Listen on (host, port), where port 0 is any free port, or on a bound socket. Raises OSError if it cannot be bound."""
        server, loop = web.Server(self._answer), asyncio.get_running_loop()
        connection = partial(AdminConnection, server, self)
        if isinstance(where, socket.socket):
            self._sockets = await loop.create_server(connection, sock=where, backlog=BACKLOG)
        else:
            self._sockets = await loop.create_server(connection, *where, backlog=BACKLOG, reuse_address=True)
        self._server = server

    @property
    def port(self) -> int:
        """The bound port. Raises RuntimeError unless started."""
        if self._sockets is None:
            raise RuntimeError("the admin listener was not started")
        port: int = self._sockets.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening and close every connection. Does nothing unless started."""
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self._server is not None:
            await self._server.shutdown(CLOSE_SECONDS)
            self._server = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        # The raw target: an absolute-form request for another host must not match.
        path, _, query = request.raw_path.partition("?")
        if path == "/explain" or path.startswith("/api/"):
            return await _inspected(self._pages.inspector, request, path, query)
        page, file, gathered = _PAGES.get(path), page_file(path), _GATHERED.get(path)
        if page is None and file is None and gathered is None:
            return answer(404, NO_SUCH_PAGE)
        if request.method not in {"GET", "HEAD"}:
            return answer(405, b"method not allowed\n", ("Allow", "GET, HEAD"))
        if file is not None:
            return answer(200, file[0], ("Content-Type", file[1]), *GUARDS)
        if gathered is not None:
            return answer(200, await gathered(self._pages), ("Content-Type", "application/json"))
        assert page is not None  # noqa: S101 - one of the three is there
        return page(self._pages, request)


async def _inspected(inspector: Inspector, request: web.BaseRequest, path: str, query: str) -> RawResponse:
    json = ("Content-Type", "application/json")
    try:
        inspected = InspectorRequest(method=request.method, path=path, query=query, field=request.headers.get)
        inspector.allow(inspected)
        if request.method == "POST":
            inspected = replace(inspected, body=await _body(request))
        if path == "/explain" and request.method not in {"GET", "HEAD"}:
            raise RefusedError(405, "method not allowed")  # noqa: TRY301 - answered as the inspector's own refusals
        body = await inspector.explain() if path == "/explain" else await inspector.answer(inspected)
    except RefusedError as refused:
        allowed = (("Allow", "POST" if path == "/api/judgements" else "GET, HEAD"),) if refused.status == 405 else ()
        challenge = (("WWW-Authenticate", "Bearer"),) if refused.status == 401 else ()
        words = orjson.dumps({"error": refused.words}) + b"\n"
        return answer(refused.status, words, json, *allowed, *challenge, *GUARDS)
    return answer(200, body, json, *GUARDS)


async def _body(request: web.BaseRequest) -> bytes:
    """The body of a small request. Raises RefusedError."""
    size = request.content_length
    if size is None or size > BODY_BYTES:
        raise RefusedError(413, f"a body has a length, of at most {BODY_BYTES} bytes")
    return await request.read()


def _metrics(pages: Pages, request: web.BaseRequest) -> RawResponse:
    scraped = pages.metrics(request.headers.get("Accept", ""))
    return answer(200, scraped.body, ("Content-Type", scraped.content_type))


async def _status(pages: Pages) -> bytes:
    ask = pages.inspector.ask
    texts, verdict, failed = await texts_of(ask), await verdict_page(ask), await failed_reload_of(ask)
    return replace(pages.status(), texts=tuple(texts), verdict=verdict, failed_reload=failed).as_json()


# From all serving processes.
_GATHERED: Mapping[str, Callable[[Pages], Awaitable[bytes]]] = MappingProxyType(
    {"/egress": lambda pages: egress_of(pages.inspector.ask), "/status": _status}
)
_PAGES: Mapping[str, Callable[[Pages, web.BaseRequest], RawResponse]] = MappingProxyType(
    {
        "/livez": lambda _pages, _request: answer(200, b"ok\n"),
        "/readyz": lambda pages, _: answer(200, b"ok\n") if pages.is_ready() else answer(503, b"not ready\n"),
        "/metrics": _metrics,
    }
)

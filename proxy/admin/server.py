"""The inspector's page: files of this package, served from memory, with a policy that forbids loading anything from elsewhere."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType

import orjson
from aiohttp import web

from vecsieve.adapters.base import RestDialect
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.config.schema import LimitSettings

from ..http.answers import LocalAnswers, RawResponse
from ..http.connections import Events
from ..http.listener import DataServer, Listener, listen
from ..runtime.addresses import DataPort
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
CLOSE_SECONDS = 1.0
CONNECTIONS = 64  # enough for a prober, two scrapers and a person; clients of the data port cannot take them
HEAD_BYTES = 8192
FLAG = "--admin HOST:PORT"
PLAIN = "text/plain; charset=utf-8"


def answer(status: int, body: bytes, *fields: tuple[str, str]) -> RawResponse:
    """A page that closes its connection; plain text unless ``fields`` say otherwise."""
    headers = [("Content-Length", str(len(body))), ("Cache-Control", "no-store"), *fields]
    if not any(name == "Content-Type" for name, _ in fields):
        headers.append(("Content-Type", PLAIN))
    response = RawResponse(status, HTTPStatus(status).phrase, headers, body=body)
    response.force_close()
    return response


class PlainWords(RestDialect):
    """Errors of a connection, such as a malformed head, as plain text."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        return NativeAnswer(status=status, content_type=PLAIN, body=f"{message}\n".encode())


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
    """The admin listener. Its connections work as on the data ports, with limits of their own. ``life_seconds``: for one request and its answer."""

    __slots__ = ("_life_seconds", "_limits", "_listener", "_pages", "_server")

    def __init__(self, pages: Pages, *, life_seconds: float = LIFE_SECONDS) -> None:
        self._pages = pages
        self._life_seconds = life_seconds
        self._limits = LimitSettings(
            connections=CONNECTIONS,
            head_line_bytes=HEAD_BYTES,
            head_timeout_seconds=life_seconds,
            keep_alive_seconds=life_seconds,
        )
        self._server = DataServer(self._handle, self._limits, LocalAnswers(PlainWords()), Events())
        self._listener: Listener | None = None

    async def start(self, where: tuple[str, int] | socket.socket) -> int:
        """Listen on (host, port), where port 0 is any free port, or on a bound socket; returns the port. Raises OSError if it cannot be bound."""
        shared = where if isinstance(where, socket.socket) else None
        host, port = where.getsockname()[:2] if isinstance(where, socket.socket) else where
        self._listener = await listen(self._server, self._limits, DataPort(host, port, shared=shared, flag=FLAG))
        return self._listener.ports[0]

    async def close(self) -> None:
        """Stop listening and close every connection. Does nothing unless started."""
        if self._listener is not None:
            await self._listener.close(grace_seconds=CLOSE_SECONDS)
            self._listener = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._life_seconds):
                response = await self._answer(request)
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise
        return response

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

"""The REST interface: routes, requests and responses; start and stop.

A larger server extends the routes, which are an argument of `Rest`, and its methods.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web

from vecsieve.config.addresses import Address

from . import collections, points, searches
from .collections import Call, Registry, Verb
from .fields import Json, RefusalError, bad_format, bad_value
from .replies import dumps

Route = tuple[str, str, Verb]
"""A method, a path with its parameters in braces, and the verb."""

ROUTES: tuple[Route, ...] = (
    ("GET", "/collections", collections.listing),
    ("GET", "/collections/{collection}", collections.info),
    ("PUT", "/collections/{collection}", collections.create),
    ("DELETE", "/collections/{collection}", collections.delete),
    ("GET", "/collections/{collection}/exists", collections.exists),
    ("PUT", "/collections/{collection}/points", points.upsert),
    ("POST", "/collections/{collection}/points", points.retrieve),
    ("GET", "/collections/{collection}/points/{id}", points.get),
    ("POST", "/collections/{collection}/points/scroll", points.scroll),
    ("POST", "/collections/{collection}/points/count", points.count),
    ("POST", "/collections/{collection}/points/delete", points.delete),
    ("POST", "/collections/{collection}/points/payload", points.set_payload),
    ("POST", "/collections/{collection}/points/query", searches.query),
    ("POST", "/collections/{collection}/points/query/batch", searches.query_batch),
    ("POST", "/collections/{collection}/points/search", searches.search),
    ("POST", "/collections/{collection}/points/search/batch", searches.search_batch),
)
MOST_BYTES = 32 * 1024 * 1024  # the server's default of `max_request_size_mb`

# Clients compare the version with their own.
ABOUT = {"title": "qdrant - vector search engine", "version": "1.19.0"}
_OPEN: Mapping[str, Json] = {
    "/": ABOUT,
    "/healthz": "healthz check passed",
    "/livez": "healthz check passed",
    "/readyz": "all shards are ready",
}


def normalised(raw_path: str) -> str:
    """As actix's `NormalizePath::trim`: `//` merged, no `/` at the end, `/` for an empty path."""
    return re.sub("/+", "/", raw_path).rstrip("/") or "/"


def find_verb(routes: Sequence[Route], method: str, raw_path: str) -> tuple[Verb, dict[str, str]] | None:
    """The verb of the first route that matches, and its path parameters, percent-decoded after splitting."""
    parts = normalised(raw_path).split("/")
    for known, pattern, verb in routes:
        values = _matched(pattern.split("/"), parts) if known == method else None
        if values is not None:
            return verb, values
    return None


def _matched(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    values = {}
    for pattern_part, part in zip(pattern, parts, strict=True):
        if pattern_part.startswith("{"):
            values[pattern_part[1:-1]] = unquote(part)
        elif pattern_part != part:
            return None
    return values


def read_json(raw: bytes, content_type: str) -> Json:
    """Raises the 400 of a wrong content type or of invalid JSON."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise RefusalError(400, "Content type error", is_timed=False)
    if not raw:
        raise bad_format("EOF while parsing a value at line 1 column 0")
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_format(f"{error}") from error


class Rest:
    def __init__(self, registry: Registry, routes: Sequence[Route] = ROUTES) -> None:
        self.registry = registry
        self._routes = routes

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self.answer)
        app.on_response_prepare.append(_leave_out_server_name)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        path = normalised(request.rel_url.raw_path)
        match = find_verb(self._routes, request.method, path)
        if match is None:
            return self.other(request.method, path)
        verb, parameters = match
        started = time.perf_counter()
        try:
            body = await self._body(request)
            query = dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
            _check_query(query)
            started = time.perf_counter()
            value = verb(self.registry, Call(parameters, query, body))
        except RefusalError as refusal:
            return self.refused(refusal, time.perf_counter() - started)
        except RecursionError:
            return self.refused(bad_format("recursion limit exceeded"), 0.0)
        return shown({"result": value, "status": "ok", "time": time.perf_counter() - started})

    def other(self, method: str, path: str) -> web.Response:
        """The response for a path without a verb: version, health or a 404."""
        if method == "GET" and path in _OPEN:
            return shown(_OPEN[path])
        refusal = RefusalError(404, f"Not found: the embedded server does not serve {method} {path}", is_timed=False)
        return self.refused(refusal, 0.0)

    def parsed(self, raw: bytes, content_type: str) -> Json:
        return read_json(raw, content_type)

    def refused(self, refusal: RefusalError, seconds: float) -> web.Response:
        """`seconds`: measured by the server."""
        taken = seconds if refusal.is_timed else 0.0
        return shown({"status": {"error": refusal.message}, "time": taken}, refusal.status)

    async def _body(self, request: web.Request) -> Json:
        if request.method in {"GET", "DELETE"}:
            return None
        try:
            raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            length = request.content_length or MOST_BYTES + 1
            limit = f"JSON payload ({length} bytes) is larger than allowed (limit: {MOST_BYTES} bytes)."
            raise RefusalError(400, limit, is_timed=False) from None
        return self.parsed(raw, request.content_type)


def shown(value: Json, status: int = 200) -> web.Response:
    if isinstance(value, str):
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        return web.Response(body=value.encode(), status=status, headers=headers)
    return web.Response(body=dumps(value), status=status, content_type="application/json")


def _check_query(query: Mapping[str, str]) -> None:
    timeout = query.get("timeout")
    if timeout is None:
        return
    if not timeout.isdecimal():
        raise RefusalError(400, "Deserialize error in query parameters: invalid digit found in string", is_timed=False)
    if int(timeout) < 1:
        raise bad_value("timeout", "value 0 invalid, must be 1 or larger", where="query parameters")


async def _leave_out_server_name(_request: web.Request, response: web.StreamResponse) -> None:
    """Actix sends no `Server`, aiohttp does."""
    response.headers.popall("Server", None)


_KEEPALIVE_SECONDS = 5.0  # the real server's default, which proxies in front of it must handle
_SHUTDOWN_SECONDS = 2.0


class EmbeddedServer:
    """A listening server. `close` flushes the data and removes a temporary directory."""

    def __init__(self, runner: web.AppRunner, registry: Registry, address: Address) -> None:
        self._runner = runner
        self._registry = registry
        self.port = address.port
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.url = f"http://{host}:{address.port}"

    async def close(self) -> None:
        await self._runner.cleanup()
        self._registry.close()


async def start(rest: Rest, address: Address) -> EmbeddedServer:
    """Listen; port 0 picks a free one. Raises OSError if the port is taken, and closes the registry then."""
    runner = web.AppRunner(
        rest.app(),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family)
        await runner.setup()
        await web.SockSite(runner, listening).start()
    except OSError:
        await runner.cleanup()
        rest.registry.close()
        raise
    return EmbeddedServer(runner, rest.registry, Address(address.host, int(listening.getsockname()[1])))

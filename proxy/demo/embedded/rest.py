"""The REST shell: finds a request's verb, reads the body and wraps the value.

`Rest` takes its routes as an argument, and its steps are methods: a server that serves more extends both.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web

from vecsieve.proxy.demo.embedded import collections, points, searches
from vecsieve.proxy.demo.embedded.collections import Call, Registry, Verb
from vecsieve.proxy.demo.embedded.errors import RefusalError, bad_format, bad_value
from vecsieve.proxy.demo.embedded.fields import Json
from vecsieve.proxy.demo.embedded.replies import dumps

Route = tuple[str, str, Verb]
"""A method, a path whose parameters stand in braces, and the verb that answers it."""

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
"""What `vecsieve embedded` serves."""

MOST_BYTES = 32 * 1024 * 1024
"""`max_request_size_mb`, the server's default."""

# What the server says about itself. Clients compare the version with their own.
ABOUT = {"title": "qdrant - vector search engine", "version": "1.19.0"}
_OPEN: Mapping[str, Json] = {
    "/": ABOUT,
    "/healthz": "healthz check passed",
    "/livez": "healthz check passed",
    "/readyz": "all shards are ready",
}


def normalised(raw_path: str) -> str:
    """The path as actix's `NormalizePath::trim` leaves it: `//` merged, no `/` at the end, `/` for nothing."""
    return re.sub("/+", "/", raw_path).rstrip("/") or "/"


def find_verb(routes: Sequence[Route], method: str, raw_path: str) -> tuple[Verb, dict[str, str]] | None:
    """The verb and its path parameters, percent-decoded after splitting so that `%2F` stays inside a name.

    The first route that matches answers.
    """
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
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            values[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return values


def read_json(raw: bytes, content_type: str) -> Json:
    """The parsed body. Raises the 400 of a wrong content type and of text that is not JSON."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise RefusalError(400, "Content type error", is_timed=False)
    if not raw:
        raise bad_format("EOF while parsing a value at line 1 column 0")
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_format(f"{error}") from error


class Rest:
    """Answers every request over the collections of one registry."""

    def __init__(self, registry: Registry, routes: Sequence[Route] = ROUTES) -> None:
        self.registry = registry
        self._routes = routes

    def app(self) -> web.Application:
        """The application that answers with this."""
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self.answer)
        app.on_response_prepare.append(_leave_out_server_name)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        """The response to one request."""
        path = normalised(request.rel_url.raw_path)
        found = find_verb(self._routes, request.method, path)
        if found is None:
            return self.other(request.method, path)
        verb, parameters = found
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
        """The response on a path without a verb: what the server says about itself, or a 404 that names the path."""
        if method == "GET" and path in _OPEN:
            return shown(_OPEN[path])
        refusal = RefusalError(404, f"Not found: the embedded server does not serve {method} {path}", is_timed=False)
        return self.refused(refusal, 0.0)

    def parsed(self, raw: bytes, content_type: str) -> Json:
        """A request's body. Raises RefusalError."""
        return read_json(raw, content_type)

    def refused(self, refusal: RefusalError, seconds: float) -> web.Response:
        """The response that says so. `seconds`: since the server's clock started."""
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
    """A text as plain text, any other value as JSON."""
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
    """Unlike aiohttp, actix sends no `Server`."""
    response.headers.popall("Server", None)

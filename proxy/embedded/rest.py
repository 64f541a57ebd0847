"""The REST shell: one handler that finds the verb, reads the body, wraps the value and compresses the answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import parse_qsl

from aiohttp import web

from vecsieve.proxy.embedded import service
from vecsieve.proxy.embedded.bodies import MOST_BYTES, read_json, too_large
from vecsieve.proxy.embedded.compression import allows_gzip, gzipped
from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.errors import Refusal, bad_format, bad_value
from vecsieve.proxy.embedded.keys import refused_key
from vecsieve.proxy.embedded.registry import Registry
from vecsieve.proxy.embedded.replies import dumps
from vecsieve.proxy.embedded.routes import find_verb, normalised

_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/livez"})
"""Answered without a key, as the server's whitelist has it."""


def make_app(registry: Registry, *, api_key: str | None = None) -> web.Application:
    """The application; the registry stays its maker's to close."""
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", Rest(registry, api_key).answer)
    app.on_response_prepare.append(_leave_out_server_name)
    return app


class Rest:
    """Answers every request."""

    def __init__(self, registry: Registry, api_key: str | None) -> None:
        self._registry = registry
        self._api_key = api_key

    async def answer(self, request: web.Request) -> web.Response:
        """The response to one request, compressed if the client allows it."""
        response = await self._respond(request)
        if isinstance(response.body, bytes) and allows_gzip(request.headers.get("Accept-Encoding")):
            response.body = gzipped(response.body)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "accept-encoding"
            response.enable_chunked_encoding()
        return response

    async def _respond(self, request: web.Request) -> web.Response:
        path = normalised(request.rel_url.raw_path)
        refused = None if path in _OPEN_PATHS else refused_key(request.headers, self._api_key)
        if refused is not None:
            return _plain(refused, 401)
        found = find_verb(request.method, request.rel_url.raw_path)
        if found is None:
            return self._service(request.method, path)
        verb, parameters = found
        started = time.perf_counter()
        try:
            body = await _read_body(request)
            query = dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
            _check_query(query)
            started = time.perf_counter()
            value = verb(self._registry, Call(parameters, query, body))
        except Refusal as refusal:
            return _refused(refusal, started)
        except RecursionError:
            return _refused(bad_format("recursion limit exceeded"), started)
        return _json({"result": value, "status": "ok", "time": time.perf_counter() - started})

    def _service(self, method: str, path: str) -> web.Response:
        answered = service.answer(self._registry, method, path)
        if answered is None:
            return web.Response(status=404)
        return _plain(answered) if isinstance(answered, str) else _json(answered)


async def _read_body(request: web.Request) -> object:
    if request.method in {"GET", "DELETE"}:
        return None
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(request.content_length or MOST_BYTES + 1) from None
    return read_json(raw, request.content_type)


def _check_query(query: Mapping[str, str]) -> None:
    timeout = query.get("timeout")
    if timeout is None:
        return
    if not timeout.isdecimal():
        raise Refusal(400, "Deserialize error in query parameters: invalid digit found in string", is_timed=False)
    if int(timeout) < 1:
        raise bad_value("timeout", "value 0 invalid, must be 1 or larger", where="query parameters")


def _refused(refusal: Refusal, started: float) -> web.Response:
    taken = time.perf_counter() - started if refusal.is_timed else 0.0
    response = _json({"status": {"error": refusal.message}, "time": taken}, refusal.status)
    if refusal.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_seconds)
    return response


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=dumps(value), status=status, content_type="application/json")


def _plain(text: str, status: int = 200) -> web.Response:
    return web.Response(body=text.encode(), status=status, headers={"Content-Type": "text/plain; charset=utf-8"})


async def _leave_out_server_name(_request: web.Request, response: web.StreamResponse) -> None:
    """Unlike aiohttp, actix sends no `Server`."""
    response.headers.popall("Server", None)

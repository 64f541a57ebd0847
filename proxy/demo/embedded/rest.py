"""The REST shell: one handler that finds the verb, reads the body, wraps the value and compresses the answer."""

from __future__ import annotations

import hmac
import json
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web

from vecsieve.proxy.demo.embedded import collections, points, searches
from vecsieve.proxy.demo.embedded import collections as embedded_collections
from vecsieve.proxy.demo.embedded import points as embedded_points
from vecsieve.proxy.demo.embedded import searches as embedded_searches
from vecsieve.proxy.demo.embedded.errors import Refusal, bad_format, bad_value
from vecsieve.proxy.demo.embedded.fields import Json
from vecsieve.proxy.demo.embedded.points import matrix_offsets, matrix_pairs
from vecsieve.proxy.demo.embedded.registry import Call, Registry, Verb
from vecsieve.proxy.demo.embedded.replies import dumps

# Qdrant's paths, each with the verb that answers it. Paths are matched after merging `//` and dropping a trailing `/`.

# Order matters where a literal and a parameter could both match: the literal stands first.
_TABLE: tuple[tuple[str, str, Verb], ...] = (
    ("GET", "/collections", collections.listing),
    ("GET", "/aliases", collections.aliases),
    ("POST", "/collections/aliases", collections.change_aliases),
    ("GET", "/collections/{collection}", collections.info),
    ("PUT", "/collections/{collection}", collections.create),
    ("PATCH", "/collections/{collection}", collections.change),
    ("DELETE", "/collections/{collection}", collections.delete),
    ("GET", "/collections/{collection}/exists", collections.exists),
    ("GET", "/collections/{collection}/aliases", collections.aliases_of),
    ("PUT", "/collections/{collection}/vectors/{vector}", embedded_collections.create_vector),
    ("DELETE", "/collections/{collection}/vectors/{vector}", embedded_collections.delete_vector),
    ("PUT", "/collections/{collection}/index", embedded_collections.create_index),
    ("DELETE", "/collections/{collection}/index/{field}", embedded_collections.delete_index),
    ("POST", "/collections/{collection}/facet", points.facet),
    ("PUT", "/collections/{collection}/points", embedded_points.upsert),
    ("POST", "/collections/{collection}/points", points.retrieve),
    ("GET", "/collections/{collection}/points/{id}", points.get),
    ("POST", "/collections/{collection}/points/scroll", points.scroll),
    ("POST", "/collections/{collection}/points/count", points.count),
    ("POST", "/collections/{collection}/points/delete", embedded_points.delete),
    ("POST", "/collections/{collection}/points/batch", embedded_points.batch),
    ("POST", "/collections/{collection}/points/payload", embedded_points.set_payload),
    ("PUT", "/collections/{collection}/points/payload", embedded_points.overwrite_payload),
    ("POST", "/collections/{collection}/points/payload/delete", embedded_points.delete_payload),
    ("POST", "/collections/{collection}/points/payload/clear", embedded_points.clear_payload),
    ("PUT", "/collections/{collection}/points/vectors", embedded_points.update_vectors),
    ("POST", "/collections/{collection}/points/vectors/delete", embedded_points.delete_vectors),
    ("POST", "/collections/{collection}/points/query", searches.query),
    ("POST", "/collections/{collection}/points/query/batch", searches.query_batch),
    ("POST", "/collections/{collection}/points/query/groups", embedded_searches.query_groups),
    ("POST", "/collections/{collection}/points/search", searches.search),
    ("POST", "/collections/{collection}/points/search/batch", searches.search_batch),
    ("POST", "/collections/{collection}/points/search/groups", embedded_searches.search_groups),
    ("POST", "/collections/{collection}/points/search/matrix/pairs", matrix_pairs),
    ("POST", "/collections/{collection}/points/search/matrix/offsets", matrix_offsets),
    ("POST", "/collections/{collection}/points/recommend", searches.recommend),
    ("POST", "/collections/{collection}/points/recommend/batch", searches.recommend_batch),
    ("POST", "/collections/{collection}/points/recommend/groups", embedded_searches.recommend_groups),
    ("POST", "/collections/{collection}/points/discover", searches.discover),
    ("POST", "/collections/{collection}/points/discover/batch", searches.discover_batch),
)
_ROUTES = tuple((method, tuple(path.split("/")[1:]), verb) for method, path, verb in _TABLE)


def normalised(raw_path: str) -> str:
    """The path as actix's `NormalizePath::trim` leaves it: `//` merged, no `/` at the end, `/` for nothing."""
    return re.sub("/+", "/", raw_path).rstrip("/") or "/"


def find_verb(method: str, raw_path: str) -> tuple[Verb, dict[str, str]] | None:
    """The verb and its path parameters, percent-decoded after splitting so that `%2F` stays inside a name."""
    parts = normalised(raw_path).split("/")[1:]
    for known, pattern, verb in _ROUTES:
        if known != method or len(pattern) != len(parts):
            continue
        values = _matched(pattern, parts)
        if values is not None:
            return verb, values
    return None


def _matched(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    values = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            values[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return values


# A request's body as JSON: parsed as strictly as the server parses it.

MOST_BYTES = 32 * 1024 * 1024
"""`max_request_size_mb`, the server's default."""
_CHECKED_BYTES = 64 * 1024
"""Up to here a body is searched for fields written twice: queries are. Past it are uploads, and a second parse would cost."""
_MAPS = frozenset({"payload", "payloads", "metadata", "defaults"})
"""Members that are maps to the server, not fields: there the last of two equal keys wins."""


class _Doubled(str):
    """Stands where an object had this field twice."""

    __slots__ = ()


def read_json(raw: bytes, content_type: str) -> Json:
    """The parsed body. Raises the 400 of a wrong content type, of text that is not JSON and of a field written twice."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Refusal(400, "Content type error", is_timed=False)
    if not raw:
        raise bad_format("EOF while parsing a value at line 1 column 0")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_format(f"{error}") from error
    if len(raw) <= _CHECKED_BYTES:
        _refuse_doubled(json.loads(raw, object_pairs_hook=_marked))
    return value


def too_large(length: int) -> Refusal:
    """The 400 for more than the server takes."""
    return Refusal(
        400, f"JSON payload ({length} bytes) is larger than allowed (limit: {MOST_BYTES} bytes).", is_timed=False
    )


def _marked(pairs: Sequence[tuple[str, Json]]) -> Json:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    names = [name for name, _ in pairs]
    return _Doubled(next(name for name in names if names.count(name) > 1))


def _refuse_doubled(value: Json) -> None:
    if isinstance(value, _Doubled):
        raise bad_format(f"duplicate field `{value}`")
    inside = value if isinstance(value, list) else []
    if isinstance(value, dict):
        inside = [item for name, item in value.items() if name not in _MAPS]
    for item in inside:
        _refuse_doubled(item)


# The coding of an answer: what actix's `Compress` does whenever the client allows it, whatever the size.

_GZIP_WINDOW_BITS = 31
"""zlib's spelling of a gzip wrapper around the largest window."""
_FASTEST = 1
"""The level actix uses."""


def allows_gzip(accept_encoding: str | None) -> bool:
    """Whether the client takes gzip and did not forbid it with `q=0`."""
    weights: dict[str, float] = {}
    for item in (accept_encoding or "").split(","):
        name, *parameters = [part.strip().lower() for part in item.split(";")]
        weights[name] = next((_weight(part) for part in parameters if part.startswith("q=")), 1.0)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def gzipped(body: bytes) -> bytes:
    """The body in gzip."""
    squeezer = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return squeezer.compress(body) + squeezer.flush()


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0


# The API key, the same over both transports: where it stands, and what is said when it does not open.


def refused_key(given: Mapping[str, str], wanted: str | None) -> str | None:
    """Why a request with these headers is refused; None when it is not. `wanted` None: no key is needed."""
    if wanted is None:
        return None
    key = _given(given)
    if key is None:
        return "Must provide an API key or an Authorization bearer token"
    return None if hmac.compare_digest(key.encode(), wanted.encode()) else "Invalid API key or JWT"


def _given(headers: Mapping[str, str]) -> str | None:
    bearer = headers.get("authorization", "")
    return headers.get("api-key") or (bearer[7:] if bearer.lower().startswith("bearer ") else None)


# What the server says about itself: name and version, health, telemetry, a few metrics.

QDRANT_VERSION = "1.19.0"
"""The server whose wire format this is; clients compare it with their own."""
ABOUT = {"title": "qdrant - vector search engine", "version": QDRANT_VERSION}


def answer(registry: Registry, method: str, path: str) -> Json:
    """Plain text, a JSON value, or None for a path that is not ours."""
    if method != "GET":
        return None
    count = len(registry.names())
    known: dict[str, Json] = {
        "/": ABOUT,
        "/healthz": "healthz check passed",
        "/livez": "healthz check passed",
        "/readyz": "all shards are ready",
        "/metrics": f"# TYPE collections_total gauge\ncollections_total {count}\n",
        "/telemetry": {
            "result": {"id": "embedded", "app": ABOUT, "collections": {"number_of_collections": count}},
            "status": "ok",
            "time": 0.0,
        },
    }
    return known.get(path)


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
        answered = answer(self._registry, method, path)
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

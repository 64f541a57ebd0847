"""REST as the real server speaks it: every route, the API key, compression, and bodies parsed as strictly."""

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
from servers.embedded import points as plain_points
from servers.embedded.collections import Call, Registry, Verb
from servers.embedded.fields import Json, RefusalError, bad_format, bad_value
from servers.embedded.replies import dumps
from servers.qdrant import catalogue, points, searches
from servers.qdrant.limits import RateExceededError

ROUTES: tuple[tuple[str, str, Verb], ...] = (
    ("GET", "/collections", catalogue.listing),
    ("PUT", "/collections/{collection}", catalogue.create),
    ("DELETE", "/collections/{collection}", catalogue.delete),
    ("GET", "/collections/{collection}/exists", catalogue.exists),
    ("PUT", "/collections/{collection}/points", plain_points.upsert),
    ("POST", "/collections/{collection}/points/delete", plain_points.delete),
    ("POST", "/collections/{collection}/points/payload", plain_points.set_payload),
    ("GET", "/collections/{collection}", catalogue.info),
    ("POST", "/collections/{collection}/points", points.retrieve),
    ("GET", "/collections/{collection}/points/{id}", points.get),
    ("POST", "/collections/{collection}/points/scroll", points.scroll),
    ("POST", "/collections/{collection}/points/count", points.count),
    ("POST", "/collections/{collection}/points/query", searches.query),
    ("POST", "/collections/{collection}/points/query/batch", searches.query_batch),
    ("POST", "/collections/{collection}/points/search", searches.search),
    ("POST", "/collections/{collection}/points/search/batch", searches.search_batch),
    ("GET", "/aliases", catalogue.aliases),
    ("POST", "/collections/aliases", catalogue.change_aliases),
    ("PATCH", "/collections/{collection}", catalogue.change),
    ("GET", "/collections/{collection}/aliases", catalogue.aliases_of),
    ("PUT", "/collections/{collection}/vectors/{vector}", catalogue.create_vector),
    ("DELETE", "/collections/{collection}/vectors/{vector}", catalogue.delete_vector),
    ("PUT", "/collections/{collection}/index", catalogue.create_index),
    ("DELETE", "/collections/{collection}/index/{field}", catalogue.delete_index),
    ("POST", "/collections/{collection}/facet", points.facet),
    ("POST", "/collections/{collection}/points/batch", points.batch),
    ("PUT", "/collections/{collection}/points/payload", points.overwrite_payload),
    ("POST", "/collections/{collection}/points/payload/delete", points.delete_payload),
    ("POST", "/collections/{collection}/points/payload/clear", points.clear_payload),
    ("PUT", "/collections/{collection}/points/vectors", points.update_vectors),
    ("POST", "/collections/{collection}/points/vectors/delete", points.delete_vectors),
    ("POST", "/collections/{collection}/points/query/groups", searches.query_groups),
    ("POST", "/collections/{collection}/points/search/groups", searches.search_groups),
    ("POST", "/collections/{collection}/points/search/matrix/pairs", points.matrix_pairs),
    ("POST", "/collections/{collection}/points/search/matrix/offsets", points.matrix_offsets),
    ("POST", "/collections/{collection}/points/recommend", searches.recommend),
    ("POST", "/collections/{collection}/points/recommend/batch", searches.recommend_batch),
    ("POST", "/collections/{collection}/points/recommend/groups", searches.recommend_groups),
    ("POST", "/collections/{collection}/points/discover", searches.discover),
    ("POST", "/collections/{collection}/points/discover/batch", searches.discover_batch),
)
"""A method, a path with its parameters in braces, and the verb."""
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


def find_verb(method: str, raw_path: str) -> tuple[Verb, dict[str, str]] | None:
    """The verb of the first route that matches, and its path parameters, percent-decoded after splitting."""
    parts = normalised(raw_path).split("/")
    for known, pattern, verb in ROUTES:
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


class Rest:
    """`api_key` None: no key is needed."""

    def __init__(self, registry: Registry, *, api_key: str | None = None) -> None:
        self.registry = registry
        self._api_key = api_key

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self.answer)
        app.on_response_prepare.append(_leave_out_server_name)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        """Refused without the key, compressed if the client allows it."""
        path = normalised(request.rel_url.raw_path)
        refused = None if path in _OPEN else refused_key(request.headers, self._api_key)
        response = await self._answered(request, path) if refused is None else listed(refused, 401)
        if isinstance(response.body, bytes) and allows_gzip(request.headers.get("Accept-Encoding")):
            response.body = gzipped(response.body)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "accept-encoding"
            response.enable_chunked_encoding()
        return response

    async def _answered(self, request: web.Request, path: str) -> web.Response:
        match = find_verb(request.method, path)
        if match is None:
            return self._other(request.method, path)
        verb, parameters = match
        started = time.perf_counter()
        try:
            body = await self._body(request)
            query = dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
            _check_query(query)
            started = time.perf_counter()
            value = verb(self.registry, Call(parameters, query, body))
        except RefusalError as refusal:
            return _refused(refusal, time.perf_counter() - started)
        except RecursionError:
            return _refused(bad_format("recursion limit exceeded"), 0.0)
        return listed({"result": value, "status": "ok", "time": time.perf_counter() - started})

    def _other(self, method: str, path: str) -> web.Response:
        """Version, health, metrics and telemetry; an unknown path is an empty 404."""
        count = len(self.registry.names())
        if method == "GET" and path in _OPEN:
            return listed(_OPEN[path])
        if method == "GET" and path == "/metrics":
            return listed(f"# TYPE collections_total gauge\ncollections_total {count}\n")
        if method == "GET" and path == "/telemetry":
            about = {"id": "embedded", "app": ABOUT, "collections": {"number_of_collections": count}}
            return listed({"result": about, "status": "ok", "time": 0.0})
        return web.Response(status=404)

    async def _body(self, request: web.Request) -> Json:
        if request.method in {"GET", "DELETE"}:
            return None
        try:
            raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            length = request.content_length or MOST_BYTES + 1
            limit = f"JSON payload ({length} bytes) is larger than allowed (limit: {MOST_BYTES} bytes)."
            raise RefusalError(400, limit, is_timed=False) from None
        return read_strictly(raw, request.content_type)


def _refused(refusal: RefusalError, seconds: float) -> web.Response:
    """The response that says so, and when to ask again if there is such a time. `seconds`: measured by the server."""
    taken = seconds if refusal.is_timed else 0.0
    response = listed({"status": {"error": refusal.message}, "time": taken}, refusal.status)
    if isinstance(refusal, RateExceededError) and refusal.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_seconds)
    return response


def listed(value: Json, status: int = 200) -> web.Response:
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


# A request's body as JSON: parsed as strictly as the server parses it.

_CHECKED_BYTES = 64 * 1024
"""Up to here a body is searched for fields written twice: queries are. Past it are uploads, and a second parse would cost."""
_MAPS = frozenset({"payload", "payloads", "metadata", "defaults"})
"""Members that are maps to the server, not fields: there the last of two equal keys wins."""


class _Doubled(str):
    """Stands where an object had this field twice."""

    __slots__ = ()


def read_strictly(raw: bytes, content_type: str) -> Json:
    """The parsed body. Raises the 400 of a wrong content type, of text that is not JSON and of a field written twice."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise RefusalError(400, "Content type error", is_timed=False)
    if not raw:
        raise bad_format("EOF while parsing a value at line 1 column 0")
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_format(f"{error}") from error
    if len(raw) <= _CHECKED_BYTES:
        _refuse_doubled(json.loads(raw, object_pairs_hook=_marked))
    return value


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


# The API key, the same over both transports.


def refused_key(given: Mapping[str, str], expected: str | None) -> str | None:
    """Why a request with these headers is refused; None when it is not. `wanted` None: no key is needed."""
    if expected is None:
        return None
    key = _given(given)
    if key is None:
        return "Must provide an API key or an Authorization bearer token"
    return None if hmac.compare_digest(key.encode(), expected.encode()) else "Invalid API key or JWT"


def _given(headers: Mapping[str, str]) -> str | None:
    bearer = headers.get("authorization", "")
    return headers.get("api-key") or (bearer[7:] if bearer.lower().startswith("bearer ") else None)

"""REST as the real server speaks it: every route, the API key, compression, and bodies parsed as strictly."""

from __future__ import annotations

import hmac
import json
import zlib
from collections.abc import Mapping, Sequence

from aiohttp import web
from servers.embedded.collections import Registry
from servers.embedded.fields import Json, RefusalError, bad_format
from servers.embedded.rest import ABOUT, ROUTES, Rest, Route, normalised, read_json, shown
from servers.qdrant import catalogue, points, searches
from servers.qdrant.limits import RateExceededError

# The first route that matches answers: these stand before the product's of the same path.
ALL_ROUTES: tuple[Route, ...] = (
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
    *ROUTES,
)

_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/livez"})
"""Answered without a key, as the server's whitelist has it."""


class FullRest(Rest):
    """All that the tests ask of a Qdrant server. `api_key` None: no key is needed."""

    def __init__(self, registry: Registry, *, api_key: str | None = None) -> None:
        super().__init__(registry, ALL_ROUTES)
        self._api_key = api_key

    async def answer(self, request: web.Request) -> web.Response:
        """The response to one request: refused without the key, compressed if the client allows it."""
        is_open = normalised(request.rel_url.raw_path) in _OPEN_PATHS
        refused = None if is_open else refused_key(request.headers, self._api_key)
        response = await super().answer(request) if refused is None else shown(refused, 401)
        if isinstance(response.body, bytes) and allows_gzip(request.headers.get("Accept-Encoding")):
            response.body = gzipped(response.body)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "accept-encoding"
            response.enable_chunked_encoding()
        return response

    def other(self, method: str, path: str) -> web.Response:
        """Metrics and telemetry; an unknown path is an empty 404, as in the real server."""
        if method == "GET":
            count = len(self.registry.names())
            if path == "/metrics":
                return shown(f"# TYPE collections_total gauge\ncollections_total {count}\n")
            if path == "/telemetry":
                about = {"id": "embedded", "app": ABOUT, "collections": {"number_of_collections": count}}
                return shown({"result": about, "status": "ok", "time": 0.0})
        return super().other(method, path) if path in _OPEN_PATHS else web.Response(status=404)

    def parsed(self, raw: bytes, content_type: str) -> Json:
        """A request's body; a field written twice is refused."""
        return read_strictly(raw, content_type)

    def refused(self, refusal: RefusalError, seconds: float) -> web.Response:
        """The response that says so, and when to ask again if there is such a time."""
        response = super().refused(refusal, seconds)
        if isinstance(refusal, RateExceededError) and refusal.retry_after_seconds is not None:
            response.headers["Retry-After"] = str(refusal.retry_after_seconds)
        return response


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
    value = read_json(raw, content_type)
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

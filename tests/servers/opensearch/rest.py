"""Routes, headers, and the options that every answer has: `pretty` and `filter_path`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import orjson
from servers.opensearch import searches, writes
from servers.opensearch.errors import PlainError, RefusedError, invalid, unknown_index
from servers.opensearch.hits import filtered
from servers.opensearch.store import Node, Product
from servers.opensearch.writing import pretty, written

Json = dict[str, Any]
Headers = dict[str, str]
VERSIONS = {Product.OPENSEARCH: "3.5.0", Product.ELASTICSEARCH: "9.3.1"}
_NAMED = {
    "_source", "_source_includes", "_source_excludes", "_source_exclude_vectors", "allow_no_indices", "allow_partial_search_results",
    "batched_reduce_size", "ccs_minimize_roundtrips", "docvalue_fields", "error_trace", "expand_wildcards", "filter_path", "format", "from",
    "human", "ignore_throttled", "ignore_unavailable", "keep_alive", "max_concurrent_searches", "max_concurrent_shard_requests", "op_type",
    "pipeline", "pre_filter_shard_size", "preference", "pretty", "refresh", "request_cache", "require_alias", "rest_total_hits_as_int",
    "routing", "scroll", "search_pipeline", "search_type", "seq_no_primary_term", "size", "stored_fields", "timeout", "track_scores",
    "track_total_hits", "typed_keys", "version", "wait_for_active_shards", "wait_for_completion", "conflicts", "cluster_manager_timeout",
    "master_timeout", "realtime", "slices", "scroll_id", "level", "features", "flat_settings", "include_defaults", "local", "h", "v",
    "wait_for_status", "if_seq_no", "if_primary_term",
}  # fmt: skip


class Request:
    """One request. ``path``: its decoded parts. ``kind``: of its body, ``accept``: of its answer."""

    def __init__(
        self, method: str, target: str, url: Mapping[str, str], kind: str, body: bytes, accept: str = ""
    ) -> None:
        self.method = method
        self.target = target
        self.path = [unquote(part) for part in target.split("/")[1:] if part]
        self.url = url
        self.kind = kind
        self.accept = accept
        self.raw = body

    @property
    def body(self) -> Json:
        """Raises RefusedError for what is no object."""
        if not self.raw:
            return {}
        try:
            value = orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise RefusedError(400, "json_parse_exception", str(error)) from None
        if not isinstance(value, dict):
            raise RefusedError(
                400, "parsing_exception", "Expected [START_OBJECT] but found [START_ARRAY]", line=1, col=1
            )
        return value

    @property
    def refresh(self) -> str | None:
        return self.url.get("refresh")


Handler = Callable[[Node, Request, list[str]], tuple[int, Any]]


def _info(node: Node, _: Request, __: list[str]) -> tuple[int, Any]:
    is_open = node.product is Product.OPENSEARCH
    version: Json = {"distribution": "opensearch"} if is_open else {}
    version |= {
        "number": VERSIONS[node.product],
        "build_flavor": "default",
        "build_type": "unknown",
        "build_snapshot": False,
        "lucene_version": "10.3.2",
    }
    tagline = "The OpenSearch Project: https://opensearch.org/" if is_open else "You Know, for Search"
    return 200, {
        "name": "node1",
        "cluster_name": "tests",
        "cluster_uuid": "tests",
        "version": version,
        "tagline": tagline,
    }


def _create(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    node.create(names[0], request.body)
    return 200, {"acknowledged": True, "shards_acknowledged": True, "index": names[0]}


def _delete(node: Node, _: Request, names: list[str]) -> tuple[int, Any]:
    node.delete(names[0])
    return 200, {"acknowledged": True}


def _exists(node: Node, _: Request, names: list[str]) -> tuple[int, Any]:
    try:
        return (200 if node.resolved(names[0]) else 404), None
    except RefusedError:
        return 404, None


def _mapping(node: Node, _: Request, names: list[str]) -> tuple[int, Any]:
    return 200, {
        index.name: {"mappings": {"properties": index.properties} if index.properties else {}}
        for index in node.resolved(names[0])
    }


def _put_mapping(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    for index in node.resolved(names[0]):
        index.properties |= request.body.get("properties", {})
    return 200, {"acknowledged": True}


def _describe(node: Node, _: Request, names: list[str]) -> tuple[int, Any]:
    made = {}
    for index in node.resolved(names[0]):
        aliases: Json = {alias: {} for alias, inside in node.aliases.items() if index.name in inside}
        made[index.name] = {
            "aliases": aliases,
            "mappings": {"properties": index.properties},
            "settings": {"index": {"number_of_shards": "1", **index.settings.get("index", index.settings)}},
        }
    return 200, made


def _aliases(node: Node, request: Request, _: list[str]) -> tuple[int, Any]:
    for action in request.body["actions"]:
        ((verb, about),) = action.items()
        inside = node.aliases.setdefault(about["alias"], set())
        (inside.add if verb == "add" else inside.discard)(node.one(about["index"]).name)
    return 200, {"acknowledged": True} if node.product is Product.OPENSEARCH else {
        "acknowledged": True,
        "errors": False,
    }


def _refresh(node: Node, _: Request, names: list[str]) -> tuple[int, Any]:
    count = len(node.resolved(names[0] if names else ""))
    return 200, {"_shards": {"total": count, "successful": count, "failed": 0}}


def _search(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return 200, searches.search(node, names[0] if names else "", request.body, request.url)


def _count(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return 200, searches.count(node, names[0] if names else "", request.body)


def _msearch(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return 200, searches.msearch(node, names[0] if names else "", request.raw, request.url)


def _scroll(node: Node, request: Request, _: list[str]) -> tuple[int, Any]:
    given = request.body.get("scroll_id", request.url.get("scroll_id", ""))
    if request.method != "DELETE":
        return 200, searches.scrolled(node, given)
    gone = [node.scrolls.pop(identifier, None) for identifier in (given if isinstance(given, list) else [given])]
    return 200, {"succeeded": True, "num_freed": len(gone)}


def _bulk(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return 200, writes.bulk(node, names[0] if names else "", request.raw, request.refresh)


def _doc(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    name, identifier = names[0], names[1] if len(names) > 1 else None
    match request.method:
        case "GET" | "HEAD":
            return writes.get(node.one(name), identifier or "", {}, request.url)
        case "DELETE":
            return writes.delete(node.one(name), identifier or "", request.url, refresh=request.refresh)
    is_new = request.url.get("op_type") == "create"
    return writes.put(node.written(name), identifier, request.raw, is_new=is_new, refresh=request.refresh)


def _new_doc(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return writes.put(node.written(names[0]), names[1], request.raw, is_new=True, refresh=request.refresh)


def _update(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return writes.update(node.one(names[0]), names[1], request.body, refresh=request.refresh)


def _mget(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return 200, writes.mget(node, names[0] if names else "", request.body, request.url)


def _delete_by_query(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    return 200, writes.delete_by_query(node, names[0], request.body)


def _pit(node: Node, request: Request, names: list[str]) -> tuple[int, Any]:
    is_open = node.product is Product.OPENSEARCH
    if request.method == "DELETE":
        given = request.body.get("pit_id" if is_open else "id", [])
        gone = [
            identifier
            for identifier in (given if isinstance(given, list) else [given])
            if node.pits.pop(identifier, None) is not None
        ]
        if is_open:
            return 200, {"pits": [{"successful": True, "pit_id": identifier} for identifier in gone]}
        return 200, {"succeeded": True, "num_freed": len(gone)}
    if "keep_alive" not in request.url:
        raise invalid("keep_alive cannot be empty")
    indices = node.resolved(names[0])
    shards = {"total": len(indices), "successful": len(indices), "skipped": 0, "failed": 0}
    return 200, {"pit_id" if is_open else "id": node.open_pit(indices, shard=_shard(request)), "_shards": shards}


def _shard(request: Request) -> int:
    """The one that a point in time is of, all documents being in the first."""
    kind, _, number = request.url.get("preference", "").partition(":")
    return int(number) if kind == "_shards" else 0


def _health(_: Node, __: Request, ___: list[str]) -> tuple[int, Any]:
    return 200, {"cluster_name": "tests", "status": "green", "timed_out": False, "number_of_nodes": 1}


_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET HEAD", "/", _info),
    ("GET", "/_cluster/health", _health),
    ("GET", "/_license", lambda _, __, ___: (200, {"license": {"status": "active", "type": "basic", "mode": "basic"}})),
    ("POST", "/_aliases", _aliases),
    ("POST GET", "/_search", _search),
    ("GET POST", "/_msearch", _msearch),
    ("GET POST", "/_count", _count),
    ("GET POST", "/_mget", _mget),
    ("POST PUT", "/_bulk", _bulk),
    ("GET POST", "/_refresh", _refresh),
    ("GET POST DELETE", "/_search/scroll", _scroll),
    ("DELETE", "/_search/point_in_time", _pit),
    ("DELETE", "/_pit", _pit),
    ("POST GET", "/{}/_search", _search),
    ("GET POST", "/{}/_msearch", _msearch),
    ("GET POST", "/{}/_count", _count),
    ("GET POST", "/{}/_mget", _mget),
    ("POST PUT", "/{}/_bulk", _bulk),
    ("GET POST", "/{}/_refresh", _refresh),
    ("GET", "/{}/_mapping", _mapping),
    ("PUT POST", "/{}/_mapping", _put_mapping),
    ("POST", "/{}/_search/point_in_time", _pit),
    ("POST", "/{}/_pit", _pit),
    ("POST", "/{}/_delete_by_query", _delete_by_query),
    ("POST", "/{}/_doc", _doc),
    ("GET HEAD PUT POST DELETE", "/{}/_doc/{}", _doc),
    ("PUT POST", "/{}/_create/{}", _new_doc),
    ("POST", "/{}/_update/{}", _update),
    ("PUT", "/{}", _create),
    ("DELETE", "/{}", _delete),
    ("HEAD", "/{}", _exists),
    ("GET", "/{}", _describe),
)
_COMPILED = [
    (methods.split(), [part for part in pattern.split("/") if part], handler) for methods, pattern, handler in _ROUTES
]


def answer(node: Node, request: Request) -> tuple[int, Headers, bytes]:
    """Status, headers and body."""
    try:
        _check(request)
        status, value = _handled(node, request)
    except RefusedError as refused:
        status, value = refused.status, refused.body
    headers = (
        {"X-elastic-product": "Elasticsearch"}
        if node.product is Product.ELASTICSEARCH
        else {"X-OpenSearch-Version": f"OpenSearch/{VERSIONS[node.product]} (opensearch)"}
    )
    if value is None:
        return status, headers, b""
    headers["content-type"] = _content_type(node.product, request)
    if status == 201:
        headers["Location"] = f"/{value['_index']}/_doc/{value['_id']}"
    if paths := request.url.get("filter_path"):
        value = filtered(value, *_split(paths.split(",")))
    return status, headers, pretty(value) if request.url.get("pretty") in {"", "true"} else written(value)


def _content_type(product: Product, request: Request) -> str:
    if product is Product.OPENSEARCH:
        return "application/json; charset=UTF-8"
    return (
        "application/vnd.elasticsearch+json;compatible-with=9"
        if "vnd.elasticsearch" in request.kind
        else "application/json"
    )


def _split(paths: list[str]) -> tuple[list[str], list[str]]:
    return [path for path in paths if not path.startswith("-")], [path[1:] for path in paths if path.startswith("-")]


def _check(request: Request) -> None:
    if request.raw and not re.match(r"application/(vnd\.elasticsearch\+)?(x-nd)?json", request.kind):
        raise PlainError(406, f"Content-Type header [{request.kind}] is not supported")
    if request.raw and "compatible-with" in request.accept and "compatible-with" not in request.kind:
        reason = "A compatible version is required on both Content-Type and Accept headers if either one has requested a compatible version."
        raise RefusedError(400, "media_type_header_exception", reason)
    for name in request.url:
        if name not in _NAMED:
            raise invalid(f"request [{request.target}] contains unrecognized parameter: [{name}]")


def _handled(node: Node, request: Request) -> tuple[int, Any]:
    allowed: list[str] = []
    for methods, pattern, handler in _COMPILED:
        names = _names(pattern, request.path)
        if names is None:
            continue
        if request.method in methods:
            return handler(node, request, names)
        allowed += methods
    if allowed:
        raise PlainError(
            405,
            f"Incorrect HTTP method for uri [{request.target}] and method [{request.method}], allowed: [{', '.join(allowed)}]",
        )
    if request.path and request.path[0].startswith("_"):
        raise unknown_index(request.path[0])
    raise PlainError(
        400, f"no handler found for uri [{request.target}] and method [{request.method}]", has_status=False
    )


def _names(pattern: list[str], path: list[str]) -> list[str] | None:
    """The variable parts; None where the path is another."""
    if len(pattern) != len(path):
        return None
    if any(part not in ("{}", given) for part, given in zip(pattern, path, strict=True)):
        return None
    variable = [given for part, given in zip(pattern, path, strict=True) if part == "{}"]
    return None if variable and variable[0].startswith("_") and variable[0] != "_all" else variable

"""Which Qdrant requests are ranked searches, and which change what is stored; errors, and the refusal of a limit by strict mode.

The server merges repeated slashes and drops trailing ones before it routes (actix ``NormalizePath::trim``; Qdrant's own test script
calls ``//collections/x/points/search/``), and splits before it decodes, so ``%2F`` stays inside a name. The caller removes a
deployment prefix. Groups, matrix, scroll, facet, single points and ``/collections/{name}/shards/{id}/points/...`` are passed through.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

import msgspec

from ..base import GrpcDialect, RestDialect, json_text
from ..contract import GRPC_SERVICES, SAFE_METHODS, NativeAnswer, Operation, RequestHead, Touched, may_be_json
from ..wire.protobuf import methods, text_at

BACKEND = "qdrant"

# Path after /collections/{name}/points/ -> the operation's name, a metric label.
ROUTES = {
    ("query",): "query",
    ("query", "batch"): "query_batch",
    ("search",): "search",
    ("search", "batch"): "search_batch",
    ("recommend",): "recommend",
    ("recommend", "batch"): "recommend_batch",
    ("discover",): "discover",
    ("discover", "batch"): "discover_batch",
}


def segments_of(path: str) -> list[str]:
    """Without the empty ones."""
    return [segment for segment in path.split("/") if segment]


def classify_rest(head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other."""
    segments = segments_of(head.path)
    name = ROUTES.get(tuple(segments[3:])) if head.method == "POST" else None
    return _on_points(head, segments, name)


UPSERT, UPDATES = "upsert", "updates"


def classify_rest_write(head: RequestHead) -> Operation | None:
    """The upsert of a request, or its list of updates; None for any other."""
    segments = segments_of(head.path)
    return _on_points(head, segments, {("PUT",): UPSERT, ("POST", "batch"): UPDATES}.get((head.method, *segments[3:])))


def _on_points(head: RequestHead, segments: list[str], name: str | None) -> Operation | None:
    """The operation of a request below ``/collections/{name}/points``; None for any other request, and without a ``name``."""
    is_below = segments[:1] == ["collections"] and segments[2:3] == ["points"]
    collection = _decoded(segments[1]) if name is not None and is_below else None
    if name is None or collection is None or not head.path.startswith("/") or not may_be_json(head.content_type):
        return None
    return Operation(backend=BACKEND, name=name, collection=collection)


def collection_of(head: RequestHead) -> str:
    """The collection named by any request; "" for none."""
    segments = segments_of(head.path)
    named = _decoded(segments[1]) if len(segments) > 1 and segments[0] == "collections" else None
    return named or ""


def _decoded(segment: str) -> str | None:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeError:  # invalid UTF-8: no collection's name
        return None


# Unary methods, up to Qdrant 1.20. Any other method is forwarded as a stream in both directions, which costs more.
UNARY = (
    methods(
        "qdrant.Points",
        "Upsert Delete Get UpdateVectors DeleteVectors SetPayload OverwritePayload DeletePayload ClearPayload "
        "CreateFieldIndex DeleteFieldIndex CreateVectorName DeleteVectorName Search SearchBatch SearchGroups Scroll "
        "Recommend RecommendBatch RecommendGroups Discover DiscoverBatch Count UpdateBatch Query QueryBatch QueryGroups "
        "Facet SearchMatrixPairs SearchMatrixOffsets",
    )
    | methods(
        "qdrant.Collections",
        "Get List Create Update Delete UpdateAliases ListCollectionAliases ListAliases CollectionClusterInfo "
        "CollectionExists UpdateCollectionClusterSetup CreateShardKey DeleteShardKey ListShardKeys",
    )
    | methods("qdrant.Snapshots", "Create List Delete CreateFull ListFull DeleteFull")
    | methods("qdrant.Qdrant", "HealthCheck")
    | methods("grpc.health.v1.Health", "Check")
)

# gRPC method -> the operation's name, as over REST.
METHODS = {
    "/qdrant.Points/Query": "query",
    "/qdrant.Points/QueryBatch": "query_batch",
    "/qdrant.Points/Search": "search",
    "/qdrant.Points/SearchBatch": "search_batch",
    "/qdrant.Points/Recommend": "recommend",
    "/qdrant.Points/RecommendBatch": "recommend_batch",
    "/qdrant.Points/Discover": "discover",
    "/qdrant.Points/DiscoverBatch": "discover_batch",
}

# collection_name, in requests of both services.
COLLECTION = 1


def classify_grpc(head: RequestHead) -> Operation | None:
    """The ranked search of a call; None for any other. Never raises."""
    name = METHODS.get(head.path) if head.method == "POST" else None
    if name is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=collection_in(head.message))


def collection_named(head: RequestHead) -> str:
    """The collection named by a call of the service Points; "" for none, and for other services."""
    return collection_in(head.message) if head.path.startswith("/qdrant.Points/") else ""


def collection_in(message: bytes) -> str:
    """The collection named by a message; "" if it cannot be parsed, in which case the search is unsupported as well."""
    return text_at(message, COLLECTION)


# Requests after which stored points, or a collection's vectors, may be others than before. Every request counts that is not known to be harmless, because
# it may be one of a newer server. Harmless are reads, and writes after which a point has another version (a restored snapshot or a moved
# shard brings versions back). ``METHOD path`` below /collections/{name}/:
_HARMLESS = re.compile(
    r"POST points(?:/(?:(?:search|recommend|discover|query)(?:/batch|/groups)?|search/matrix/(?:pairs|offsets)|scroll|count|delete|batch"
    r"|(?:payload|vectors)(?:/delete)?|payload/clear))?"
    r"|PUT points(?:/(?:payload|vectors))?|POST facet|PUT index|DELETE index/[^/]+"
    r"|POST (?:shards/[^/]+/)?snapshots|DELETE (?:shards/[^/]+/)?snapshots/[^/]+"
)
_ANY = Touched(collection=None)
_ALIASES = ["collections", "aliases"]

_HARMLESS_METHODS = (
    methods(
        "qdrant.Points",
        "Upsert Delete Get UpdateVectors DeleteVectors SetPayload OverwritePayload DeletePayload ClearPayload "
        "CreateFieldIndex DeleteFieldIndex Search SearchBatch SearchGroups Scroll Recommend RecommendBatch "
        "RecommendGroups Discover DiscoverBatch Count UpdateBatch Query QueryBatch QueryGroups Facet SearchMatrixPairs "
        "SearchMatrixOffsets",
    )
    | methods(
        "qdrant.Collections",
        "Get List CollectionExists ListAliases ListCollectionAliases CollectionClusterInfo ListShardKeys",
    )
    | methods("qdrant.Snapshots", "Create List Delete CreateFull ListFull DeleteFull")
    | methods("qdrant.Qdrant", "HealthCheck")
)
_OF_ONE = methods("qdrant.Collections", "Create Update Delete")


def reshaped(head: RequestHead) -> Touched | None:
    """The collection that the request may change; None for none. Never raises.

    Below a collection's own path it may be any collection: searches may name it by an alias.
    """
    if head.method in SAFE_METHODS:
        return None
    segments = segments_of(head.path)
    if segments[:1] != ["collections"] or segments == _ALIASES:
        return _ANY
    if len(segments) == 2:
        return Touched(collection=collection_of(head) or None)
    return None if _HARMLESS.fullmatch(f"{head.method} {'/'.join(segments[2:])}") else _ANY


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same for a call. Never raises."""
    if head.path in _HARMLESS_METHODS or head.path.startswith(GRPC_SERVICES):
        return None
    return Touched(collection=collection_in(head.message) or None) if head.path in _OF_ONE else _ANY


# `Bad request: Limit exceeded 50 > 10 for "limit". Help: ..`: max_query_limit, for the root or for a prefetch.
_REFUSED = re.compile(r'Limit exceeded \d+ > (\d{1,18}) for "limit"')

_UNKNOWN_VECTOR = "Not existing vector name"


class _Status(msgspec.Struct):
    error: str


class _Error(msgspec.Struct):
    status: _Status


_DECODER = msgspec.json.Decoder(_Error)


class QdrantDialect(RestDialect):
    limit = _REFUSED
    unknown_vector = _UNKNOWN_VECTOR

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The body of errors that the server finds before it starts the clock: ``"time":0.0``."""
        body = b'{"status":{"error":%s},"time":0.0}' % json_text(message)
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def words(self, status: int, body: bytes) -> str:
        if status != HTTPStatus.BAD_REQUEST:
            return ""
        try:
            return _DECODER.decode(body).status.error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return ""


INVALID_ARGUMENT = 3


class QdrantGrpcDialect(GrpcDialect):
    """Over gRPC: a status code, and the same texts as over REST."""

    limit = _REFUSED
    unknown_vector = _UNKNOWN_VECTOR

    def words(self, status: int, body: bytes) -> str:
        return super().words(status, body) if status == INVALID_ARGUMENT else ""

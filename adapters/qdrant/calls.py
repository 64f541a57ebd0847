"""Which Qdrant requests are ranked searches: raw path in, operation out.

The server merges repeated slashes and drops trailing ones before it routes (actix ``NormalizePath::trim``; Qdrant's own
test script calls ``//collections/x/points/search/``), and splits before it decodes, so ``%2F`` stays inside a name.
A deployment prefix is taken off by the caller. What this file does not know goes through untouched, and that includes
groups, matrix, scroll, facet, single points and ``/collections/{name}/shards/{id}/points/...``.
"""

from __future__ import annotations

from itertools import chain
from urllib.parse import unquote_to_bytes

from vecsieve.adapters.contract import Operation, RequestHead, Touched, may_be_json
from vecsieve.adapters.wire.protobuf import LENGTH, head_fields, only, text

BACKEND = "qdrant"

# What follows /collections/{name}/points/ -> the operation's name, a metric label.
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


def classify_rest(head: RequestHead) -> Operation | None:
    """Name the ranked search a request head stands for; None for everything else. Total."""
    if head.method != "POST" or not head.path.startswith("/") or not may_be_json(head.content_type):
        return None
    segments = [segment for segment in head.path.split("/") if segment]
    if len(segments) not in {4, 5} or segments[0] != "collections" or segments[2] != "points":
        return None
    name = ROUTES.get(tuple(segments[3:]))
    collection = _decoded(segments[1])
    if name is None or collection is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=collection)


def collection_of(head: RequestHead) -> str:
    """The collection that any request names; "" for none."""
    segments = [segment for segment in head.path.split("/") if segment]
    named = _decoded(segments[1]) if len(segments) > 1 and segments[0] == "collections" else None
    return named or ""


def _decoded(segment: str) -> str | None:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeError:  # bytes that are no UTF-8, or a path that could not be encoded: not a collection's name
        return None


# Qdrant's methods of one message each way, up to 1.20: what is known of their shape lets them be passed on at less cost.
#
# A method that is not here, because it streams or is newer, is passed on as a stream in both directions.

_METHODS = {
    "qdrant.Points": (
        "Upsert Delete Get UpdateVectors DeleteVectors SetPayload OverwritePayload DeletePayload ClearPayload "
        "CreateFieldIndex DeleteFieldIndex CreateVectorName DeleteVectorName Search SearchBatch SearchGroups Scroll "
        "Recommend RecommendBatch RecommendGroups Discover DiscoverBatch Count UpdateBatch Query QueryBatch QueryGroups "
        "Facet SearchMatrixPairs SearchMatrixOffsets"
    ),
    "qdrant.Collections": (
        "Get List Create Update Delete UpdateAliases ListCollectionAliases ListAliases CollectionClusterInfo "
        "CollectionExists UpdateCollectionClusterSetup CreateShardKey DeleteShardKey ListShardKeys"
    ),
    "qdrant.Snapshots": "Create List Delete CreateFull ListFull DeleteFull",
    "qdrant.Qdrant": "HealthCheck",
    "grpc.health.v1.Health": "Check",
}

UNARY = frozenset(
    chain.from_iterable((f"/{service}/{name}" for name in names.split()) for service, names in _METHODS.items())
)

# Which methods of Qdrant's gRPC services are ranked searches: method path in, operation out.
#
# Everything else goes through untouched, and that includes groups, matrix, scroll, facet and every service but Points.

# The method's path -> the operation's name, which is the REST endpoint's: a metric label.
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

# collection_name, in each of their requests, and in those that make, change and delete a collection.
COLLECTION = 1


def classify_grpc(head: RequestHead) -> Operation | None:
    """Name the ranked search a head stands for; None for everything else. Total."""
    name = METHODS.get(head.path) if head.method == "POST" else None
    if name is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=collection_in(head.message))


def collection_named(head: RequestHead) -> str:
    """The collection that a call of the service Points names; "" for none, and for every other service."""
    return collection_in(head.message) if head.path.startswith("/qdrant.Points/") else ""


def collection_in(message: bytes) -> str:
    """The collection a request names; "" where it cannot be told, and is then not searched by us either."""
    try:
        named = only(head_fields(message), COLLECTION, LENGTH)
        return "" if named is None else text(message, named)
    except ValueError:
        return ""


# Which Qdrant requests may change what a collection is like: its vectors, their sizes, or what an alias leads to.
#
# By path and message alone, and whatever comes of them. Every change to a collection that is not one to its points counts,
# so that a newer server's calls do: only what is known to leave its shape alone is taken for that.

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ANY = Touched(collection=None)
# Below /collections/{name}/: points, payload indexes, facets, and what moves shards about.
_KEEPING = frozenset({"points", "index", "facet", "cluster", "shards"})
_ALIASES = ["collections", "aliases"]

_COLLECTIONS = "/qdrant.Collections/"
_KEEPING_METHODS = frozenset(
    _COLLECTIONS + name
    for name in (
        "Get",
        "List",
        "CollectionExists",
        "ListAliases",
        "ListCollectionAliases",
        "CollectionClusterInfo",
        "UpdateCollectionClusterSetup",
        "CreateShardKey",
        "DeleteShardKey",
        "ListShardKeys",
    )
)
_OF_VECTORS = frozenset({"/qdrant.Points/CreateVectorName", "/qdrant.Points/DeleteVectorName"})


def reshaped(head: RequestHead) -> Touched | None:
    """What the request may give another shape; None for one that gives none. Total."""
    segments = [segment for segment in head.path.split("/") if segment]
    if head.method in _SAFE_METHODS or not segments:
        return None
    if segments == _ALIASES or segments[0] == "snapshots":  # a full snapshot brings all collections back
        return _ANY
    if segments[0] != "collections" or len(segments) < 2 or (len(segments) > 2 and segments[2] in _KEEPING):
        return None
    return Touched(collection=collection_of(head) or None)


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same of a call. Without its message, or without a name in it, it may be any collection. Total."""
    is_change = head.path.startswith(_COLLECTIONS) and head.path not in _KEEPING_METHODS
    if not is_change and head.path not in _OF_VECTORS:
        return None
    if head.path == _COLLECTIONS + "UpdateAliases":
        return _ANY
    return Touched(collection=collection_in(head.message) or None)

"""Which methods of Qdrant's gRPC services are ranked searches: method path in, operation out.

Everything else goes through untouched, and that includes groups, matrix, scroll, facet and every service but Points.
"""

from __future__ import annotations

from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.proto_wire import LENGTH, head_fields, only, text
from vecsieve.adapters.qdrant_paths import BACKEND

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


def classify(head: RequestHead) -> Operation | None:
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

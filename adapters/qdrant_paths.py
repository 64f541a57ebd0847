"""Which Qdrant requests are ranked searches: raw path in, operation out.

The server merges repeated slashes and drops trailing ones before it routes (actix ``NormalizePath::trim``; Qdrant's own
test script calls ``//collections/x/points/search/``), and splits before it decodes, so ``%2F`` stays inside a name.
A deployment prefix is taken off by the caller. What this file does not know goes through untouched, and that includes
groups, matrix, scroll, facet, single points and ``/collections/{name}/shards/{id}/points/...``.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from vecsieve.adapters.content_types import may_be_json
from vecsieve.adapters.contract import Operation, RequestHead

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


def classify(head: RequestHead) -> Operation | None:
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

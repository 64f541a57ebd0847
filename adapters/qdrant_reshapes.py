"""Which Qdrant requests may change what a collection is like: its vectors, their sizes, or what an alias leads to.

By path and message alone, and whatever comes of them. Every change to a collection that is not one to its points counts,
so that a newer server's calls do: only what is known to leave its shape alone is taken for that.
"""

from __future__ import annotations

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.qdrant_grpc_methods import collection_in
from vecsieve.adapters.qdrant_paths import collection_of

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

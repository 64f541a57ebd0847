"""Which Milvus requests may change what a collection is like: its fields, its indexes and their metric, or what an alias leads to."""

from __future__ import annotations

import re

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.milvus_grpc_methods import SERVICE, collection_of

_ANY = Touched(collection=None)
# Over REST names stand in bodies, which are not read. What only reads is posted too.
_PATH = re.compile(r"/v1/vector/collections/\w+|/v2/vectordb/(?:databases|collections|aliases|indexes)/(\w+)(?:/\w+)?")
_READING = frozenset({"list", "describe", "has", "get_stats", "get_load_state", "load", "release", "flush", "compact"})
# database and collection stand where they stand in a search.
_NAMING = frozenset(
    SERVICE + name
    for name in (
        "CreateCollection",
        "DropCollection",
        "AlterCollection",
        "AlterCollectionField",
        "AlterCollectionSchema",
        "AddCollectionField",
        "AddCollectionStructField",
        "AddCollectionFunction",
        "AlterCollectionFunction",
        "DropCollectionFunction",
        "TruncateCollection",
        "CreateIndex",
        "AlterIndex",
        "DropIndex",
    )
)
_OTHERWISE = frozenset(
    SERVICE + name
    for name in (
        "RenameCollection",
        "CreateAlias",
        "DropAlias",
        "AlterAlias",
        "CreateDatabase",
        "DropDatabase",
        "AlterDatabase",
        "RestoreSnapshot",
        "RestoreExternalSnapshot",
        "RefreshExternalCollection",
        "ReplicateMessage",
    )
)


def reshaped(head: RequestHead) -> Touched | None:
    """What the request may give another shape; None for one that gives none. Total."""
    match = _PATH.fullmatch(head.path)
    return None if match is None or head.method == "GET" or match[1] in _READING else _ANY


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same of a call. Without its message, or without a name in it, it may be any collection. Total."""
    if head.path in _OTHERWISE:
        return _ANY
    return Touched(collection=collection_of(head) or None) if head.path in _NAMING else None

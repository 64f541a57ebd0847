"""Which Pinecone requests may change records: told by method and path alone, so that no body has to be held.

Only what is known to read is taken for reading; everything else is a write to the whole index it goes to.
"""

from __future__ import annotations

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.pinecone_paths import classify, index_of

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_AN_INDEX = frozenset({"vectors", "records", "namespaces", "bulk", "query", "describe_index_stats"})
_READS = frozenset({"/query", "/describe_index_stats", "/vectors/fetch_by_metadata"})
_READS_BEHIND_A_NAMESPACE = ("/search", "/documents/fetch", "/documents/list")
# The control plane's own: they compute and change no record.
_SHAPING = frozenset({"indexes", "backups", "restore-jobs", "collections"})
_COMPUTING = frozenset({"/embed", "/rerank"})


def touched(head: RequestHead) -> Touched | None:
    """What the request may change; None when it only reads. Total."""
    if head.method in _SAFE_METHODS or classify(head) is not None:
        return None
    path = "/" + head.path.lstrip("/")
    if head.method == "POST" and _is_read(path):
        return None
    # A change to the control plane, such as deleting an index and making it anew, names no host: it may be any. So may what is no
    # path of an index: at a gateway's host it cannot be told behind which path it is.
    is_told = path.split("/")[1] in _OF_AN_INDEX
    return Touched(collection=index_of(head.host) if head.host and is_told else None)


def reshaped(head: RequestHead) -> Touched | None:
    """Which index the request may make, change or delete: the control plane calls it by a name that no search says. Total."""
    if head.method in _SAFE_METHODS or head.host:
        return None
    first = head.path.lstrip("/").partition("/")[0]
    return Touched(collection=None) if first in _SHAPING else None


def _is_read(path: str) -> bool:
    if path in _READS or path in _COMPUTING:
        return True
    if {".", ".."} & set(path.split("/")):  # which path this becomes is the server's choice
        return False
    return path.startswith(("/namespaces/", "/records/namespaces/")) and path.endswith(_READS_BEHIND_A_NAMESPACE)

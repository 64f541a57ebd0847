"""Which of Pinecone's gRPC methods may change records. Only what is known to read is taken for reading."""

from __future__ import annotations

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.pinecone_paths import index_of

_READS = frozenset(
    f"/VectorService/{name}"
    for name in (
        "Query",
        "Fetch",
        "FetchByMetadata",
        "List",
        "ListNamespaces",
        "DescribeNamespace",
        "DescribeIndexStats",
    )
)


def touched(head: RequestHead) -> Touched | None:
    """What the call may change: the whole index it goes to; None when it only reads. Total."""
    if head.path in _READS:
        return None
    return Touched(collection=index_of(head.host) if head.host else None)

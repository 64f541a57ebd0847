"""Which Pinecone requests are ranked searches, and which are the control plane's: raw path in, verdict out.

Clients whose host ends in a slash send ``//query``, so leading slashes count as one. Only the outer parts of a path are
looked at: a namespace may be empty (``/records/namespaces//search``), percent-encoded, or, from one client (Python
9.1), written bare with its slashes. A routing prefix is taken off by the caller. Everything else goes through untouched.
"""

from __future__ import annotations

from vecsieve.adapters.contract import Operation, RequestHead, Touched, may_be_json

BACKEND = "pinecone"
QUERY = "query"
RECORDS_SEARCH = "records_search"
DOCUMENTS_SEARCH = "documents_search"

OF_THE_CONTROL_PLANE = frozenset(
    {"indexes", "collections", "backups", "restore-jobs", "embed", "rerank", "models", "assistant", "admin"}
)
# What stands before and behind a namespace -> the operation's name, a metric label.
ROUTES = {
    ("/records/namespaces/", "/search"): RECORDS_SEARCH,
    ("/namespaces/", "/documents/search"): DOCUMENTS_SEARCH,
}
# The preview of documents search refuses a request without `include_fields` (422); 2026-07, which replaced it, does not.
# Widening would have to name fields and so turn a refusal into an answer.
PREVIEW = "2026-01.alpha"


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a request head stands for; None for everything else. Total."""
    if head.method != "POST" or not head.path.startswith("/") or not may_be_json(head.content_type):
        return None
    path = "/" + head.path.lstrip("/")
    name = _named(path)
    if name is None or (name == DOCUMENTS_SEARCH and head.version == PREVIEW):
        return None
    return Operation(backend=BACKEND, name=name, collection=index_of(head.host), partition=_namespace(path))


def is_of_the_control_plane(path: str) -> bool:
    """Whether a path, perhaps with its query string, begins as one of the control plane's; none of an index's does."""
    return path.partition("?")[0].lstrip("/").partition("/")[0] in OF_THE_CONTROL_PLANE


def _named(path: str) -> str | None:
    if path == "/query":
        return QUERY
    if {".", ".."} & set(path.split("/")):  # which path this becomes is the server's choice
        return None
    for (before, behind), name in ROUTES.items():
        if path.startswith(before) and path.endswith(behind) and len(path) >= len(before) + len(behind):
            return name
    return None


def _namespace(path: str) -> str:
    """What a path of ROUTES has between its two ends; "" for a path that names no namespace."""
    return next((path[len(before) : -len(behind)] for before, behind in ROUTES if path.startswith(before)), "")


def index_named(head: RequestHead) -> str:
    """The index that a request goes to; "" for one of the control plane."""
    return index_of(head.host) if head.host else ""


def index_of(host: str) -> str:
    """What tells the indexes behind one service apart: the host's first label, or all of a host that has no labels.

    Behind another VecSieve it is called as there; behind another gateway by host and path, because both are needed to tell.
    """
    _, is_ours, inner = host.rpartition("/_i/")
    if is_ours and inner:
        return index_of(inner)
    if "/" in host:
        return host
    label = host.partition(".")[0]
    return host if label == host or label.isdecimal() or host.startswith("[") else label


# Which Pinecone requests may change records: told by method and path alone, so that no body has to be held.
#
# Only what is known to read is taken for reading; everything else is a write to the whole index it goes to.

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


# Which of Pinecone's gRPC methods may change records. Only what is known to read is taken for reading.

_GRPC_READS = frozenset(
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


def touched_over_grpc(head: RequestHead) -> Touched | None:
    """What the call may change: the whole index it goes to; None when it only reads. Total."""
    if head.path in _GRPC_READS:
        return None
    return Touched(collection=index_of(head.host) if head.host else None)

"""Which Pinecone requests are ranked searches, which write, and which belong to the control plane.

Clients whose host ends in a slash send ``//query``, so leading slashes count as one. Only both ends of a path are matched: a namespace
may be empty (``/records/namespaces//search``), percent-encoded, or contain slashes (Python client 9.1). The caller removes a routing
prefix.
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
OF_AN_INDEX = frozenset({"query", "vectors", "describe_index_stats", "records", "namespaces", "bulk"})
# Path before and behind a namespace -> the operation's name, a metric label.
ROUTES = {
    ("/records/namespaces/", "/search"): RECORDS_SEARCH,
    ("/namespaces/", "/documents/search"): DOCUMENTS_SEARCH,
}
# The preview of documents search refuses a request without `include_fields` (422), unlike 2026-07. Widening would add the member and so
# turn an error into an answer.
PREVIEW = "2026-01.alpha"


def classify(head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other. Never raises."""
    if head.method != "POST" or not head.path.startswith("/") or not may_be_json(head.content_type):
        return None
    path = "/" + head.path.lstrip("/")
    name = _named(path)
    if name is None or (name == DOCUMENTS_SEARCH and head.version == PREVIEW):
        return None
    return Operation(backend=BACKEND, name=name, collection=index_of(head.host), partition=_namespace(path))


def is_of_the_control_plane(path: str) -> bool:
    """Whether a path, with or without its query string, begins like the control plane's; no path of an index does."""
    return path.partition("?")[0].lstrip("/").partition("/")[0] in OF_THE_CONTROL_PLANE


def _named(path: str) -> str | None:
    if path == "/query":
        return QUERY
    if {".", ".."} & set(path.split("/")):  # servers resolve these differently
        return None
    for (before, behind), name in ROUTES.items():
        if path.startswith(before) and path.endswith(behind) and len(path) >= len(before) + len(behind):
            return name
    return None


def _namespace(path: str) -> str:
    """The namespace in a path of ROUTES; "" for any other path."""
    return next((path[len(before) : -len(behind)] for before, behind in ROUTES if path.startswith(before)), "")


def index_named(head: RequestHead) -> str:
    """The index of a request; "" for the control plane."""
    return index_of(head.host) if head.host else ""


def index_of(host: str) -> str:
    """The name of an index: its host's first label, or the host where it has no labels or is an address.

    Behind another VecSieve it has the same name as there; behind another gateway the name is host and path.
    """
    _, is_ours, inner = host.rpartition("/_i/")
    if is_ours and inner:
        return index_of(inner)
    if "/" in host:
        return host
    label = host.partition(".")[0]
    return host if label == host or label.isdecimal() or host.startswith("[") else label


# Which requests may change an index, by method and path alone, so that no body is held.

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Of the control plane.
_SHAPING = frozenset({"indexes", "backups", "restore-jobs", "collections"})


def reshaped(head: RequestHead) -> Touched | None:
    """Any index for a request that creates, alters or deletes one, by a name that no search has; else None. Never raises."""
    if head.method in _SAFE_METHODS or head.host:
        return None
    first = head.path.lstrip("/").partition("/")[0]
    return Touched(collection=None) if first in _SHAPING else None

"""Which Pinecone requests are ranked searches: raw path in, operation out.

Clients whose host ends in a slash send ``//query``, so leading slashes count as one. Only the outer parts of a path are
looked at: a namespace may be empty (``/records/namespaces//search``), percent-encoded, or, from one client (Python
9.1), written bare with its slashes. A routing prefix is taken off by the caller. Everything else goes through untouched.
"""

from __future__ import annotations

from vecsieve.adapters.content_types import may_be_json
from vecsieve.adapters.contract import Operation, RequestHead

BACKEND = "pinecone"
QUERY = "query"
RECORDS_SEARCH = "records_search"
DOCUMENTS_SEARCH = "documents_search"

# What stands before and behind a namespace -> the operation's name, a metric label.
ROUTES = {
    ("/records/namespaces/", "/search"): RECORDS_SEARCH,
    ("/namespaces/", "/documents/search"): DOCUMENTS_SEARCH,
}


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a request head stands for; None for everything else. Total."""
    if head.method != "POST" or not head.path.startswith("/") or not may_be_json(head.content_type):
        return None
    path = "/" + head.path.lstrip("/")
    name = _named(path)
    if name is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=index_of(head.host), partition=_namespace(path))


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


def index_of(host: str) -> str:
    """What tells the indexes behind one service apart: the host's first label, or all of a host that has no labels."""
    label = host.partition(".")[0]
    return host if label == host or label.isdecimal() or host.startswith("[") else label

"""Which Pinecone requests are ranked searches, which write, which belong to the control plane; hosts of indexes; errors.

Clients whose host ends in a slash send ``//query``, so leading slashes count as one. Only the beginning and the end of a path are matched:
a namespace may be empty (``/records/namespaces//search``), percent-encoded, or contain slashes (Python client 9.1). The caller removes a
routing prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from ..base import RestDialect, json_text
from ..contract import (
    GRPC_SERVICES,
    SAFE_METHODS,
    IndexRules,
    NativeAnswer,
    Operation,
    RequestHead,
    Touched,
    may_be_json,
)
from ..wire.json import Span, elements, members_of, splice, string, whole, without_surrogates
from ..wire.protobuf import methods

BACKEND = "pinecone"
QUERY = "query"
RECORDS_SEARCH = "records_search"
DOCUMENTS_SEARCH = "documents_search"

OF_THE_CONTROL_PLANE = frozenset(
    {"indexes", "collections", "backups", "restore-jobs", "embed", "rerank", "models", "assistant", "admin"}
)
OF_AN_INDEX = frozenset({"query", "vectors", "describe_index_stats", "records", "namespaces", "bulk"})
# Path before and after a namespace -> the operation's name, a metric label.
ROUTES = {
    ("/records/namespaces/", "/search"): RECORDS_SEARCH,
    ("/namespaces/", "/documents/search"): DOCUMENTS_SEARCH,
}
# The preview of documents search refuses a request without `include_fields` (422), unlike 2026-07. Widening would add the member and thus
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
    if {".", ".."} & set(path.split("/")):  # servers normalize these differently
        return None
    for (before, suffix), name in ROUTES.items():
        if path.startswith(before) and path.endswith(suffix) and len(path) >= len(before) + len(suffix):
            return name
    return None


def _namespace(path: str) -> str:
    """The namespace in a path of ROUTES; "" for any other path."""
    return next((path[len(before) : -len(suffix)] for before, suffix in ROUTES if path.startswith(before)), "")


def index_named(head: RequestHead) -> str:
    """The index of a request; "" for the control plane."""
    return index_of(head.host) if head.host else ""


def index_of(host: str) -> str:
    """The name of an index: its host's first label, or the host if it has no labels or is an address.

    Behind another VecSieve it has the same name as there; behind another gateway the name is host and path.
    """
    _, is_ours, inner = host.rpartition("/_i/")
    if is_ours and inner:
        return index_of(inner)
    if "/" in host:
        return host
    label = host.partition(".")[0]
    return host if label == host or label.isdecimal() or host.startswith("[") else label


# Requests after which an index or its records may be others than before, by method and path only, so that no body is held: every one that is
# not known to be harmless, because it may be one of a newer server. Harmless are reads, and writes that a later reply shows: values
# come with each reply, and its scores prove the vectors.

_HARMLESS = re.compile(
    r"/query|/describe_index_stats|/vectors/(?:upsert|update|delete|fetch|fetch_by_metadata|list)"
    r"|/records/namespaces/.*/(?:search|upsert)|/namespaces/.*/documents/(?:search|upsert|fetch|list|delete)",
    re.DOTALL,
)
# First segments of the control plane's paths that lead to models and assistants, not to indexes.
_NO_INDEXES = OF_THE_CONTROL_PLANE - {"indexes", "backups", "restore-jobs", "collections", "admin"}
_HARMLESS_METHODS = methods(
    "VectorService",
    "Query Fetch FetchByMetadata List DescribeIndexStats ListNamespaces DescribeNamespace Upsert Update Delete",
)


def reshaped(head: RequestHead) -> Touched | None:
    """The index that the request may change; None for none. Never raises. The control plane names an index by a name that no search has:
    any index.
    """
    path = "/" + head.path.lstrip("/")
    if head.method in SAFE_METHODS or (not head.host and path.split("/")[1] in _NO_INDEXES):
        return None
    # Servers normalize paths with dots differently.
    is_harmless = _HARMLESS.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))
    return None if is_harmless else Touched(collection=index_named(head) or None)


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same for a call. Never raises."""
    if head.path in _HARMLESS_METHODS or head.path.startswith(GRPC_SERVICES):
        return None
    return Touched(collection=index_named(head) or None)


# A description of an index is the whole document or an element of its ``indexes``. Clients connect to ``private_host`` before ``host``
# (TypeScript 8 and later) or to ``host``, so both are replaced, in place. Assistants have a ``host`` too, in other documents.

HOSTS = ("host", "private_host")
INDEXES = "indexes"

# list, create; describe, configure, create-for-model. A deletion has an empty answer.
_DESCRIBING = re.compile(r"/+indexes(/[^/]+)?/?")
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT"})
# The last segments of an index's paths.
_ENDINGS = re.compile(r"/(?:query|describe_index_stats|vectors/[a-z_]+|records/namespaces/[^/]*/[a-z]+)/?\Z")
_OBJECT, _ARRAY, _STRING = b"{", b"[", b'"'


def renamed(body: bytes, rename: Callable[[str], str | None]) -> bytes:
    """The body with the hosts of its indexes replaced; ``rename`` returns None to keep a host. A body that cannot be parsed unambiguously
    is returned unchanged. Never raises.
    """
    text = without_surrogates(body)
    try:
        spans = list(_hosts(text))
        edits = [(start, end, _renamed(body[start:end], rename)) for start, end in spans]
    except ValueError:
        return body
    return splice(body, edits)


def _renamed(host: bytes, rename: Callable[[str], str | None]) -> bytes:
    new = rename(string(host))
    return host if new is None else json.dumps(new).encode()


def _hosts(text: bytes) -> Iterator[Span]:
    """The spans of the hosts that are strings. Raises ValueError."""
    span = whole(text)
    if text[span[0] : span[0] + 1] != _OBJECT:
        return
    yield from _of_one(text, span)
    listed = members_of(text, span).get(INDEXES)
    if listed is None or text[listed.value : listed.value + 1] != _ARRAY:
        return
    for start, end in elements(text, listed.span):
        if text[start : start + 1] == _OBJECT:
            yield from _of_one(text, (start, end))


def _of_one(text: bytes, span: Span) -> Iterator[Span]:
    index = members_of(text, span)
    for name in HOSTS:
        member = index.get(name)
        if member is not None and text[member.value : member.value + 1] == _STRING:
            yield member.value, member.end


def _is_misplaced(path: str) -> bool:
    first = path.lstrip("/").partition("/")[0]
    return first not in OF_AN_INDEX and not is_of_the_control_plane(path) and _ENDINGS.search(path) is not None


def _describes(method: str, path: str) -> bool:
    return method in _METHODS and _DESCRIBING.fullmatch(path) is not None


RULES = IndexRules(segments=OF_AN_INDEX, is_misplaced=_is_misplaced, describes=_describes, rename=renamed)


# HTTP status -> gRPC code and its name, as the service maps them.
_CODES: Mapping[int, tuple[int, str]] = {
    400: (3, "INVALID_ARGUMENT"),
    401: (16, "UNAUTHENTICATED"),
    403: (7, "PERMISSION_DENIED"),
    404: (5, "NOT_FOUND"),
    408: (4, "DEADLINE_EXCEEDED"),
    409: (6, "ALREADY_EXISTS"),
    413: (8, "RESOURCE_EXHAUSTED"),
    429: (8, "RESOURCE_EXHAUSTED"),
    500: (13, "INTERNAL"),
    501: (12, "UNIMPLEMENTED"),
    502: (14, "UNAVAILABLE"),
    503: (14, "UNAVAILABLE"),
    504: (4, "DEADLINE_EXCEEDED"),
}
_UNKNOWN = (2, "UNKNOWN")


class PineconeDialect(RestDialect):
    """The text of a refusal of a too large result is not documented, so none is recognized."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """A named code for the control plane's paths; gRPC's status as JSON for any other."""
        words = json_text(message)
        number, name = _CODES.get(status, _UNKNOWN)
        if is_of_the_control_plane(path):
            body = b'{"status":%d,"error":{"code":"%s","message":%s}}' % (status, name.encode(), words)
        else:
            body = b'{"code":%d,"message":%s,"details":[]}' % (number, words)
        return NativeAnswer(status=status, content_type="application/json", body=body)

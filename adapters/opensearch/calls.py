"""Which requests are ranked searches, which may change an index unseen, and the errors of both servers.

A search names one index, a list with commas, a pattern or an alias; the name is used as it is written. ``_all`` is every index. Searches of
templates, scrolls, points in time, asynchronous searches, SQL and ES|QL have other paths, and pass through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from ..base import RestDialect, json_text
from ..contract import (
    SAFE_METHODS,
    NativeAnswer,
    Operation,
    RequestHead,
    Touched,
    may_be_json,
)
from .parameters import without_moved

OPENSEARCH, ELASTICSEARCH = "opensearch", "elasticsearch"
SEARCH, MULTI_SEARCH = "search", "multi_search"
EVERY_INDEX = "_all"
PATTERN = frozenset("*?,")

_SEARCH = re.compile(r"/(?:([^/]+)/)?_(search|msearch)")
_LINES = re.compile(r"application/(?:[\w.-]+\+)?x-ndjson", re.IGNORECASE)


def classify(backend: str, head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other. Never raises. ``partition``: the query string."""
    match = _SEARCH.fullmatch(head.path)
    if head.method not in {"POST", "GET"} or match is None:
        return None
    is_batch = match[2] == "msearch"
    if not (may_be_json(head.content_type) or (is_batch and is_lines(head.content_type))):
        return None
    index = index_named(match[1])
    if index is None:
        return None
    name = MULTI_SEARCH if is_batch else SEARCH
    # A batch without an index names one in each of its headers.
    collection = index or ("" if is_batch else EVERY_INDEX)
    query = None if is_batch else without_moved(head.query)
    return Operation(backend=backend, name=name, collection=collection, partition=head.query, query=query)


def is_lines(content_type: str) -> bool:
    return _LINES.fullmatch(content_type.partition(";")[0].strip()) is not None


def index_named(segment: str | None) -> str | None:
    """The decoded name; "" if there is none; None for segments that are no index."""
    index = "" if segment is None else decoded(segment)
    is_index = index is not None and (not index.startswith("_") or index == EVERY_INDEX)
    return index if is_index and index not in {".", ".."} else None


def may_be_several(name: str) -> bool:
    """Whether a name as it is written may be that of several indices; an alias of several is not seen."""
    return name == EVERY_INDEX or not PATTERN.isdisjoint(name)


def decoded(segment: str) -> str | None:
    """None for what is no text."""
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeError:
        return None


def collection_of(head: RequestHead) -> str:
    """The index that a request names, or the interface: what is refused there says nothing of an index; "" for neither."""
    segment = head.path.split("/", 2)[1] if head.path.startswith("/") else ""
    return segment if segment.startswith("_") else index_named(segment) or ""


# Reads, and writes that a later reply shows: values come with each reply, and its scores prove the vectors. Any other request may change an
# index or an alias, or is one of a newer server.
_HARMLESS = re.compile(
    r"(?:/[^/_][^/]*|/_all)?/_(?:search|msearch|count|bulk|doc|create|update|update_by_query|delete_by_query|mget|refresh|flush"
    r"|pit|async_search|eql|sql|query|analyze|validate|explain|field_caps|termvectors|mtermvectors|rank_eval|render"
    r"|search_shards|cat|cluster|nodes|tasks|inference)(?:/.*)?|/_plugins/_(?:sql|ppl|asynchronous_search)(?:/.*)?"
)


def reshaped(head: RequestHead) -> Touched | None:
    """The indices of which a request may change documents or vectors unseen; None for none. Never raises."""
    if head.method in SAFE_METHODS or _HARMLESS.fullmatch(head.path):
        return None
    return Touched(collection=None)


# Status -> the type by which clients distinguish errors.
_TYPES: Mapping[int, str] = {
    400: "illegal_argument_exception",
    401: "security_exception",
    403: "security_exception",
    404: "resource_not_found_exception",
    408: "timeout_exception",
    413: "content_too_long_exception",
    429: "rejected_execution_exception",
    503: "service_unavailable_exception",
    504: "timeout_exception",
}
_OTHER = "exception"
_REFUSED = re.compile(r"Result window is too large, from \+ size must be less than or equal to: \[(\d{1,9})\]")


class OpenSearchDialect(RestDialect):
    limit = _REFUSED

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        reason = b'"type":"%s","reason":%s' % (_TYPES.get(status, _OTHER).encode(), json_text(message))
        body = b'{"error":{"root_cause":[{%s}],%s},"status":%d}' % (reason, reason, status)
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def words(self, status: int, body: bytes) -> str:
        # 500: some versions report a window that is too large as an error of a shard.
        is_refusal = status in {HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR}
        return body.decode(errors="replace") if is_refusal else ""

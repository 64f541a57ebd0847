"""Pinecone over REST: the adapter and its dialect, and the client's answer cut from a wider reply.

Supported: query of every API version, records search since 2025-01, documents search of 2026-07, and fetch for the vectors of a records
search. The answer is upstream's bytes without the other matches and without what was added; around the matches only usage may
change. A search without values has ``"values":[]`` and no sparse values: clients fail on null.

A description of an index is the whole document or an element of its ``indexes``. Clients connect to ``private_host`` before ``host``
(TypeScript 8 and later) or to ``host``, so both are replaced, in place. Assistants have a ``host`` too, in other documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from vecsieve.adapters.base import Keep, NotingAdapter, RestDialect, json_text, own
from vecsieve.adapters.contract import (
    Found,
    IndexRules,
    Lookup,
    NativeAnswer,
    Needs,
    Operation,
    Reply,
    Search,
    SearchCall,
)
from vecsieve.adapters.pinecone import calls, rest_reply, rest_request
from vecsieve.adapters.pinecone import lookups as pinecone_lookups
from vecsieve.adapters.pinecone.calls import OF_AN_INDEX, is_of_the_control_plane
from vecsieve.adapters.pinecone.rest_reply import Match, ReplyDocument
from vecsieve.adapters.pinecone.rest_request import Document
from vecsieve.adapters.wire.json import Span, cuts, elements, members, splice, string, whole, without_surrogates
from vecsieve.adapters.wire.json_vectors import Edit, cut_list

HOSTS = ("host", "private_host")
INDEXES = "indexes"

# list, create; describe, configure, create-for-model. A deletion has an empty answer.
_DESCRIBING = re.compile(r"/+indexes(/[^/]+)?/?")
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT"})
# The last segments of an index's paths.
_ENDINGS = re.compile(r"/(?:query|describe_index_stats|vectors/[a-z_]+|records/namespaces/[^/]*/[a-z]+)/?\Z")
_OBJECT, _ARRAY, _STRING = b"{", b"[", b'"'


def renamed(body: bytes, rename: Callable[[str], str | None]) -> bytes:
    """The body with the hosts of its indexes replaced; ``rename`` gives None for a host that stays. A body that cannot be parsed
    unambiguously is returned unchanged. Never raises.
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
    listed = members(text, span).get(INDEXES)
    if listed is None or text[listed.value : listed.value + 1] != _ARRAY:
        return
    for start, end in elements(text, (listed.value, listed.end)):
        if text[start : start + 1] == _OBJECT:
            yield from _of_one(text, (start, end))


def _of_one(text: bytes, span: Span) -> Iterator[Span]:
    found = members(text, span)
    for name in HOSTS:
        member = found.get(name)
        if member is not None and text[member.value : member.value + 1] == _STRING:
            yield member.value, member.end


def _is_misplaced(path: str) -> bool:
    first = path.lstrip("/").partition("/")[0]
    return first not in OF_AN_INDEX and not is_of_the_control_plane(path) and _ENDINGS.search(path) is not None


def _describes(method: str, path: str) -> bool:
    return method in _METHODS and _DESCRIBING.fullmatch(path) is not None


RULES = IndexRules(segments=OF_AN_INDEX, is_misplaced=_is_misplaced, describes=_describes, rename=renamed)


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: the matches ``keep[0]`` in that order."""
    (kept,) = keep

    def edits(index: int) -> list[Edit]:
        return _edits(request, reply.matches[index])

    spans = [match.span for match in reply.matches]
    return cut_list(reply.source, len(reply.text), reply.array, spans, kept.tolist(), edits, reply.edits)


def _edits(request: Document, match: Match) -> list[Edit]:
    """The edits of a match, disjoint, in any order."""
    edits: list[Edit] = []
    if request.added:
        edits += [(start, end, b"") for start, end in cuts(match.payload, request.added)]
    if request.emptied:
        values = None if request.vector is None else match.members.get(request.vector)
        edits += [] if values is None else [(values.value, values.end, b"[]")]
        edits += [(start, end, b"") for start, end in cuts(match.members, {request.sparse or ""})]
    return edits


_PARSERS: Mapping[str, Callable[[bytes, Span, Needs], tuple[Search, Document]]] = {
    calls.QUERY: rest_request.parse_query,
    calls.RECORDS_SEARCH: rest_request.parse_records,
    calls.DOCUMENTS_SEARCH: rest_request.parse_documents,
}


def _parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    search, document = _PARSERS[operation.name](body, whole(body), needs)
    return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)


class PineconeRest(NotingAdapter[Document, ReplyDocument]):
    """Functions of this package."""

    request_type, reply_type = Document, ReplyDocument
    classify = staticmethod(calls.classify)
    parse_request = staticmethod(_parse_request)
    widen_request = staticmethod(rest_request.widen)
    read_reply = staticmethod(rest_reply.parse_reply)
    cut_reply = staticmethod(trim)
    payloads = staticmethod(rest_reply.payloads_of)
    is_flat = True  # metadata has strings, numbers, booleans, lists of strings
    found = staticmethod(pinecone_lookups.found)

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """Requests for the vectors of a records search; none for other searches."""
        if not call.needs.lookups or call.operation.name != calls.RECORDS_SEARCH:
            return ()
        return pinecone_lookups.lookups(call.operation.partition, reply.pools[0].ids, known)

    def joined(self, reply: Reply, found: Sequence[Found]) -> Reply:
        """As in the contract."""
        return replace(reply, pools=(pinecone_lookups.joined(reply.pools[0], found),))

    def charged(self, reply: Reply, read_units: int) -> Reply:
        """As in the contract."""
        return replace(reply, document=pinecone_lookups.charged(own(reply.document, ReplyDocument), read_units))


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
    """The text of a refusal of a result that is too large is not documented, so none is recognized."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """A named code for the control plane's paths; gRPC's status as JSON for any other."""
        words = json_text(message)
        number, name = _CODES.get(status, _UNKNOWN)
        if is_of_the_control_plane(path):
            body = b'{"status":%d,"error":{"code":"%s","message":%s}}' % (status, name.encode(), words)
        else:
            body = b'{"code":%d,"message":%s,"details":[]}' % (number, words)
        return NativeAnswer(status=status, content_type="application/json", body=body)

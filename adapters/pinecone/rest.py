"""Pinecone over REST: the adapter and its dialect, and the client's answer cut from a wider reply.

Supported: query of every API version, records search since 2025-01, documents search of 2026-07, and fetch for the vectors of a records
search. The answer is upstream's bytes without the other matches and without what was added; around the matches only usage may
change. A search without values has ``"values":[]`` and no sparse values: clients fail on null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from vecsieve.adapters.base import Keep, NotingAdapter, RestDialect, json_text, own
from vecsieve.adapters.contract import Found, Lookup, NativeAnswer, Needs, Operation, Reply, Search, SearchCall
from vecsieve.adapters.pinecone import calls, rest_reply, rest_request
from vecsieve.adapters.pinecone import lookups as pinecone_lookups
from vecsieve.adapters.pinecone.calls import is_of_the_control_plane
from vecsieve.adapters.pinecone.rest_reply import Match, ReplyDocument
from vecsieve.adapters.pinecone.rest_request import Document
from vecsieve.adapters.wire.json import Span, cuts, whole
from vecsieve.adapters.wire.json_vectors import Edit, cut_list


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

"""Pinecone over REST: the adapter, composed of the files beside it.

Spoken: query of every API version, records search since 2025-01, documents search of 2026-07, and fetch where it brings a
records search its vectors. Everything else (list, writes, the control plane) is passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Bounds, Found, Lookup, Needs, Operation, Reply, RequestHead, Search, SearchCall
from vecsieve.adapters.pinecone import calls, request, rest_reply, rest_request
from vecsieve.adapters.pinecone import lookups as pinecone_lookups
from vecsieve.adapters.pinecone import rest_request as pinecone_rest_request
from vecsieve.adapters.pinecone.request import Document
from vecsieve.adapters.pinecone.rest_reply import Match, ReplyDocument
from vecsieve.adapters.wire import json as wire_json
from vecsieve.adapters.wire.json import Span, cuts, whole
from vecsieve.adapters.wire.json_vectors import Edit, edited, kept_inside

# The client's answer from a wider Pinecone reply: upstream's bytes, without the other matches and what was added.
#
# Everything around the matches stays as it came: namespace, the empty ``results`` of old, members nobody knows, and usage
# unless lookups have a part in it.
# A search without values shows ``"values":[]`` and no sparse values at all; clients fail on null.


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: the matches ``keep[0]`` in that order, without what the request added."""
    (kept,) = keep
    start, end = reply.array

    def edits(index: int) -> list[Edit]:
        return _edits(request, reply.matches[index])

    spans = [match.span for match in reply.matches]
    inside = kept_inside(reply.source, reply.array, spans, kept.tolist(), edits)
    return b"".join([*_outside(reply, 0, start + 1), *inside, *_outside(reply, end - 1, len(reply.text))])


def _outside(reply: ReplyDocument, start: int, end: int) -> list[bytes]:
    """The bytes before or behind the list, with the edits that lie there."""
    return edited(reply.source, (start, end), [edit for edit in reply.edits if start <= edit[0] < end])


def _edits(request: Document, match: Match) -> list[Edit]:
    """What must change in a match: disjoint edits, no order."""
    edits: list[Edit] = []
    if request.added:
        edits += [(start, end, b"") for start, end in cuts(match.payload, request.added)]
    if request.emptied:
        values = None if request.vector is None else match.members.get(request.vector)
        edits += [] if values is None else [(values.value, values.end, b"[]")]
        edits += [(start, end, b"") for start, end in cuts(match.members, {request.sparse or ""})]
    return edits


_PARSERS: Mapping[str, Callable[[bytes, Span, Needs], tuple[Search, Document]]] = {
    calls.QUERY: pinecone_rest_request.parse_query,
    calls.RECORDS_SEARCH: pinecone_rest_request.parse_records,
    calls.DOCUMENTS_SEARCH: rest_request.parse_documents,
}


class PineconeRest:
    """The six verbs, and those of the second step. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return calls.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises UnsupportedError where there are too many, nothing else."""
        wire_json.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        search, document = _PARSERS[operation.name](body, whole(body), needs)
        return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[0]`` candidates with what selection compares."""
        return request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        pool, document = rest_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept matches are upstream's own bytes, what was added is gone."""
        return trim(_request(call), _document(reply), keep)

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """What fetches the vectors of found records; none for searches that bring their own."""
        if not call.needs.lookups or call.operation.name != calls.RECORDS_SEARCH:
            return ()
        return pinecone_lookups.lookups(call.operation.partition, reply.pools[0].ids, known)

    def found(self, lookup: Lookup, body: bytes) -> Found:
        """Read a successful reply to a fetch. Raises MalformedReplyError, nothing else."""
        return pinecone_lookups.found(lookup, body)

    def joined(self, reply: Reply, found: Sequence[Found]) -> Reply:
        """The reply with the vectors that were fetched. Raises MalformedReplyError, nothing else."""
        return replace(reply, pools=(pinecone_lookups.joined(reply.pools[0], found),))

    def charged(self, reply: Reply, read_units: int) -> Reply:
        """The reply whose answer names so many more read units."""
        return replace(reply, document=pinecone_lookups.charged(_document(reply), read_units))


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document


def _document(reply: Reply) -> ReplyDocument:
    if not isinstance(reply.document, ReplyDocument):
        raise TypeError("the reply was parsed by another adapter")
    return reply.document

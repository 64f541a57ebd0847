"""Pinecone over REST: the adapter, composed of the files beside it.

Spoken: query of every API version, records search since 2025-01, documents search of 2026-07, and fetch where it brings a
records search its vectors. Everything else (list, writes, the control plane) is passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import (
    json_size,
    pinecone_documents,
    pinecone_lookups,
    pinecone_paths,
    pinecone_query,
    pinecone_records,
    pinecone_reply,
    pinecone_request,
    pinecone_restore,
)
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, Search, SearchCall
from vecsieve.adapters.json_spans import Span, whole
from vecsieve.adapters.pinecone_reply import ReplyDocument
from vecsieve.adapters.pinecone_request import Document
from vecsieve.adapters.second_step import Found, Lookup

_PARSERS: Mapping[str, Callable[[bytes, Span, Needs], tuple[Search, Document]]] = {
    pinecone_paths.QUERY: pinecone_query.parse,
    pinecone_paths.RECORDS_SEARCH: pinecone_records.parse,
    pinecone_paths.DOCUMENTS_SEARCH: pinecone_documents.parse,
}


class PineconeRest:
    """The six verbs, and those of the second step. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return pinecone_paths.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises Unsupported where there are too many, nothing else."""
        json_size.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        search, document = _PARSERS[operation.name](body, whole(body), needs)
        return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[0]`` candidates with what selection compares."""
        return pinecone_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        pool, document = pinecone_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept matches are upstream's own bytes, what was added is gone."""
        return pinecone_restore.trim(_request(call), _document(reply), keep)

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """What fetches the vectors of found records; none for searches that bring their own."""
        if not call.needs.lookups or call.operation.name != pinecone_paths.RECORDS_SEARCH:
            return ()
        return pinecone_lookups.lookups(call.operation.partition, reply.pools[0].ids, known)

    def found(self, lookup: Lookup, body: bytes) -> Found:
        """Read a successful reply to a fetch. Raises Malformed, nothing else."""
        return pinecone_lookups.found(lookup, body)

    def joined(self, reply: Reply, found: Sequence[Found]) -> Reply:
        """The reply with the vectors that were fetched. Raises Malformed, nothing else."""
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

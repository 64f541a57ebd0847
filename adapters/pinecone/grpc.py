"""Pinecone over gRPC: parses and widens a query, parses its reply, cuts the client's answer; the adapter.

Supported: ``/VectorService/Query``. Changes are appended to the client's bytes: for a number or switch that occurs twice the last value
counts (https://protobuf.dev/programming-guides/encoding/#last-one-wins). Vectors are compared by direction, as over REST.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ..base import Keep, check_page
from ..base_grpc import GrpcAdapter, noted_entry
from ..contract import (
    Needs,
    Operation,
    Pool,
    Reason,
    RequestHead,
    Search,
    SearchCall,
    UnsupportedError,
)
from ..wire.protobuf import Messages, check_count, methods
from ..wire.schema import check_certain, checked, is_mistyped, parsed, serialized
from ..wire.values import GOOGLE, RequestedKeys, chosen_of
from ..wire.vectors import SparseRow, matrix, row, union_matrix, usable, whole_floats, without_vector
from . import rest_request
from .calls import BACKEND, QUERY, index_of
from .grpc_schema import COUNTED, proto
from .rest_request import only_one_ranking

_MOST = 2**32 - 1
# No inner message is parsed.
MESSAGES: Messages = {QUERY: {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One query. ``emptied``: the client did not request the values; ``is_bare``: nor the metadata, which is added. ``self_id``: the record by which it searches; "" for none."""

    body: bytes
    top_k: int
    emptied: bool
    is_bare: bool
    self_id: str


def read_request(_: Operation, body: bytes, needs: Needs) -> tuple[Search, Document]:
    query = checked(proto.Search, body)
    # A reader of 32 bits would truncate a longer number.
    if max(query.top_k, query.max_candidates) > _MOST:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    check_page(query.top_k, 0)
    if needs.payload_fields and not query.include_metadata:
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    is_bare = not query.include_metadata and bool(needs.whole or needs.seen_fields)
    vector, self_id, is_sparse = _vector(query), _text(query.id), query.HasField("sparse_vector")
    only_one_ranking(is_dense=bool(len(vector)), is_by_id=bool(self_id), is_sparse=is_sparse)
    namespace = _text(query.namespace)
    candidates = query.max_candidates if query.HasField("max_candidates") else None
    search = Search(
        top_k=query.top_k,
        offset=0,
        pages=False,
        query=usable(vector),
        # As over REST: both transports share remembered vectors.
        partition=orjson.dumps(namespace) if namespace else b"",
        most=rest_request.within(candidates, numbers=len(vector), is_sparse=is_sparse, has_texts=is_bare),
    )
    is_forced = not query.include_values and needs.vectors
    return search, Document(body=body, top_k=query.top_k, emptied=is_forced, is_bare=is_bare, self_id=self_id)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[0]`` candidates, with the values; 0 leaves it unchanged."""
    (count,) = fetch_k
    if not count:
        return document.body
    added = {"top_k": count} if count != document.top_k else {}
    added |= {"include_values": True} if document.emptied else {}
    added |= {"include_metadata": True} if document.is_bare else {}
    return document.body + serialized(proto.Search(**added))


def _vector(query: Any) -> npt.NDArray[np.float32]:
    try:
        return row(b"".join(query.vector))
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def read_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, bytes]:
    matches = matches_in(body)
    ids = [match.id.decode() for match in matches]
    vectors = _vectors(matches)
    unusable = without_vector(vectors)
    pool = Pool(
        scores=scores_of(matches),
        vectors=vectors,
        fields=chosen_of(
            [match.metadata for match in matches], RequestedKeys(needs.payload_fields, needs.optional_fields)
        ),
        payloads=partial(_payloads, body),
        # As over REST: both transports share remembered vectors.
        ids=tuple(map(orjson.dumps, ids)),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
        # The record by which the search is made must not replace similar records.
        alone=tuple([place for place, point_id in enumerate(ids) if point_id == request.self_id]),
    )
    return pool, body


def matches_in(body: bytes) -> Sequence[Any]:
    """The matches of a reply, in the order of the wire. Raises ValueError."""
    check_count(body, "reply", COUNTED)
    reply = parsed(proto.Matches, body)
    if is_mistyped(reply):
        raise ValueError("matches have another wire type")
    matches = list(reply.matches)
    check_certain(matches, parsed(proto.Reply, body).matches)
    if not all(match.id for match in matches):
        raise ValueError("a match has no id")
    return matches


def scores_of(matches: Sequence[Any]) -> npt.NDArray[np.float64]:
    """(n,), zero where protobuf omits it."""
    return np.array([match.score for match in matches], np.float64)


def _vectors(matches: Sequence[Any]) -> npt.NDArray[np.float32]:
    """(n, d): the dense vectors, or the sparse ones if there are none. Raises ValueError."""
    dense = dense_of(matches)
    if dense.shape[1]:
        return dense
    return union_matrix([_sparse(match.sparse_values) if match.sparse_values else None for match in matches])


def dense_of(matches: Sequence[Any]) -> npt.NDArray[np.float32]:
    """(n, d) of dense vectors. Raises ValueError."""
    return matrix([whole_floats(match.values) for match in matches])


def _sparse(message: bytes) -> SparseRow | None:
    sparse = parsed(proto.Sparse, message)
    indices, weights = np.array(sparse.indices, np.int64), np.array(sparse.values, np.float32)
    return (indices, weights) if indices.size and indices.shape == weights.shape else None


def _payloads(body: bytes, rows: Sequence[int]) -> tuple[bytes | None, ...]:
    """The metadata, from the bytes, which are kept in any case."""
    matches = parsed(proto.Reply, body).matches
    hits = [parsed(proto.Hit, matches[row]) for row in rows]
    return GOOGLE.readable(GOOGLE.struct, [b"".join(hit.metadata) for hit in hits], attrgetter("fields"))


def entries_in(metadata: bytes) -> Sequence[Any]:
    entries: Sequence[Any] = parsed(GOOGLE.struct, metadata).fields
    return entries


def trim(request: Document, reply: bytes, keep: Keep) -> bytes:
    """The client's answer: the matches ``keep[0]`` in that order, without added values."""
    (kept,) = keep
    added = (("values", "sparse_values") if request.emptied else ()) + (("metadata",) if request.is_bare else ())
    answer = parsed(proto.Reply, reply)
    hits = answer.matches
    trimmed = [_restored(hits[index], added) for index in kept.tolist()]
    if len(trimmed) == len(hits) and trimmed == hits:  # fields that are not named keep their places
        return reply
    hits[:] = trimmed
    return serialized(answer)


def _restored(match: bytes, added: Sequence[str]) -> bytes:
    """A match in the client's answer, without the ``added`` fields."""
    if not added:
        return match
    hit = parsed(proto.Hit, match)
    for name in added:
        hit.ClearField(name)
    return serialized(hit)


def _noted(match: bytes, note: bytes | None) -> bytes:
    """A match of an answer. The note is JSON as a string, because metadata is flat; a match without metadata has none."""
    hit = parsed(proto.Hit, match)
    if note is None or not hit.metadata:
        return match
    metadata = b"".join(hit.metadata)
    added = noted_entry(entries_in(metadata), note, GOOGLE, is_flat=True)
    if added is None:
        return match
    hit.metadata[:] = [metadata + serialized(GOOGLE.struct(fields=[added]))]
    return serialized(hit)


PATH = "/VectorService/Query"
# Any other method is forwarded as a stream, which costs more.
UNARY = methods(
    "VectorService",
    "Upsert Delete Fetch List Query Update DescribeIndexStats ListNamespaces DescribeNamespace DeleteNamespace CreateNamespace "
    "FetchByMetadata",
)


class PineconeGrpc(GrpcAdapter[Document, bytes]):
    request_type, reply_type, messages = Document, bytes, MESSAGES
    widen_request = staticmethod(widen)
    read_request = staticmethod(read_request)
    read_reply = staticmethod(read_reply)
    cut_reply = staticmethod(trim)

    def noted(self, _: SearchCall, answer: bytes, notes: Sequence[Sequence[bytes | None]]) -> bytes:
        reply = parsed(proto.Reply, answer)
        reply.matches[:] = [_noted(match, note) for match, note in zip(reply.matches, notes[0], strict=True)]
        return serialized(reply)

    def classify(self, head: RequestHead) -> Operation | None:
        """The ranked search of a call; None for any other. Never raises. The index is the host's, as over REST."""
        if head.method != "POST" or head.path != PATH:
            return None
        return Operation(backend=BACKEND, name=QUERY, collection=index_of(head.host))

"""Weaviate over gRPC: the adapter and its dialect, and the client's answer cut from a wider reply.

Supported: searches near a vector, an object, a text or media, hybrid and keyword searches, servers 1.27 and later. Lists, groups, autocut,
cursors, boosts, reranking, generated text, several target vectors, multivector queries and Weaviate's own selection for diversity are
passed through. The answer is upstream's bytes without the other results and without what was added.
"""

from __future__ import annotations

import re

from vecsieve.adapters.base import GrpcAdapter, GrpcDialect, Keep
from vecsieve.adapters.weaviate import calls, grpc_reply, grpc_request
from vecsieve.adapters.weaviate.grpc_reply import (
    METADATA,
    OWN_PROPERTIES,
    PROPERTIES,
    RESULTS,
    ReplyDocument,
    Result,
    name_of,
)
from vecsieve.adapters.weaviate.grpc_request import NAMED, Document, Shown
from vecsieve.adapters.wire.protobuf import Field, entries, length_field, replaced, without


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: the results ``keep[0]`` in that order."""
    (kept,) = keep
    data, results = reply.data, reply.results
    shown = [_shown(data, request.shown, results[index]) for index in kept.tolist()]
    return replaced(data, (0, len(data)), [result.field.whole for result in results], shown)


def _shown(data: bytes, shown: Shown, result: Result) -> bytes:
    """A result in the client's answer."""
    hidden = [field for field in result.inside if _is_hidden(data, shown, field)]
    pieces: list[tuple[Field, bytes]] = []
    if hidden:
        pieces.append((result.metadata, length_field(METADATA, without(data, result.metadata.span, hidden))))
    if shown.properties and result.properties is not None and result.own is not None:
        pieces.append((result.properties, _properties(data, shown, result.properties, result.own, result.entries)))
    if not pieces:
        return data[result.field.start : result.field.end]
    at, inside = result.field.value, b""
    for field, changed in sorted(pieces):
        inside += data[at : field.start] + changed
        at = field.end
    return length_field(RESULTS, inside + data[at : result.field.end])


def _is_hidden(data: bytes, shown: Shown, field: Field) -> bool:
    if field.number in shown.hidden:
        return True
    return shown.listed is not None and field.number == NAMED and name_of(data, field) not in shown.listed


def _properties(data: bytes, shown: Shown, properties: Field, own: Field, held: list[Field]) -> bytes:
    """A result's properties without the added ones; without their field where none is left."""
    added = {name.encode(errors="surrogatepass") for name in shown.properties}
    keys = [key for key, _ in entries(data, [field.span for field in held])]
    dropped = [field for field, key in zip(held, keys, strict=True) if key in added]
    if not dropped:
        return data[properties.start : properties.end]
    left = without(data, own.span, dropped)
    inside = length_field(OWN_PROPERTIES, left) if left else b""
    return length_field(PROPERTIES, data[properties.value : own.start] + inside + data[own.end : properties.end])


class WeaviateGrpc(GrpcAdapter[Document, ReplyDocument]):
    """Functions of this package."""

    request_type, reply_type, messages = Document, ReplyDocument, grpc_request.MESSAGES
    classify = staticmethod(calls.classify)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(grpc_reply.parse_reply)
    cut_reply = staticmethod(trim)
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(calls.parse_description)


_LIMIT = re.compile(rb"QUERY_MAXIMUM_RESULTS '([1-9][0-9]{0,8})'")
_UNKNOWN_VECTOR = b"does not have named vector "
_OK = 0
_TOO_MANY = b"429 too many requests"


class WeaviateGrpcDialect(GrpcDialect):
    """Over gRPC: the details of a status, mostly UNKNOWN."""

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest sum of offset and limit."""
        found = _LIMIT.search(body) if status != _OK else None
        return None if found is None else int(found[1])

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """From the details."""
        return status != _OK and _UNKNOWN_VECTOR in body

    def is_quota(self, status: int, body: bytes) -> bool:
        """Also by the details: MAXIMUM_CONCURRENT_GET_REQUESTS has no code of its own."""
        return super().is_quota(status, body) or (status != _OK and _TOO_MANY in body.lower())

"""Weaviate over gRPC: the adapter, composed of the files beside it.

Spoken: searches near a vector, an object, a text or media, hybrid and keyword searches, servers 1.27 and later. Messages are
walked and cut, never decoded and encoded again. Lists, groups, autocut, cursors, boosts, reranking, generated text, several
target vectors, multivector queries and Weaviate's own selection for diversity are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Bounds, Needs, Operation, Question, Reply, RequestHead, SearchCall
from vecsieve.adapters.weaviate import calls, grpc_reply, grpc_request
from vecsieve.adapters.weaviate import calls as weaviate_calls
from vecsieve.adapters.weaviate.grpc_query import NAMED, Shown
from vecsieve.adapters.weaviate.grpc_reply import (
    METADATA,
    OWN_PROPERTIES,
    PROPERTIES,
    RESULTS,
    ReplyDocument,
    Result,
    name_of,
)
from vecsieve.adapters.weaviate.grpc_request import Document
from vecsieve.adapters.wire import protobuf_requests
from vecsieve.adapters.wire.protobuf import Field, entries, length_field, without

# The client's answer from a wider Weaviate reply: upstream's bytes, without the other results and without what was added.
#
# Everything around the results stays as it came: time, query profile, fields nobody knows.


def trim(request: Document, reply: ReplyDocument, kept: npt.NDArray[np.intp]) -> bytes:
    """The client's answer: the results ``kept`` in that order, without what the request added.

    They take the places of the first results, one each, so that all that stands between stays.
    """
    data, places = reply.data, kept.tolist()
    pieces: list[bytes] = []
    at = 0
    for place, result in enumerate(reply.results):
        pieces.append(data[at : result.field.start])
        if place < len(places):
            pieces.append(_shown(data, request.shown, reply.results[places[place]]))
        at = result.field.end
    pieces.append(data[at:])
    return b"".join(pieces)


def _shown(data: bytes, shown: Shown, result: Result) -> bytes:
    """A result as the client asked for it."""
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
    """A result's properties without those that were added; without the field that holds them where none is left."""
    added = {name.encode(errors="surrogatepass") for name in shown.properties}
    keys = [key for key, _ in entries(data, [field.span for field in held])]
    dropped = [field for field, key in zip(held, keys, strict=True) if key in added]
    if not dropped:
        return data[properties.start : properties.end]
    left = without(data, own.span, dropped)
    inside = length_field(OWN_PROPERTIES, left) if left else b""
    return length_field(PROPERTIES, data[properties.value : own.start] + inside + data[own.end : properties.end])


class WeaviateGrpc:
    """The six verbs, over single messages, and the two of the first step. Holds nothing."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return weaviate_calls.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the fields of a message. Raises UnsupportedError where there are too many, nothing else."""
        protobuf_requests.check_size(body, operation.name, grpc_request.MESSAGES, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        return grpc_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[0]`` candidates from rank 0 with what selection reads."""
        return grpc_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        pool, document = grpc_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept results are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        (kept,) = keep
        return trim(_request(call), reply.document, kept)

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What tells how many results a search without a limit is given. Total."""
        return calls.question(body)

    def told(self, body: bytes) -> int:
        """Read that answer. Raises MalformedReplyError, nothing else."""
        return calls.told(body)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document

"""Qdrant over gRPC: the adapter, composed of the files beside it.

Spoken: Query, Search, Recommend, Discover and their batches, servers of all versions that the REST adapter knows. Messages
are walked and cut, never decoded and encoded again. Groups, matrix, scroll, facet and everything else are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.qdrant import calls, grpc_reply, grpc_request
from vecsieve.adapters.qdrant.grpc_reply import (
    ENTRIES,
    NAMED,
    PAYLOAD,
    RESULT,
    UNNAMED,
    VECTORS,
    Point,
    Ranked,
    ReplyDocument,
)
from vecsieve.adapters.qdrant.grpc_request import Document, Plan
from vecsieve.adapters.wire.protobuf import (
    LENGTH,
    Field,
    entries,
    fields,
    key_of,
    length_field,
    messages,
    only,
    without,
)

# The client's answer from a wider gRPC reply: upstream's bytes, without the other points and without what was added.
#
# Everything around the points stays as it came: time, usage, fields nobody knows. The shape of a point's vectors is decided
# per point, as the server decides it: bare when only the unnamed vector is left, named otherwise, and named ones without any
# where an enabled selector leaves nothing.

_NO_VECTORS = length_field(VECTORS, length_field(NAMED, b""))


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: for list i the points ``keep[i]`` in that order, without what the request added."""
    data = reply.data
    pieces: list[bytes] = []
    at = 0
    for plan, ranked, kept in zip(request.plans, reply.lists, keep, strict=True):
        inside = _kept(data, plan, ranked, kept.tolist())
        if ranked.item is None:
            return inside
        pieces += (data[at : ranked.item.start], _framed(data, ranked.item, inside))
        at = ranked.item.end
    return b"".join(pieces) + data[at:]


def _kept(data: bytes, plan: Plan, ranked: Ranked, kept: list[int]) -> bytes:
    """A list's message with the k-th kept point where its k-th point stood, so that all that stands between stays."""
    at, end = ranked.span
    pieces: list[bytes] = []
    for place, point in enumerate(ranked.points):
        pieces.append(data[at : point.field.start])
        if place < len(kept):
            pieces.append(_restored(data, plan, ranked.points[kept[place]]))
        at = point.field.end
    pieces.append(data[at:end])
    return b"".join(pieces)


def _restored(data: bytes, plan: Plan, point: Point) -> bytes:
    """A point without what was added to it."""
    payload = plan.payload
    if plan.wanted is True and not payload.asked:
        return data[point.field.start : point.field.end]
    if plan.wanted is False and not payload.asked:
        return _framed(data, point.field, _without_vectors(data, point))
    added = {key.encode() for key in payload.asked}
    pieces: list[bytes] = []
    at = point.field.value
    for member in fields(data, point.field.span):
        if member.number == VECTORS:
            shown = _vectors(data, member, plan.wanted)
        elif member.number == PAYLOAD and (payload.is_forced or (added and key_of(data, member.span) in added)):
            shown = b""
        else:
            continue
        pieces += (data[at : member.start], shown)
        at = member.end
    pieces.append(data[at : point.field.end])
    return _framed(data, point.field, b"".join(pieces))


def _without_vectors(data: bytes, point: Point) -> bytes:
    at, end = point.field.span
    if point.vectors is None:
        return data[at:end]
    start, _, behind = point.vectors
    return data[at:start] + data[behind:end]


def _vectors(data: bytes, field: Field, wanted: bool | tuple[str, ...]) -> bytes:
    """What a client that selected ``wanted`` is shown of a point's vectors."""
    whole = data[field.start : field.end]
    if isinstance(wanted, bool):
        return whole if wanted else b""
    found = fields(data, field.span)
    alone, several = only(found, UNNAMED, LENGTH), only(found, NAMED, LENGTH)
    if several is None:
        return whole if alone is None or "" in wanted else _NO_VECTORS
    shown = {name.encode() for name in wanted}
    inside = [inner for inner in fields(data, several.span) if inner.number == ENTRIES]
    each = list(zip(entries(data, messages(inside, ENTRIES)), inside, strict=True))
    dropped = [inner for (name, _), inner in each if name not in shown]
    if not dropped:
        return whole
    left = [(name, span) for (name, span), _ in each if name in shown]
    if not left:
        return _NO_VECTORS
    if len(left) == 1 and left[0][0] == b"":
        start, end = left[0][1]
        return length_field(VECTORS, length_field(UNNAMED, data[start:end]))
    kept = length_field(NAMED, without(data, several.span, dropped))
    return length_field(VECTORS, data[field.value : several.start] + kept + data[several.end : field.end])


def _framed(data: bytes, field: Field, inside: bytes) -> bytes:
    """A result with this inside: upstream's own bytes where it has not changed."""
    if inside == data[field.value : field.end]:
        return data[field.start : field.end]
    return length_field(RESULT, inside)


class QdrantGrpc:
    """The six verbs, over single messages. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return calls.classify_grpc(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the fields of a message. Raises UnsupportedError where there are too many, nothing else."""
        grpc_request.check_size(operation, body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        return grpc_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[i]`` candidates from rank 0 with the vectors to compare."""
        return grpc_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        pools, document = grpc_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept points are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return trim(_request(call), reply.document, keep)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document

"""Qdrant over gRPC: the adapter, and the client's answer cut from a wider reply.

Supported: Query, Search, Recommend, Discover and their batches, server versions as over REST. The answer is upstream's bytes without
the other points and without what was added. Around the points nothing changes. The vectors have the form that the server chooses for
each point: bare when only the unnamed vector is left, named otherwise, named without any when an enabled selector leaves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from vecsieve.adapters.base import GrpcAdapter, Keep, own
from vecsieve.adapters.contract import SearchCall
from vecsieve.adapters.qdrant import calls, grpc_fusion, grpc_reply, grpc_request
from vecsieve.adapters.qdrant.grpc_points import PAYLOAD, RESULT, VECTORS, Place, Point
from vecsieve.adapters.qdrant.grpc_reply import ENTRIES, NAMED, UNNAMED, Ranked, ReplyDocument
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
    replaced,
    without,
)

_NO_VECTORS = length_field(VECTORS, length_field(NAMED, b""))


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: of list i the points ``keep[i]`` in that order."""
    data = reply.data
    pieces: list[bytes] = []
    at = 0
    for plan, ranked, kept in zip(request.plans, reply.lists, keep, strict=True):
        inside = _kept(data, plan, ranked, kept.tolist())
        if ranked.item is None:
            return inside
        pieces += (data[at : ranked.item.start], _framed(data, ranked.item[2:], inside))
        at = ranked.item.end
    return b"".join(pieces) + data[at:]


def _kept(data: bytes, plan: Plan, ranked: Ranked, kept: list[int]) -> bytes:
    """A list's message: its k-th kept point replaces its k-th point."""
    points = ranked.points.each
    shown = [_restored(data, plan, points[index]) for index in kept]
    if ranked.points.is_together and points:
        return b"".join((*shown, data[points[-1].place[2] : ranked.span[1]]))
    return replaced(data, ranked.span, [(start, end) for (start, _, end), _, _ in points], shown)


def _restored(data: bytes, plan: Plan, point: Point) -> bytes:
    """A point without what was added."""
    payload, (start, value, end) = plan.payload, point.place
    if not payload.asked:
        if plan.wanted is True or point.vectors is None:
            return data[start:end]
        if plan.wanted is False:
            cut, _, behind = point.vectors
            return length_field(RESULT, data[value:cut] + data[behind:end])
    added = {key.encode() for key in payload.asked}
    pieces: list[bytes] = []
    at = value
    for member in fields(data, (value, end)):
        if member.number == VECTORS:
            shown = _vectors(data, member, plan.wanted)
        elif member.number == PAYLOAD and (payload.is_forced or (added and key_of(data, member.span) in added)):
            shown = b""
        else:
            continue
        pieces += (data[at : member.start], shown)
        at = member.end
    pieces.append(data[at:end])
    return _framed(data, point.place, b"".join(pieces))


def _vectors(data: bytes, field: Field, wanted: bool | tuple[str, ...]) -> bytes:
    """A point's vectors, reduced to ``wanted``."""
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


def _framed(data: bytes, place: Place, inside: bytes) -> bytes:
    """A result with this content; upstream's bytes where it is unchanged."""
    start, value, end = place
    return data[start:end] if inside == data[value:end] else length_field(RESULT, inside)


class QdrantGrpc(GrpcAdapter[Document, ReplyDocument]):
    """Functions of this package."""

    request_type, reply_type, messages = Document, ReplyDocument, grpc_request.MESSAGES
    classify = staticmethod(calls.classify_grpc)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(grpc_reply.parse_reply)
    cut_reply = staticmethod(trim)
    divided = staticmethod(grpc_fusion.divided)
    fused = staticmethod(grpc_fusion.fused)

    def again(self, call: SearchCall, ids: Sequence[bytes]) -> bytes:
        """As in the contract."""
        return grpc_request.again(own(call.document, Document), ids)

"""Qdrant over REST: the adapter, and the client's answer cut from a wider reply.

Supported: query, search, recommend, discover and their batches, servers 1.7 to 1.20. The answer is upstream's bytes without the other
points and without the additions. Everything around the points is unchanged. ``vector`` has the form that the server chooses for each point:
a bare list if only the unnamed vector is left, otherwise an object, and ``{}`` if an enabled selector leaves nothing. Servers up to 1.9
write null for an absent member.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from ..base import Keep, NotingAdapter
from ..contract import (
    FIELD_BYTES,
    Allowance,
    Needs,
    Pool,
)
from ..wire.json import Span, cuts, last_values_of, members_of
from ..wire.json_vectors import Edit, kept_inside, set_aside
from . import calls, rest_fusion, rest_reply, rest_request
from .rest_reply import Point, Ranked, ReplyDocument, member_cut
from .rest_request import Document, Plan

# A lean reply answers a request without vectors and without required payload keys. It has at most a fifth of the size of one with vectors, and
# reading it member by member would take most of a search's time. msgspec checks the grammar (it refuses a lone surrogate) and that a point
# has no other members; a pattern then finds each point at the byte where the previous one ended, and its payload there. Any reply that
# differs in a byte is left to rest_reply, which reads any order and white space.

_HEAD = re.compile(
    rb'\{"id":([0-9]++|"[^"\\]*+"),"version":([0-9]++),"score":(-?[0-9][0-9.eE+-]*+)(?:,"payload":(?=\{))?'
)
_OPENINGS = {True: b'{"result":{"points":[', False: b'{"result":['}
_RESULT = b'"result"'
_ESCAPE = b"\\u"
_ABSENT = msgspec.Raw()


class _Point(msgspec.Struct, forbid_unknown_fields=True):
    id: int | str
    version: int
    score: float
    payload: msgspec.Raw = _ABSENT


class _Points(msgspec.Struct):
    points: list[_Point]


class _Queried(msgspec.Struct):
    result: _Points


class _Listed(msgspec.Struct):
    result: list[_Point]


_QUERIED, _LISTED = msgspec.json.Decoder(_Queried), msgspec.json.Decoder(_Listed)


def _point_at(text: bytes, spans: Sequence[Span], index: int) -> Point:
    start, end = spans[index]
    head = _HEAD.match(text, start)
    assert head is not None  # noqa: S101 - the span was found by this pattern
    payload = (head.end(), end - 1) if head.end() < end - 1 else None
    return Point((start, end), head.span(1), head.span(3), payload, None, head.span(2))


def parse_lean(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument] | None:
    """The pool of the only search and the document; None for a reply of any other kind."""
    if request.batch is not None or needs.vectors or needs.payload_fields:
        return None
    (plan,) = request.plans
    opening = _OPENINGS[request.in_object]
    # An escape in a payload that is read may be half a surrogate pair, which is replaced first.
    if plan.name is None or not body.startswith(opening) or (needs.optional_fields and _ESCAPE in body):
        return None
    try:
        points = _QUERIED.decode(body).result.points if request.in_object else _LISTED.decode(body).result
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    walked = _walked(body, points, len(opening))
    if walked is None:
        return None
    spans, heads = walked
    ids, versions = zip(*heads, strict=True)
    end = spans[-1][1] + 1
    array = len(opening) - 1, end
    if _RESULT in body[end:]:
        return None  # the member may occur twice
    ranked = Ranked(array, spans, partial(_point_at, body, spans))
    pool = Pool(
        scores=np.array([point.score for point in points], dtype=np.float64),
        vectors=np.empty((len(points), 0), np.float32),
        fields=_lean_fields(points, needs.optional_fields),
        payloads=partial(_lean_payloads, points),
        is_cut=plan.payload.is_cut,
        ids=ids,
        versions=versions,
        compared_by=plan.name,
        unusable=len(points),
    )
    source = set_aside(body, ())
    document = ReplyDocument(source=source, text=body, lists=(ranked,), is_null_style=False, is_lean=True)
    return (pool,), document


def _lean_fields(points: Sequence[_Point], fields: tuple[str, ...]) -> tuple[tuple[bytes | None, ...], ...]:
    if not fields:
        return ((),) * len(points)
    payloads = [b"{}" if point.payload is _ABSENT else bytes(point.payload) for point in points]
    return last_values_of(payloads, fields, Allowance(FIELD_BYTES))


def _lean_payloads(points: Sequence[_Point], rows: Sequence[int]) -> tuple[bytes | None, ...]:
    return tuple([None if points[row].payload is _ABSENT else bytes(points[row].payload) for row in rows])


def _walked(body: bytes, points: Sequence[_Point], start: int) -> tuple[list[Span], list[tuple[bytes, bytes]]] | None:
    """The points' spans, and their ids and versions, from ``start`` to the end of their array; None if one is not at the expected place.

    By induction each point begins at its offset: a JSON value ends where its bytes do, and only a comma separates two.
    """
    spans: list[Span] = []
    heads: list[tuple[bytes, bytes]] = []
    for point in points:
        head = _HEAD.match(body, start)
        if head is None:
            return None
        end, payload = head.end(), point.payload
        if payload is not _ABSENT:
            if not body.startswith(payload, end):
                return None
            end += len(payload)
        spans.append((start, end + 1))
        heads.append((head[1], head[2]))
        start = end + 2
    # The bytes after each point, of which the last ones must be the end of the array.
    closings = b"".join([body[end - 1 : end + 1] for _, end in spans])
    return (spans, heads) if closings and closings == b"}," * (len(spans) - 1) + b"}]" else None


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: of list i the points ``keep[i]`` in that order."""
    if reply.is_lean and not request.plans[0].payload.added:
        return _lean_answer(reply.text, reply.lists[0].spans, keep[0].tolist())
    pieces: list[bytes] = []
    position = 0
    for plan, ranked, kept in zip(request.plans, reply.lists, keep, strict=True):
        start, end = ranked.array
        pieces.append(reply.source.cut(position, start + 1))
        pieces += _kept(reply, plan, ranked, kept.tolist())
        position = end - 1
    pieces.append(reply.source.cut(position, len(reply.text)))
    return b"".join(pieces)


def _lean_answer(text: bytes, spans: Sequence[Span], kept: list[int]) -> bytes:
    """If nothing was added to points: slices of the reply, with the commas that servers write."""
    inside = b",".join([text[start:end] for start, end in map(spans.__getitem__, kept)])
    return b"".join((text[: spans[0][0]], inside, text[spans[-1][1] :]))


def _kept(reply: ReplyDocument, plan: Plan, ranked: Ranked, kept: list[int]) -> list[bytes]:
    def edits(index: int) -> list[Edit]:
        return _edits(reply, plan, ranked.point(index))

    return kept_inside(reply.source, ranked.array, ranked.spans, kept, edits)


def _edits(reply: ReplyDocument, plan: Plan, point: Point) -> list[Edit]:
    """The edits of a point, disjoint, in any order."""
    edits: list[Edit] = []
    dropped: set[str] = set()
    selection = plan.vectors.selection
    if selection is False:
        dropped.add("vector")
    elif selection is not True and point.vector is not None:
        edits += _vector_edits(reply.text, point.vector, selection)
    if plan.payload.is_forced:
        dropped.add("payload")
    elif plan.payload.added and point.payload is not None:
        edits += _payload_edits(reply.text, point.payload, plan.payload.added)
    return edits + _member_edits(reply, point, dropped) if dropped else edits


def _member_edits(reply: ReplyDocument, point: Point, dropped: set[str]) -> list[Edit]:
    """Remove members of a point, or make them null if the server writes null."""
    values = {"payload": point.payload, "vector": point.vector}
    present = [(name, span) for name, span in values.items() if name in dropped and span is not None]
    if reply.is_null_style:
        return [(*span, b"null") for _, span in present]
    spans = [member_cut(reply.text, name, span) for name, span in present]
    if None in spans:
        spans = [*cuts(members_of(reply.text, point.span), dropped)]
    return [(*span, b"") for span in spans if span is not None]


def _vector_edits(text: bytes, span: Span, names: tuple[str, ...]) -> list[Edit]:
    """Reduce a ``vector`` value to ``names``."""
    start, end = span
    first = text[start : start + 1]
    if first == b"[":
        return [] if "" in names else [(start, end, b"{}")]
    vectors = members_of(text, span) if first == b"{" else {}
    kept = [name for name in vectors if name in names]
    if len(kept) == len(vectors):
        return []
    if not kept:
        return [(start, end, b"{}")]
    if kept == [""]:
        return [(start, vectors[""].value, b""), (vectors[""].end, end, b"")]
    return [(cut, until, b"") for cut, until in cuts(vectors, vectors.keys() - set(kept))]


def _payload_edits(text: bytes, span: Span, added: tuple[str, ...]) -> list[Edit]:
    """Remove the added keys of a payload."""
    if text[span[0] : span[0] + 1] != b"{":
        return []
    return [(start, end, b"") for start, end in cuts(members_of(text, span), added)]


class QdrantRest(NotingAdapter[Document, ReplyDocument]):
    request_type, reply_type = Document, ReplyDocument
    classify = staticmethod(calls.classify_rest)
    parse_request = staticmethod(rest_request.parse_request)
    widen_request = staticmethod(rest_request.widen)
    cut_reply = staticmethod(trim)
    payloads = staticmethod(rest_reply.payloads_of)
    divided = staticmethod(rest_fusion.divided)
    fused = staticmethod(rest_fusion.fused)

    def read_reply(self, request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
        return parse_lean(request, needs, body) or rest_reply.parse_reply(request, needs, body)

"""Reading a Qdrant search reply: where its lists and points stand, and the pools in them.

What is not understood with certainty is malformed, never guessed. A list is ``[point, ..]`` on the legacy endpoints and
``{"points": [point, ..]}`` on query; a batch is an array of lists. A point is an object with at least id and score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import FIELD_BYTES, Allowance, MalformedReplyError, Needs, Pool
from vecsieve.adapters.qdrant.ranking import Kind, Shape, best
from vecsieve.adapters.qdrant.rest_request import Document, Plan
from vecsieve.adapters.wire.json import (
    Members,
    Span,
    check_members,
    elements,
    last_values,
    members,
    part,
    whole,
    without_surrogates,
)
from vecsieve.adapters.wire.json_vectors import Shortened, decode_matrix, guess_vectors, set_aside, sparse_matrix, stack
from vecsieve.adapters.wire.vectors import without_vector

# The points of a Qdrant reply: where each stands, and its score, payload and vector in it.
#
# Servers write a point's members compactly and in one order. So the common list is read in a single pass and proven by
# building it anew from its pieces: equal bytes leave no room for another reading, a repeated key included. Any other list
# is walked member by member (0.1 against 0.5 ms for 50 points).

# A value whose grammar was checked is known by its first byte.
_ID_STARTS = b'"0123456789'
_SCORE_STARTS = b"-0123456789n"
_PAYLOAD_STARTS = b"{n"
_NULL = ord("n")
_SPACE = b" \t\n\r"
_COPIED = 1 << 20  # bytes of a list that are put together anew sooner than its pieces are compared one by one

# What servers write between values; an id is preceded by the end of the point before.
_ID = b'},{"id":'
_VERSION = b',"version":'
_SCORE = b',"score":'
_PAYLOAD = b',"payload":'
_VECTOR = b',"vector":'
_SHARD_KEY = b',"shard_key":'
_ORDER_VALUE = b',"order_value":'
_BEFORE_ID = len('{"id":')
_BEFORE_SCORE = len(_VERSION) + len(_SCORE)
_BEFORE_PAYLOAD = len(_PAYLOAD)
_BEFORE_VECTOR = len(_VECTOR)


class Point(NamedTuple):
    """One candidate: the span of its object and of four values in it; None where a member is absent.

    A NamedTuple for the same reason as `Member`: there is one for every candidate.
    """

    span: Span
    id: Span
    score: Span
    payload: Span | None
    vector: Span | None


# Stands for an absent member, as this one object: no value that was read is it.
_ABSENT = msgspec.Raw()


class _Compact(msgspec.Struct):
    """A point as servers write it."""

    id: msgspec.Raw
    version: msgspec.Raw
    score: msgspec.Raw
    payload: msgspec.Raw = _ABSENT
    vector: msgspec.Raw = _ABSENT
    shard_key: msgspec.Raw = _ABSENT
    order_value: msgspec.Raw = _ABSENT


_COMPACT = msgspec.json.Decoder(list[_Compact])


def read_points(text: bytes, array: Span) -> tuple[Point, ...]:
    """The points of the list that fills ``array``, in order. Raises ValueError for anything but points."""
    points = _read_compact(text, array)
    if points is None:
        points = [_read_any(text, span) for span in elements(text, array)]
    for point in points:
        if text[point.score[0]] not in _SCORE_STARTS:
            raise ValueError(f"score at byte {point.score[0]} is no number")
        if point.payload is not None and text[point.payload[0]] not in _PAYLOAD_STARTS:
            raise ValueError(f"payload at byte {point.payload[0]} is no object")
    return tuple(points)


def score_of(text: bytes, point: Point) -> float:
    """A score; NaN for null, which is how the server writes a score that is no number."""
    value = text[point.score[0] : point.score[1]]
    return float("nan") if value == b"null" else float(value)


def members_of(text: bytes, point: Point) -> Members:
    """All members of a point."""
    return members(text, point.span)


def member_cut(text: bytes, name: str, value: Span) -> Span | None:
    """The member that has this value, with the comma right before it; None where it does not stand so.

    What `cuts` would find, without reading the point again, for members that are not the object's first.
    """
    lead = b',"%s":' % name.encode()
    start = value[0] - len(lead)
    return (start, value[1]) if text.startswith(lead, start) and text[start - 1] not in _SPACE else None


def has_null(text: bytes, point: Point) -> bool:
    """Whether the server wrote null where others leave a member out (Qdrant up to 1.9)."""
    payload, vector = point.payload, point.vector
    return (payload is not None and text[payload[0]] == _NULL) or (vector is not None and text[vector[0]] == _NULL)


def _read_compact(text: bytes, array: Span) -> list[Point] | None:
    """All points of the list if it is exactly as servers write it, else None."""
    start, end = array
    try:
        raws = _COMPACT.decode(part(text, array))
    except (msgspec.DecodeError, RecursionError):
        return None
    if not raws:
        return [] if text[start:end] == b"[]" else None
    points, built = _rebuilt(raws, start + 1)
    built[0] = b"[" + _ID[2:]
    built.append(b"}]")
    if not _is_made_of(built, text, start, end):
        return None
    return points if all(text[point.span[0] + len(_ID) - 2] in _ID_STARTS for point in points) else None


def _is_made_of(pieces: list[bytes | msgspec.Raw], text: bytes, start: int, end: int) -> bool:
    """Whether the pieces together are ``text[start:end]``. Megabytes are compared where they stand, without a copy."""
    if end - start <= _COPIED:
        return b"".join(pieces) == text[start:end]
    for piece in pieces:
        if not text.startswith(piece, start):
            return False
        start += len(piece)
    return start == end


def _rebuilt(raws: list[_Compact], start: int) -> tuple[list[Point], list[bytes | msgspec.Raw]]:
    """Where each point stands when the first one starts there, and the text up to the end of the last one's values."""
    points: list[Point] = []
    built: list[bytes | msgspec.Raw] = []
    for raw in raws:
        identity = start + _BEFORE_ID
        behind = identity + len(raw.id)
        score = behind + _BEFORE_SCORE + len(raw.version)
        end = after = score + len(raw.score)
        built += (_ID, raw.id, _VERSION, raw.version, _SCORE, raw.score)
        payload = vector = None
        if raw.payload is not _ABSENT:
            value = after + _BEFORE_PAYLOAD
            after = value + len(raw.payload)
            payload = value, after
            built += (_PAYLOAD, raw.payload)
        if raw.vector is not _ABSENT:
            value = after + _BEFORE_VECTOR
            after = value + len(raw.vector)
            vector = value, after
            built += (_VECTOR, raw.vector)
        for name, more in ((_SHARD_KEY, raw.shard_key), (_ORDER_VALUE, raw.order_value)):
            if more is not _ABSENT:
                built += (name, more)
                after += len(name) + len(more)
        points.append(Point((start, after + 1), (identity, behind), (score, end), payload, vector))
        start = after + 2
    return points, built


def _read_any(text: bytes, span: Span) -> Point:
    """A point in any order and with any white space. Raises ValueError."""
    found = members(text, span)
    if not {"id", "score"} <= found.keys() or text[found["id"].value] not in _ID_STARTS:
        raise ValueError(f"no id or no score at byte {span[0]}")
    payload, vector = found.get("payload"), found.get("vector")
    return Point(
        span,
        (found["id"].value, found["id"].end),
        (found["score"].value, found["score"].end),
        None if payload is None else (payload.value, payload.end),
        None if vector is None else (vector.value, vector.end),
    )


# The vectors of a Qdrant reply: where each point's stands, which one is compared, and all of them as one matrix.
#
# A point's ``vector`` is a bare list (the unnamed vector alone), a bare list of lists (the same, as a multivector) or an
# object of names in random order; it may be empty, null or absent. All of that differs from point to point in one reply.


@dataclass(frozen=True, slots=True)
class Compared:
    """(n, d) float32 with NaN rows for what is unusable, and how many those are.

    ``proven``: per candidate, whether its bytes were read as one flat array of numbers.
    """

    vectors: npt.NDArray[np.float32]
    unusable: int
    proven: tuple[bool, ...]


def named(text: bytes, span: Span) -> dict[str, Span]:
    """The vectors in a ``vector`` value by name, "" being the unnamed one. Raises ValueError."""
    first = text[span[0] : span[0] + 1]
    if first == b"[":
        return {"": span}
    if first == b"{":
        return {name: (member.value, member.end) for name, member in members(text, span).items()}
    if text[span[0] : span[1]] == b"null":
        return {}
    raise ValueError(f"vector at byte {span[0]} is neither list, object nor null")


def find_best(text: bytes, points: Sequence[Mapping[str, Span]], prefers: str) -> str | None:
    """The name to compare by when all vectors were asked for."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, (start, end) in point.items():
            if name not in first:
                first[name] = _shape(text[start:end])
    return best(first, prefers)


def compare(values: Sequence[bytes | None]) -> Compared:
    """Read each candidate's vector; None where it has none. The first vector's kind decides for the pool.

    Multivectors are not compared: their metric (MaxSim) is between sets of rows, which a mean of the rows tells nothing of
    (250 of 300 random documents of 20 rows seemed to be copies), and all pairs of a pool would cost 20 ms and more.
    """
    sample = next((value for value in values if value is not None), b"[]")
    if _is_dense(sample):
        return _measured(*decode_matrix([b"" if value is None else value for value in values]))
    none_proven = (False,) * len(values)
    if sample.startswith(b"{"):
        return _measured(sparse_matrix(values), none_proven)
    return _measured(stack([None] * len(values)), none_proven)


def _measured(vectors: npt.NDArray[np.float32], proven: tuple[bool, ...]) -> Compared:
    return Compared(vectors, unusable=without_vector(vectors), proven=proven)


def _shape(value: bytes) -> Shape:
    if _is_dense(value):
        return Shape(Kind.DENSE, value.count(b","))
    return Shape(Kind.SPARSE if value.startswith(b"{") else Kind.MULTI)


def _is_dense(value: bytes) -> bool:
    return value[:1] == b"[" and value[1:].lstrip()[:1] != b"["


@dataclass(frozen=True, slots=True)
class Ranked:
    """The list of one search: its array, and its points in order."""

    array: Span
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply.

    Spans are offsets into ``text``, which is ``source.text`` with harmless escapes; bytes are taken through ``source``.
    ``is_escaped``: some escape was replaced, so that ``text`` is not ``source.text``.
    ``is_null_style``: the server writes null where others leave a member out (Qdrant up to 1.9).
    """

    source: Shortened
    text: bytes
    lists: tuple[Ranked, ...]
    is_escaped: bool
    is_null_style: bool


def parse_reply(
    request: Document, needs: Needs, body: bytes, *, in_object: bool
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read a reply. ``in_object``: each list is wrapped in ``{"points": ..}``. Raises MalformedReplyError, nothing else."""
    asks_all = any(plan.name is None for plan in request.plans)
    spans = () if asks_all else guess_vectors(body, {plan.name for plan in request.plans if plan.name is not None})
    try:
        return _read_guessed(request, needs, set_aside(body, spans), in_object=in_object)
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


class _UnprovenError(ValueError):
    """Not everything that was set aside is a vector; ``proven`` is what is, in the original's offsets."""

    def __init__(self, proven: list[Span]) -> None:
        super().__init__("something that was set aside is no vector of a point")
        self.proven = proven


def _read_guessed(
    request: Document, needs: Needs, source: Shortened, *, in_object: bool
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read with what was guessed, then with what of it stood the test, then with nothing set aside."""
    try:
        return _read(request, needs, source, in_object=in_object)
    except _UnprovenError as error:
        fewer = error.proven
    except ValueError:
        if not source.spans:
            raise
        fewer = []
    return _read_guessed(request, needs, set_aside(source.original, fewer), in_object=in_object)


def _read(
    request: Document, needs: Needs, source: Shortened, *, in_object: bool
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    text = without_surrogates(source.text)
    arrays = _arrays(text, request, in_object=in_object)
    lists = tuple(Ranked(array, read_points(text, array)) for array in arrays)
    document = ReplyDocument(
        source=source,
        text=text,
        lists=lists,
        is_escaped=text is not source.text and text != source.text,
        is_null_style=any(has_null(text, point) for ranked in lists for point in ranked.points),
    )
    located = [_located(text, plan, ranked.points) for plan, ranked in zip(request.plans, lists, strict=True)]
    found = [source.aside(span) for _, spans in located for span in spans if span is not None]
    proven = sorted(span for span in found if span is not None)
    if len(proven) != len(source.spans):
        raise _UnprovenError(proven)
    pools = tuple(
        replace(_pool(document, ranked, spans, name if plan.name is None else None, needs), compared_by=name)
        for plan, ranked, (name, spans) in zip(request.plans, lists, located, strict=True)
    )
    return pools, document


def _arrays(text: bytes, request: Document, *, in_object: bool) -> list[Span]:
    """The array of points of each plan. Raises ValueError."""
    result = members(text, whole(text)).get("result")
    if result is None:
        raise ValueError("no result")
    spans = [(result.value, result.end)]
    if request.batch is not None:
        spans = elements(text, spans[0])
        if len(spans) != request.batch:
            raise ValueError(f"{len(spans)} results, wanted {request.batch}")
    found: list[Span] = []
    for plan in request.plans:
        span = spans[plan.index]
        if in_object:
            points = members(text, span).get("points")
            if points is None:
                raise ValueError("no points")
            span = points.value, points.end
        found.append(span)
    return found


def _pool(
    document: ReplyDocument, ranked: Ranked, spans: Sequence[Span | None], hint: str | None, needs: Needs
) -> Pool:
    """The pool of one list. Raises ValueError when something that was set aside is no array of numbers."""
    source = document.source
    compared = compare([None if span is None else source.cut_value(span) for span in spans])
    if not all(compared.proven) and any(
        span is not None and not is_array and source.aside(span) is not None
        for span, is_array in zip(spans, compared.proven, strict=True)
    ):
        raise ValueError("something that was set aside is no array of numbers")
    return Pool(
        scores=np.array([score_of(document.text, point) for point in ranked.points], dtype=np.float64),
        vectors=compared.vectors,
        fields=_all_fields(document, ranked.points, needs),
        ids=tuple(_id(document, point) for point in ranked.points),
        vector_name=hint,
        unusable=compared.unusable,
    )


def _located(text: bytes, plan: Plan, points: Sequence[Point]) -> tuple[str | None, list[Span | None]]:
    """The name of the vector to compare, and where each point's stands. Raises ValueError."""
    vectors = [{} if point.vector is None else named(text, point.vector) for point in points]
    name = find_best(text, vectors, plan.prefers) if plan.name is None else plan.name
    return name, [vector.get(name) if name is not None else None for vector in vectors]


def _id(document: ReplyDocument, point: Point) -> bytes:
    raw = document.text[point.id[0] : point.id[1]]
    return document.source.cut(*point.id) if b"\\" in raw else raw  # an escape may be the harmless one


def _all_fields(document: ReplyDocument, points: Sequence[Point], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per point the raw JSON of each wanted top-level payload key, None where absent. Raises ValueError."""
    if not (needs.payload_fields or needs.optional_fields):
        return ((),) * len(points)
    if needs.payload_fields or document.is_escaped:
        check_members(document.text)
    optional, allowance = _fields if document.is_escaped else _fields_unproven, Allowance(FIELD_BYTES)
    return tuple(
        _fields(document, point, needs.payload_fields) + optional(document, point, needs.optional_fields, allowance)
        for point in points
    )


def _fields(
    document: ReplyDocument, point: Point, fields: Sequence[str], allowance: Allowance | None = None
) -> tuple[bytes | None, ...]:
    if not fields or point.payload is None or document.text[point.payload[0]] != ord("{"):
        return (None,) * len(fields)
    found = members(document.text, point.payload)
    places = [found.get(field) for field in fields]
    return tuple(
        None
        if place is None or not (allowance is None or allowance.covers(place.end - place.value))
        else document.source.cut(place.value, place.end)
        for place in places
    )


def _fields_unproven(
    document: ReplyDocument, point: Point, fields: Sequence[str], allowance: Allowance
) -> tuple[bytes | None, ...]:
    """As `_fields` in a sixth of the time (2 against 12 us a payload), for a text without escapes that were changed.

    Of a repeated key the last value counts, where `_fields` raises: what decides about tenants is not read this way.
    """
    if not fields or point.payload is None or document.text[point.payload[0]] != ord("{"):
        return (None,) * len(fields)
    return last_values(part(document.text, point.payload), tuple(fields), allowance)

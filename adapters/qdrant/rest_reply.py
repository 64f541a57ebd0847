"""Parses a reply over REST: its lists and points, and their pools.

A list is ``[point, ..]`` on the legacy endpoints and ``{"points": [point, ..]}`` on query; a batch is an array of lists. A point is an
object with at least id and score. Ambiguous replies are malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..contract import FIELD_BYTES, Allowance, Needs, Pool
from ..wire.json import (
    Span,
    check_members,
    elements,
    members_of,
    part,
    whole,
    without_surrogates,
)
from ..wire.json_vectors import Shortened, decode_matrix, guess_arrays, payload_values, set_aside, sparse_matrix, stack
from ..wire.vectors import without_vector
from .ranking import Kind, Shape, best
from .rest_request import Document, Plan

# Servers write a point's members without white space and in one order. Such a list is decoded in one pass and compared with the text: equal
# bytes exclude any other interpretation, including a repeated key. Any other list is walked member by member (0.5 against 0.1 ms for 50
# points).

# The first byte shows the type of a value whose grammar was checked.
_ID_STARTS = b'"0123456789'
_SCORE_STARTS = b"-0123456789n"
_PAYLOAD_STARTS = b"{n"
_NULL = ord("n")
_SPACE = b" \t\n\r"
# The members in the servers' order, and the bytes before each value.
_LEADS = (
    ("id", b'{"id":'), ("version", b',"version":'), ("score", b',"score":'), ("payload", b',"payload":'), ("vector", b',"vector":'),
    ("shard_key", b',"shard_key":'), ("order_value", b',"order_value":'),
)  # fmt: skip


class Point(NamedTuple):
    """One candidate: the spans of its object and of six values; None if absent. A NamedTuple for speed, as `Member`."""

    span: Span
    id: Span
    score: Span
    payload: Span | None
    vector: Span | None
    version: Span | None
    shard_key: Span | None = None


_ABSENT = msgspec.Raw()


class _Compact(msgspec.Struct):
    """A point in the servers' order."""

    id: msgspec.Raw
    version: msgspec.Raw
    score: msgspec.Raw
    payload: msgspec.Raw = _ABSENT
    vector: msgspec.Raw = _ABSENT
    shard_key: msgspec.Raw = _ABSENT
    order_value: msgspec.Raw = _ABSENT


_COMPACT = msgspec.json.Decoder(list[_Compact])


def read_points(text: bytes, array: Span) -> tuple[Point, ...]:
    """The points of the list that fills ``array``, in order. Raises ValueError."""
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
    """A score; NaN for null, which servers write for NaN."""
    value = text[point.score[0] : point.score[1]]
    return float("nan") if value == b"null" else float(value)


def member_cut(text: bytes, name: str, value: Span) -> Span | None:
    """The span of the member with this value and of the comma before it, as from `cuts` but faster; None for other white space or for the
    first member.
    """
    lead = b',"%s":' % name.encode()
    start = value[0] - len(lead)
    return (start, value[1]) if text.startswith(lead, start) and text[start - 1] not in _SPACE else None


def has_null(text: bytes, point: Point) -> bool:
    """Whether the server writes null for an absent member (up to 1.9)."""
    payload, vector = point.payload, point.vector
    return (payload is not None and text[payload[0]] == _NULL) or (vector is not None and text[vector[0]] == _NULL)


def _read_compact(text: bytes, array: Span) -> list[Point] | None:
    """All points of a list in the servers' format; None for any other."""
    at, end = array[0] + 1, array[1]
    try:
        raws = _COMPACT.decode(part(text, array))
    except (msgspec.DecodeError, RecursionError):
        return None
    points: list[Point] = []
    for raw in raws:
        start, spans = at, dict[str, Span]()
        values = (raw.id, raw.version, raw.score, raw.payload, raw.vector, raw.shard_key, raw.order_value)
        for (name, lead), value in zip(_LEADS, values, strict=True):
            if value is not _ABSENT:
                if not (text.startswith(lead, at) and text.startswith(value, at + len(lead))):
                    return None
                at += len(lead)
                spans[name] = at, at + len(value)
                at += len(value)
        payload, vector, shard_key = map(spans.get, ("payload", "vector", "shard_key"))
        points.append(Point((start, at + 1), spans["id"], spans["score"], payload, vector, spans["version"], shard_key))
        is_last = len(points) == len(raws)
        if not text.startswith(b"}]" if is_last else b"},", at) or text[spans["id"][0]] not in _ID_STARTS:
            return None
        at += 2
    return points if at == end or text[array[0] : end] == b"[]" else None


def _read_any(text: bytes, span: Span) -> Point:
    """A point with any order and white space. Raises ValueError."""
    members = members_of(text, span)
    if not {"id", "score"} <= members.keys() or text[members["id"].value] not in _ID_STARTS:
        raise ValueError(f"no id or no score at byte {span[0]}")
    payload, vector, version = members.get("payload"), members.get("vector"), members.get("version")
    shard_key = members.get("shard_key")
    return Point(
        span,
        (members["id"].value, members["id"].end),
        (members["score"].value, members["score"].end),
        None if payload is None else (payload.value, payload.end),
        None if vector is None else (vector.value, vector.end),
        None if version is None else (version.value, version.end),
        None if shard_key is None else (shard_key.value, shard_key.end),
    )


# A point's ``vector`` is a list (the unnamed vector only), a list of lists (an unnamed multivector) or an object of names in random order;
# it may be empty, null or absent, and the form differs between the points of a reply.


@dataclass(frozen=True, slots=True)
class Compared:
    """(n, d) float32 with NaN rows for unusable vectors, and their number. ``proven``: per candidate, whether it is a flat array of numbers."""

    vectors: npt.NDArray[np.float32]
    unusable: int
    proven: tuple[bool, ...]


def named(text: bytes, span: Span) -> dict[str, Span]:
    """The spans in a ``vector`` value by name, "" being the unnamed one. Raises ValueError."""
    first = text[span[0] : span[0] + 1]
    if first == b"[":
        return {"": span}
    if first == b"{":
        return {name: (member.value, member.end) for name, member in members_of(text, span).items()}
    if text[span[0] : span[1]] == b"null":
        return {}
    raise ValueError(f"vector at byte {span[0]} is neither list, object nor null")


def find_best(text: bytes, points: Sequence[Mapping[str, Span]], prefers: str) -> str | None:
    """The name to compare by, when all vectors were fetched."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, (start, end) in point.items():
            if name not in first:
                first[name] = _shape(text[start:end])
    return best(first, prefers)


def compare(values: Sequence[bytes | None]) -> Compared:
    """Decode each candidate's vector; None without one. The first vector's kind decides for the pool.

    Multivectors are not compared. Their metric (MaxSim) is between sets of rows: a mean of the rows does not approximate it (250 of 300
    random documents of 20 rows seemed to be copies), and all pairs of a pool would take 20 ms and more.
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
    """The list of one search: its array, and the spans of its points in order. ``point``: one of them, by its place."""

    array: Span
    spans: Sequence[Span]
    point: Callable[[int], Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. Spans are offsets into ``text``: ``source.text`` without surrogate escapes; bytes are cut from ``source``.

    ``is_null_style``: the server writes null for an absent member (up to 1.9). ``is_lean``: it was read in one pass.
    """

    source: Shortened
    text: bytes
    lists: tuple[Ranked, ...]
    is_null_style: bool
    is_lean: bool = False


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    names = {plan.name for plan in request.plans}
    name = next(iter(names)) if len(names) == 1 else ""  # of several the unnamed vectors are guessed
    spans = () if None in names else guess_arrays(body, name or "vector", may_follow=True)
    return _read_guessed(request, needs, set_aside(body, spans))


class _UnprovenError(ValueError):
    """A span that was set aside is no vector. ``proven``: those that are vectors, in the original."""

    def __init__(self, proven: list[Span]) -> None:
        super().__init__("a span that was set aside is no vector of a point")
        self.proven = proven


def _read_guessed(request: Document, needs: Needs, source: Shortened) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Parse with the guessed spans set aside, then with those that were proven, then with none."""
    try:
        return _read(request, needs, source)
    except _UnprovenError as error:
        fewer = error.proven
    except ValueError:
        if not source.spans:
            raise
        fewer = []
    return _read_guessed(request, needs, set_aside(source.original, fewer))


def _read(request: Document, needs: Needs, source: Shortened) -> tuple[tuple[Pool, ...], ReplyDocument]:
    text = without_surrogates(source.text)
    arrays = _arrays(text, request)
    lists = [read_points(text, array) for array in arrays]
    document = ReplyDocument(
        source=source,
        text=text,
        lists=tuple(
            Ranked(array, [point.span for point in points], points.__getitem__)
            for array, points in zip(arrays, lists, strict=True)
        ),
        is_null_style=any(has_null(text, point) for points in lists for point in points),
    )
    located = [_located(text, plan, points) for plan, points in zip(request.plans, lists, strict=True)]
    aside = [source.aside(span) for _, spans in located for span in spans if span is not None]
    proven = sorted(span for span in aside if span is not None)
    if len(proven) != len(source.spans):
        raise _UnprovenError(proven)
    pools = tuple(
        replace(
            _pool(document, points, spans, name if plan.name is None else None, needs),
            compared_by=name,
            is_cut=plan.payload.is_cut,
        )
        for plan, points, (name, spans) in zip(request.plans, lists, located, strict=True)
    )
    return pools, document


def payloads_of(request: Document, text: bytes) -> tuple[tuple[Span | None, ...], ...]:
    """Of each list the spans of the points' payloads, null included. Raises ValueError."""
    lists = (read_points(text, array) for array in _arrays(text, request))
    return tuple(tuple(point.payload for point in points) for points in lists)


def _arrays(text: bytes, request: Document) -> list[Span]:
    """The array of points of each plan. Raises ValueError."""
    result = members_of(text, whole(text)).get("result")
    if result is None:
        raise ValueError("no result")
    spans = [(result.value, result.end)]
    if request.batch is not None:
        spans = elements(text, spans[0])
        if len(spans) != request.batch:
            raise ValueError(f"{len(spans)} results, wanted {request.batch}")
    arrays: list[Span] = []
    for plan in request.plans:
        span = spans[plan.index]
        if request.in_object:
            points = members_of(text, span).get("points")
            if points is None:
                raise ValueError("no points")
            span = points.value, points.end
        arrays.append(span)
    return arrays


def _pool(
    document: ReplyDocument, points: Sequence[Point], spans: Sequence[Span | None], hint: str | None, needs: Needs
) -> Pool:
    """The pool of one list. Raises ValueError when a span that was set aside is no array of numbers."""
    source = document.source
    compared = compare([None if span is None else source.cut_value(span) for span in spans])
    if not all(compared.proven) and any(
        span is not None and not is_array and source.aside(span) is not None
        for span, is_array in zip(spans, compared.proven, strict=True)
    ):
        raise ValueError("a span that was set aside is no array of numbers")
    return Pool(
        scores=np.array([score_of(document.text, point) for point in points], dtype=np.float64),
        vectors=compared.vectors,
        fields=_fields(document, points, needs),
        payloads=partial(_payloads, document, points),
        ids=tuple(_id(document, point) for point in points),
        versions=_versions(document.text, points),
        vector_name=hint,
        unusable=compared.unusable,
    )


def _located(text: bytes, plan: Plan, points: Sequence[Point]) -> tuple[str | None, list[Span | None]]:
    """The name of the vector to compare by, and the span of each point's. Raises ValueError."""
    vectors = [{} if point.vector is None else named(text, point.vector) for point in points]
    name = find_best(text, vectors, plan.prefers) if plan.name is None else plan.name
    return name, [vector.get(name) if name is not None else None for vector in vectors]


def _id(document: ReplyDocument, point: Point) -> bytes:
    raw = document.text[point.id[0] : point.id[1]]
    return document.source.cut(*point.id) if b"\\" in raw else raw  # the escape may have been replaced


def _versions(text: bytes, points: Sequence[Point]) -> tuple[bytes, ...]:
    """One per point, with its shard key; () if a point has none."""
    versions = tuple(text[point.version[0] : point.version[1]] for point in points if point.version is not None)
    if len(versions) != len(points) or not all(map(bytes.isdigit, versions)):
        return ()
    if all(point.shard_key is None for point in points):
        return versions
    parts = [b"" if point.shard_key is None else text[point.shard_key[0] : point.shard_key[1]] for point in points]
    return tuple([b"%s %s" % pair for pair in zip(versions, parts, strict=True)])


def _fields(document: ReplyDocument, points: Sequence[Point], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per point the raw JSON of each wanted payload key, None if absent. Raises ValueError."""
    if needs.payload_fields or document.text is not document.source.text:
        check_members(document.text)
    source, text, allowance = document.source, document.text, Allowance(FIELD_BYTES)
    must, may = needs.payload_fields, needs.optional_fields
    return tuple([payload_values(source, text, point.payload, must, may, allowance) for point in points])


def _payloads(document: ReplyDocument, points: Sequence[Point], rows: Sequence[int]) -> tuple[bytes | None, ...]:
    spans = [points[row].payload for row in rows]
    return tuple([None if span is None else document.source.cut(*span) for span in spans])

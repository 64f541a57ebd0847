"""Reading a Qdrant search reply: where its lists and points stand, and the pools in them.

What is not understood with certainty is Malformed, never guessed. A list is ``[point, ..]`` on the legacy endpoints and
``{"points": [point, ..]}`` on query; a batch is an array of lists. A point is an object with at least id and score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vecsieve.adapters.contract import Malformed, Needs, Pool
from vecsieve.adapters.json_spans import Members, Span, elements, members, whole, without_surrogates
from vecsieve.adapters.json_vectors import Shortened, shorten, untouched
from vecsieve.adapters.qdrant_request import Document, Plan
from vecsieve.adapters.qdrant_vectors import compare, find_best, named

_ID = re.compile(rb'"|[0-9]')
_SCORE = re.compile(rb"-?[0-9]|null")


@dataclass(frozen=True, slots=True)
class Point:
    """One candidate: where its object stands, and its members."""

    start: int
    end: int
    members: Members


@dataclass(frozen=True, slots=True)
class Ranked:
    """The list of one search: its array, and its points in order."""

    array: Span
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply.

    Spans are offsets into ``text``, which is ``source.text`` with harmless escapes; bytes are taken through ``source``.
    ``is_null_style``: the server writes null where others leave a member out (Qdrant up to 1.9).
    """

    source: Shortened
    text: bytes
    lists: tuple[Ranked, ...]
    is_null_style: bool


def parse_reply(
    request: Document, needs: Needs, body: bytes, *, in_object: bool
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read a reply. ``in_object``: each list is wrapped in ``{"points": ..}``. Raises Malformed, nothing else."""
    asks_all = any(plan.name is None for plan in request.plans)
    names = {plan.name for plan in request.plans if plan.name is not None}
    source = untouched(body) if asks_all else shorten(body, names)
    try:
        try:
            return _read(request, needs, source, in_object=in_object)
        except ValueError:
            if not source.spans:
                raise
            return _read(request, needs, untouched(body), in_object=in_object)
    except ValueError as error:
        raise Malformed(str(error)) from None


def _read(
    request: Document, needs: Needs, source: Shortened, *, in_object: bool
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    text = without_surrogates(source.text)
    arrays = _arrays(text, request, in_object=in_object)
    lists = tuple(Ranked(array, tuple(_point(text, span) for span in elements(text, array))) for array in arrays)
    document = ReplyDocument(
        source=source,
        text=text,
        lists=lists,
        is_null_style=needs.absent_as_null
        or any(_has_null(text, point) for ranked in lists for point in ranked.points),
    )
    read = [_pool(document, plan, ranked, needs) for plan, ranked in zip(request.plans, lists, strict=True)]
    if sum(proven for _, proven in read) != len(source.spans):
        raise ValueError("something that was set aside is no vector of a point")
    return tuple(pool for pool, _ in read), document


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


def _point(text: bytes, span: Span) -> Point:
    found = members(text, span)
    if not {"id", "score"} <= found.keys():
        raise ValueError(f"no id or no score at byte {span[0]}")
    if not _ID.match(text, found["id"].value) or not _SCORE.match(text, found["score"].value):
        raise ValueError(f"id or score of another type at byte {span[0]}")
    payload = found.get("payload")
    if payload is not None and text[payload.value] not in b"{n":
        raise ValueError(f"payload is no object at byte {payload.value}")
    return Point(span[0], span[1], found)


def _has_null(text: bytes, point: Point) -> bool:
    found = (point.members.get("payload"), point.members.get("vector"))
    return any(member is not None and text[member.value] == ord("n") for member in found)


def _pool(document: ReplyDocument, plan: Plan, ranked: Ranked, needs: Needs) -> tuple[Pool, int]:
    """The pool of one list, and how many of its vectors had been set aside and are proven to be vectors."""
    name, spans = _located(document.text, plan, ranked.points)
    source = document.source
    compared = compare([None if span is None else source.cut(*span) for span in spans])
    proven = sum(
        is_array and span is not None and source.is_aside(span)
        for is_array, span in zip(compared.proven, spans, strict=True)
    )
    pool = Pool(
        scores=np.array([_score(document.text, point) for point in ranked.points], dtype=np.float64),
        vectors=compared.vectors,
        magnitude=compared.magnitude,
        fields=tuple(_fields(document, point, needs.payload_fields) for point in ranked.points),
        vector_name=name if plan.name is None else None,
        unusable=compared.unusable,
    )
    return pool, proven


def _located(text: bytes, plan: Plan, points: Sequence[Point]) -> tuple[str | None, list[Span | None]]:
    """The name of the vector to compare, and where each point's stands. Raises ValueError."""
    vectors = [
        {} if (member := point.members.get("vector")) is None else named(text, (member.value, member.end))
        for point in points
    ]
    name = find_best(text, vectors, plan.prefers) if plan.name is None else plan.name
    return name, [vector.get(name) if name is not None else None for vector in vectors]


def _score(text: bytes, point: Point) -> float:
    """A score; NaN for null, which is how the server writes a score that is no number."""
    member = point.members["score"]
    value = text[member.value : member.end]
    return float("nan") if value == b"null" else float(value)


def _fields(document: ReplyDocument, point: Point, fields: Sequence[str]) -> tuple[bytes | None, ...]:
    """The raw JSON of each wanted top-level payload key, None where absent."""
    payload = point.members.get("payload")
    if not fields or payload is None or document.text[payload.value] != ord("{"):
        return (None,) * len(fields)
    found = members(document.text, (payload.value, payload.end))
    return tuple(
        document.source.cut(found[field].value, found[field].end) if field in found else None for field in fields
    )

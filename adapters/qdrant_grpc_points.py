"""The points of a Qdrant gRPC reply: where each stands, and its score, identifier, payload and vectors in it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import orjson

from vecsieve.adapters.contract import Needs
from vecsieve.adapters.proto_alone import held
from vecsieve.adapters.proto_values import QDRANT, Wanted, chosen
from vecsieve.adapters.proto_wire import FIXED32, LENGTH, REPLY_FIELDS, VARINT, Field, Span, fields, skipped, varint

# ScoredPoint. 4 was never used; version, shard_key and order_value are of no interest here.
ID, PAYLOAD, SCORE, VECTORS = 1, 2, 3, 6
_ID, _PAYLOAD, _VECTORS = ID << 3 | LENGTH, PAYLOAD << 3 | LENGTH, VECTORS << 3 | LENGTH
_MESSAGES = frozenset({_ID, _PAYLOAD, _VECTORS})
_SCORE = SCORE << 3 | FIXED32
_KNOWN = frozenset({ID, PAYLOAD, SCORE, VECTORS})
# A list of points, in every reply and in each result of a batch.
RESULT = 1

# The tags in PointId.
_NUMBER, _UUID = 1 << 3 | VARINT, 2 << 3 | LENGTH
_FLOAT = struct.Struct("<f")


Place = tuple[int, int, int]
"""A field: where its tag stands, where what it holds begins, and where it ends."""


class Point(NamedTuple):
    """One candidate: its field in the list, and those in it that matter; None where absent."""

    field: Field
    id: Place
    score: Place | None
    vectors: Place | None
    entries: list[Span]  # of its payload


def read_points(data: bytes, span: Span) -> tuple[Point, ...]:
    """The points of the message that fills ``span``, in order. Raises ValueError for anything but points."""
    points: list[Point] = []
    left = REPLY_FIELDS
    for field in results(data, span):
        points.append(_read_point(data, field))
        left -= len(points[-1].entries)
        if left < 0:
            raise ValueError(f"payloads up to byte {field.end} have more than {REPLY_FIELDS} keys")
    return tuple(points)


def results(data: bytes, span: Span) -> list[Field]:
    """The results of a message: points, or the lists of a batch. Raises ValueError."""
    found = [field for field in fields(data, span) if field.number == RESULT]
    if any(field.wire != LENGTH for field in found):
        raise ValueError(f"results at byte {span[0]} are no messages")
    return found


def score_of(data: bytes, point: Point) -> float:
    """A score; zero where it is left out, which is how protobuf writes a zero."""
    return 0.0 if point.score is None else float(_FLOAT.unpack_from(data, point.score[1])[0])


def id_of(data: bytes, point: Point) -> bytes:
    """The identifier as REST writes it: a number, or a quoted UUID. Raises ValueError."""
    start, value, end = point.id
    tag, at = held(data, (value, end))
    if tag == _NUMBER:
        return b"%d" % varint(data, at, end)[0]
    if tag == _UUID:
        return orjson.dumps(data[at:end].decode())
    raise ValueError(f"id at byte {start} is neither a number nor a UUID")


def fields_of(data: bytes, points: Sequence[Point], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per point the JSON of each wanted top-level payload key, None where absent. Raises ValueError.

    Optional keys of a payload that holds what cannot be spelled are absent; what decides about tenants is not guessed.
    """
    must, may = needs.payload_fields, needs.optional_fields
    if not (must or may):
        return ((),) * len(points)
    whole, least = Wanted(must, may), Wanted(must)
    return tuple([_fields(data, point.entries, whole, least) for point in points])


def _fields(data: bytes, entries: list[Span], whole: Wanted, least: Wanted) -> tuple[bytes | None, ...]:
    try:
        return chosen(data, entries, whole, QDRANT)
    except ValueError:
        return chosen(data, entries, least, QDRANT) + (None,) * (len(whole.keys) - len(least.keys))


def _read_point(data: bytes, field: Field) -> Point:
    """Walks by itself what ``fields`` would: a reply has ten fields for each candidate, and most of what it costs."""
    at, end = field.span
    found: dict[int, Place] = {}
    entries: list[Span] = []
    for _ in repeat(None, REPLY_FIELDS):
        if at >= end:
            break
        start, tag = at, data[at]
        if tag in _MESSAGES:
            size, value = varint(data, at + 1, end)
            at = value + size
        elif tag == _SCORE:
            value, at = at + 1, at + 5
        else:
            number, at = skipped(data, at, end)
            if number in _KNOWN:
                raise ValueError(
                    f"field {number} of the point at byte {field.start} is of another wire type, or of a longer tag"
                )
            continue
        if tag == _PAYLOAD:
            entries.append((value, at))
        elif tag in found:
            raise ValueError(f"field {tag >> 3} of the point at byte {field.start} stands twice")
        else:
            found[tag] = start, value, at
    if at != end or _ID not in found:
        raise ValueError(f"the point at byte {field.start} has no id or was read to {at}, its message ends at {end}")
    return Point(field, found[_ID], found.get(_SCORE), found.get(_VECTORS), entries)

"""The points of a Qdrant gRPC reply: where each stands, and its score, identifier, payload and vectors in it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from vecsieve.adapters.contract import Needs
from vecsieve.adapters.proto_alone import held
from vecsieve.adapters.proto_values import QDRANT, chosen
from vecsieve.adapters.proto_wire import FIXED32, LENGTH, VARINT, Field, Span, fields, varint

# ScoredPoint. 4 was never used; version, shard_key and order_value are of no interest here.
ID, PAYLOAD, SCORE, VECTORS = 1, 2, 3, 6
_SINGLE = {ID: LENGTH, SCORE: FIXED32, VECTORS: LENGTH}
# A list of points, in every reply and in each result of a batch.
RESULT = 1

# The tags in PointId.
_NUMBER, _UUID = 1 << 3 | VARINT, 2 << 3 | LENGTH
_FLOAT = struct.Struct("<f")


class Point(NamedTuple):
    """One candidate: its field in the list, all fields in it, and those of them that matter; None where absent."""

    field: Field
    members: list[Field]
    id: Field
    score: Field | None
    vectors: Field | None


def read_points(data: bytes, span: Span) -> tuple[Point, ...]:
    """The points of the message that fills ``span``, in order. Raises ValueError for anything but points."""
    return tuple([_read_point(data, field) for field in results(data, span)])


def results(data: bytes, span: Span) -> list[Field]:
    """The results of a message: points, or the lists of a batch. Raises ValueError."""
    found = [field for field in fields(data, span) if field.number == RESULT]
    if any(field.wire != LENGTH for field in found):
        raise ValueError(f"results at byte {span[0]} are no messages")
    return found


def score_of(data: bytes, point: Point) -> float:
    """A score; zero where it is left out, which is how protobuf writes a zero."""
    return 0.0 if point.score is None else float(_FLOAT.unpack_from(data, point.score.value)[0])


def id_of(data: bytes, point: Point) -> bytes:
    """The identifier as REST writes it: a number, or a quoted UUID. Raises ValueError."""
    tag, at = held(data, point.id.span)
    if tag == _NUMBER:
        return b"%d" % varint(data, at, point.id.end)[0]
    if tag == _UUID:
        return orjson.dumps(data[at : point.id.end].decode())
    raise ValueError(f"id at byte {point.id.start} is neither a number nor a UUID")


def entries_of(point: Point) -> list[Field]:
    """The entries of a point's payload."""
    return [member for member in point.members if member.number == PAYLOAD]


def fields_of(data: bytes, points: Sequence[Point], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per point the JSON of each wanted top-level payload key, None where absent. Raises ValueError.

    Optional keys of a payload that holds what cannot be spelled are absent; what decides about tenants is not guessed.
    """
    must, may = needs.payload_fields, needs.optional_fields
    if not (must or may):
        return ((),) * len(points)
    return tuple([_fields(data, entries_of(point), must, may) for point in points])


def _fields(data: bytes, entries: list[Field], must: Sequence[str], may: Sequence[str]) -> tuple[bytes | None, ...]:
    try:
        return chosen(data, entries, (*must, *may), QDRANT)
    except ValueError:
        return chosen(data, entries, must, QDRANT) + (None,) * len(may)


def _read_point(data: bytes, field: Field) -> Point:
    members = fields(data, field.span)
    found: dict[int, Field] = {}
    for member in members:
        number, wire = member.number, member.wire
        if number == PAYLOAD:
            if wire != LENGTH:
                raise ValueError(f"payload at byte {member.start} is of wire type {wire}")
        elif number in _SINGLE:
            if number in found or wire != _SINGLE[number]:
                raise ValueError(
                    f"field {number} of the point at byte {field.start} stands twice or is of wire type {wire}"
                )
            found[number] = member
    if ID not in found:
        raise ValueError(f"the point at byte {field.start} has no id")
    return Point(field, members, found[ID], found.get(SCORE), found.get(VECTORS))

"""Upserts over gRPC: their points, the query for their neighbours, the client's message with notes in payloads.

Read is Upsert without a condition (`update_filter`, `update_mode`), which would decide what is stored. A note is one more entry of the
payload at the end of its point: of equal keys the last one counts, for all readers of protobuf.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import orjson

from vecsieve.adapters.base import NOTE, own
from vecsieve.adapters.contract import (
    Needs,
    Operation,
    Question,
    Reason,
    UnsupportedError,
)
from vecsieve.adapters.qdrant import calls
from vecsieve.adapters.qdrant.grpc_points import Place, fields_of, read_points, results
from vecsieve.adapters.qdrant.grpc_reply import compare, dense, named
from vecsieve.adapters.qdrant.ranking import forced
from vecsieve.adapters.qdrant.writes.grpc_values import condition, entry
from vecsieve.adapters.wire.protobuf import (
    LENGTH,
    VARINT,
    Field,
    Span,
    entries,
    fields,
    held,
    length_field,
    number_field,
    replaced,
    value_at,
    varint,
)
from vecsieve.adapters.wire.protobuf_requests import Found, Shape, message, messages, number_of, read
from vecsieve.adapters.wire.protobuf_values import QDRANT, Wanted, chosen
from vecsieve.adapters.wire.vectors import matrix
from vecsieve.adapters.writes import Inquiry, Neighbours, NewPoints, Tenant, WriteNeeds, name_of

# UpsertPoints. Not read: ordering, timeout.
_WAIT, POINTS, _SHARD_KEYS, _FILTER, _MODE = 2, 3, 5, 6, 8
_UPSERT = Shape(frozenset({1, _WAIT, 4, _SHARD_KEYS, _FILTER, 7, _MODE}), frozenset({POINTS}))
# PointStruct.
ID, PAYLOAD, VECTORS = 1, 3, 4
POINT = Shape(frozenset({ID, VECTORS}), frozenset({PAYLOAD}))
_NUMBER, _UUID = 1 << 3 | VARINT, 2 << 3 | LENGTH


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed upsert: its points, the packed floats of each one's vector, b"" without one, and the message of the shard keys.

    ``waits``: whether the answer is wanted when the write has been carried out.
    """

    data: bytes
    points: tuple[Field, ...]
    vectors: tuple[bytes, ...]
    shard_keys: bytes
    waits: bool


def parsed(_: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
    """Raises ValueError, UnsupportedError."""
    forced(needs.keys, ())
    found = read(body, (0, len(body)), _UPSERT)
    if _FILTER in found or number_of(body, found, _MODE):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    points = messages(found, POINTS)
    if not points:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    if len(points) > needs.most:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)
    shard_keys = message(found, _SHARD_KEYS)
    each = [read(body, point.span, POINT) for point in points]
    vectors = [_dense(body, point) for point in each]
    name = name_of(vectors, needs.vector_name)
    packed = tuple([vector.get(name, b"") for vector in vectors])
    wanted = Wanted(needs.keys)
    read_fields = tuple(
        [chosen(body, [field.span for field in messages(point, PAYLOAD)], wanted, QDRANT) for point in each]
    )
    ids = tuple([id_of(body, message(point, ID)) for point in each])
    document = Document(
        data=body,
        points=tuple(points),
        vectors=packed,
        shard_keys=b"" if shard_keys is None else body[shard_keys.value : shard_keys.end],
        waits=bool(number_of(body, found, _WAIT)),
    )
    return NewPoints(
        ids=ids,
        vectors=matrix([vector or None for vector in packed]),
        vector_name=name,
        keys=needs.keys,
        fields=read_fields,
        document=document,
    )


def _dense(data: bytes, point: Found) -> dict[str, bytes]:
    """The packed floats of a point's dense vectors by name. Raises ValueError, UnsupportedError."""
    vectors = message(point, VECTORS)
    if vectors is None:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    floats = {name: dense(data, span) for name, span in named(data, vectors.span).items()}
    return {name: each for name, each in floats.items() if each}


def id_of(data: bytes, field: Field | None) -> bytes:
    """As over REST. Raises ValueError, UnsupportedError."""
    if field is None:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    tag, at = held(data, field.span)
    if tag == _NUMBER:
        return b"%d" % varint(data, at, field.end)[0]
    if tag != _UUID:
        raise ValueError(f"id at byte {field.start} is neither a number nor a UUID")
    return b'"%s"' % str(UUID(data[at : field.end].decode())).encode()


# QueryPoints, and what is in it.
_QUERY, _USING, _WHERE, _PARAMS, _LIMIT, _WITH_VECTORS, _WITH_PAYLOAD, _QUERY_SHARD_KEYS = 3, 4, 5, 6, 8, 10, 11, 13
_SCORE_THRESHOLD = struct.Struct("<Bf")  # of field 7, a float
_THRESHOLD_TAG = 7 << 3 | 5
_RESCORED = length_field(_PARAMS, length_field(3, number_field(2, 1)))


def ask(write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
    """One batch query for the neighbours of all points of the inquiry, each with its own filter."""
    document = own(points.document, Document)
    collection, name = length_field(calls.COLLECTION, write.collection.encode()), points.vector_name.encode()
    selected = b"".join(length_field(1, key.encode()) for key in points.keys)
    shared = b"".join(
        (
            length_field(_USING, name) if name else b"",
            _RESCORED,
            _SCORE_THRESHOLD.pack(_THRESHOLD_TAG, inquiry.least) if inquiry.least is not None else b"",
            number_field(_LIMIT, inquiry.count),
            length_field(_WITH_VECTORS, length_field(2, length_field(1, name))) if inquiry.vectors else b"",
            length_field(_WITH_PAYLOAD, length_field(2, selected)) if selected else b"",
            length_field(_QUERY_SHARD_KEYS, document.shard_keys) if document.shard_keys else b"",
        )
    )
    queries: list[bytes] = []
    for point, tenant in zip(inquiry.which, inquiry.tenants, strict=True):
        nearest = length_field(_QUERY, length_field(1, length_field(2, length_field(1, document.vectors[point]))))
        queries.append(length_field(2, collection + nearest + _filter(tenant) + shared))
    return [Question(method="POST", target="/qdrant.Points/QueryBatch", body=collection + b"".join(queries))]


def _filter(tenant: Tenant) -> bytes:
    conditions = [length_field(2, condition(key, orjson.loads(value))) for key, value in tenant]
    return length_field(_WHERE, b"".join(conditions)) if conditions else b""


def neighbours(points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
    """Raises ValueError."""
    (body,) = bodies
    lists = results(body, (0, len(body)))
    if len(lists) != len(inquiry.which):
        raise ValueError(f"{len(lists)} lists, wanted {len(inquiry.which)}")
    needs = Needs(payload_fields=points.keys)
    each = [read_points(body, item.span) for item in lists]
    vectors = [point.vectors for near in each for point in near.each]
    return Neighbours(
        of=np.repeat(np.array(inquiry.which, np.intp), [len(near.each) for near in each]),
        ids=tuple([identifier for near in each for identifier in near.ids]),
        scores=np.concatenate([near.scores for near in each]),
        vectors=compare(body, [_named(body, place, points.vector_name) for place in vectors]),
        fields=tuple([row for near in each for row in fields_of(body, near, needs)[0]]),
    )


def _named(data: bytes, place: Place | None, name: str) -> Span | None:
    return None if place is None else named(data, place[1:]).get(name)


# GetCollectionInfoResponse: result, config, params, vectors_config; in it the unnamed vector, or a map of named ones.
_CONFIG = (1, 7, 1, 5)
_ALONE, _SEVERAL, _DISTANCE, _COSINE = 1, 2, 2, 1


def is_cosine(body: bytes, vector_name: str) -> bool:
    """From the description of a collection. Never raises."""
    try:
        at = value_at(body, (*_CONFIG, _SEVERAL if vector_name else _ALONE))
        if at is not None and vector_name:
            listed = entries(body, [field.span for field in fields(body, at) if field.number == 1])
            at = dict(listed).get(vector_name.encode())
        if at is None:
            return False
        distances = [field for field in fields(body, at) if field.number == _DISTANCE and field.wire == VARINT]
        return [varint(body, field.value, field.end)[0] for field in distances] == [_COSINE]
    except ValueError:
        return False


def annotated(points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
    """The client's bytes with a note in the payloads of some points."""
    document = own(points.document, Document)
    data, rows = document.data, sorted(notes)
    noted = [document.points[row] for row in rows]
    shown = [
        length_field(
            POINTS, data[point.value : point.end] + length_field(PAYLOAD, entry(NOTE, orjson.loads(notes[row])))
        )
        for row, point in zip(rows, noted, strict=True)
    ]
    return replaced(data, (0, len(data)), [point.whole for point in noted], shown)

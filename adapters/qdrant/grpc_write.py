"""Upserts over gRPC: parses their points, makes the query for their neighbours, and the client's message with notes in payloads, without
some points, or with some points replaced; reads and removes stored points.

Supported: Upsert without a condition (`update_filter`, `update_mode`), which would decide what is stored. A note is one more entry of the
payload at the end of its point: for equal keys the last one counts, for all readers of protobuf. A single point is JSON as over REST, which
`vecsieve undo` uses. Numbers survive both conversions: a 32-bit float is written with the fewest digits that identify it, an integer stays
an integer.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, GrpcWrites, own
from ..contract import NativeAnswer, Needs, Operation, Question, Reason, RequestHead, UnsupportedError
from ..wire.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Field,
    Found,
    Shape,
    Span,
    encoded,
    entries,
    fields,
    held,
    length_field,
    message,
    messages,
    messages_in,
    number_field,
    number_of,
    only,
    read,
    replaced,
    unsigned,
    value_at,
    varint,
)
from ..wire.protobuf_values import QDRANT, Wanted, chosen, entry, object_json
from ..wire.schema import has_unknown, packed_floats, parsed
from ..wire.vectors import matrix, row
from ..writes import Inquiry, Neighbours, NewPoints, Tenant, WriteNeeds, name_of
from . import calls
from .grpc_reply import (
    dense,
    fields_of,
    id_json,
    kind_of,
    named,
    parsed_reply,
    points_of,
    scores_of,
    sparse,
    vectors_of,
)
from .grpc_schema import REPLY
from .grpc_schema import VECTORS as VECTORS_MESSAGE
from .ranking import Kind, forced
from .rest_write import compared

# What a vector may have to be JSON: its old fields together, or one of the messages since 1.17.
_FORMS = ({"data"}, {"data", "indices"}, {"data", "vectors_count"}, {"dense"}, {"sparse"}, {"multi_dense"}, set[str]())
# In the old form, in which vectors are written: of Vector, and of SparseIndices.
_DATA, _INDICES, _COUNT = 1, 2, 3
UNNAMED, NAMED, ENTRIES = 1, 2, 1  # Vectors, NamedVectors


def vectors_json(vectors: Any) -> bytes:
    """Of one point: the unnamed vector, or an object of named ones. Raises ValueError for one that the database must compute."""
    each = {name: _vector(vector) for name, vector in named(vectors).items()}
    return orjson.dumps(each[""] if each.keys() == {""} else each, option=orjson.OPT_SERIALIZE_NUMPY)


def _vector(vector: Any) -> object:
    if {field.name for field, _ in vector.ListFields()} not in _FORMS or has_unknown(vector):
        raise ValueError("a vector of no known kind")
    kind, message = kind_of(vector)
    if kind is Kind.SPARSE:
        indices, values = sparse(vector)
        return {"indices": np.array(indices, np.int64), "values": _finite(np.array(values, np.float32))}
    if kind is Kind.DENSE:
        return _finite(row(packed_floats(message)))
    if vector.HasField("multi_dense"):
        return [_finite(row(packed_floats(each))) for each in message.vectors]
    return _finite(row(packed_floats(vector))).reshape(vector.vectors_count, -1)


def _finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise ValueError("JSON has no such number")
    return values


def vectors_message(vectors: object) -> bytes:
    """The message of a point's vectors. ``vectors``: in their JSON form."""
    if isinstance(vectors, dict) and vectors.keys() != {"indices", "values"}:
        named_ones = [
            length_field(ENTRIES, length_field(1, name.encode()) + length_field(2, _message(each)))
            for name, each in vectors.items()
        ]
        return length_field(NAMED, b"".join(named_ones))
    return length_field(UNNAMED, _message(vectors))


def _message(vector: object) -> bytes:
    """In the old form, which all servers read."""
    if isinstance(vector, dict):
        indices = b"".join(map(encoded, vector["indices"]))
        return _packed(vector["values"]) + length_field(_INDICES, length_field(_DATA, indices))
    assert isinstance(vector, list)  # noqa: S101 - a vector as JSON has it
    if vector and isinstance(vector[0], list):
        return _packed([number for each in vector for number in each]) + number_field(_COUNT, len(vector))
    return _packed(vector)


def _packed(numbers: list[float]) -> bytes:
    return length_field(_DATA, np.array(numbers, "<f4").tobytes())


def condition(key: str, value: object) -> bytes:
    """The filter condition that a payload has this text, integer or boolean."""
    return length_field(1, length_field(1, key.encode()) + length_field(2, _match(value)))


def _match(value: object) -> bytes:
    if isinstance(value, bool):
        return number_field(3, int(value))
    if isinstance(value, int):
        return number_field(2, value % 2**64)
    return length_field(1, str(value).encode(errors="surrogatepass"))


# UpsertPoints. Not read: ordering, timeout.
_WAIT, POINTS, _SHARD_KEYS, _FILTER, _MODE = 2, 3, 5, 6, 8
_UPSERT = Shape(frozenset({1, _WAIT, 4, _SHARD_KEYS, _FILTER, 7, _MODE}), frozenset({POINTS}))
# PointStruct.
ID, PAYLOAD, VECTORS = 1, 3, 4
POINT = Shape(frozenset({ID, VECTORS}), frozenset({PAYLOAD}))
_NUMBER, _UUID = 1 << 3 | VARINT, 2 << 3 | LENGTH


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed upsert: its points, the packed floats of each point's vector, b"" without one, and the message of the shard keys.

    ``waits``: whether the database answers after the write is done.
    """

    data: bytes
    points: tuple[Field, ...]
    vectors: tuple[bytes, ...]
    shard_keys: bytes
    waits: bool


def _dense(data: bytes, point: Found) -> dict[str, bytes]:
    """The packed floats of a point's dense vectors by name. Raises ValueError, UnsupportedError."""
    vectors = message(point, VECTORS)
    if vectors is None:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    each = named(parsed(VECTORS_MESSAGE, data[vectors.value : vectors.end]))
    floats = {name: dense(vector) for name, vector in each.items()}
    return {name: packed for name, packed in floats.items() if packed}


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


def _filter(tenant: Tenant) -> bytes:
    conditions = [length_field(2, condition(key, orjson.loads(value))) for key, value in tenant]
    return length_field(_WHERE, b"".join(conditions)) if conditions else b""


# GetCollectionInfoResponse: result, config, params, vectors_config; in it the unnamed vector, or a map of named ones.
_CONFIG = (1, 7, 1, 5)
_ALONE, _SEVERAL, _DISTANCE, _COSINE = 1, 2, 2, 1


def _point(identifier: bytes, data: bytes, vectors: Span | None, payload: list[Span]) -> bytes:
    """Raises ValueError."""
    inside = b"" if vectors is None else data[slice(*vectors)]
    return b'{"id":%s,"vector":%s,"payload":%s}' % (
        identifier,
        vectors_json(parsed(VECTORS_MESSAGE, inside)),
        object_json(data, payload, QDRANT),
    )


def _point_message(points: NewPoints, row: int, point: bytes) -> bytes:
    """A point with the id of a row. ``point``: as JSON."""
    document = own(points.document, Document)
    value = orjson.loads(point)
    identifier = message(read(document.data, document.points[row].span, POINT), ID)
    assert identifier is not None  # noqa: S101 - it was parsed
    payload = b"".join(
        length_field(PAYLOAD, entry(key, each, QDRANT)) for key, each in (value["payload"] or {}).items()
    )
    own_id = length_field(ID, document.data[identifier.value : identifier.end])
    return own_id + payload + length_field(VECTORS, vectors_message(value["vector"]))


# GetPoints, DeletePoints and RetrievedPoint.
_GET_IDS, _GET_PAYLOAD, _GET_VECTORS, _GET_SHARD_KEYS = 2, 4, 5, 7
_DELETE_WAIT, _DELETE_POINTS, _DELETE_SHARD_KEYS = 2, 3, 5
_READ_ID, _READ_PAYLOAD, _READ_VECTORS = 1, 2, 4
_HAS_ID, _INNER = 3, 4  # conditions
_SHOULD, _MUST = 1, 2  # of a filter


def _id_message(identifier: bytes) -> bytes:
    return number_field(1, int(identifier)) if identifier[:1] != b'"' else length_field(2, identifier[1:-1])


def _collection(write: Operation) -> bytes:
    return length_field(calls.COLLECTION, write.collection.encode())


def _retrieved(data: bytes, span: Span) -> tuple[bytes, bytes]:
    found = fields(data, span)
    identifier, vectors = id_of(data, only(found, _READ_ID, LENGTH)), only(found, _READ_VECTORS, LENGTH)
    payload = [field.span for field in found if field.number == _READ_PAYLOAD]
    return identifier, _point(identifier, data, None if vectors is None else vectors.span, payload)


def shard_keys_of(data: bytes) -> list[object]:
    """The keys of a selector. Raises ValueError."""
    keys: list[object] = []
    for span in messages_in(data, (0, len(data)), 1):
        tag, at = held(data, span)
        keys.append(data[at : span[1]].decode() if tag == 1 << 3 | LENGTH else varint(data, at, span[1])[0])
    return keys


_ACKNOWLEDGED, _COMPLETED = 1, 2


class QdrantGrpcWrites(GrpcWrites):
    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The client's message with other points."""
        put = {row: length_field(POINTS, _point_message(points, row, each)) for row, each in merged.items()}
        return self.shown(points, {row: put.get(row, b"") for row in {*rows, *merged}})

    def classify(self, head: RequestHead) -> Operation | None:
        """The call of one upsert. Never raises."""
        if head.path != "/qdrant.Points/Upsert":
            return None
        return Operation(backend=calls.BACKEND, name=calls.UPSERT, collection=calls.collection_in(head.message))

    def shows_unread(self, _query: str, body: bytes, _known: object | None) -> bool:
        try:
            wait = only(fields(body), _WAIT, VARINT)
            return wait is not None and bool(unsigned(body, wait))
        except ValueError:
            return False

    def partition(self, points: NewPoints) -> bytes:
        """The shard key, as over REST; a list if there are several."""
        keys = shard_keys_of(own(points.document, Document).shard_keys)
        return b"" if not keys else orjson.dumps(keys[0] if len(keys) == 1 else keys)

    def ask_metric(self, write: Operation, _: bytes) -> Question:
        """The collection's own description."""
        return Question(method="POST", target="/qdrant.Collections/Get", body=_collection(write))

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
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

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
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

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """Raises ValueError."""
        (body,) = bodies
        lists = [points_of(each) for each in parsed_reply(REPLY, body, root="batch").result]
        if len(lists) != len(inquiry.which):
            raise ValueError(f"{len(lists)} lists, wanted {len(inquiry.which)}")
        near = [point for points in lists for point in points]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(each) for each in lists]),
            ids=tuple([id_json(point.id) for point in near]),
            scores=scores_of(near),
            vectors=vectors_of(near, points.vector_name),
            fields=fields_of(near, Needs(payload_fields=points.keys))[0],
        )

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
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

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with a note in the payloads of some points."""
        document = own(points.document, Document)
        data, rows = document.data, sorted(notes)
        noted = [document.points[row] for row in rows]
        shown = [
            length_field(
                POINTS,
                data[point.value : point.end] + length_field(PAYLOAD, entry(NOTE, orjson.loads(notes[row]), QDRANT)),
            )
            for row, point in zip(rows, noted, strict=True)
        ]
        return replaced(data, (0, len(data)), [point.whole for point in noted], shown)

    def fields(self, points: NewPoints) -> tuple[bytes, Sequence[Field]]:
        document = own(points.document, Document)
        return document.data, document.points

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        shard_keys = own(points.document, Document).shard_keys
        everything = length_field(_GET_PAYLOAD, number_field(1, int(whole))) + length_field(
            _GET_VECTORS, number_field(1, int(whole))
        )
        each = b"".join(length_field(_GET_IDS, _id_message(identifier)) for identifier in ids)
        partition = length_field(_GET_SHARD_KEYS, shard_keys) if shard_keys else b""
        return [
            Question(
                method="POST", target="/qdrant.Points/Get", body=_collection(write) + each + everything + partition
            )
        ]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        return dict(_retrieved(body, span) for span in messages_in(body, (0, len(body)), 1))

    def acknowledged(self, _: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """Without an operation's number, because there was no operation."""
        status = _COMPLETED if self.waits(points, query) else _ACKNOWLEDGED
        body = length_field(1, number_field(2, status)) + encoded(2 << 3 | FIXED64) + pack("<d", 0.0)
        return NativeAnswer(status=0, content_type="", body=body)

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion with one filter per point."""
        each = []
        for identifier, point in victims.items():
            conditions = [length_field(_HAS_ID, length_field(1, _id_message(identifier)))]
            conditions += [condition(key, value) for key, value in compared(point).items()]
            inner = b"".join(length_field(_MUST, one) for one in conditions)
            each.append(length_field(_SHOULD, length_field(_INNER, inner)))
        chosen = length_field(_DELETE_POINTS, length_field(2, b"".join(each)))
        shard_keys = own(points.document, Document).shard_keys
        partition = length_field(_DELETE_SHARD_KEYS, shard_keys) if shard_keys else b""
        body = _collection(write) + number_field(_DELETE_WAIT, 1) + chosen + partition
        return [Question(method="POST", target="/qdrant.Points/Delete", body=body)]

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError."""
        document = own(points.document, Document)
        data = document.data
        found = read(data, document.points[row].span, POINT)
        try:
            return _point(
                points.ids[row],
                data,
                None if (vectors := message(found, VECTORS)) is None else vectors.span,
                [field.span for field in messages(found, PAYLOAD)],
            )
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def waits(self, points: NewPoints, _: str) -> bool:
        return own(points.document, Document).waits

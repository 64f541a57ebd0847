"""Upserts over gRPC: parses their points, makes the query for their neighbours, and the client's message with notes in payloads, without
some points, or with some points replaced; reads and removes stored points.

Supported: Upsert without a condition (`update_filter`, `update_mode`), which would decide what is stored. A note is one more entry of the
payload at the end of its point: for equal keys the last one counts, for all readers of protobuf. A single point is JSON as over REST, which
`vecsieve undo` uses. Numbers survive both conversions: a 32-bit float is written with the fewest digits that identify it, an integer stays
an integer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, GrpcWrites, typed
from ..contract import NativeAnswer, Needs, Operation, Question, Reason, RequestHead, UnsupportedError
from ..wire.protobuf import FIXED64, Messages, encoded, length_field, number_field
from ..wire.protobuf_values import QDRANT, Wanted, chosen_of, entry, object_of_json
from ..wire.schema import has_unknown, packed_floats, parsed, read
from ..wire.vectors import matrix, row
from ..writes import Inquiry, Neighbours, NewPoints, Tenant, WriteNeeds, name_of
from . import calls
from .grpc_reply import (
    dense,
    fields_of,
    id_json,
    kind_of,
    named,
    pairs_of,
    parsed_reply,
    points_of,
    scores_of,
    sparse,
    vectors_of,
)
from .grpc_request import choice, once
from .grpc_schema import COUNTED, INFO, POINT, REPLY, SHARD_KEYS, STORED, UPSERT, WAIT
from .ranking import Kind, forced
from .rest_write import compared

# Fields of a vector with a JSON form: the old ones together, or one of the messages since 1.17.
_FORMS = ({"data"}, {"data", "indices"}, {"data", "vectors_count"}, {"dense"}, {"sparse"}, {"multi_dense"}, set[str]())
# Fields of the old form, in which vectors are written: of Vector, and of SparseIndices.
_DATA, _INDICES, _COUNT = 1, 2, 3
UNNAMED, NAMED, ENTRIES = 1, 2, 1  # Vectors, NamedVectors


def vectors_json(vectors: Any) -> bytes:
    """Of one point: the unnamed vector, or an object of named ones. Raises ValueError for one that the database must compute."""
    by_name = {name: _vector(vector) for name, vector in named(vectors).items()}
    return orjson.dumps(by_name[""] if by_name.keys() == {""} else by_name, option=orjson.OPT_SERIALIZE_NUMPY)


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
        return [_finite(row(packed_floats(part))) for part in message.vectors]
    return _finite(row(packed_floats(vector))).reshape(vector.vectors_count, -1)


def _finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise ValueError("JSON has no such number")
    return values


def vectors_message(vectors: object) -> bytes:
    """The message of a point's vectors. ``vectors``: in their JSON form."""
    if isinstance(vectors, dict) and vectors.keys() != {"indices", "values"}:
        named_ones = [
            length_field(ENTRIES, length_field(1, name.encode()) + length_field(2, _message(vector)))
            for name, vector in vectors.items()
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
        return _packed([number for row in vector for number in row]) + number_field(_COUNT, len(vector))
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


_ID, PAYLOAD, _VECTORS = 1, 3, 4  # of PointStruct


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed upsert: its bytes, the messages of its points, the packed floats of each point's vector, b"" without one, and the message of
    the shard keys. ``waits``: whether the database answers after the write is done.
    """

    data: bytes
    points: tuple[bytes, ...]
    vectors: tuple[bytes, ...]
    shard_keys: bytes
    waits: bool


def _dense(point: Any) -> dict[str, bytes]:
    """The packed floats of a point's dense vectors by name. Raises ValueError, UnsupportedError."""
    if not point.HasField("vectors"):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    floats = {name: dense(vector) for name, vector in named(point.vectors).items()}
    return {name: packed for name, packed in floats.items() if packed}


def _values(point: Any) -> dict[str, Any]:
    return {entry.key.decode(errors="replace"): entry.value for entry in point.payload}


def id_of(identity: Any) -> bytes:
    """As over REST, a UUID in its usual form. Raises ValueError, UnsupportedError."""
    name, value = choice(identity)
    if not name:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return b"%d" % value if name == "num" else b'"%s"' % str(UUID(value.decode())).encode()


# QueryPoints, and its messages.
_QUERY, _USING, _WHERE, _PARAMS, _LIMIT, _WITH_VECTORS, _WITH_PAYLOAD, _QUERY_SHARD_KEYS = 3, 4, 5, 6, 8, 10, 11, 13
_SCORE_THRESHOLD = struct.Struct("<Bf")  # of field 7, a float
_THRESHOLD_TAG = 7 << 3 | 5
_RESCORED = length_field(_PARAMS, length_field(3, number_field(2, 1)))


def _filter(tenant: Tenant) -> bytes:
    conditions = [length_field(2, condition(key, orjson.loads(value))) for key, value in tenant]
    return length_field(_WHERE, b"".join(conditions)) if conditions else b""


_COSINE = 1  # Distance


def _point(identifier: bytes, point: Any) -> bytes:
    """A point that is written, or was read, as JSON. Raises ValueError."""
    payload = object_of_json(pairs_of(point), QDRANT)
    return b'{"id":%s,"vector":%s,"payload":%s}' % (identifier, vectors_json(point.vectors), payload)


# GetPoints, DeletePoints.
_GET_IDS, _GET_PAYLOAD, _GET_VECTORS, _GET_SHARD_KEYS = 2, 4, 5, 7
_DELETE_WAIT, _DELETE_POINTS, _DELETE_SHARD_KEYS = 2, 3, 5
_HAS_ID, _INNER = 3, 4  # conditions
_SHOULD, _MUST = 1, 2  # of a filter


def _id_message(identifier: bytes) -> bytes:
    return number_field(1, int(identifier)) if identifier[:1] != b'"' else length_field(2, identifier[1:-1])


def _collection(write: Operation) -> bytes:
    return length_field(calls.COLLECTION, write.collection.encode())


def shard_keys_of(selector: bytes) -> list[object]:
    """The keys of a selector's message. Raises ValueError, UnsupportedError."""
    choices = [choice(key) for key in parsed(SHARD_KEYS, selector).shard_keys]
    return [value.decode() if name == "keyword" else value for name, value in choices]


_ACKNOWLEDGED, _COMPLETED = 1, 2


class QdrantGrpcWrites(GrpcWrites):
    counted: ClassVar[Messages] = COUNTED
    upsert = UPSERT, "points"

    def data(self, points: NewPoints) -> bytes:
        return typed(points.document, Document).data

    def message(self, points: NewPoints, row: int, point: bytes) -> bytes:
        """A point with the id of a row. ``point``: as JSON."""
        value = orjson.loads(point)
        payload = b"".join(
            length_field(PAYLOAD, entry(key, item, QDRANT)) for key, item in (value["payload"] or {}).items()
        )
        identity = parsed(POINT, typed(points.document, Document).points[row]).id.SerializeToString()
        return length_field(_ID, identity) + payload + length_field(_VECTORS, vectors_message(value["vector"]))

    def classify(self, head: RequestHead) -> Operation | None:
        """The call of one upsert. Never raises."""
        if head.path != "/qdrant.Points/Upsert":
            return None
        return Operation(backend=calls.BACKEND, name=calls.UPSERT, collection=calls.collection_in(head.message))

    def shows_unread(self, _query: str, body: bytes, _known: object | None) -> bool:
        try:
            return bool(parsed(WAIT, body).wait)
        except ValueError:
            return False

    def partition(self, points: NewPoints) -> bytes:
        """The shard key, as over REST; a list if there are several."""
        keys = shard_keys_of(typed(points.document, Document).shard_keys)
        return b"" if not keys else orjson.dumps(keys[0] if len(keys) == 1 else keys)

    def ask_metric(self, write: Operation, _: bytes) -> Question:
        """The collection's own description."""
        return Question(method="POST", target="/qdrant.Collections/Get", body=_collection(write))

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        """Raises ValueError, UnsupportedError."""
        forced(needs.keys, ())
        upsert = once(read(UPSERT, body))
        if upsert.update_filter or upsert.update_mode:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        if not upsert.points:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        if len(upsert.points) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        written = tuple(upsert.points)
        points = [read(POINT, point) for point in written]
        vectors = [_dense(point) for point in points]
        name = name_of(vectors, needs.vector_name)
        packed = tuple([vector.get(name, b"") for vector in vectors])
        fields = Wanted(needs.keys)
        ids = tuple([id_of(point.id) for point in points])
        document = Document(
            data=body,
            points=written,
            vectors=packed,
            shard_keys=b"".join(upsert.shard_key_selector),
            waits=bool(upsert.wait),
        )
        return NewPoints(
            ids=ids,
            vectors=matrix([vector or None for vector in packed]),
            vector_name=name,
            keys=needs.keys,
            fields=tuple([chosen_of(_values(point), fields, QDRANT) for point in points]),
            document=document,
        )

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """One batch query for the neighbours of all points of the inquiry, each with its own filter."""
        document = typed(points.document, Document)
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
        lists = [points_of(hits) for hits in parsed_reply(REPLY, body, root="batch").result]
        if len(lists) != len(inquiry.which):
            raise ValueError(f"{len(lists)} lists, wanted {len(inquiry.which)}")
        near = [point for points in lists for point in points]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(hits) for hits in lists]),
            ids=tuple([id_json(point.id) for point in near]),
            scores=scores_of(near),
            vectors=vectors_of(near, points.vector_name),
            fields=fields_of(near, Needs(payload_fields=points.keys))[0],
        )

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """From the description of a collection. Never raises."""
        try:
            config = parsed(INFO, body).result.config.params.vectors_config
            params = config.params_map.map.get(vector_name) if vector_name else config.params
        except ValueError:
            return False
        return params is not None and params.distance == _COSINE

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's message with a note in the payloads of some points."""
        written = typed(points.document, Document).points
        noted = {
            row: written[row] + length_field(PAYLOAD, entry(NOTE, orjson.loads(note), QDRANT))
            for row, note in notes.items()
        }
        return self.rewritten(points, noted)

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        shard_keys = typed(points.document, Document).shard_keys
        everything = length_field(_GET_PAYLOAD, number_field(1, int(whole))) + length_field(
            _GET_VECTORS, number_field(1, int(whole))
        )
        selected = b"".join(length_field(_GET_IDS, _id_message(identifier)) for identifier in ids)
        partition = length_field(_GET_SHARD_KEYS, shard_keys) if shard_keys else b""
        return [
            Question(
                method="POST", target="/qdrant.Points/Get", body=_collection(write) + selected + everything + partition
            )
        ]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        stored = [parsed(STORED, message) for message in parsed_reply(REPLY, body).result]
        ids = [id_of(point.id) for point in stored]
        return {identifier: _point(identifier, point) for identifier, point in zip(ids, stored, strict=True)}

    def acknowledged(self, _: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """Without the number of an operation: there was none."""
        status = _COMPLETED if self.waits(points, query) else _ACKNOWLEDGED
        body = length_field(1, number_field(2, status)) + encoded(2 << 3 | FIXED64) + pack("<d", 0.0)
        return NativeAnswer(status=0, content_type="", body=body)

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion with one filter per point."""
        filters = []
        for identifier, point in victims.items():
            conditions = [length_field(_HAS_ID, length_field(1, _id_message(identifier)))]
            conditions += [condition(key, value) for key, value in compared(point).items()]
            inner = b"".join(length_field(_MUST, one) for one in conditions)
            filters.append(length_field(_SHOULD, length_field(_INNER, inner)))
        chosen = length_field(_DELETE_POINTS, length_field(2, b"".join(filters)))
        shard_keys = typed(points.document, Document).shard_keys
        partition = length_field(_DELETE_SHARD_KEYS, shard_keys) if shard_keys else b""
        body = _collection(write) + number_field(_DELETE_WAIT, 1) + chosen + partition
        return [Question(method="POST", target="/qdrant.Points/Delete", body=body)]

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError."""
        try:
            return _point(points.ids[row], parsed(POINT, typed(points.document, Document).points[row]))
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def waits(self, points: NewPoints, _: str) -> bool:
        return typed(points.document, Document).waits

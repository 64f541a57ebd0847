"""The adapter of Qdrant's upserts over gRPC: points left out of them, read whole, put in place of others; stored ones removed.

A point alone is JSON as over REST, which `vecsieve undo` speaks. What is left of a write is the client's own message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from struct import pack

import orjson

from vecsieve.adapters.base import own
from vecsieve.adapters.base_writes import GrpcWrites
from vecsieve.adapters.contract import (
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.qdrant import calls
from vecsieve.adapters.qdrant.writes import grpc_upserts
from vecsieve.adapters.qdrant.writes.grpc_upserts import ID, PAYLOAD, POINT, POINTS, VECTORS, Document, id_of
from vecsieve.adapters.qdrant.writes.grpc_values import (
    condition,
    entry,
    vectors_json,
    vectors_message,
)
from vecsieve.adapters.qdrant.writes.rest import compared
from vecsieve.adapters.wire.protobuf import (
    FIXED64,
    LENGTH,
    Field,
    Span,
    encoded,
    fields,
    held,
    length_field,
    messages_in,
    number_field,
    only,
    varint,
)
from vecsieve.adapters.wire.protobuf_requests import message, messages, read
from vecsieve.adapters.wire.protobuf_values import QDRANT, object_json
from vecsieve.adapters.writes import NewPoints


def _fields(points: NewPoints) -> tuple[bytes, Sequence[Field]]:
    document = own(points.document, Document)
    return document.data, document.points


def point(points: NewPoints, row: int) -> bytes:
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


def _point(identifier: bytes, data: bytes, vectors: Span | None, payload: list[Span]) -> bytes:
    """Raises ValueError."""
    return b'{"id":%s,"vector":%s,"payload":%s}' % (
        identifier,
        vectors_json(data, vectors),
        object_json(data, payload, QDRANT),
    )


def _message(points: NewPoints, row: int, point: bytes) -> bytes:
    """A point with the id of a row. ``point``: as JSON."""
    document = own(points.document, Document)
    value = orjson.loads(point)
    identifier = message(read(document.data, document.points[row].span, POINT), ID)
    assert identifier is not None  # noqa: S101 - it was parsed
    payload = b"".join(length_field(PAYLOAD, entry(key, each)) for key, each in (value["payload"] or {}).items())
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


def _named(write: Operation) -> bytes:
    return length_field(calls.COLLECTION, write.collection.encode())


def ask_stored(write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
    """A retrieval by ids."""
    shard_keys = own(points.document, Document).shard_keys
    everything = length_field(_GET_PAYLOAD, number_field(1, int(whole))) + length_field(
        _GET_VECTORS, number_field(1, int(whole))
    )
    each = b"".join(length_field(_GET_IDS, _id_message(identifier)) for identifier in ids)
    partition = length_field(_GET_SHARD_KEYS, shard_keys) if shard_keys else b""
    return [Question(method="POST", target="/qdrant.Points/Get", body=_named(write) + each + everything + partition)]


def _stored(_: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
    return dict(_retrieved(body, span) for span in messages_in(body, (0, len(body)), 1))


def _retrieved(data: bytes, span: Span) -> tuple[bytes, bytes]:
    found = fields(data, span)
    identifier, vectors = id_of(data, only(found, _READ_ID, LENGTH)), only(found, _READ_VECTORS, LENGTH)
    payload = [field.span for field in found if field.number == _READ_PAYLOAD]
    return identifier, _point(identifier, data, None if vectors is None else vectors.span, payload)


_ACKNOWLEDGED, _COMPLETED = 1, 2


def acknowledged(_: Operation, points: NewPoints, query: str) -> NativeAnswer:
    """Without a number of an operation: none was made."""
    status = _COMPLETED if waits(points, query) else _ACKNOWLEDGED
    body = length_field(1, number_field(2, status)) + encoded(2 << 3 | FIXED64) + pack("<d", 0.0)
    return NativeAnswer(status=0, content_type="", body=body)


def waits(points: NewPoints, _: str) -> bool:
    """By the message."""
    return own(points.document, Document).waits


def ask_removed(write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
    """A deletion by one filter for each point."""
    each = []
    for identifier, point in victims.items():
        conditions = [length_field(_HAS_ID, length_field(1, _id_message(identifier)))]
        conditions += [condition(key, value) for key, value in compared(point).items()]
        inner = b"".join(length_field(_MUST, one) for one in conditions)
        each.append(length_field(_SHOULD, length_field(_INNER, inner)))
    chosen = length_field(_DELETE_POINTS, length_field(2, b"".join(each)))
    shard_keys = own(points.document, Document).shard_keys
    partition = length_field(_DELETE_SHARD_KEYS, shard_keys) if shard_keys else b""
    body = _named(write) + number_field(_DELETE_WAIT, 1) + chosen + partition
    return [Question(method="POST", target="/qdrant.Points/Delete", body=body)]


class QdrantGrpcWrites(GrpcWrites):
    """The verbs of the contract."""

    read_points = staticmethod(grpc_upserts.parsed)
    read_neighbours = staticmethod(grpc_upserts.neighbours)
    read_stored = staticmethod(_stored)
    fields = staticmethod(_fields)
    ask = staticmethod(grpc_upserts.ask)
    is_cosine = staticmethod(grpc_upserts.is_cosine)
    annotated = staticmethod(grpc_upserts.annotated)
    point = staticmethod(point)
    ask_stored = staticmethod(ask_stored)
    acknowledged = staticmethod(acknowledged)
    waits = staticmethod(waits)
    ask_removed = staticmethod(ask_removed)
    is_conditional = True

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The client's message with other points."""
        put = {row: length_field(POINTS, _message(points, row, each)) for row, each in merged.items()}
        return self.shown(points, {row: put.get(row, b"") for row in {*rows, *merged}})

    def classify(self, head: RequestHead) -> Operation | None:
        """The call of one upsert. Never raises."""
        if head.path != "/qdrant.Points/Upsert":
            return None
        return Operation(backend=calls.BACKEND, name=calls.UPSERT, collection=calls.collection_in(head.message))

    def partition(self, points: NewPoints) -> bytes:
        """The shard key, as over REST; of several a list."""
        data = own(points.document, Document).shard_keys
        keys: list[object] = []
        for span in messages_in(data, (0, len(data)), 1):
            tag, at = held(data, span)
            keys.append(data[at : span[1]].decode() if tag == 1 << 3 | LENGTH else varint(data, at, span[1])[0])
        return b"" if not keys else orjson.dumps(keys[0] if len(keys) == 1 else keys)

    def ask_metric(self, write: Operation, _: bytes) -> Question:
        """The collection's own description."""
        return Question(method="POST", target="/qdrant.Collections/Get", body=_named(write))

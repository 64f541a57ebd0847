"""Upserts over gRPC: parses their points, makes the query for their neighbours, and the client's message with notes in payloads, without
some points, or with some points replaced; reads and removes stored points.

Supported: Upsert without a condition (`update_filter`, `update_mode`), which would decide what is stored. A note is one more entry of the
payload at the end of its point: for equal keys the last one counts, for all readers of protobuf. A single point is JSON as over REST, which
`vecsieve undo` uses. Numbers survive both conversions: a 32-bit float is written with the fewest digits that identify it, an integer stays
an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, typed
from ..base_grpc import GrpcWrites
from ..contract import NativeAnswer, Needs, Operation, Question, Reason, RequestHead, UnsupportedError
from ..wire.protobuf import Messages
from ..wire.schema import has_unknown, parsed, read, serialized
from ..wire.values import RequestedKeys
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
from .grpc_request import choice, once
from .grpc_schema import COUNTED, VALUES, proto
from .ranking import Kind, forced
from .rest_write import compared

# Fields of a vector with a JSON form: the old ones together, or one of the messages since 1.17.
_FORMS = ({"data"}, {"data", "indices"}, {"data", "vectors_count"}, {"dense"}, {"sparse"}, {"multi_dense"}, set[str]())


def vectors_json(vectors: Any) -> bytes:
    """Of one point: the unnamed vector, or an object of named ones. Raises ValueError for one that the database must compute."""
    by_name = {name: _vector(vector) for name, vector in named(vectors).items()}
    return orjson.dumps(by_name[""] if by_name.keys() == {""} else by_name, option=orjson.OPT_SERIALIZE_NUMPY)


def _vector(vector: Any) -> object:
    kind, message = kind_of(vector)
    if {field.name for field, _ in vector.ListFields()} not in _FORMS or has_unknown(vector) or has_unknown(message):
        raise ValueError("a vector of no known kind")
    if kind is Kind.SPARSE:
        indices, values = sparse(vector)
        return {"indices": np.array(indices, np.int64), "values": _finite(values)}
    if vector.HasField("multi_dense"):
        return [_finite(row(b"".join(part.data))) for part in message.vectors]
    numbers = _finite(row(b"".join(message.data)))
    return numbers if kind is Kind.DENSE else numbers.reshape(vector.vectors_count, -1)


def _finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise ValueError("JSON has no such number")
    return values


def vectors_fields(vectors: object) -> dict[str, Any]:
    """The message of a point's vectors. ``vectors``: in their JSON form."""
    if isinstance(vectors, dict) and vectors.keys() != {"indices", "values"}:
        return {"vectors": {"vectors": {name: _written(vector) for name, vector in vectors.items()}}}
    return {"vector": _written(vectors)}


def _written(vector: object) -> Any:
    """In the old form, which all servers read."""
    if isinstance(vector, dict):
        return proto.Vector(data=[_packed(vector["values"])], indices={"data": vector["indices"]})
    assert isinstance(vector, list)  # noqa: S101 - a vector as JSON has it
    if vector and isinstance(vector[0], list):
        return proto.Vector(data=[_packed([number for row in vector for number in row])], vectors_count=len(vector))
    return proto.Vector(data=[_packed(vector)])


def _packed(numbers: list[float]) -> bytes:
    return np.array(numbers, "<f4").tobytes()


def _condition(key: str, value: object) -> dict[str, Any]:
    """That a payload has this text, integer or boolean."""
    if isinstance(value, bool):
        match: dict[str, object] = {"boolean": value}
    elif isinstance(value, int):
        match = {"integer": value}
    else:
        match = {"keyword": str(value).encode(errors="surrogatepass")}
    return {"field": {"key": key.encode(), "match": match}}


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed upsert: its bytes, the messages of its points, and the message of the shard keys. ``waits``: whether the database answers after the write is done."""

    data: bytes
    points: tuple[bytes, ...]
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


_RESCORED = serialized(proto.Params(quantization={"rescore": True}))


def _filter(tenant: Tenant) -> list[bytes]:
    conditions = [_condition(key, orjson.loads(value)) for key, value in tenant]
    return [serialized(proto.Where(must=conditions))] if conditions else []


_COSINE = 1  # Distance


def _point(identifier: bytes, point: Any) -> bytes:
    """A point that is written, or was read, as JSON. Raises ValueError."""
    payload = VALUES.object_json(point.payload)
    return b'{"id":%s,"vector":%s,"payload":%s}' % (identifier, vectors_json(point.vectors), payload)


def _identity(identifier: bytes) -> dict[str, object]:
    return {"num": int(identifier)} if identifier[:1] != b'"' else {"uuid": identifier[1:-1]}


def _named(write: Operation, points: NewPoints | None = None) -> dict[str, Any]:
    """The collection, and the shard keys of the points."""
    shard_keys = b"" if points is None else typed(points.document, Document).shard_keys
    return {
        "collection_name": [write.collection.encode()],
        **({"shard_key_selector": [shard_keys]} if shard_keys else {}),
    }


def shard_keys_of(selector: bytes) -> list[object]:
    """The keys of a selector's message. Raises ValueError, UnsupportedError."""
    choices = [choice(key) for key in parsed(proto.ShardKeys, selector).shard_keys]
    return [value.decode() if name == "keyword" else value for name, value in choices]


_ACKNOWLEDGED, _COMPLETED = 1, 2


class QdrantGrpcWrites(GrpcWrites):
    counted: ClassVar[Messages] = COUNTED
    upsert = proto.Upsert, "points"

    def data(self, points: NewPoints) -> bytes:
        return typed(points.document, Document).data

    def message(self, points: NewPoints, row: int, point: bytes) -> bytes:
        """A point with the id of a row. ``point``: as JSON."""
        value = orjson.loads(point)
        return serialized(
            proto.Written(
                id=parsed(proto.Written, typed(points.document, Document).points[row]).id,
                payload=[VALUES.entry(key, item) for key, item in (value["payload"] or {}).items()],
                vectors=vectors_fields(value["vector"]),
            )
        )

    def classify(self, head: RequestHead) -> Operation | None:
        """The call of one upsert. Never raises."""
        if head.path != "/qdrant.Points/Upsert":
            return None
        return Operation(backend=calls.BACKEND, name=calls.UPSERT, collection=calls.collection_in(head.message))

    def shows_unread(self, _query: str, body: bytes, _known: object | None) -> bool:
        try:
            return bool(parsed(proto.Wait, body).wait)
        except ValueError:
            return False

    def partition(self, points: NewPoints) -> bytes:
        """The shard key, as over REST; a list if there are several."""
        keys = shard_keys_of(typed(points.document, Document).shard_keys)
        return b"" if not keys else orjson.dumps(keys[0] if len(keys) == 1 else keys)

    def ask_metric(self, write: Operation, _: bytes) -> Question:
        """The collection's own description."""
        return Question(method="POST", target="/qdrant.Collections/Get", body=serialized(proto.Batch(**_named(write))))

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        forced(needs.keys, ())
        upsert = once(read(proto.Upsert, body))
        if upsert.update_filter or upsert.update_mode:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        if not upsert.points:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        if len(upsert.points) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        written = tuple(upsert.points)
        points = [read(proto.Written, point) for point in written]
        vectors = [_dense(point) for point in points]
        name = name_of(vectors, needs.vector_name)
        fields = RequestedKeys(needs.keys)
        ids = tuple([id_of(point.id) for point in points])
        document = Document(
            data=body,
            points=written,
            shard_keys=b"".join(upsert.shard_key_selector),
            waits=bool(upsert.wait),
        )
        return NewPoints(
            ids=ids,
            vectors=matrix([vector.get(name) for vector in vectors]),
            vector_name=name,
            keys=needs.keys,
            fields=tuple([VALUES.chosen(_values(point), fields) for point in points]),
            document=document,
        )

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """One batch query for the neighbours of all points of the inquiry, each with its own filter."""
        name = points.vector_name.encode()
        shared: dict[str, Any] = {**_named(write, points), "params": [_RESCORED], "limit": inquiry.count}
        shared |= {"using": name} if name else {}
        shared |= {} if inquiry.least is None else {"score_threshold": inquiry.least}
        shared |= {"with_vectors": {"include": {"names": [name]}}} if inquiry.vectors else {}
        keys = [key.encode() for key in points.keys]
        shared |= {"with_payload": {"include": {"names": keys}}} if keys else {}
        queries = [
            proto.Query(
                query={"nearest": {"dense": {"data": [points.vectors[point].tobytes()]}}},
                filter=_filter(tenant),
                **shared,
            )
            for point, tenant in zip(inquiry.which, inquiry.tenants, strict=True)
        ]
        batch = proto.Batch(searches=list(map(serialized, queries)), **_named(write))
        return [Question(method="POST", target="/qdrant.Points/QueryBatch", body=serialized(batch))]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        (body,) = bodies
        lists = [points_of(hits) for hits in parsed_reply(proto.Reply, body, root="batch").result]
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
            config = parsed(proto.Info, body).result.config.params.vectors_config
            params = config.params_map.map.get(vector_name) if vector_name else config.params
        except ValueError:
            return False
        return params is not None and params.distance == _COSINE

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's message with a note in the payloads of some points."""
        written = typed(points.document, Document).points
        noted = {
            row: written[row] + serialized(proto.Written(payload=[VALUES.entry(NOTE, orjson.loads(note))]))
            for row, note in notes.items()
        }
        return self.rewritten(points, noted)

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        everything = {"with_payload": {"enable": whole}, "with_vectors": {"enable": whole}}
        query = proto.Get(ids=list(map(_identity, ids)), **everything, **_named(write, points))
        return [Question(method="POST", target="/qdrant.Points/Get", body=serialized(query))]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        stored = [parsed(proto.Stored, message) for message in parsed_reply(proto.Reply, body).result]
        ids = [id_of(point.id) for point in stored]
        return {identifier: _point(identifier, point) for identifier, point in zip(ids, stored, strict=True)}

    def acknowledged(self, _: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """Without the number of an operation: there was none."""
        status = _COMPLETED if self.waits(points, query) else _ACKNOWLEDGED
        return NativeAnswer(
            status=0, content_type="", body=serialized(proto.Answer(result={"status": status}, time=0.0))
        )

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion with one filter per point."""
        filters = [
            {
                "filter": {
                    "must": [
                        {"has_id": {"ids": [_identity(identifier)]}},
                        *starmap(_condition, compared(point).items()),
                    ]
                }
            }
            for identifier, point in victims.items()
        ]
        deletion = proto.Deletion(wait=True, points={"filter": {"should": filters}}, **_named(write, points))
        return [Question(method="POST", target="/qdrant.Points/Delete", body=serialized(deletion))]

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError."""
        try:
            return _point(points.ids[row], parsed(proto.Written, typed(points.document, Document).points[row]))
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def waits(self, points: NewPoints, _: str) -> bool:
        return typed(points.document, Document).waits

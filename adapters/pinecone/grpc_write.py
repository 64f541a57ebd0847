"""Upserts of vectors over gRPC: parses them, makes the queries for their neighbours, and the client's message with notes in metadata,
without some vectors, or with some vectors replaced.

As over REST a query has one vector, and a note is JSON as a string. It is one more entry at the end of the metadata: for equal keys the
last one counts, for all readers of protobuf. A single vector is JSON as over REST.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import orjson

from ..base import NOTE, typed
from ..base_grpc import GrpcWrites
from ..contract import NativeAnswer, Operation, Question, Reason, RequestHead, UnsupportedError
from ..wire.protobuf import Messages, check_count
from ..wire.schema import checked, parsed, read, serialized
from ..wire.values import GOOGLE, RequestedKeys, chosen_of
from ..wire.vectors import matrix, spelled_floats, whole_floats
from ..writes import Deletion, Inquiry, Neighbours, NewPoints, Tenant, WriteNeeds, name_of
from .calls import BACKEND, index_of
from .deletions import DELETE, NAMESPACE, UPDATE, deletions_among
from .grpc import PATH, dense_of, entries_in, matches_in, scores_of
from .grpc_schema import COUNTED, proto
from .rest_write import DELETED, FETCHED, FORM, UPSERT


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed upsert: its bytes, and the messages of its vectors."""

    data: bytes
    points: tuple[bytes, ...]
    namespace: bytes


def _filter(tenant: Tenant) -> Mapping[str, Any]:
    terms = [{key: {"$eq": orjson.loads(value)}} for key, value in tenant]
    return {"filter": GOOGLE.encoded(terms[0] if len(terms) == 1 else {"$and": terms})} if terms else {}


def _point(identifier: bytes, message: bytes) -> bytes:
    vector = checked(proto.Vector, message)
    members = [b'"id":%s' % identifier]
    if packed := b"".join(vector.values):
        members.append(b'"values":%s' % spelled_floats(packed))
    if vector.HasField("sparse_values"):
        sparse = parsed(proto.Sparse, vector.sparse_values)
        weights = spelled_floats(np.array(sparse.values, "<f4").tobytes())
        members.append(b'"sparseValues":{"indices":%s,"values":%s}' % (orjson.dumps(list(sparse.indices)), weights))
    if vector.HasField("metadata"):
        members.append(b'"metadata":%s' % GOOGLE.object_json(entries_in(vector.metadata)))
    return b"{%s}" % b",".join(members)


def _by_ids(path: str, kind: Any, points: NewPoints, ids: Iterable[bytes], most: int) -> Sequence[Question]:
    """Requests of this type with at most ``most`` ids."""
    namespace = typed(points.document, Document).namespace or None
    names = [orjson.loads(identifier).encode() for identifier in ids]
    requests = [kind(ids=names[start : start + most], namespace=namespace) for start in range(0, len(names), most)]
    return [Question(method="POST", target=path, body=serialized(request)) for request in requests]


class PineconeGrpcWrites(GrpcWrites):
    counted: ClassVar[Messages] = COUNTED
    upsert = proto.Vectors, "vectors"
    reads_lag = True  # by seconds: "Data freshness" in its documentation
    form = FORM

    def data(self, points: NewPoints) -> bytes:
        return typed(points.document, Document).data

    def message(self, _points: NewPoints, _row: int, point: bytes) -> bytes:
        value = orjson.loads(point)
        values, sparse = value.get("values"), value.get("sparseValues")
        return serialized(
            proto.Vector(
                id=value["id"].encode(),
                values=[np.array(values, "<f4").tobytes()] if values else [],
                sparse_values=serialized(proto.Sparse(**sparse)) if sparse else None,
                metadata=GOOGLE.encoded(value.get("metadata") or {}),
            )
        )

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's message with a note in the metadata of some vectors."""
        written = {row: parsed(proto.Vector, typed(points.document, Document).points[row]) for row in notes}
        for row, note in notes.items():
            written[row].metadata += GOOGLE.encoded({NOTE: note.decode()})
        return self.rewritten(points, {row: serialized(vector) for row, vector in written.items()})

    def classify(self, head: RequestHead) -> Operation | None:
        """The call of one upsert; None for any other. Never raises."""
        if head.path != "/VectorService/Upsert":
            return None
        return Operation(backend=BACKEND, name=UPSERT, collection=index_of(head.host))

    def partition(self, points: NewPoints) -> bytes:
        """The namespace, as over REST. Raises UnsupportedError."""
        try:
            return orjson.dumps(typed(points.document, Document).namespace.decode())
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def acknowledged(self, _write: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """Nothing was stored: protobuf omits a zero."""
        return NativeAnswer(status=0, content_type="", body=b"")

    def ask_metric(self, _write: Operation, _body: bytes) -> Question:
        """The statistics of the index."""
        return Question(method="POST", target="/VectorService/DescribeIndexStats", body=b"")

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        upsert = read(proto.Vectors, body)
        if len(upsert.namespace) > 1:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
        if len(upsert.vectors) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        written = tuple(upsert.vectors)
        vectors = [checked(proto.Vector, vector) for vector in written]
        values = tuple([whole_floats(b"".join(vector.values)) for vector in vectors])
        return NewPoints(
            ids=tuple([orjson.dumps(vector.id.decode()) for vector in vectors]),
            vectors=matrix(values),
            vector_name=name_of([{"": packed} if packed else {} for packed in values], needs.vector_name),
            keys=needs.keys,
            fields=chosen_of([vector.metadata for vector in vectors], RequestedKeys(needs.keys)),
            document=Document(data=body, points=written, namespace=b"".join(upsert.namespace)),
        )

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A query for each vector."""
        document = typed(points.document, Document)
        shared: dict[str, Any] = {"top_k": inquiry.count, "include_metadata": True}
        shared |= {"namespace": document.namespace} if document.namespace else {}
        shared |= {"include_values": True} if inquiry.vectors else {}
        queries = [
            serialized(proto.Search(vector=[points.vectors[row].tobytes()], **shared, **_filter(tenant)))
            for row, tenant in zip(inquiry.which, inquiry.tenants, strict=True)
        ]
        return [Question(method="POST", target=PATH, body=query) for query in queries]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        lists = [matches_in(body) for body in bodies]
        matches = [match for hits in lists for match in hits]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(hits) for hits in lists]),
            ids=tuple([orjson.dumps(match.id.decode()) for match in matches]),
            scores=scores_of(matches),
            vectors=dense_of(matches),
            fields=chosen_of([match.metadata for match in matches], RequestedKeys(points.keys)),
        )

    def is_cosine(self, body: bytes, _: str) -> bool:
        """From the statistics of an index, if they name the metric. Never raises."""
        try:
            return bool(parsed(proto.Statistics, body).metric == b"cosine")
        except ValueError:
            return False

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """Fetches of a hundred each."""
        return _by_ids("/VectorService/Fetch", proto.Fetch, points, ids, FETCHED)

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        check_count(body, "fetched", COUNTED)
        vectors = [(orjson.dumps(key), vector) for key, vector in parsed(proto.Stored, body).vectors.items()]
        return {identifier: _point(identifier, vector) for identifier, vector in vectors}

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """Deletions by ids, as over REST."""
        return _by_ids("/VectorService/Delete", proto.Delete, points, victims, DELETED)

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError for a vector without a JSON form."""
        try:
            return _point(points.ids[row], typed(points.document, Document).points[row])
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


_PATHS = {
    "/VectorService/Delete": DELETE,
    "/VectorService/DeleteNamespace": NAMESPACE,
    "/VectorService/Update": UPDATE,
}


def classify_deletion(head: RequestHead) -> Operation | None:
    name = _PATHS.get(head.path)
    return None if name is None else Operation(backend=BACKEND, name=name, collection=index_of(head.host))


def deletions_of(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    if request.name == NAMESPACE:
        place = parsed(proto.DeleteNamespace, body).namespace
        return deletions_among(request, place.decode(), (), is_all=True)
    if request.name == UPDATE:
        update = parsed(proto.Update, body)
        ids = [update.id.decode()] if update.id else []
        return deletions_among(request, update.namespace.decode(), ids, is_all=False)
    deletion = parsed(proto.Delete, body)
    ids = [identifier.decode() for identifier in deletion.ids]
    is_all = deletion.delete_all and not deletion.filter
    return deletions_among(request, deletion.namespace.decode(), ids, is_all=is_all)

"""Upserts of vectors over gRPC: parses them, makes the queries for their neighbours, and the client's message with notes in metadata,
without some vectors, or with some vectors replaced.

As over REST a query has one vector, and a note is JSON as a string. It is one more entry at the end of the metadata: for equal keys the
last one counts, for all readers of protobuf. A single vector is JSON as over REST.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import orjson

from ..base import NOTE, GrpcWrites, own
from ..contract import (
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
)
from ..wire.protobuf import (
    LENGTH,
    Field,
    Found,
    Messages,
    Shape,
    Span,
    encoded,
    entries,
    fields,
    length_field,
    message,
    messages,
    messages_in,
    number_field,
    only,
    read,
    replaced,
    text_of,
)
from ..wire.protobuf_values import GOOGLE, Wanted, chosen, map_message, object_json
from ..wire.vectors import matrix, packed_floats, spelled_floats, unsigned_numbers
from ..writes import Inquiry, Neighbours, NewPoints, Tenant, WriteNeeds, name_of
from .calls import BACKEND, index_of
from .grpc import (
    FILTER,
    INCLUDE_METADATA,
    INCLUDE_VALUES,
    NAMESPACE,
    PATH,
    TOP_K,
    VECTOR,
    matches_in,
    metadata_of,
    values_of,
)
from .rest_write import DELETED, FETCHED, FORM, UPSERT

# UpsertRequest.
_VECTORS, _NAMESPACE = 1, 2
_UPSERT = Shape(frozenset({_NAMESPACE}), frozenset({_VECTORS}))
# Vector. Numbers may be packed, in one field or several.
_ID, _VALUES, _METADATA, _SPARSE = 1, 2, 3, 4
_POINT = Shape(frozenset({_ID, _METADATA, _SPARSE}), frozenset({_VALUES}))
_ENTRIES = 1  # of a Struct


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed upsert: for each vector its field, its metadata and its packed floats, None and b"" if absent."""

    data: bytes
    points: tuple[Field, ...]
    metadata: tuple[Field | None, ...]
    values: tuple[bytes, ...]
    namespace: bytes


def _id(data: bytes, point: Found) -> bytes:
    """As over REST. Raises UnsupportedError."""
    return orjson.dumps(text_of(data, message(point, _ID)))


def _filter(tenant: Tenant) -> bytes:
    each = [{key: {"$eq": orjson.loads(value)}} for key, value in tenant]
    if not each:
        return b""
    return length_field(FILTER, map_message(each[0] if len(each) == 1 else {"$and": each}, GOOGLE))


_METRIC = 5  # of the statistics, since 2025


def _noted(document: Document, row: int, note: bytes) -> bytes:
    """A vector's field with a note in its metadata."""
    data, point, metadata = document.data, document.points[row], document.metadata[row]
    added = map_message({NOTE: note.decode()}, GOOGLE)
    if metadata is None:
        return length_field(_VECTORS, data[point.value : point.end] + length_field(_METADATA, added))
    shown = length_field(_METADATA, data[metadata.value : metadata.end] + added)
    return length_field(_VECTORS, replaced(data, point.span, [metadata.whole], [shown]))


# SparseValues.
_INDICES, _WEIGHTS = 1, 2


def _point(identifier: bytes, data: bytes, span: Span) -> bytes:
    """Raises ValueError, UnsupportedError."""
    found = read(data, span, _POINT)
    metadata, sparse = message(found, _METADATA), message(found, _SPARSE)
    packed = packed_floats(data, found.get(_VALUES, ()), _VALUES)
    members = [b'"id":%s' % identifier]
    if packed:
        members.append(b'"values":%s' % spelled_floats(packed))
    if sparse is not None:
        inside = fields(data, sparse.span)
        indices = orjson.dumps(unsigned_numbers(data, inside, _INDICES).tolist())
        weights = spelled_floats(packed_floats(data, inside, _WEIGHTS))
        members.append(b'"sparseValues":{"indices":%s,"values":%s}' % (indices, weights))
    if metadata is not None:
        members.append(b'"metadata":%s' % object_json(data, messages_in(data, metadata.span, _ENTRIES), GOOGLE))
    return b"{%s}" % b",".join(members)


def _message(point: bytes) -> bytes:
    """The Vector message of a single point."""
    value = orjson.loads(point)
    parts = [length_field(_ID, value["id"].encode()), _packed(_VALUES, value.get("values") or ())]
    if sparse := value.get("sparseValues"):
        indices = b"".join(map(encoded, sparse["indices"]))
        parts.append(length_field(_SPARSE, length_field(_INDICES, indices) + _packed(_WEIGHTS, sparse["values"])))
    return b"".join([*parts, length_field(_METADATA, map_message(value.get("metadata") or {}, GOOGLE))])


def _packed(number: int, values: Sequence[float]) -> bytes:
    return length_field(number, np.array(values, "<f4").tobytes()) if values else b""


# FetchRequest, FetchResponse.
_FETCH_IDS, _FETCH_NAMESPACE, _FETCHED = 1, 2, 1


# DeleteRequest.
_DELETE_IDS, _DELETE_NAMESPACE = 1, 3


class PineconeGrpcWrites(GrpcWrites):
    counted: ClassVar[Messages] = {"upsert": {_VECTORS: "vector"}, "vector": {_METADATA: "struct"}, "struct": {}}
    reads_lag = True  # by seconds: "Data freshness" in its documentation
    form = FORM

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The client's message with other vectors."""
        put = {row: length_field(_VECTORS, _message(each)) for row, each in merged.items()}
        return self.shown(points, {row: put.get(row, b"") for row in {*rows, *merged}})

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with a note in the metadata of some vectors."""
        document = own(points.document, Document)
        return self.shown(points, {row: _noted(document, row, note) for row, note in notes.items()})

    def classify(self, head: RequestHead) -> Operation | None:
        """The call of one upsert; None for any other. Never raises."""
        if head.path != "/VectorService/Upsert":
            return None
        return Operation(backend=BACKEND, name=UPSERT, collection=index_of(head.host))

    def partition(self, points: NewPoints) -> bytes:
        """The namespace, as over REST. Raises UnsupportedError."""
        try:
            return orjson.dumps(own(points.document, Document).namespace.decode())
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def acknowledged(self, _write: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """Nothing was stored: protobuf omits a zero."""
        return NativeAnswer(status=0, content_type="", body=b"")

    def ask_metric(self, _write: Operation, _body: bytes) -> Question:
        """The statistics of the index."""
        return Question(method="POST", target="/VectorService/DescribeIndexStats", body=b"")

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        found = read(body, (0, len(body)), _UPSERT)
        points = messages(found, _VECTORS)
        if len(points) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        each = [read(body, point.span, _POINT) for point in points]
        metadata = tuple([message(point, _METADATA) for point in each])
        wanted = Wanted(needs.keys)
        values = tuple([packed_floats(body, point.get(_VALUES, ()), _VALUES) for point in each])
        read_fields = tuple(
            [
                chosen(body, [] if field is None else messages_in(body, field.span, _ENTRIES), wanted, GOOGLE)
                for field in metadata
            ]
        )
        namespace = message(found, _NAMESPACE)
        return NewPoints(
            ids=tuple([_id(body, point) for point in each]),
            vectors=matrix([packed or None for packed in values]),
            vector_name=name_of([{"": packed} if packed else {} for packed in values], needs.vector_name),
            keys=needs.keys,
            fields=read_fields,
            document=Document(
                data=body,
                points=tuple(points),
                metadata=metadata,
                values=values,
                namespace=b"" if namespace is None else body[namespace.value : namespace.end],
            ),
        )

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A query for each vector."""
        document = own(points.document, Document)
        shared = number_field(TOP_K, inquiry.count) + number_field(INCLUDE_METADATA, 1)
        shared += length_field(NAMESPACE, document.namespace) if document.namespace else b""
        shared += number_field(INCLUDE_VALUES, 1) if inquiry.vectors else b""
        return [
            Question(
                method="POST", target=PATH, body=length_field(VECTOR, document.values[row]) + shared + _filter(tenant)
            )
            for row, tenant in zip(inquiry.which, inquiry.tenants, strict=True)
        ]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        wanted = Wanted(points.keys)
        lists = [matches_in(body) for body in bodies]
        packed = [values_of(body, match) for body, matches in zip(bodies, lists, strict=True) for match in matches]
        fielded = [
            row for body, matches in zip(bodies, lists, strict=True) for row in metadata_of(body, matches, wanted)
        ]
        matches = [match for each in lists for match in each]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(each) for each in lists]),
            ids=tuple([orjson.dumps(match.id) for match in matches]),
            scores=np.array([match.score for match in matches], np.float64),
            vectors=matrix([each or None for each in packed]),
            fields=tuple(fielded),
        )

    def is_cosine(self, body: bytes, _: str) -> bool:
        """From the statistics of an index, if they name the metric. Never raises."""
        try:
            metric = only(fields(body), _METRIC, LENGTH)
        except ValueError:
            return False
        return metric is not None and body[metric.value : metric.end] == b"cosine"

    def fields(self, points: NewPoints) -> tuple[bytes, Sequence[Field]]:
        document = own(points.document, Document)
        return document.data, document.points

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """Fetches of a hundred each."""
        namespace = own(points.document, Document).namespace
        behind = length_field(_FETCH_NAMESPACE, namespace) if namespace else b""
        each = [length_field(_FETCH_IDS, orjson.loads(identifier).encode()) for identifier in ids]
        batches = [each[start : start + FETCHED] for start in range(0, len(each), FETCHED)]
        target = "/VectorService/Fetch"
        return [Question(method="POST", target=target, body=b"".join(batch) + behind) for batch in batches]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        spans = [field.span for field in fields(body) if field.number == _FETCHED and field.wire == LENGTH]
        found = [(orjson.dumps(key.decode()), span) for key, span in entries(body, spans)]
        return {identifier: _point(identifier, body, span) for identifier, span in found}

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """Deletions by ids, as over REST."""
        namespace = own(points.document, Document).namespace
        behind = length_field(_DELETE_NAMESPACE, namespace) if namespace else b""
        each = [length_field(_DELETE_IDS, orjson.loads(identifier).encode()) for identifier in victims]
        batches = [each[start : start + DELETED] for start in range(0, len(each), DELETED)]
        target = "/VectorService/Delete"
        return [Question(method="POST", target=target, body=b"".join(batch) + behind) for batch in batches]

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError for a vector without a JSON form."""
        document = own(points.document, Document)
        try:
            return _point(points.ids[row], document.data, document.points[row].span)
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

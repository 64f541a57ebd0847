"""Insertions and upserts over gRPC: parses their columns, makes the searches for their neighbours, and the client's message with notes, or
without some rows.

A search has one filter, so there is one for each tenant of a write. A note is a key of the dynamic field, or the value of a JSON field of
its name: the column is written again, all other bytes are the client's. A single row is JSON as over REST; bytes in it are Base64.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from struct import error

import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, GrpcWrites, own
from ..contract import (
    MalformedReplyError,
    NativeAnswer,
    Needs,
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
    Shape,
    encoded,
    fields,
    length_field,
    message,
    messages,
    number_field,
    number_of,
    only,
    read,
    replaced,
    text_of,
    without,
)
from ..wire.vectors import unsigned_numbers
from ..writes import Form, Inquiry, Neighbours, NewPoints, Told, WriteNeeds, by_tenant, name_of, numbered
from . import calls, grpc_merge
from .calls import check_status
from .fields import JSON, can_hold
from .grpc import parse_reply, values_of, vectors_of
from .grpc_columns import Column, Values, column_values, read_column, recut, rows_of, value_of
from .grpc_request import Document as SearchDocument
from .grpc_request import Pairs, pair, read_pairs
from .rest_write import form_of, noted, schema_known, stacked, without_empty
from .search import Schema, choose, condition, ids_among, read_description

# InsertRequest and UpsertRequest. Not read: namespaces, and upserts of some fields alone.
_PARTITION, _COLUMNS, _HASHES, _ROWS, _IS_PARTIAL = 4, 5, 6, 7, 9
_SHARED = frozenset({1, calls.DATABASE, calls.COLLECTION, _PARTITION, _ROWS, 8})
_SHAPES = {
    "insert": Shape(_SHARED, frozenset({_COLUMNS, _HASHES})),
    "upsert": Shape(_SHARED | {_IS_PARTIAL}, frozenset({_COLUMNS, _HASHES})),
}
# FieldData, ScalarField and JSONArray.
_TYPE, _NAME, _SCALARS, _IS_DYNAMIC, _VALID = 1, 2, 3, 6, 7
_JSON_DATA, _ELEMENT = 9, 1
_DYNAMIC_FIELD = b"$meta"


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A parsed write. ``named``: the fields of database, collection and partition. ``kind``: the DataType of the vectors; ``packed``: each
    row's, b"" without one. ``place``: the column for notes; None if there is none yet. ``partition``: its name. ``found``: the fields of
    the message.
    """

    data: bytes
    found: Found
    columns: tuple[Column, ...]
    named: bytes
    partition: str
    kind: int
    packed: tuple[bytes, ...]
    schema: Schema
    place: Column | None


def _parsed(body: bytes, found: Found, columns: list[Column], schema: Schema, needs: WriteNeeds) -> NewPoints:
    rows = number_of(body, found, _ROWS) or 0
    by_name = {column.name: column for column in columns}
    if len(by_name) < len(columns):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    vectors = {name: column for name, column in by_name.items() if column.content.vector and column.content.values}
    name = name_of([vectors], needs.vector_name)
    place = _place(body, by_name, schema) if needs.notes else None
    partition = message(found, _PARTITION)
    head = [message(found, number) for number in (calls.DATABASE, calls.COLLECTION)]
    said = [*head, partition if partition is not None and partition.end > partition.value else None]
    return NewPoints(
        has_ids=schema.primary in by_name,
        ids=_ids(body, by_name.get(schema.primary), rows, needs),
        vectors=vectors_of(body, columns, name, rows),
        vector_name=name,
        keys=needs.keys,
        fields=_fields(body, columns, needs.keys, rows),
        document=Document(
            data=body,
            found=found,
            columns=tuple(columns),
            partition=text_of(body, partition),
            named=b"".join([body[field.start : field.end] for field in said if field is not None]),
            kind=vectors[name].content.vector or 0,
            packed=_packed(body, vectors[name]),
            schema=schema,
            place=place,
        ),
    )


def _ids(data: bytes, column: Column | None, rows: int, needs: WriteNeeds) -> tuple[bytes, ...]:
    """Raises ValueError, UnsupportedError."""
    if column is None:
        return numbered(rows, needs)
    found = [each for each in column_values(data, column) if each is not None]
    if len(found) < rows:
        raise ValueError(f"{len(found)} ids for {rows} rows")
    return tuple(found)


def _packed(data: bytes, column: Column) -> tuple[bytes, ...]:
    """The vector of each row, b"" for none."""
    values = column.content.values
    assert values is not None  # noqa: S101 - it has vectors
    edges = values.edges.tolist()
    return tuple([data[edges[at] : edges[at + 1]] if at >= 0 else b"" for at in column.elements().tolist()])


def _fields(
    data: bytes, columns: Sequence[Column], keys: Sequence[str], rows: int
) -> tuple[tuple[bytes | None, ...], ...]:
    """Raises ValueError."""
    each: list[Values] = [values_of(data, columns, key, rows) for key in keys]
    return without_empty(tuple(zip(*each, strict=True)) if each else ((),) * rows, keys)


def _place(data: bytes, columns: Mapping[str, Column], schema: Schema) -> Column | None:
    """Raises ValueError, UnsupportedError."""
    column = columns.get(NOTE)
    is_fixed = NOTE in schema.scalars
    if not is_fixed:
        column = next((each for each in columns.values() if each.is_dynamic), None)
    # A missing column cannot be added to a fixed schema: it may have a default, or none.
    if not (schema.is_dynamic or is_fixed) or (is_fixed and column is None):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    if column is None:
        return None
    found = fields(data, column.box.field.span)
    kind = only(found, _TYPE, 0)
    if kind is None or data[kind.value : kind.end] != bytes([JSON]):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    if column.content.mask is not None and (not is_fixed or only(found, _VALID, LENGTH) is None):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return column


# SearchRequest.
_PARAMS, _NQ, _USES_DEFAULT, _GROUP, _EXPRESSION, _DSL, _DSL_KIND, _OUTPUT = 9, 12, 15, 6, 1, 5, 7, 8


def _group(document: Document, rows: Sequence[int]) -> bytes:
    values = b"".join(length_field(3, document.packed[row]) for row in rows)
    return length_field(1, length_field(1, b"$0") + number_field(2, document.kind) + values)


def _searched(points: NewPoints, inquiry: Inquiry, queries: int) -> SearchDocument:
    """The document of our own search, for the reader of replies."""
    schema = own(points.document, Document).schema
    needs = Needs(vectors=inquiry.vectors, optional_fields=points.keys, known=schema)
    return SearchDocument(
        body=b"", pairs=Pairs((), (), {}), limit="topk", inner=None, output=_OUTPUT, top_k=inquiry.count, queries=queries,
        vector=points.vector_name, chosen=choose((), points.vector_name, needs),
    )  # fmt: skip


# DescribeIndexResponse, IndexDescription.
_STATUS, _INDEXES, _INDEX_PARAMS, _INDEX_FIELD = 1, 2, 3, 4


def _is_of(data: bytes, field: Field | None, name: str) -> bool:
    return field is not None and data[field.value : field.end] == name.encode()


def _of(found: Sequence[Field], number: int) -> list[Field]:
    return [field for field in found if field.number == number]


def _rewritten(data: bytes, column: Column, shown: Mapping[int, bytes]) -> bytes:
    """A column with other documents in some rows, which are then not null."""
    span, values, mask = column.box.field.span, column.content.values, column.content.mask
    edges = [] if values is None else values.edges.tolist()
    places = [-1] * column.rows if values is None else values.of(np.arange(column.rows, dtype=np.intp)).tolist()
    elements = [data[edges[at] : edges[at + 1]] if at >= 0 else b"" for at in places]
    for row, document in shown.items():
        elements[row] = length_field(_ELEMENT, document)
    kept = without(data, span, [field for field in fields(data, span) if field.number in {_SCALARS, _VALID}])
    valid = b"" if mask is None else bytes([row in shown or bool(is_there) for row, is_there in enumerate(mask)])
    return length_field(_COLUMNS, kept + _documents(elements) + (length_field(_VALID, valid) if valid else b""))


def _documents(elements: Sequence[bytes]) -> bytes:
    return length_field(_SCALARS, length_field(_JSON_DATA, b"".join(elements)))


def _row(data: bytes, columns: Sequence[Column], row: int) -> bytes:
    """Raises ValueError, TypeError."""
    members: list[bytes] = []
    for column in columns:
        value = value_of(data, column, row)
        if not column.is_dynamic:
            members.append(b"%s:%s" % (orjson.dumps(column.name), value))
        elif value != b"null" and (inside := orjson.dumps(orjson.loads(value))) != b"{}":
            members.append(inside[1:-1])
    return b"{%s}" % b",".join(members)


# QueryRequest, QueryResults.
_QUERY_EXPRESSION, _QUERY_OUTPUT, _QUERIED = 4, 5, 2
_EVERYTHING = b"*"


_DELETE_EXPRESSION = 5  # of a DeleteRequest, whose names are those of a write


# MutationResult: which rows were stored, and which were not.
_IDS, _SUCCEEDED, _FAILED = 2, 3, 4


def _kept(points: NewPoints, rows: Collection[int]) -> tuple[Document, list[int]]:
    """The document, and the rows that are not ``rows``. Raises UnsupportedError for a message with hashes of rows, which no client sends."""
    document = own(points.document, Document)
    if document.found.get(_HASHES):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return document, [row for row in range(len(points.ids)) if row not in rows]


class MilvusGrpcWrites(GrpcWrites):
    is_told = True
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(read_description)

    def partition(self, points: NewPoints) -> bytes:
        name = own(points.document, Document).partition
        return orjson.dumps(name) if name else b""

    def removed(self, body: bytes) -> None:
        """Its status. Raises MalformedReplyError."""
        try:
            check_status(body, only(fields(body), _STATUS, LENGTH))
        except ValueError as error:
            raise MalformedReplyError(f"answer to a deletion: {error}") from None

    def acknowledged(self, _: Operation, points: NewPoints, _query: str) -> NativeAnswer:
        """No rows and no ids."""
        kind = 2 if own(points.document, Document).schema.has_texts else 1
        body = length_field(_STATUS, b"") + length_field(_IDS, length_field(kind, b""))
        return NativeAnswer(status=0, content_type="", body=body)

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        """The indexes of the collection, which are named as in its description. Raises UnsupportedError."""
        question = calls.describe(write, body)
        if question is None:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        return Question(method="POST", target=calls.DESCRIBE_INDEX, body=question.body)

    def classify(self, head: RequestHead) -> Operation | None:
        """The insertion or upsert of a call; None for any other. Never raises."""
        name = calls.WRITES.get(head.path)
        return (
            None if name is None else Operation(backend=calls.BACKEND, name=name, collection=calls.collection_of(head))
        )

    def read_points(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        schema = schema_known(needs)
        found = read(body, (0, len(body)), _SHAPES[write.name])
        rows = number_of(body, found, _ROWS) or 0
        if rows > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        if not rows or number_of(body, found, _IS_PARTIAL):
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        return _parsed(
            body, found, [read_column(body, field, rows) for field in messages(found, _COLUMNS)], schema, needs
        )

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A search for each tenant, with the collection's own consistency. Raises UnsupportedError."""
        document = own(points.document, Document)
        searched = _searched(points, inquiry, 0)
        pairs = {"anns_field": points.vector_name, "topk": str(inquiry.count), "params": "{}", "round_decimal": "-1"}
        shared = document.named + b"".join(
            (
                number_field(_DSL_KIND, _EXPRESSION),
                *[length_field(_OUTPUT, name.encode()) for name in searched.chosen.added],
                *[length_field(_PARAMS, pair(key, value)) for key, value in pairs.items()],
                number_field(_USES_DEFAULT, 1),
            )
        )
        return [
            Question(
                method="POST",
                target=calls.SEARCHES,
                body=shared
                + length_field(_DSL, condition(tenant).encode())
                + length_field(_GROUP, _group(document, rows))
                + number_field(_NQ, len(rows)),
            )
            for tenant, rows in by_tenant(inquiry).items()
        ]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        needs = Needs(vectors=inquiry.vectors, payload_fields=points.keys)
        of: list[int] = []
        ids: list[bytes] = []
        vectors: list[npt.NDArray[np.float32]] = []
        scores: list[npt.NDArray[np.float64]] = []
        fielded: list[tuple[bytes | None, ...]] = []
        for body, rows in zip(bodies, by_tenant(inquiry).values(), strict=True):
            pools, _ = parse_reply(_searched(points, inquiry, len(rows)), needs, body)
            for row, pool in zip(rows, pools, strict=True):
                if len(pool.ids) != len(pool.scores):
                    raise MalformedReplyError(f"{len(pool.ids)} ids of {len(pool.scores)} rows")
                of += [row] * len(pool.ids)
                ids += pool.ids
                fielded += pool.fields
                scores.append(pool.scores)
                vectors.append(pool.vectors)
        return Neighbours(
            of=np.array(of, np.intp),
            ids=tuple(ids),
            scores=np.concatenate(scores),
            vectors=stacked(vectors),
            fields=without_empty(fielded, points.keys),
        )

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """From the description of the indexes. Never raises."""
        try:
            outer = fields(body)
            check_status(body, only(outer, _STATUS, LENGTH))
            each = [fields(body, field.span) for field in outer if field.number == _INDEXES and field.wire == LENGTH]
            those = [index for index in each if _is_of(body, only(index, _INDEX_FIELD, LENGTH), vector_name)]
            metrics = [read_pairs(body, _of(index, _INDEX_PARAMS)).values.get("metric_type") for index in those]
        except (ValueError, UnsupportedError, MalformedReplyError):
            return False
        return metrics == ["COSINE"]

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with notes in one column. Raises UnsupportedError if the dynamic field of a row is no object."""
        document = own(points.document, Document)
        data, place, is_fixed = document.data, document.place, NOTE in document.schema.scalars
        if not notes:
            return data
        if place is None:
            each = [
                length_field(_ELEMENT, noted(None, notes[row]) if row in notes else b"{}")
                for row in range(len(points.ids))
            ]
            head = number_field(_TYPE, JSON) + length_field(_NAME, _DYNAMIC_FIELD) + number_field(_IS_DYNAMIC, 1)
            return data + length_field(_COLUMNS, head + _documents(each))
        present = column_values(data, place)
        shown = {row: note if is_fixed else noted(present[row], note) for row, note in notes.items()}
        return replaced(data, (0, len(data)), [place.box.field.whole], [_rewritten(data, place, shown)])

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON, the keys of a dynamic field beside the others. Raises UnsupportedError."""
        document = own(points.document, Document)
        try:
            return _row(document.data, document.columns, row)
        except (ValueError, TypeError):
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """The client's message without some rows. Raises UnsupportedError for a message with hashes of rows, which no client sends."""
        document, kept = _kept(points, rows)
        boxes = sorted((column.box for column in document.columns), key=lambda box: box.start)
        message = recut(document.data, (0, len(document.data)), boxes, np.array(kept, np.intp))
        return without(message, (0, len(message)), _of(fields(message), _ROWS)) + number_field(_ROWS, len(kept))

    def form_of(self, points: NewPoints) -> Form:
        return form_of(own(points.document, Document).schema)

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the fields, and by the columns that the write has."""
        document = own(points.document, Document)
        schema, form = document.schema, self.form_of(points)
        new = json.loads(point)
        before, after = form.payload_of(json.loads(self.point(points, row))), form.payload_of(new)
        if not can_hold(schema.fields, before, after, is_dynamic=schema.is_dynamic):
            return False
        try:
            grpc_merge.check(document.columns, schema.fields, before, after)
            grpc_merge.merged(document.data, document.columns, schema.fields, [row], {row: new})
        except (ValueError, TypeError, LookupError, error):
            return False
        return True

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The client's message with other cells in some columns. Raises UnsupportedError."""
        document, kept = _kept(points, rows)
        members = {row: json.loads(point) for row, point in merged.items()}
        try:
            cut = grpc_merge.merged(document.data, document.columns, document.schema.fields, kept, members)
        except (ValueError, TypeError, LookupError, error):
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
        data = document.data
        rest = without(data, (0, len(data)), [each for each in fields(data) if each.number in {_COLUMNS, _ROWS}])
        return rest + cut + number_field(_ROWS, len(kept))

    def restores(self, points: NewPoints) -> bool:
        return own(points.document, Document).schema.is_restorable

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """A query of all partitions that sees everything written so far. Raises UnsupportedError."""
        document = own(points.document, Document)
        place = [document.data[field.start : field.end] for field in calls.named(document.data) if field is not None]
        shown = length_field(_QUERY_OUTPUT, _EVERYTHING if whole else document.schema.primary.encode())
        body = b"".join(place) + length_field(_QUERY_EXPRESSION, ids_among(document.schema, ids).encode()) + shown
        return [Question(method="POST", target=calls.QUERIES, body=body)]

    def read_stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        outer = fields(body)
        check_status(body, only(outer, _STATUS, LENGTH))
        schema = own(points.document, Document).schema
        queried = _of(outer, _QUERIED)
        primary = [
            field for field in queried if _is_of(body, only(fields(body, field.span), _NAME, LENGTH), schema.primary)
        ]
        rows = sum(rows_of(body, field) for field in primary)
        columns = [read_column(body, field, rows) for field in queried]
        ids = [value for column in columns if column.name == schema.primary for value in column_values(body, column)]
        try:
            return {value: _row(body, columns, row) for row, value in enumerate(ids) if value is not None}
        except TypeError as error:
            raise ValueError(str(error)) from None

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion by ids, in the partition that the write names. Raises UnsupportedError."""
        document = own(points.document, Document)
        chosen = length_field(_DELETE_EXPRESSION, ids_among(document.schema, list(victims)).encode())
        return [Question(method="POST", target=calls.DELETES, body=document.named + chosen)]

    def told(self, _write: Operation, points: NewPoints, gone: Mapping[int, int | None], body: bytes) -> Told:
        """The database's own counts and ids. Places of rows are changed to those in the client's write. Raises MalformedReplyError."""
        kept = [row for row in range(len(points.ids)) if row not in gone]
        try:
            found = fields(body)
            check_status(body, only(found, _STATUS, LENGTH))
            lists = {number: unsigned_numbers(body, found, number).tolist() for number in (_SUCCEEDED, _FAILED)}
            shown = {number: b"".join([encoded(kept[place]) for place in each]) for number, each in lists.items()}
            rest = without(body, (0, len(body)), [field for field in found if field.number in lists])
            failed = frozenset([kept[place] for place in lists[_FAILED]])
        except (ValueError, IndexError) as error:
            raise MalformedReplyError(f"answer to a write: {error}") from None
        answer = rest + b"".join(length_field(number, each) for number, each in shown.items() if each)
        return Told(body=answer, failed=failed)

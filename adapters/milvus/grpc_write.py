"""Insertions and upserts over gRPC: parses their columns, makes the searches for their neighbours, and the client's message with notes, or
without some rows.

A search has one filter, so there is one for each tenant of a write. A note is a key of the dynamic field, or the value of a JSON field of
its name: all other cells are the client's. A single row is JSON as over REST; bytes in it are Base64.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from struct import error
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, typed
from ..base_grpc import GrpcWrites
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
from ..wire.protobuf import Messages
from ..wire.schema import parsed, read, serialized, text_of
from ..writes import Deletion, Inquiry, Neighbours, NewPoints, Receipt, WriteNeeds, by_tenant, name_of, numbered
from . import calls, deletions, grpc_merge
from .fields import JSON, can_hold
from .grpc import read_reply
from .grpc_columns import (
    Column,
    column_values,
    count_of,
    cut,
    documents_column,
    put,
    read_columns,
    value_of,
    values_of,
    vectors_of,
)
from .grpc_description import read_answer, read_description
from .grpc_request import Document as SearchDocument
from .grpc_request import once, pairs_of
from .grpc_schema import COUNTED, proto
from .rest_write import MilvusWrites, Written, noted, schema_known, stacked, without_empty
from .search import Schema, choose, condition, ids_among


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Document(Written):
    """``type``: that of the message. ``named``: database and collection. ``kind``: the DataType of the vectors; ``packed``: each row's, b"" without one. ``place``: the index of the column for notes; None if there is none
    yet. ``is_divisible``: it has no hashes of rows, which no client sends.
    """

    data: bytes
    type: Any
    columns: tuple[Column, ...]
    named: Mapping[str, Sequence[bytes]]
    kind: int
    packed: tuple[bytes, ...]
    place: int | None
    is_divisible: bool


def _parsed(message: Any, body: bytes, columns: tuple[Column, ...], schema: Schema, needs: WriteNeeds) -> NewPoints:
    rows = message.num_rows
    by_name = {column.name: column for column in columns}
    if len(by_name) < len(columns):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    vectors = {name: column for name, column in by_name.items() if column.vector}
    name = name_of([vectors], needs.vector_name)
    return NewPoints(
        has_ids=schema.primary in by_name,
        ids=_ids(by_name.get(schema.primary), rows, needs),
        vectors=vectors_of(columns, name, rows),
        vector_name=name,
        keys=needs.keys,
        fields=_fields(columns, needs.keys, rows),
        document=Document(
            data=body,
            type=type(message),
            columns=columns,
            partition=text_of(b"".join(message.partition_name)),
            named={name: list(getattr(message, name)) for name in ("db_name", "collection_name")},
            kind=vectors[name].vector or 0,
            packed=tuple([vector or b"" for vector in vectors[name].values(range(rows))]),
            schema=schema,
            place=_place(message, columns, schema) if needs.notes else None,
            is_divisible=not message.hash_keys,
        ),
    )


def _ids(column: Column | None, rows: int, needs: WriteNeeds) -> tuple[bytes, ...]:
    if column is None:
        return numbered(rows, needs)
    ids = [value for value in column_values(column) if value is not None]
    if len(ids) < rows:
        raise ValueError(f"{len(ids)} ids for {rows} rows")
    return tuple(ids)


def _fields(columns: Sequence[Column], keys: Sequence[str], rows: int) -> tuple[tuple[bytes | None, ...], ...]:
    rows_by_key = [values_of(columns, key, rows) for key in keys]
    return without_empty(tuple(zip(*rows_by_key, strict=True)) if rows_by_key else ((),) * rows, keys)


def _place(message: Any, columns: Sequence[Column], schema: Schema) -> int | None:
    is_fixed = NOTE in schema.scalars
    places = [at for at, column in enumerate(columns) if (column.name == NOTE if is_fixed else column.is_dynamic)]
    # A missing column cannot be added to a fixed schema: its default is unknown.
    if not (schema.is_dynamic or is_fixed) or (is_fixed and not places):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    if not places:
        return None
    column, field = columns[places[0]], message.fields_data[places[0]]
    is_json = field.type == JSON and field.HasField("scalars") and column.array in {"", "json_data"}
    if not is_json or (column.valid and not is_fixed):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return places[0]


def _searched(points: NewPoints, inquiry: Inquiry, queries: int) -> SearchDocument:
    """The document of the gate's search, for the reader of replies."""
    schema = typed(points.document, Document).schema
    needs = Needs(vectors=inquiry.vectors, optional_fields=points.keys, known=schema)
    return SearchDocument(
        body=b"", top_k=inquiry.count, queries=queries, vector=points.vector_name,
        chosen=choose((), points.vector_name, needs),
    )  # fmt: skip


def _row(columns: Sequence[Column], row: int) -> bytes:
    """Raises ValueError, TypeError."""
    members: list[bytes] = []
    for column in columns:
        value = value_of(column, row)
        if not column.is_dynamic:
            members.append(b"%s:%s" % (orjson.dumps(column.name), value))
        elif value != b"null" and (inside := orjson.dumps(orjson.loads(value))) != b"{}":
            members.append(inside[1:-1])
    return b"{%s}" % b",".join(members)


_EXPRESSION = 1  # DslType.BoolExprV1


def _kept(points: NewPoints, rows: Collection[int]) -> tuple[Document, list[int], Any]:
    """The document, the rows that are not ``rows``, and the client's message with their number. Raises UnsupportedError for a message with
    hashes of rows.
    """
    document = typed(points.document, Document)
    if not document.is_divisible:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    kept = [row for row in range(len(points.ids)) if row not in rows]
    message = parsed(document.type, document.data)
    message.num_rows = len(kept)
    return document, kept, message


class MilvusGrpcWrites(MilvusWrites, GrpcWrites):
    counted: ClassVar[Messages] = COUNTED
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(read_description)

    def removed(self, body: bytes) -> None:
        """Its status. Raises MalformedReplyError."""
        try:
            read_answer(proto.Answer, body)
        except ValueError as error:
            raise MalformedReplyError(f"answer to a deletion: {error}") from None

    def acknowledged(self, _: Operation, points: NewPoints, _query: str) -> NativeAnswer:
        """No rows and no ids."""
        kind = "str_id" if typed(points.document, Document).schema.has_texts else "int_id"
        return NativeAnswer(status=0, content_type="", body=serialized(proto.Mutation(status={}, IDs={kind: {}})))

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
        message = once(read(getattr(proto, write.name.title()), body), "partition_name")
        if message.num_rows > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        if not message.num_rows or getattr(message, "partial_update", False):
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        return _parsed(message, body, read_columns(message.fields_data, message.num_rows), schema, needs)

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A search for each tenant, with the collection's own consistency. Raises UnsupportedError."""
        document = typed(points.document, Document)
        params = {"anns_field": points.vector_name, "topk": str(inquiry.count), "params": "{}", "round_decimal": "-1"}
        search = proto.Search(
            **document.named,
            partition_names=[document.partition.encode()] if document.partition else [],
            dsl_type=_EXPRESSION,
            output_fields=[name.encode() for name in _searched(points, inquiry, 0).chosen.added],
            search_params=[{"key": key.encode(), "value": value.encode()} for key, value in params.items()],
            use_default_consistency=True,
        )
        questions: list[Question] = []
        for tenant, rows in by_tenant(inquiry).items():
            values = [document.packed[row] for row in rows]
            group = proto.Group(placeholders=[{"tag": [b"$0"], "type": document.kind, "values": values}])
            search.dsl[:], search.nq = [condition(tenant).encode()], len(rows)
            search.placeholder_group[:] = [serialized(group)]
            questions.append(Question(method="POST", target=calls.SEARCHES, body=serialized(search)))
        return questions

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        needs = Needs(vectors=inquiry.vectors, payload_fields=points.keys)
        of: list[int] = []
        ids: list[bytes] = []
        vectors: list[npt.NDArray[np.float32]] = []
        scores: list[npt.NDArray[np.float64]] = []
        fielded: list[tuple[bytes | None, ...]] = []
        for body, rows in zip(bodies, by_tenant(inquiry).values(), strict=True):
            pools, _ = read_reply(_searched(points, inquiry, len(rows)), needs, body)
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
            indexes = read_answer(proto.Indexes, body).index_descriptions
            those = [index for index in indexes if index.field_name == vector_name.encode()]
            metrics = [pairs_of(index.params).get("metric_type") for index in those]
        except (ValueError, UnsupportedError, MalformedReplyError):
            return False
        return metrics == ["COSINE"]

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's message with notes in one column. Raises UnsupportedError if the dynamic field of a row is no object."""
        document = typed(points.document, Document)
        if not notes:
            return document.data
        message, rows = parsed(document.type, document.data), range(len(points.ids))
        if document.place is None:
            message.fields_data.append(
                documents_column([noted(None, notes[row]) if row in notes else b"{}" for row in rows])
            )
        else:
            column, is_fixed = document.columns[document.place], NOTE in document.schema.scalars
            present, elements, valid = column_values(column), column.elements(rows), column.validity(rows)
            for row, note in notes.items():
                elements[row], valid[row] = note if is_fixed else noted(present[row], note), True
            put(message.fields_data[document.place], "json_data", elements, valid)
        return serialized(message)

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON, the keys of a dynamic field beside the others. Raises UnsupportedError."""
        document = typed(points.document, Document)
        try:
            return _row(document.columns, row)
        except (ValueError, TypeError):
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """The client's message without some rows. Raises UnsupportedError for a message with hashes of rows, which no client sends."""
        document, kept, message = _kept(points, rows)
        for field, column in zip(message.fields_data, document.columns, strict=True):
            cut(field, column, kept)
        return serialized(message)

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the fields, and by the columns that the write has."""
        document = typed(points.document, Document)
        schema, form = document.schema, self.form_of(points)
        new = json.loads(point)
        before, after = form.payload_of(json.loads(self.point(points, row))), form.payload_of(new)
        if not can_hold(schema.fields, before, after, is_dynamic=schema.is_dynamic):
            return False
        try:
            grpc_merge.check(document.columns, schema.fields, before, after)
            grpc_merge.cells_of(document.columns, schema.fields, {row: new})
        except (ValueError, TypeError, LookupError, error):
            return False
        return True

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The client's message with other cells in some columns. Raises UnsupportedError."""
        document, kept, message = _kept(points, rows)
        members = {row: json.loads(point) for row, point in merged.items()}
        try:
            grpc_merge.merge(message, document.columns, document.schema.fields, kept, members)
        except (ValueError, TypeError, LookupError, error):
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
        return serialized(message)

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """A query of all partitions that sees everything written so far. Raises UnsupportedError."""
        document = typed(points.document, Document)
        fields = b"*" if whole else document.schema.primary.encode()
        query = proto.Query(**document.named, expr=ids_among(document.schema, ids).encode(), output_fields=[fields])
        return [Question(method="POST", target=calls.QUERIES, body=serialized(query))]

    def read_stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        queried = read_answer(proto.Queried, body).fields_data
        primary = typed(points.document, Document).schema.primary
        rows = sum(count_of(message) for message in queried if message.field_name == primary.encode())
        columns = read_columns(queried, rows)
        ids = [value for column in columns if column.name == primary for value in column_values(column)]
        try:
            return {value: _row(columns, row) for row, value in enumerate(ids) if value is not None}
        except TypeError as error:
            raise ValueError(str(error)) from None

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion by ids, in the partition that the write names. Raises UnsupportedError."""
        document = typed(points.document, Document)
        deletion = proto.Delete(
            **document.named,
            partition_name=[document.partition.encode()] if document.partition else [],
            expr=ids_among(document.schema, list(victims)).encode(),
        )
        return [Question(method="POST", target=calls.DELETES, body=serialized(deletion))]

    def receipt(self, _write: Operation, points: NewPoints, copies: Mapping[int, int | None], body: bytes) -> Receipt:
        """The database's own counts and ids. Places of rows are changed to those in the client's write. Raises MalformedReplyError."""
        kept = [row for row in range(len(points.ids)) if row not in copies]
        try:
            answer = read_answer(proto.Mutation, body)
            for places in (answer.succ_index, answer.err_index):
                places[:] = [kept[place] for place in places]
        except (ValueError, IndexError) as error:
            raise MalformedReplyError(f"answer to a write: {error}") from None
        return Receipt(body=serialized(answer), failed=frozenset(answer.err_index))


_SERVICE = calls.DELETES.rpartition("/")[0]
_PATHS = {
    calls.DELETES: deletions.DELETE,
    f"{_SERVICE}/DropCollection": deletions.GONE,
    f"{_SERVICE}/TruncateCollection": deletions.GONE,
    f"{_SERVICE}/DropPartition": deletions.PARTITION,
    f"{_SERVICE}/RenameCollection": deletions.OTHERS,
    f"{_SERVICE}/RestoreSnapshot": deletions.OTHERS,
}


def classify_deletion(head: RequestHead) -> Operation | None:
    name = _PATHS.get(head.path)
    return None if name is None else Operation(backend=calls.BACKEND, name=name, collection=calls.collection_of(head))


def deletions_of(request: Operation, body: bytes, known: object | None) -> Sequence[Deletion]:
    if request.name not in {deletions.DELETE, deletions.PARTITION}:
        return deletions.deletion(request.name, request.collection, "", None)
    message = parsed(proto.Delete, body)  # a dropped partition has the same numbers, without an expression
    listed = deletions.ids_in(message.expr.decode(), known)
    return deletions.deletion(request.name, request.collection, b"".join(message.partition_name).decode(), listed)

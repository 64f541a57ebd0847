"""Insertions and upserts over REST, version 2, and code that the writes of both transports share.

Parses their rows, makes the searches for their neighbours, and the client's bytes with notes, or without some rows. As over gRPC there is
one search for each tenant. Its reply is one list of rows, which `topks` divides by query; servers before 2.5 do not send it. From the
source of the server; not tested against one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, Array, RestWrites, typed, vectors_json
from ..contract import (
    DeclinedError,
    NativeAnswer,
    Needs,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
    may_be_json,
)
from ..wire.json import Members, Span, last_values, members_of, splice, string, whole
from ..wire.json_requests import items_of, member_edit, present, read_object, required, text_of
from ..wire.json_vectors import Shortened, decode_matrix, edited
from ..writes import (
    Form,
    Inquiry,
    Neighbours,
    NewPoints,
    Receipt,
    WriteNeeds,
    by_tenant,
    name_of,
    numbered,
)
from . import rest_search
from .calls import BACKEND, VERSION_2, place
from .fields import Row, can_hold, differing, is_exact
from .search import ALL, Schema, choose, condition, ids_among, read_rest_description

_EMPTY = frozenset({b"null", b"{}", b'"null"', b'"{}"'})  # over REST a document may be text


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A parsed write of either transport. ``partition``: its name, "" for none."""

    schema: Schema
    partition: str


class MilvusWrites:
    """The verbs that both transports share."""

    has_receipts = True

    def form_of(self, points: NewPoints) -> Form:
        schema = typed(points.document, Written).schema
        return Row(key=schema.primary, types=schema.fields)

    def partition(self, points: NewPoints) -> bytes:
        name = typed(points.document, Written).partition
        return orjson.dumps(name) if name else b""

    def restores(self, points: NewPoints) -> bool:
        return typed(points.document, Written).schema.is_restorable


def schema_known(needs: WriteNeeds) -> Schema:
    """Raises UnsupportedError if the collection, or its field of ids, is unknown."""
    if not isinstance(needs.known, Schema) or not needs.known.primary:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return needs.known


def without_empty(
    rows: Sequence[tuple[bytes | None, ...]], keys: Sequence[str]
) -> tuple[tuple[bytes | None, ...], ...]:
    """The fields of rows without notes that are null or empty: a JSON field may be required."""
    if NOTE not in keys:
        return tuple(rows)
    at = keys.index(NOTE)
    return tuple([(*row[:at], None, *row[at + 1 :]) if row[at] in _EMPTY else row for row in rows])


def noted(document: bytes | None, note: bytes) -> bytes:
    """An object with a note that replaces an existing one. Raises UnsupportedError for another value."""
    text = document or b"{}"
    span = whole(text)
    if text[slice(*span)][:1] != b"{":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return splice(text, [member_edit(text, span, NOTE, note)])


def stacked(parts: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """Matrices stacked vertically; NaN rows for those narrower than the widest, which have no rows or no vectors."""
    width = max((part.shape[1] for part in parts), default=0)
    return np.concatenate(
        [part if part.shape[1] == width else np.full((len(part), width), np.nan, np.float32) for part in parts]
        or [np.empty((0, 0), np.float32)]
    )


# Over REST.

_PATHS = {"/v2/vectordb/entities/insert": "insert", "/v2/vectordb/entities/upsert": "upsert"}
_SCORE, _PARTITIONS = "distance", "partitionNames"
_SUCCESS = frozenset({b"0", b"200"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Written):
    """The spans of rows in ``source.text``. ``names``: members of a search that name the collection. ``array``: the span of all rows."""

    source: Shortened
    array: Span
    rows: tuple[Span, ...]
    names: Mapping[str, object]


def _names(text: bytes, root: Members) -> dict[str, object]:
    names: dict[str, object] = {name: text_of(text, present(text, root, name)) for name in ("dbName", "collectionName")}
    if partition := text_of(text, present(text, root, "partitionName")):
        names[_PARTITIONS] = [partition]
    if not names["collectionName"]:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return {name: value for name, value in names.items() if value}


def _value(source: Shortened, row: Members, key: str) -> bytes | None:
    member = row.get(key)
    return None if member is None else source.cut(*member.span)


def _ids(
    source: Shortened, rows: Sequence[Members], schema: Schema, needs: WriteNeeds
) -> tuple[tuple[bytes, ...], bool]:
    """The ids, and whether the write has them. Raises ValueError, UnsupportedError."""
    ids = [_value(source, row, schema.primary) for row in rows]
    if not any(ids):
        return numbered(len(rows), needs), False
    return tuple([_id(raw, schema) for raw in ids]), True


def _id(raw: bytes | None, schema: Schema) -> bytes:
    """As over gRPC: a number may be written as text. Raises ValueError."""
    if raw is None:
        raise ValueError("a row has no id")
    return orjson.dumps(string(raw)) if schema.has_texts else b"%d" % int(raw.strip(b'"'))


class _Reply(msgspec.Struct):
    code: int
    message: str = ""
    data: list[msgspec.Raw] | None = None
    topks: list[int] | None = None


_REPLY = msgspec.json.Decoder(_Reply)


def _rows(reply: _Reply) -> tuple[list[msgspec.Raw], list[int] | None]:
    """Raises ValueError, and DeclinedError."""
    if reply.code:
        raise DeclinedError(reply.code, reply.message.encode())
    if reply.data is None:
        raise ValueError("no rows")
    return reply.data, reply.topks


def _counts(rows: int, stated: list[int] | None, queries: int, limit: int) -> list[int]:
    """The rows of each query. ``stated``: by the reply. Raises ValueError if they cannot be assigned."""
    if stated is not None:
        if len(stated) == queries and min(stated) >= 0 and sum(stated) == rows:
            return stated
    elif queries == 1 or not rows or rows == queries * limit:
        return [rows // queries] * queries
    raise ValueError(f"{rows} rows of {queries} queries cannot be told apart")


class _Index(msgspec.Struct):
    fieldName: str  # noqa: N815 - the name on the wire
    metricType: str = ""  # noqa: N815 - the name on the wire


class _Indexes(msgspec.Struct):
    indexes: list[_Index] = msgspec.field(default_factory=list)


class _Description(msgspec.Struct):
    data: _Indexes


_DESCRIPTION = msgspec.json.Decoder(_Description)


class MilvusRestWrites(MilvusWrites, RestWrites):
    describe = staticmethod(rest_search.describe)
    parse_description = staticmethod(read_rest_description)

    def collection(self, _: Operation, points: NewPoints) -> str:
        """As over gRPC."""
        names = typed(points.document, Document).names
        return place(str(names.get("dbName", "")), str(names["collectionName"]))

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the fields. Queries show whole numbers under keys of the dynamic field as doubles: large ones are not exact."""
        schema, form = typed(points.document, Document).schema, self.form_of(points)
        before, after = [form.payload_of(json.loads(row_json)) for row_json in (self.point(points, row), point)]
        added = [after[name] for name in differing(before, after) if name in after and name not in schema.fields]
        return is_exact(added) and can_hold(schema.fields, before, after, is_dynamic=schema.is_dynamic)

    def acknowledged(self, write: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """No rows and no ids."""
        body = b'{"code":0,"cost":0,"data":{"%sCount":0,"%sIds":[]}}' % ((write.name.encode(),) * 2)
        return NativeAnswer(status=200, content_type="application/json; charset=utf-8", body=body)

    def receipt(self, _write: Operation, _points: NewPoints, _copies: Mapping[int, int | None], body: bytes) -> Receipt:
        """The database's own counts and ids. Raises MalformedReplyError."""
        self.removed(body)
        return Receipt(body=body)

    def removed(self, body: bytes) -> None:
        """Its code. Raises MalformedReplyError."""
        code, message = last_values(body, ("code", "message"))
        if code is not None and code not in _SUCCESS:
            raise DeclinedError(int(code) if code.isdigit() else 0, message or b"")

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        """The description of the collection. Raises UnsupportedError."""
        question = rest_search.describe(write, body)
        if question is None:
            raise UnsupportedError(Reason.NOT_JSON)
        return question

    def classify(self, head: RequestHead) -> Operation | None:
        """The insertion or upsert of a request; None for any other. Never raises. The collection is named in the body."""
        name = _PATHS.get(head.path)
        if name is None or head.method != "POST" or not may_be_json(head.content_type):
            return None
        return Operation(backend=BACKEND, name=name, collection="", partition=VERSION_2)

    def read_points(self, _: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        schema = schema_known(needs)
        has_place = NOTE in schema.documents if NOTE in schema.scalars else schema.is_dynamic
        if needs.notes and not has_place:
            raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
        text = source.text
        request = read_object(
            text, whole(text), ("dbName", "collectionName", "partitionName", "data"), reason=Reason.NOT_JSON
        )
        array = required(text, request, "data")
        rows = items_of(text, array)
        if len(rows) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        objects = [members_of(text, row) for row in rows]
        name = name_of([{key: None for key in row if key in schema.vectors} for row in objects], needs.vector_name)
        vectors = [present(text, row, name) for row in objects]
        matrix = decode_matrix([b"" if span is None else source.cut_value(span) for span in vectors])[0]
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        fields = [tuple([_value(source, row, key) for key in needs.keys]) for row in objects]
        ids, has_ids = _ids(source, objects, schema, needs)
        return NewPoints(
            ids=ids,
            has_ids=has_ids,
            vectors=matrix,
            vector_name=name,
            keys=needs.keys,
            fields=without_empty(fields, needs.keys),
            document=Document(
                source=source,
                array=array,
                rows=tuple(rows),
                names=_names(text, request),
                partition=text_of(text, present(text, request, "partitionName")),
                schema=schema,
            ),
        )

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A search for each tenant. Raises UnsupportedError."""
        document = typed(points.document, Document)
        needs = Needs(vectors=inquiry.vectors, optional_fields=points.keys, known=document.schema)
        output = choose((), points.vector_name, needs, keys_apart=True).added
        questions: list[Question] = []
        for tenant, rows in by_tenant(inquiry).items():
            more = {"annsField": points.vector_name, "limit": inquiry.count, "outputFields": output}
            if tenant:
                more["filter"] = condition(tenant)
            head = orjson.dumps({**document.names, **more})
            body = b'%s,"data":%s}' % (head[:-1], vectors_json(points, list(rows)))
            questions.append(Question(method="POST", target="/v2/vectordb/entities/search", body=body))
        return questions

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        schema = typed(points.document, Document).schema
        of: list[int] = []
        rows: list[tuple[bytes | None, ...]] = []
        keys = (schema.primary, _SCORE, points.vector_name, *points.keys)
        for body, group in zip(bodies, by_tenant(inquiry).values(), strict=True):
            data, topks = _rows(_REPLY.decode(body))
            of += np.repeat(group, _counts(len(data), topks, len(group), inquiry.count)).tolist()
            rows += [last_values(row, keys) for row in data]
        ids = tuple([_id(row[0], schema) for row in rows])
        scores = np.array([float(row[1] or b"nan") for row in rows], np.float64)
        return Neighbours(
            of=np.array(of, np.intp),
            ids=ids,
            scores=scores,
            vectors=decode_matrix([row[2] or b"" for row in rows])[0],
            fields=without_empty([row[3:] for row in rows], points.keys),
        )

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """From the description of a collection. Never raises."""
        try:
            indexes = _DESCRIPTION.decode(body).data.indexes
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return [index.metricType for index in indexes if index.fieldName == vector_name] == ["COSINE"]

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with a note in some rows. Raises UnsupportedError."""
        source, rows = typed(points.document, Document).source, typed(points.document, Document).rows
        edits = [(*rows[row], noted(source.cut(*rows[row]), note)) for row, note in notes.items()]
        return b"".join(edited(source, (0, len(source.text)), edits))

    def arrays(self, points: NewPoints) -> tuple[Shortened, Sequence[Array]]:
        document = typed(points.document, Document)
        return document.source, [(document.array, document.rows)]

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """A query of all partitions. Raises UnsupportedError."""
        document = typed(points.document, Document)
        place = {name: value for name, value in document.names.items() if name != _PARTITIONS}
        fields = [ALL if whole else document.schema.primary]
        query = {"filter": ids_among(document.schema, ids), "outputFields": fields, "limit": len(ids)}
        body = orjson.dumps({**place, **query, "consistencyLevel": "Strong"})
        return [Question(method="POST", target="/v2/vectordb/entities/query", body=body)]

    def read_stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        schema = typed(points.document, Document).schema
        return {
            _id(last_values(row, (schema.primary,))[0], schema): bytes(row) for row in _rows(_REPLY.decode(body))[0]
        }

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion by ids, in the partition that the write names. Raises UnsupportedError."""
        document = typed(points.document, Document)
        place = {name: value for name, value in document.names.items() if name != _PARTITIONS}
        if document.partition:
            place["partitionName"] = document.partition
        body = orjson.dumps({**place, "filter": ids_among(document.schema, list(victims))})
        return [Question(method="POST", target="/v2/vectordb/entities/delete", body=body)]

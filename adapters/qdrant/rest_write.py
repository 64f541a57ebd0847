"""Upserts over REST: their points, the query for their neighbours, the client's bytes with notes in payloads, without some points, or with
others in place of some; stored points read and removed.

Read are `{"points": [..]}` and `{"batch": {..}}`, and a list of updates that is one upsert. Every other write passes through: a
condition (`update_filter`, `update_mode`) or an update between two upserts would decide what is stored. Vectors are set aside before
the rest is parsed, and the query for neighbours has their 32-bit floats, as the database stores them.

A removal names what it was decided on: it is a deletion by a filter for the id and for the values of the payload that a filter can
compare (text, integers, booleans). A point whose payload was changed meanwhile stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID

import msgspec
import numpy as np
import orjson

from ..base import NOTE, RestWrites, WrittenRows, payload_fields, typed, vectors_json
from ..contract import NativeAnswer, Operation, Question, Reason, UnsupportedError
from ..wire.json import Span, check_dimensions, last_values, members_of, string, value_spans, whole
from ..wire.json_requests import items_of, present, read_object, required
from ..wire.json_vectors import Shortened, decode_matrix, edited, guess_numbers
from ..writes import Inquiry, Neighbours, NewPoints, Tenant, WriteNeeds, name_of
from . import calls
from .ranking import forced

_IN_BRACES = slice(1, -1)
_INTEGER = re.compile(rb"0|[1-9][0-9]{0,19}")
# A key with the white space of indented JSON around its colon.
_BEFORE_IDS = 16
_CONDITIONS = ("update_filter", "update_mode")
_UPSERT = ("points", "batch", "shard_key", *_CONDITIONS)
# Exact scores of quantised collections; others ignore it.
_PARAMS = b'"params":{"quantization":{"rescore":true}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(WrittenRows):
    """``payloads``: null as well. ``rows``: of a batch the ids. ``columns``: where `payloads` is added to a batch without one; None where it is
    there. ``partition``: the value of `shard_key`, b"" without one. ``lists``: the arrays with their names, of columns: of ids, payloads,
    and vectors ("" is unnamed).
    """

    columns: int | None
    partition: bytes
    lists: Sequence[_List]


class _List(NamedTuple):
    """``kind``: "points" for whole points, else the name of the column. ``name``: of the vector."""

    kind: str
    array: Span
    elements: Sequence[Span]
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The points of one of the two forms: their ids, their vectors, and the other members as in ``Document``."""

    ids: Sequence[Span]
    vectors: Sequence[Mapping[str, Span]]
    payloads: Sequence[Span | None]
    lists: Sequence[_List]
    rows: Sequence[Span]
    columns: int | None = None


def _holds_ids(body: bytes, span: Span) -> bool:
    """Whether an array follows a key `ids`: its elements are read one by one."""
    before = body[max(0, span[0] - _BEFORE_IDS) : span[0]].rstrip()
    return before.endswith(b":") and before[:-1].rstrip().endswith(b'"ids"')


def _only_upsert(text: bytes) -> Span:
    """The upsert of a list of updates that has nothing else. Raises UnsupportedError, ValueError."""
    request = read_object(text, whole(text), ("operations",), reason=Reason.NOT_JSON)
    updates = items_of(text, required(text, request, "operations"))
    if len(updates) != 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return required(text, read_object(text, updates[0], ("upsert",)), "upsert")


def _rows(source: Shortened, span: Span, most: int) -> _Listed:
    """`[{"id", "vector", "payload"?}]`. Raises UnsupportedError, ValueError."""
    text = source.text
    rows = _limited(items_of(text, span), most)
    points = [read_object(text, row, ("id", "vector", "payload")) for row in rows]
    return _Listed(
        ids=[required(text, point, "id") for point in points],
        vectors=[_dense(source, required(text, point, "vector")) for point in points],
        payloads=[value_spans(point).get("payload") for point in points],
        lists=[_List("points", span, rows)],
        rows=rows,
    )


def _batch(source: Shortened, span: Span, most: int) -> _Listed:
    """`{"ids", "vectors", "payloads"?}`. Raises UnsupportedError, ValueError."""
    text = source.text
    request = read_object(text, span, ("ids", "vectors", "payloads"))
    place = required(text, request, "ids")
    ids = _limited(items_of(text, place), most)
    lists = [_List("ids", place, ids)]
    column = required(text, request, "vectors")
    vectors: list[dict[str, Span]] = [{} for _ in ids]
    columns = members_of(text, column) if text[column[0] : column[0] + 1] == b"{" else None
    named = {"": column} if columns is None else value_spans(columns)
    for name, place in named.items():
        items = items_of(text, place)
        lists.append(_List("vectors" if columns is None else "named", place, items, name))
        for row, item in zip(vectors, items, strict=True):
            row.update({name: item} if _is_flat(source, item) else {})
    given = present(text, request, "payloads")
    if given is None and "payloads" in request:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    payloads = [None] * len(ids) if given is None else items_of(text, given)
    if len(payloads) != len(ids):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if given is not None:
        lists.append(_List("payloads", given, items_of(text, given)))
    columns_at = span[1] - 1 if given is None else None
    return _Listed(ids=ids, vectors=vectors, payloads=payloads, lists=lists, rows=ids, columns=columns_at)


def _limited(spans: list[Span], most: int) -> list[Span]:
    if not spans:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    if len(spans) > most:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)
    return spans


def _dense(source: Shortened, span: Span) -> dict[str, Span]:
    """The dense vectors of one point by their names, "" for a bare one. Raises ValueError."""
    text = source.text
    if text[span[0] : span[0] + 1] == b"{":
        return {
            name: vector for name, vector in value_spans(members_of(text, span)).items() if _is_flat(source, vector)
        }
    return {"": span} if _is_flat(source, span) else {}


def _is_flat(source: Shortened, span: Span) -> bool:
    """Whether a value is an array without inner arrays."""
    if source.aside(span) is not None:
        return True
    inside = source.text[span[0] : span[1]]
    return inside[:1] == b"[" and inside[_IN_BRACES].lstrip()[:1] not in {b"[", b""}


def id_as_json(value: bytes) -> bytes:
    """An id as the server writes it. Raises UnsupportedError."""
    if _INTEGER.fullmatch(value):
        return value
    try:
        return b'"%s"' % str(UUID(string(value))).encode()
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def points_of(write: Operation) -> str:
    """The path of a collection's points."""
    return f"/collections/{quote(write.collection, safe='')}/points"


def _filter(tenant: Tenant) -> bytes:
    if not tenant:
        return b""
    conditions = [b'{"key":%s,"match":{"value":%s}}' % (json.dumps(key).encode(), value) for key, value in tenant]
    return b',"filter":{"must":[%s]}' % b",".join(conditions)


class _Hit(msgspec.Struct):
    id: int | str
    score: float
    payload: msgspec.Raw = msgspec.Raw(b"null")
    vector: msgspec.Raw = msgspec.Raw(b"null")


class _Hits(msgspec.Struct):
    points: list[_Hit]


class _Reply(msgspec.Struct):
    result: list[_Hits]


_REPLY = msgspec.json.Decoder(_Reply)


def _vector(value: bytes, name: str) -> bytes:
    """The array of an unnamed or a named vector; b"" without one."""
    if value[:1] != b"{":
        return value if value[:1] == b"[" else b""
    return last_values(value, (name,))[0] or b""


_PATH = ("result", "config", "params", "vectors")


def spelled(identifier: int | str) -> bytes:
    """An id as JSON, as of ``NewPoints``."""
    return b"%d" % identifier if isinstance(identifier, int) else json.dumps(identifier).encode()


def _payload(note: bytes) -> bytes:
    return b'{"%s":%s}' % (NOTE.encode(), note)


# In a filter other keys are paths.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
MOST_COMPARED = 16  # values of a payload


def _shard_key(points: NewPoints) -> bytes:
    partition = typed(points.document, Document).partition
    return b',"shard_key":' + partition if partition else b""


class _Point(msgspec.Struct):
    id: int | str
    payload: msgspec.Raw = msgspec.Raw(b"null")
    vector: msgspec.Raw = msgspec.Raw(b"{}")


class _Stored(msgspec.Struct):
    result: list[_Point]


_STORED = msgspec.json.Decoder(_Stored)


def _condition(value: tuple[str, str | int]) -> bytes:
    return b'{"key":%s,"match":{"value":%s}}' % (json.dumps(value[0]).encode(), json.dumps(value[1]).encode())


def compared(point: bytes) -> dict[str, str | int]:
    """The values of a point's payload that a filter can compare, booleans as such."""
    payload = json.loads(point)["payload"]
    items = payload.items() if isinstance(payload, dict) else ()
    usable = ((key, value) for key, value in items if _PLAIN_KEY.fullmatch(key) and is_comparable(value))
    return dict(islice(usable, MOST_COMPARED))


def is_comparable(value: object) -> bool:
    """Text, a boolean, or an integer of 64 bits."""
    return isinstance(value, str) or (isinstance(value, int) and -(2**63) <= value < 2**63)


class QdrantRestWrites(RestWrites):
    classify = staticmethod(calls.classify_rest_write)
    payload, is_flat = "payload", False

    def partition(self, points: NewPoints) -> bytes:
        """The value of `shard_key`, in one spelling."""
        key = typed(points.document, Document).partition
        return orjson.dumps(orjson.loads(key)) if key else b""

    def ask_metric(self, write: Operation, _: bytes) -> Question:
        """The collection's own description."""
        return Question(method="GET", target=f"/collections/{quote(write.collection, safe='')}")

    def guess(self, body: bytes) -> list[Span]:
        """The arrays of numbers, except those of ids."""
        return [span for span in guess_numbers(body) if not _holds_ids(body, span)]

    def read_points(self, write: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        forced(needs.keys, ())  # keys that a query for neighbours can name without quotes
        text = source.text
        span = whole(text) if write.name == calls.UPSERT else _only_upsert(text)
        request = read_object(text, span, _UPSERT, reason=Reason.NOT_JSON)
        if [condition for condition in _CONDITIONS if present(text, request, condition) is not None]:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        points, batch = present(text, request, "points"), present(text, request, "batch")
        if (points is None) == (batch is None):
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
        listed = (
            _rows(source, points, needs.most)
            if points is not None
            else _batch(source, required(text, request, "batch"), needs.most)
        )
        named = name_of(listed.vectors, needs.vector_name)
        vectors = [vector.get(named) for vector in listed.vectors]
        arrays = [b"" if vector is None else source.cut_value(vector) for vector in vectors]
        for array in arrays:
            check_dimensions(array, 0, len(array))
        matrix = decode_matrix(arrays)[0]
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        shard_key = present(text, request, "shard_key")
        document = Document(
            source=source,
            arrays=[(column.array, column.elements) for column in listed.lists],
            payloads=listed.payloads,
            rows=listed.rows,
            columns=listed.columns,
            partition=b"" if shard_key is None else source.cut(*shard_key),
            lists=listed.lists,
        )
        return NewPoints(
            ids=tuple([id_as_json(text[start:end]) for start, end in listed.ids]),
            vectors=matrix,
            vector_name=named,
            keys=needs.keys,
            fields=payload_fields(source, listed.payloads, needs.keys),
            document=document,
        )

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """One batch query for the neighbours of all points of the inquiry, each with its own filter."""
        document = typed(points.document, Document)
        named = json.dumps(points.vector_name).encode()
        shared = [
            b'"limit":%d' % inquiry.count,
            b'"with_payload":' + (json.dumps(points.keys).encode() if points.keys else b"false"),
            b'"with_vector":' + (b"[%s]" % named if inquiry.vectors else b"false"),
            _PARAMS,
            *([b'"score_threshold":%r' % inquiry.least] if inquiry.least is not None else ()),
            *([b'"using":' + named] if points.vector_name else ()),
            *([b'"shard_key":' + document.partition] if document.partition else ()),
        ]
        suffix = b"," + b",".join(shared)
        searches = [
            b'{"query":%s%s%s}' % (vectors_json(points, point), suffix, _filter(tenant))
            for point, tenant in zip(inquiry.which, inquiry.tenants, strict=True)
        ]
        body = b'{"searches":[%s]}' % b",".join(searches)
        return [Question(method="POST", target=points_of(write) + "/query/batch", body=body)]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        (body,) = bodies
        lists = _REPLY.decode(body).result
        if len(lists) != len(inquiry.which):
            raise ValueError(f"{len(lists)} lists, wanted {len(inquiry.which)}")
        hits = [hit for result in lists for hit in result.points]
        vectors = decode_matrix([_vector(bytes(hit.vector), points.vector_name) for hit in hits])[0]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(result.points) for result in lists]),
            ids=tuple([spelled(hit.id) for hit in hits]),
            scores=np.array([hit.score for hit in hits], np.float64),
            vectors=vectors,
            fields=tuple([last_values(bytes(hit.payload), points.keys) for hit in hits]),
        )

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """From the description of a collection. Never raises."""
        value: bytes | None = body
        for key in (*_PATH, *([vector_name] if vector_name else ())):
            value = None if value is None else last_values(value, (key,))[0]
        return value is not None and last_values(value, ("distance",))[0] == b'"Cosine"'

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with a note in the payloads of some points."""
        document = typed(points.document, Document)
        if document.columns is None or not notes:
            return super().annotated(points, notes)
        column = [_payload(notes[row]) if row in notes else b"null" for row in range(len(points.ids))]
        edits = [(document.columns, document.columns, b',"payloads":[%s]' % b",".join(column))]
        return b"".join(edited(document.source, (0, len(document.source.text)), edits))

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        flag = b"true" if whole else b"false"
        body = b'{"ids":[%s],"with_payload":%s,"with_vector":%s%s}' % (b",".join(ids), flag, flag, _shard_key(points))
        return [Question(method="POST", target=points_of(write), body=body)]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        stored = _STORED.decode(body).result
        ids = [spelled(point.id) for point in stored]
        return {
            identifier: b'{"id":%s,"vector":%s,"payload":%s}' % (identifier, point.vector, point.payload)
            for identifier, point in zip(ids, stored, strict=True)
        }

    def acknowledged(self, write: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """The number of the operation is null: there was none."""
        result = b'{"operation_id":null,"status":"%s"}' % (
            b"completed" if self.waits(points, query) else b"acknowledged"
        )
        results = result if write.name == calls.UPSERT else b"[%s]" % result
        body = b'{"result":%s,"status":"ok","time":0.0}' % results
        return NativeAnswer(status=200, content_type="application/json", body=body)

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion by one filter for each point."""
        filters = [
            b'{"must":[%s]}' % b",".join([b'{"has_id":[%s]}' % identifier, *map(_condition, compared(point).items())])
            for identifier, point in victims.items()
        ]
        body = b'{"filter":{"should":[%s]}%s}' % (b",".join(filters), _shard_key(points))
        return [Question(method="POST", target=points_of(write) + "/delete?wait=true", body=body)]

    def point(self, points: NewPoints, row: int) -> bytes:
        """An object as in the list of points."""
        document = typed(points.document, Document)
        cells = {(column.kind, column.name): document.source.cut(*column.elements[row]) for column in document.lists}
        whole_point = cells.get(("points", ""))
        if whole_point is not None:
            return whole_point
        several = [
            b"%s:%s" % (json.dumps(name).encode(), cell) for (kind, name), cell in cells.items() if kind == "named"
        ]
        vector = cells.get(("vectors", "")) or b"{%s}" % b",".join(several)
        payload = cells.get(("payloads", ""), b"null")
        return b'{"id":%s,"vector":%s,"payload":%s}' % (cells["ids", ""], vector, payload)

    def merged(self, write: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The same upsert as a list of points. Upserts with further members are not parsed."""
        kept = [row for row in range(len(points.ids)) if row not in rows]
        listed = b",".join([merged[row] if row in merged else self.point(points, row) for row in kept])
        upsert = b'{"points":[%s]%s}' % (listed, _shard_key(points))
        return upsert if write.name == calls.UPSERT else b'{"operations":[{"upsert":%s}]}' % upsert

    def shows_unread(self, query: str, _body: bytes, _known: object | None) -> bool:
        return "wait=true" in query[1:].split("&")

    def waits(self, _: NewPoints, query: str) -> bool:
        return self.shows_unread(query, b"", None)

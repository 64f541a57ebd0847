"""Insertions and upserts over REST, version 2, as the handlers' source describes it: what is read, the searches, bytes with notes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of, reason_of
from vecsieve.adapters.contract import (
    DeclinedError,
    MalformedReplyError,
    Operation,
    Reason,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.milvus.rest_write import MilvusRestWrites, noted, stacked, without_empty
from vecsieve.adapters.milvus.search import Schema, read_rest_description
from vecsieve.adapters.writes import Inquiry, MergesPoints, NewPoints, WriteNeeds

WRITES = MilvusRestWrites()
INSERT = "/v2/vectordb/entities/insert"
INSERTION = Operation(backend="milvus", name="insert", collection="", partition="2")
HEAD = RequestHead(method="POST", path=INSERT, content_type="application/json")
NOTE = b'{"duplicate_of":7,"similarity":0.9931,"tier":"exact"}'
KEYS = ("text", "_vecsieve")


def described(*, is_dynamic: bool = True, key: str = "Int64", note: str = "") -> bytes:
    """As the server describes a collection."""
    fields = [
        {"name": "id", "type": key, "primaryKey": True},
        {"name": "vec", "type": "FloatVector"},
        {"name": "text", "type": "VarChar"},
    ]
    if note:
        fields.append({"name": "_vecsieve", "type": note})
    indexes = [{"fieldName": "vec", "indexName": "vec", "metricType": "COSINE"}]
    data = {"collectionName": "docs", "enableDynamicField": is_dynamic, "fields": fields, "indexes": indexes}
    return json.dumps({"code": 0, "data": data}).encode()


def schema(**options: Any) -> Schema:
    return read_rest_description(described(**options))


def row(identifier: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": identifier, "vec": [1, 0.5], **more}


def body(*rows: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"collectionName": "docs", "data": rows, **more}).encode()


def parsed(raw: bytes, known: Schema | None = None, *, notes: bool = False) -> NewPoints:
    write = operation_of(WRITES, HEAD)
    needs = WriteNeeds(vector_name=None, keys=KEYS, most=9, known=known or schema(), notes=notes)
    return WRITES.parse(write, raw, needs)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [("POST", INSERT, "insert"), ("POST", INSERT.replace("insert", "upsert"), "upsert"), ("GET", INSERT, None)]
    + [("POST", path, None) for path in ("/v2/vectordb/entities/search", "/v1/vector/insert", INSERT + "/")],
)
def test_a_write_is_told_by_method_and_path(method: str, path: str, name: str | None) -> None:
    operation = WRITES.classify(RequestHead(method=method, path=path, content_type="application/json"))
    assert (None if operation is None else operation.name) == name


def test_rows_are_read_with_ids_vectors_and_wanted_keys() -> None:
    long = {"vec": [0.123456789] * 40}
    points = parsed(body(row(text="größe"), row("-2", _vecsieve={}), row(3) | long))
    assert points.ids == (b"1", b"-2", b"3")
    assert points.vectors[:2].tolist() == [[1.0, 0.5]] * 2
    assert [None if field is None else json.loads(field) for field, _ in points.fields] == ["größe", None, None]
    assert [field for _, field in points.fields] == [None, None, None]
    assert parsed(body(row("1")), schema(key="VarChar")).ids == (b'"1"',)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (body(row(), new=1), Reason.UNSUPPORTED_FIELD),
        (json.dumps({"data": [row()]}).encode(), Reason.AMBIGUOUS_FIELD),
        (body(row(), collectionName=""), Reason.AMBIGUOUS_FIELD),
        (body({"id": 1}), Reason.NOTHING_TO_DO),
        (body(), Reason.NOTHING_TO_DO),
        (body(*[row()] * 10), Reason.TOO_MANY_PARTS),
        (body(row("x")), Reason.NOT_JSON),
        (b'{"collectionName":"docs","data":[{"id":1,"id":2,"vec":[1]}]}', Reason.AMBIGUOUS_FIELD),
        (b'{"collectionName":"docs","data":{"id":1}}', Reason.AMBIGUOUS_FIELD),
        (b"{", Reason.NOT_JSON),
    ],
)
def test_what_is_not_read(raw: bytes, reason: Reason) -> None:
    assert reason_of(parsed, raw) is reason


def test_all_rows_of_a_tenant_are_asked_for_in_one_search() -> None:
    raw = (
        b'{"collectionName":"docs","dbName":"d","partitionName":"p","data":'
        b'[{"id":1,"vec":[1.50,2]},{"id":2,"vec":[3,4]},{"id":3,"vec":[5,6]}]}'
    )
    points = parsed(raw)
    tenants = ((("t", '"ü"'.encode()),), (), (("t", '"ü"'.encode()),))
    write = operation_of(WRITES, HEAD)
    one, other = WRITES.ask(write, points, Inquiry(which=(0, 1, 2), tenants=tenants, count=5, vectors=True))
    assert (one.method, one.target) == ("POST", "/v2/vectordb/entities/search")
    assert json.loads(one.body) == {
        "dbName": "d", "collectionName": "docs", "partitionNames": ["p"], "annsField": "vec", "limit": 5,
        "outputFields": ["vec", "text", "_vecsieve"], "filter": 't == "ü"', "data": [[1.5, 2], [5, 6]],
    }  # fmt: skip
    assert "filter" not in json.loads(other.body)
    assert WRITES.ask_metric(write, raw).target == "/v2/vectordb/collections/describe"
    assert json.loads(WRITES.ask_metric(write, raw).body) == {"dbName": "d", "collectionName": "docs"}


def reply(rows: int, topks: list[int] | None = None, *, code: int = 0) -> bytes:
    data = [
        {"distance": 1 - number / 4, "id": str(10 + number), "text": "t", "vec": [number, 1]} for number in range(rows)
    ]
    return json.dumps({"code": code, "data": data} | ({} if topks is None else {"topks": topks})).encode()


@pytest.mark.parametrize(
    ("answer", "of"),
    [(reply(3, [1, 2]), [0, 1, 1]), (reply(3, [3, 0]), [0, 0, 0]), (reply(4), [0, 0, 1, 1]), (reply(0), [])],
)
def test_neighbours_are_divided_by_query(answer: bytes, of: list[int]) -> None:
    inquiry = Inquiry(which=(0, 1), tenants=((), ()), count=2, vectors=True)
    near = WRITES.neighbours(parsed(body(row(), row(2))), inquiry, [answer])
    assert near.of.tolist() == of
    assert near.ids == tuple(b"%d" % (10 + place) for place in range(len(of)))
    assert near.scores.tolist() == [1 - place / 4 for place in range(len(of))]
    assert near.vectors.tolist() == [[float(place), 1.0] for place in range(len(of))]
    assert near.fields == ((b'"t"', None),) * len(of)


@pytest.mark.parametrize("answer", [reply(3), reply(3, [2, 2]), reply(3, [3]), reply(0, code=1), b"{}", b""])
def test_a_reply_that_cannot_be_divided_is_malformed(answer: bytes) -> None:
    inquiry = Inquiry(which=(0, 1), tenants=((), ()), count=2, vectors=False)
    with pytest.raises(MalformedReplyError):
        WRITES.neighbours(parsed(body(row(), row(2))), inquiry, [answer])


@pytest.mark.parametrize(("name", "expected"), [("vec", True), ("other", False)])
def test_the_metric_is_that_of_the_index(name: str, expected: bool) -> None:
    assert WRITES.is_cosine(described(), name) is expected
    assert not WRITES.is_cosine(described().replace(b"COSINE", b"L2"), name)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (b"", b',"_vecsieve":%s'),
        (b',"a" : 1.50', b',"a" : 1.50,"_vecsieve":%s'),
        (b',"_vecsieve":{}', b',"_vecsieve":%s'),
    ],
)
@pytest.mark.parametrize("known", [schema(), schema(is_dynamic=False, note="JSON")])
def test_a_note_is_the_only_change(members: bytes, expected: bytes, known: Schema) -> None:
    raw = b' {"collectionName":"docs", "data" : [{"id":1,"vec":[1,2]},{"id":2,"vec":[3,4.0]%s}]}\n'
    assert WRITES.annotated(parsed(raw % members, known, notes=True), {1: NOTE}) == raw % (expected % NOTE)


@pytest.mark.parametrize(
    "known", [schema(is_dynamic=False), schema(is_dynamic=False, note="VarChar"), schema(note="VarChar")]
)
def test_a_write_without_a_place_for_notes_is_unsupported_where_they_may_come(known: Schema) -> None:
    assert reason_of(parsed, body(row()), known, notes=True) is Reason.PAYLOAD_SELECTOR
    assert parsed(body(row()), known).ids == (b"1",)


def test_rows_without_ids_have_places() -> None:
    points = parsed(body({"vec": [1, 2]}, {"vec": [3, 4]}))
    assert (points.ids, points.has_ids, parsed(body(row())).has_ids) == ((b'"#0"', b'"#1"'), False, True)


def test_which_rows_are_stored_is_asked_in_all_partitions() -> None:
    points = parsed(body(row(), row(2), partitionName="p"))
    (question,) = WRITES.ask_stored(INSERTION, points, [b"1", b"2"], whole=False)
    assert question.target == "/v2/vectordb/entities/query"
    assert json.loads(question.body) == {
        "collectionName": "docs", "filter": "id in [1, 2]", "outputFields": ["id"], "limit": 2, "consistencyLevel": "Strong",
    }  # fmt: skip
    assert dict(WRITES.stored(points, b'{"code":0,"data":[{"id":"2"}]}')) == {b"2": b'{"id":"2"}'}
    with pytest.raises(DeclinedError):
        WRITES.stored(points, b'{"code":8,"message":"no"}')


def test_the_answer_is_the_databases_unless_it_refused() -> None:
    points, message = parsed(body(row(), row(2))), b'{"code":0,"data":{"insertCount":1,"insertIds":[1]}}'
    assert WRITES.receipt(INSERTION, points, {1: 0}, message).body == message
    with pytest.raises(DeclinedError):
        WRITES.receipt(INSERTION, points, {1: 0}, b'{"code":1100,"message":"no"}')
    nothing = WRITES.acknowledged(INSERTION, points, "")
    assert json.loads(nothing.body)["data"] == {"insertCount": 0, "insertIds": []}


def test_rows_are_read_whole_where_queries_show_them_as_they_are_written() -> None:
    (question,) = WRITES.ask_stored(INSERTION, parsed(body(row())), [b"1"], whole=True)
    assert json.loads(question.body)["outputFields"] == ["*"]
    answer = b'{"code":0,"data":[{"id":"1","vec":[0.10,2],"text":"a","own":{"n":1}}]}'
    stored = WRITES.stored(parsed(body(row())), answer)
    assert stored == {b"1": b'{"id":"1","vec":[0.10,2],"text":"a","own":{"n":1}}'}
    assert WRITES.restores(parsed(body(row())))
    for kind in ("JSON", "Array", "SparseFloatVector", "Geometry"):
        assert not WRITES.restores(parsed(body(row()), schema(note=kind)))


def test_stored_rows_are_deleted_by_their_ids_in_the_writes_partition() -> None:
    points = parsed(body(row(), dbName="d", partitionName="p"))
    (question,) = WRITES.ask_removed(INSERTION, points, {b"1": b"{}", b"2": b"{}"})
    assert (question.method, question.target) == ("POST", "/v2/vectordb/entities/delete")
    named = {"dbName": "d", "collectionName": "docs", "filter": "id in [1, 2]"}
    assert json.loads(question.body) == {**named, "partitionName": "p"}
    (bare,) = WRITES.ask_removed(INSERTION, parsed(body(row(), dbName="d")), {b"1": b"{}", b"2": b"{}"})
    assert json.loads(bare.body) == named
    WRITES.removed(b'{"code":0,"data":{}}')
    with pytest.raises(DeclinedError):
        WRITES.removed(b'{"code":1100,"message":"no"}')
    assert isinstance(WRITES, MergesPoints)


@pytest.mark.parametrize(
    ("more", "is_dynamic", "expected"),
    [
        ({"text": "b"}, False, True),
        ({"text": "abcdef"}, False, False),
        ({"text": 5}, False, False),
        ({"text": "b", "tag": 1}, True, True),
        ({"text": "b", "tag": 1}, False, False),
        ({}, False, False),
    ],
)
def test_a_row_is_held_where_its_fields_hold_what_differs(
    more: dict[str, Any], is_dynamic: bool, expected: bool
) -> None:
    known = read_rest_description(
        described(is_dynamic=is_dynamic).replace(
            b'"type": "VarChar"', b'"type": "VarChar", "params": [{"key": "max_length", "value": "5"}]'
        )
    )
    points = parsed(body(row("1", text="a")), known)
    assert WRITES.holds(points, 0, json.dumps(row(1, **more)).encode()) is expected


# What the writes of both transports have in common.

SHORT_NOTE = b'{"tier":"exact"}'
VALUES = st.dictionaries(st.sampled_from(["a", "_vecsieve", "é"]), st.none() | st.text() | st.integers(), max_size=3)


@given(VALUES, st.sampled_from(["", " ", "\n"]))
def test_a_note_is_a_member_and_all_others_stay(values: dict[str, object], space: str) -> None:
    """Whatever the object holds: the note replaces any that is there, the rest is as it was."""
    text = f"{space}{json.dumps(values)}{space}".encode()
    assert json.loads(noted(text, SHORT_NOTE)) == {**values, "_vecsieve": json.loads(SHORT_NOTE)}


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"a":1,"a":2}', b"{", b'"{}"'])
def test_another_value_gets_no_note(text: bytes) -> None:
    with pytest.raises(UnsupportedError):
        noted(text, SHORT_NOTE)


@pytest.mark.parametrize("empty", [b"null", b"{}", b'"null"', b'"{}"', None])
def test_an_empty_note_is_none(empty: bytes | None) -> None:
    rows = [(empty, b"{}"), (SHORT_NOTE, None)]
    assert without_empty(rows, ("_vecsieve", "a")) == ((None, b"{}"), (SHORT_NOTE, None))
    assert without_empty(rows, ("b", "a")) == tuple(rows)


def test_matrices_of_other_widths_are_rows_without_vectors() -> None:
    matrix = stacked([np.zeros((1, 0), np.float32), np.ones((2, 3), np.float32)])
    assert np.isnan(matrix[0]).all()
    assert matrix[1:].tolist() == [[1.0] * 3] * 2
    assert stacked([]).shape == (0, 0)

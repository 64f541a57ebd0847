"""Insertions and upserts over gRPC, against protobuf's own library: what is read, the searches for neighbours, messages with notes."""

from __future__ import annotations

import json
from dataclasses import replace
from struct import pack
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.milvus.messages import message_type
from vecsieve.adapters.contract import (
    DeclinedError,
    MalformedReplyError,
    Operation,
    Reason,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.milvus.grpc_write import MilvusGrpcWrites
from vecsieve.adapters.milvus.search import Schema
from vecsieve.adapters.writes import Inquiry, NewPoints, WriteNeeds

WRITES = MilvusGrpcWrites()
SERVICE = "/milvus.proto.milvus.MilvusService/"
INSERT = Operation(backend="milvus", name="insert", collection="default/docs")
UPSERT = Operation(backend="milvus", name="upsert", collection="default/docs")
NOTE = b'{"duplicate_of":7,"similarity":0.9931,"tier":"exact"}'
KEYS = ("text", "tag", "_vecsieve")
VARCHAR, JSON, FLOAT = 21, 23, 101


def schema(*, is_dynamic: bool = True, note: int = 0, shows_all: bool = False) -> Schema:
    return Schema(
        vectors=frozenset({"vec"}),
        scalars=frozenset({"id", "text", *(["_vecsieve"] if note else [])}),
        documents=frozenset(["_vecsieve"] if note == JSON else []),
        is_dynamic=is_dynamic,
        shows_all=shows_all,
        primary="id",
    )


def column(name: str, kind: int, valid: list[bool] | None = None, **content: Any) -> dict[str, Any]:
    return {"field_name": name, "type": kind, "valid_data": valid or [], **content}


PAIR = pack("<If", 7, 0.5)


def read(kind: str, body: bytes) -> Any:
    made = message_type(kind)()
    made.ParseFromString(body)
    return made


def numbers(name: str, *values: int) -> dict[str, Any]:
    return column(name, 5, scalars={"long_data": {"data": values}})


def texts(name: str, *values: str, kind: int = VARCHAR) -> dict[str, Any]:
    return column(name, kind, scalars={"string_data": {"data": values}})


def documents(name: str, *values: Any, valid: list[bool] | None = None, **more: Any) -> dict[str, Any]:
    data = [json.dumps(one).encode() for one in values]
    return column(name, JSON, valid, scalars={"json_data": {"data": data}}, **more)


def dynamic(*values: Any) -> dict[str, Any]:
    return documents("$meta", *values, is_dynamic=True)


def floats(name: str, *vectors: list[float], kind: int = FLOAT) -> dict[str, Any]:
    flat = [number for one in vectors for number in one]
    return column(name, kind, vectors={"dim": len(vectors[0]), "float_vector": {"data": flat}})


ID, VEC, TEXT = numbers("id", 1, -2), floats("vec", [1, 0.5], [3, 4]), texts("text", "größe", "b")
META = dynamic({"tag": "t"}, {})


def written(*columns: dict[str, Any], rows: int = 2, **more: Any) -> bytes:
    made = message_type("WriteRequest")(collection_name="docs", fields_data=columns, num_rows=rows, **more)
    return bytes(made.SerializeToString())


def parsed(
    message: bytes,
    known: Schema | None = None,
    *,
    notes: bool = False,
    write: Operation = INSERT,
    vector_name: str | None = None,
) -> NewPoints:
    needs = WriteNeeds(vector_name=vector_name, keys=KEYS, most=9, known=known or schema(), notes=notes)
    return WRITES.parse(write, message, needs)


@pytest.mark.parametrize(
    ("method", "name"), [("Insert", "insert"), ("Upsert", "upsert"), ("Delete", None), ("Search", None)]
)
def test_a_write_is_told_by_its_method_and_its_message(method: str, name: str | None) -> None:
    operation = WRITES.classify(
        RequestHead(method="POST", path=SERVICE + method, message=written(ID, VEC), database="own")
    )
    assert (None if operation is None else (operation.name, operation.collection)) == (name and (name, "own/docs"))


def test_rows_are_read_with_ids_vectors_and_wanted_keys() -> None:
    points = parsed(written(ID, VEC, TEXT, META, schema_timestamp=5))
    assert points.ids == (b"1", b"-2")
    assert points.vectors.tolist() == [[1.0, 0.5], [3.0, 4.0]]
    assert [[None if cell is None else json.loads(cell) for cell in row] for row in points.fields] == [
        ["größe", "t", None],
        ["b", None, None],
    ]
    assert parsed(written(texts("id", "é", "b"), VEC)).ids == ('"é"'.encode(), b'"b"')


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (written(ID, VEC, namespace="n"), Reason.UNSUPPORTED_FIELD),
        (written(ID, VEC, rows=0), Reason.NOTHING_TO_DO),
        (written(ID, VEC, rows=10), Reason.TOO_MANY_PARTS),
        (written(ID, VEC, rows=3), Reason.UNSUPPORTED_FIELD),
        (written(ID, TEXT), Reason.NOTHING_TO_DO),
        (written(ID, VEC, VEC), Reason.AMBIGUOUS_FIELD),
        (written(ID, VEC, floats("more", [1], [2])), Reason.AMBIGUOUS_FIELD),
        (b"\x2a", Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_read(message: bytes, reason: Reason) -> None:
    assert reason_of(parsed, message) is reason


def test_upserts_of_some_fields_alone_and_unknown_collections_are_not_read() -> None:
    assert reason_of(parsed, written(ID, VEC, partial_update=True), write=UPSERT) is Reason.NOTHING_TO_DO
    assert parsed(written(ID, VEC), write=UPSERT).ids == (b"1", b"-2")
    for known in (None, Schema(vectors=frozenset({"vec"}), scalars=frozenset())):
        with pytest.raises(UnsupportedError):
            WRITES.parse(INSERT, written(ID, VEC), WriteNeeds(vector_name=None, keys=KEYS, most=9, known=known))


def test_rows_without_ids_are_told_apart_by_their_place_where_they_are_not_stored_yet() -> None:
    assert parsed(written(VEC), notes=True).ids == (b'"#0"', b'"#1"')


@pytest.mark.parametrize("shows_all", [False, True])
def test_all_rows_of_a_tenant_are_asked_for_in_one_search(shows_all: bool) -> None:
    message = written(
        numbers("id", 1, 2, 3), floats("vec", [1.5, 2], [3, 4], [5, 6]), rows=3, db_name="d", partition_name="p"
    )
    points = parsed(message, schema(shows_all=shows_all))
    tenants = ((("t", '"ü"'.encode()), ("u", b"true")), (("t", b"-7"),), (("t", '"ü"'.encode()), ("u", b"true")))
    questions = WRITES.ask(INSERT, points, Inquiry(which=(0, 1, 2), tenants=tenants, count=5, vectors=True))
    assert {question.target for question in questions} == {SERVICE + "Search"}
    one, other = [message_type("SearchRequest").FromString(question.body) for question in questions]
    assert (one.dsl, other.dsl) == ('t == "ü" and u == true', "t == -7")
    for search, rows in ((one, [[1.5, 2.0], [5.0, 6.0]]), (other, [[3.0, 4.0]])):
        assert (search.db_name, search.collection_name, list(search.partition_names)) == ("d", "docs", ["p"])
        assert (search.nq, search.dsl_type, search.use_default_consistency) == (len(rows), 1, True)
        assert list(search.output_fields) == ([] if shows_all else ["vec", "text", "tag", "_vecsieve"])
        pairs = {param.key: param.value for param in search.search_params}
        assert pairs == {"anns_field": "vec", "topk": "5", "params": "{}", "round_decimal": "-1"}
        (group,) = message_type("PlaceholderGroup").FromString(search.placeholder_group).placeholders
        assert (group.tag, group.type) == ("$0", FLOAT)
        assert [np.frombuffer(value, "<f4").tolist() for value in group.values] == rows


@pytest.mark.parametrize(("key", "value"), [("t", b'"\\""'), ("t", b'"a\\\\"'), ("a b", b"1"), ("t", b'"\\n"')])
def test_a_tenant_without_a_sure_spelling_is_not_asked_for(key: str, value: bytes) -> None:
    inquiry = Inquiry(which=(0,), tenants=(((key, value),),), count=5, vectors=False)
    with pytest.raises(UnsupportedError):
        WRITES.ask(INSERT, parsed(written(ID, VEC)), inquiry)


def reply(*counts: int, **more: Any) -> bytes:
    rows = sum(counts)
    results = {
        "num_queries": len(counts), "topks": counts, "top_k": max(counts), "scores": [1 - row / 4 for row in range(rows)],
        "ids": {"int_id": {"data": [10 + row for row in range(rows)]}},
        "fields_data": [
            texts("text", *[f"t{row}" for row in range(rows)]),
            floats("vec", *[[float(row), 1.0] for row in range(rows)]),
            dynamic(*[{"_vecsieve": {"tier": "exact"}} if row else {} for row in range(rows)]),
        ] if rows else [],
    }  # fmt: skip
    return bytes(message_type("SearchResults")(results=results, **more).SerializeToString())


def test_neighbours_are_read_with_ids_scores_vectors_and_wanted_keys() -> None:
    points = parsed(written(ID, VEC))
    inquiry = Inquiry(which=(0, 1), tenants=((), ()), count=2, vectors=True)
    near = WRITES.neighbours(points, inquiry, [reply(2, 1)])
    assert (near.of.tolist(), near.ids, near.scores.tolist()) == ([0, 0, 1], (b"10", b"11", b"12"), [1.0, 0.75, 0.5])
    assert near.vectors.tolist() == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    assert near.fields[:2] == ((b'"t0"', None, None), (b'"t1"', None, b'{"tier": "exact"}'))
    apart = Inquiry(which=(0, 1), tenants=((("t", b"1"),), (("t", b"2"),)), count=2, vectors=True)
    assert WRITES.neighbours(points, apart, [reply(0), reply(1)]).of.tolist() == [1]
    for damaged in (b"", reply(1), reply(2, 1)[:-3]):
        with pytest.raises(MalformedReplyError):
            WRITES.neighbours(points, inquiry, [damaged])
    with pytest.raises(DeclinedError):
        WRITES.neighbours(points, inquiry, [reply(1, 1, status={"code": 65535, "reason": "no"})])


@pytest.mark.parametrize(
    ("metric", "field", "expected"), [("COSINE", "vec", True), ("L2", "vec", False), ("COSINE", "other", False)]
)
def test_the_metric_is_that_of_the_index(metric: str, field: str, expected: bool) -> None:
    index = {
        "field_name": field,
        "params": [{"key": "index_type", "value": "FLAT"}, {"key": "metric_type", "value": metric}],
    }
    body = message_type("DescribeIndexResponse")(index_descriptions=[index]).SerializeToString()
    assert WRITES.is_cosine(body, "vec") is expected
    question = WRITES.ask_metric(INSERT, written(ID, VEC, db_name="d"))
    assert question.target == SERVICE + "DescribeIndex"
    request = message_type("DescribeCollectionRequest").FromString(question.body)
    assert (request.db_name, request.collection_name) == ("d", "docs")


def annotated(message: bytes, known: Schema | None = None) -> Any:
    points = parsed(message, known, notes=True)
    return message_type("WriteRequest").FromString(WRITES.annotated(points, {1: NOTE}))


def test_where_no_dynamic_field_came_it_is_added() -> None:
    message = written(ID, VEC, TEXT)
    changed = annotated(message)
    added = changed.fields_data.pop()
    assert (added.field_name, added.type, added.is_dynamic) == ("$meta", JSON, True)
    assert list(added.scalars.json_data.data) == [b"{}", b'{"_vecsieve":%s}' % NOTE]
    assert changed == message_type("WriteRequest").FromString(message)


@pytest.mark.parametrize(
    ("valid", "data", "expected"),
    [
        (None, [{}, {}], [b"{}", NOTE]),
        ([True, False], [{}], [b"{}", NOTE]),
        ([False, False], [], [NOTE]),
        ([False, False], [None, None], [b"null", NOTE]),
    ],
)
def test_a_json_field_of_its_name_takes_the_note(
    valid: list[bool] | None, data: list[Any], expected: list[bytes]
) -> None:
    field = documents("_vecsieve", *data, valid=valid)
    changed = annotated(written(ID, VEC, field, TEXT), schema(is_dynamic=False, note=JSON)).fields_data[2]
    assert list(changed.scalars.json_data.data) == expected
    assert list(changed.valid_data) == ([] if valid is None else [valid[0], True])


@pytest.mark.parametrize(
    ("known", "columns"),
    [
        (schema(is_dynamic=False), ()),
        (schema(is_dynamic=False, note=JSON), ()),
        (schema(note=VARCHAR), (texts("_vecsieve", "a", "b"),)),
        (schema(), (documents("$meta", {}, valid=[True, False], is_dynamic=True),)),
    ],
)
def test_a_write_without_a_place_for_notes_is_unsupported_where_they_may_come(
    known: Schema, columns: tuple[dict[str, Any], ...]
) -> None:
    message = written(ID, VEC, *columns)
    assert reason_of(parsed, message, known, notes=True) is Reason.PAYLOAD_SELECTOR
    assert parsed(message, known).ids == (b"1", b"-2")


def test_a_dynamic_field_that_is_no_object_gets_no_note() -> None:
    points = parsed(written(ID, VEC, dynamic({}, [])), notes=True)
    with pytest.raises(UnsupportedError):
        WRITES.annotated(points, {1: NOTE})


HALF = column("half", 102, vectors={"dim": 2, "float16_vector": b"abcdefghijkl"})
SPARSE = column("sparse", 104, vectors={"sparse_float_vector": {"contents": [PAIR, b"", PAIR], "dim": 9}})
LISTS = column(
    "list", 22,
    scalars={"array_data": {"data": [{"long_data": {"data": [1, -2]}}, {"string_data": {"data": ["ü"]}}, {}], "element_type": 5}},
)  # fmt: skip
LISTS_OF_TWO = column(
    "part", 22, scalars={"array_data": {"data": [{"long_data": {"data": [1, 2]}}, {"long_data": {"data": [3]}}]}}
)
NULLS = column("null", 5, [True, False, True], scalars={"long_data": {"data": [5, 6]}})
THREE = (
    numbers("id", 1, -2, 300),
    floats("vec", [1, 0.1], [3, 4], [5, 6]),
    texts("text", "größe", "", "c"),
    dynamic({"tag": "t"}, {}, {"n": [1, 0.1]}),
    HALF,
    SPARSE,
    LISTS,
    NULLS,
)
ALONE: tuple[dict[str, Any], ...] = (
    {"id": 1, "vec": [1.0, 0.1], "text": "größe", "tag": "t", "half": "YWJjZA==", "sparse": {"7": 0.5}, "list": [1, -2], "null": 5},
    {"id": -2, "vec": [3.0, 4.0], "text": "", "half": "ZWZnaA==", "sparse": {}, "list": ["ü"], "null": None},
    {"id": 300, "vec": [5.0, 6.0], "text": "c", "n": [1, 0.1], "half": "aWprbA==", "sparse": {"7": 0.5}, "list": [], "null": 6},
)  # fmt: skip


@given(rows=st.sets(st.integers(0, 2), min_size=1, max_size=2), order=st.permutations(THREE))
def test_each_row_is_sent_or_written_down(rows: set[int], order: list[dict[str, Any]]) -> None:
    """Invariant: what stays is the same columns with fewer rows, as protobuf's own library reads them; a row alone has all that it came with."""
    points = parsed(written(*order, rows=3, partition_name="p", schema_timestamp=7), vector_name="vec")
    left = read("WriteRequest", WRITES.without(points, rows))
    kept = [row for row in range(3) if row not in rows]
    assert (left.num_rows, left.partition_name, left.schema_timestamp) == (len(kept), "p", 7)
    again = parsed(WRITES.without(points, rows), vector_name="vec")
    assert [json.loads(WRITES.point(again, place)) for place in range(len(kept))] == [ALONE[row] for row in kept]
    assert [json.loads(WRITES.point(points, row)) for row in range(3)] == list(ALONE)
    assert again.ids == tuple([points.ids[row] for row in kept])
    assert (points.has_ids, WRITES.partition(points), WRITES.collection(INSERT, points)) == (
        True,
        b'"p"',
        "default/docs",
    )


def test_a_write_that_cannot_be_divided_or_written_down_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        WRITES.without(parsed(written(ID, VEC, hash_keys=[1, 2])), {0})
    places = column("place", 24, scalars={"geometry_data": {"data": [b"a", b"b"]}})
    with pytest.raises(UnsupportedError):
        WRITES.point(parsed(written(ID, VEC, places)), 0)
    with pytest.raises(UnsupportedError):
        WRITES.point(parsed(written(ID, floats("vec", [float("nan"), 1], [1, 2]))), 0)
    parts = column("parts", 200, struct_arrays={"fields": [LISTS_OF_TWO]})
    with pytest.raises(UnsupportedError):
        WRITES.point(parsed(written(ID, VEC, parts)), 0)
    (left,) = read("WriteRequest", WRITES.without(parsed(written(ID, VEC, parts)), {0})).fields_data[2:]
    assert [list(element.long_data.data) for element in left.struct_arrays.fields[0].scalars.array_data.data] == [[3]]
    nulls = [{"long_data": {"data": [1]}, "valid_data": [False]}, {}]
    with pytest.raises(UnsupportedError):
        WRITES.point(parsed(written(ID, VEC, column("nulls", 22, scalars={"array_data": {"data": nulls}}))), 0)


def test_which_rows_are_stored_is_asked_in_all_partitions_with_strong_consistency() -> None:
    points = parsed(written(ID, VEC, partition_name="p"))
    (question,) = WRITES.ask_stored(INSERT, points, [b"1", b"-2"], whole=False)
    message = read("QueryRequest", question.body)
    assert (question.target, message.collection_name, message.expr) == (SERVICE + "Query", "docs", "id in [1, -2]")
    assert (list(message.output_fields), list(message.partition_names), message.use_default_consistency) == (
        ["id"],
        [],
        False,
    )
    results = message_type("QueryResults")(status={"reason": ""}, fields_data=[numbers("id", -2), texts("text", "b")])
    assert dict(WRITES.stored(points, results.SerializeToString())) == {b"-2": b'{"id":-2,"text":"b"}'}
    assert not WRITES.stored(points, message_type("QueryResults")().SerializeToString())
    with pytest.raises(DeclinedError):
        WRITES.stored(points, message_type("QueryResults")(status={"code": 5, "reason": "no"}).SerializeToString())
    texted = replace(schema(), has_texts=True)
    with pytest.raises(UnsupportedError):
        WRITES.ask_stored(INSERT, parsed(written(texts("id", "a", "b"), VEC), texted), [b'"a\\"b"'], whole=False)


def test_the_answer_has_the_databases_counts_and_the_clients_places() -> None:
    points = parsed(written(*THREE, rows=3), vector_name="vec")
    ids = {"int_id": {"data": [1, 300]}}
    body = message_type("MutationResult")(IDs=ids, succ_index=[0, 1], insert_cnt=2, timestamp=9).SerializeToString()
    receipt = WRITES.receipt(INSERT, points, {1: 0}, body)
    answer = read("MutationResult", receipt.body)
    assert (list(answer.succ_index), list(answer.IDs.int_id.data), answer.insert_cnt, answer.timestamp) == (
        [0, 2],
        [1, 300],
        2,
        9,
    )
    assert not receipt.refused
    assert not receipt.failed
    some = message_type("MutationResult")(succ_index=[0], err_index=[1]).SerializeToString()
    assert WRITES.receipt(INSERT, points, {1: 0}, some).failed == {2}
    with pytest.raises(DeclinedError):
        WRITES.receipt(INSERT, points, {1: 0}, message_type("MutationResult")(status={"code": 1}).SerializeToString())
    with pytest.raises(MalformedReplyError):
        WRITES.receipt(INSERT, points, {1: 0}, message_type("MutationResult")(succ_index=[2]).SerializeToString())


@pytest.mark.parametrize(("has_texts", "kind"), [(False, "int_id"), (True, "str_id")])
def test_a_write_of_which_nothing_is_left_stored_none(has_texts: bool, kind: str) -> None:
    key = texts("id", "a", "b") if has_texts else ID
    answer = WRITES.acknowledged(INSERT, parsed(written(key, VEC), replace(schema(), has_texts=has_texts)), "")
    result = read("MutationResult", answer.body)
    assert (answer.status, result.insert_cnt, result.HasField("status"), result.IDs.HasField(kind)) == (
        0,
        0,
        True,
        True,
    )


def test_rows_are_read_whole_as_clients_write_them() -> None:
    points = parsed(written(ID, VEC, partition_name="p"))
    (question,) = WRITES.ask_stored(INSERT, points, [b"1"], whole=True)
    assert list(read("QueryRequest", question.body).output_fields) == ["*"]
    results = message_type("QueryResults")(fields_data=THREE).SerializeToString()
    stored = {key: json.loads(row) for key, row in WRITES.stored(points, results).items()}
    assert stored == {b"%d" % document["id"]: document for document in ALONE}
    makes_ids = parsed(written(ID, VEC), replace(schema(), is_restorable=False))
    assert WRITES.ask_stored(INSERT, makes_ids, [b"1"], whole=True)
    assert (WRITES.restores(points), WRITES.restores(makes_ids)) == (True, False)


def test_stored_rows_are_deleted_by_their_ids_in_the_writes_partition() -> None:
    points = parsed(written(ID, VEC, partition_name="p", db_name="d"))
    (question,) = WRITES.ask_removed(INSERT, points, {b"1": b"{}", b"-2": b"{}"})
    message = read("DeleteRequest", question.body)
    assert question.target == SERVICE + "Delete"
    assert (message.db_name, message.collection_name, message.partition_name, message.expr) == (
        "d",
        "docs",
        "p",
        "id in [1, -2]",
    )
    (bare,) = WRITES.ask_removed(INSERT, parsed(written(ID, VEC)), {b"1": b"{}"})
    assert read("DeleteRequest", bare.body).partition_name == ""
    assert WRITES.waits(points, "")


def test_a_refused_deletion_is_told() -> None:
    WRITES.removed(message_type("MutationResult")(delete_cnt=1).SerializeToString())
    with pytest.raises(DeclinedError):
        WRITES.removed(message_type("MutationResult")(status={"code": 1}).SerializeToString())
    with pytest.raises(MalformedReplyError):
        WRITES.removed(b"\xff")

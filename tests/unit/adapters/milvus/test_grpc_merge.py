"""Rows with other values than their client sent, over gRPC, against protobuf's own library."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.milvus.messages import message_type
from vecsieve.adapters.contract import Operation, UnsupportedError
from vecsieve.adapters.milvus.fields import (
    ARRAY,
    BOOL,
    DOUBLE,
    FLOAT,
    INT8,
    INT64,
    JSON,
    VARCHAR,
    FieldType,
)
from vecsieve.adapters.milvus.grpc_write import MilvusGrpcWrites
from vecsieve.adapters.milvus.search import Schema
from vecsieve.adapters.writes import NewPoints, WriteNeeds

WRITES = MilvusGrpcWrites()
UPSERT = Operation(backend="milvus", name="upsert", collection="default/docs")
TYPES = {
    "id": FieldType(kind=INT64),
    "vec": FieldType(kind=101),
    "half": FieldType(kind=102),
    "bits": FieldType(kind=100),
    "sparse": FieldType(kind=104),
    "text": FieldType(kind=VARCHAR, most_bytes=9),
    "is": FieldType(kind=BOOL),
    "i": FieldType(kind=INT8, is_nullable=True),
    "f": FieldType(kind=FLOAT, is_nullable=True),
    "d": FieldType(kind=DOUBLE),
    "own": FieldType(kind=JSON, is_nullable=True),
    "tags": FieldType(kind=ARRAY, element=VARCHAR, most_elements=3),
    "counts": FieldType(kind=ARRAY, element=INT64, is_nullable=True),
    "absent": FieldType(kind=INT64, is_nullable=True),
}
SCHEMA = Schema(
    vectors=frozenset({"vec", "half"}),
    scalars=frozenset(name for name, kind in TYPES.items() if not kind.is_vector),
    is_dynamic=True,
    primary="id",
    fields=TYPES,
)
PAIR = pack("<If", 7, 0.5)


def column(name: str, valid: list[bool] | None = None, **content: Any) -> dict[str, Any]:
    return {
        "field_name": name,
        "type": TYPES[name].kind,
        "field_id": 100 + len(name),
        "valid_data": valid or [],
        **content,
    }


COLUMNS = {
    "id": column("id", scalars={"long_data": {"data": [1, 2, 3]}}),
    "vec": column("vec", vectors={"dim": 2, "float_vector": {"data": [1, 0.1, 3, 4, 5, 6]}}),
    "half": column("half", vectors={"dim": 1, "float16_vector": b"abcdef"}),
    "bits": column("bits", vectors={"dim": 8, "binary_vector": b"abc"}),
    "sparse": column("sparse", vectors={"dim": 9, "sparse_float_vector": {"contents": [PAIR, b"", PAIR], "dim": 8}}),
    "text": column("text", scalars={"string_data": {"data": ["größe", "b", "c"]}}),
    "is": column("is", scalars={"bool_data": {"data": [True, False, True]}}),
    "i": column("i", [True, False, True], scalars={"int_data": {"data": [5, -6]}}),
    "f": column("f", [False, False, False], scalars={"float_data": {"data": []}}),
    "d": column("d", scalars={"double_data": {"data": [0.1, 2, 3]}}),
    "own": column("own", [True, True, False], scalars={"json_data": {"data": [b'{"a" : 1}', b"[]", b"null"]}}),
    "tags": column(
        "tags", scalars={"array_data": {"data": [{"string_data": {"data": ["x"]}}, {"string_data": {}}, {"string_data": {"data": ["y"]}}], "element_type": 21}}
    ),
    "counts": column("counts", scalars={"array_data": {"data": [{"long_data": {"data": [1, -2]}}, {}, {}], "element_type": 5}}),
}  # fmt: skip
META = {
    "field_name": "$meta", "type": JSON, "is_dynamic": True,
    "scalars": {"json_data": {"data": [b'{"tag" : "t"}', b"{}", b'{"n":1}']}},
}  # fmt: skip


def written(*, has_keys: bool = True, **more: Any) -> bytes:
    columns = [*COLUMNS.values(), *([META] if has_keys else [])]
    made = message_type("WriteRequest")(
        collection_name="docs", fields_data=columns, num_rows=3, partition_name="p", schema_timestamp=7, **more
    )
    return bytes(made.SerializeToString())


def parsed(message: bytes, known: Schema = SCHEMA) -> NewPoints:
    return WRITES.parse(UPSERT, message, WriteNeeds(vector_name="vec", keys=("text",), most=9, known=known))


def alone(points: NewPoints, row: int) -> dict[str, Any]:
    point: dict[str, Any] = json.loads(WRITES.point(points, row))
    return point


def merged_write(points: NewPoints, rows: set[int], put: dict[int, dict[str, Any]]) -> tuple[NewPoints, Any]:
    """The merged write, read again, and as protobuf reads it."""
    message = WRITES.merged(UPSERT, points, rows, {row: json.dumps(values).encode() for row, values in put.items()})
    made = message_type("WriteRequest").FromString(message)
    return parsed(message), made


OTHERS: dict[str, list[Any]] = {
    "vec": [[0.5, -1.0]],
    "half": [b64encode(b"zz").decode()],
    "bits": [b64encode(b"z").decode()],
    "sparse": [{"1": 0.25, "11": 2.0}, {}],
    "text": ["", "ü", "123456789"],
    "is": [True, False],
    "i": [127, -128, None],
    "f": [1.5, -0.25, None],
    "d": [1e300, -0.5],
    "own": [{"b": [1, None, "ü"]}, [], "a", None],
    "tags": [[], ["x", "y", "z"]],
    "counts": [[], [2**63 - 1, -(2**63)], None],
    "tag": ["u", 5, None],
    "new": [{"a": [1]}, 2**60],
}


@given(
    cells=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(sorted(OTHERS)), st.integers(0, 9)), max_size=8),
    rows=st.sets(st.integers(0, 2), max_size=2),
    has_keys=st.booleans(),
)
def test_a_row_is_sent_with_its_other_values_and_all_others_as_they_came(
    cells: list[tuple[int, str, int]], rows: set[int], has_keys: bool
) -> None:
    """Invariant: what is read again is what was put; the other rows, and the columns that did not change, are the client's."""
    points = parsed(written(has_keys=has_keys))
    put: dict[int, dict[str, Any]] = {}
    for row, name, which in cells:
        if row not in rows:
            put.setdefault(row, alone(points, row))[name] = OTHERS[name][which % len(OTHERS[name])]
    assert all(WRITES.holds(points, row, json.dumps(values).encode()) for row, values in put.items())
    again, made = merged_write(points, rows, put)
    kept = [row for row in range(3) if row not in rows]
    assert [alone(again, place) for place in range(len(kept))] == [put.get(row) or alone(points, row) for row in kept]
    assert (made.num_rows, made.partition_name, made.schema_timestamp) == (len(kept), "p", 7)
    changed = {name for _, name, _ in cells}
    cut = parsed(WRITES.without(points, rows)) if rows else points
    data = cut.document.data  # type: ignore[attr-defined]  # - the adapter's own
    before = {field.field_name: field for field in message_type("WriteRequest").FromString(data).fields_data}
    for field in made.fields_data:
        if field.field_name in before and field.field_name not in changed and not field.is_dynamic:
            assert field == before[field.field_name]


def test_columns_keep_their_names_numbers_and_types() -> None:
    points = parsed(written())
    put = {**alone(points, 1), **{name: other[0] for name, other in OTHERS.items()}}
    _, made = merged_write(points, set(), {1: put})
    named = {field.field_name: (field.type, field.field_id, field.is_dynamic) for field in made.fields_data}
    expected = {name: (TYPES[name].kind, 100 + len(name), False) for name in COLUMNS}
    assert named == {**expected, "$meta": (JSON, 0, True)}
    by_name = {field.field_name: field for field in made.fields_data}
    assert by_name["tags"].scalars.array_data.element_type == VARCHAR
    assert (by_name["vec"].vectors.dim, by_name["sparse"].vectors.sparse_float_vector.dim) == (2, 12)
    assert list(by_name["f"].valid_data) == [False, True, False]


def test_a_column_gets_its_first_null_where_its_field_may_have_one() -> None:
    points = parsed(written())
    _, made = merged_write(points, set(), {0: {**alone(points, 0), "counts": None}})
    (counts,) = [field for field in made.fields_data if field.field_name == "counts"]
    assert (list(counts.valid_data), len(counts.scalars.array_data.data)) == ([False, True, True], 2)


def test_a_column_for_keys_is_made_where_none_came() -> None:
    points = parsed(written(has_keys=False))
    _, made = merged_write(points, {2}, {1: {**alone(points, 1), "tag": "ü"}})
    (added,) = [field for field in made.fields_data if field.is_dynamic]
    assert (added.field_name, added.type) == ("$meta", JSON)
    assert list(added.scalars.json_data.data) == [b"{}", '{"tag":"ü"}'.encode()]


@pytest.mark.parametrize(
    "more",
    [
        {"text": "1234567890"},
        {"text": None},
        {"is": 1},
        {"i": 128},
        {"f": 1e39},
        {"tags": ["a", "b", "c", "d"]},
        {"tags": [5]},
        {"absent": 5},
        {"$meta": 1},
        {"tag": "\ud800"},
        {"vec": [1.0]},
        {"vec": None},
        {"half": "a"},
        {"sparse": {"x": 1}},
    ],
    ids=str,
)
def test_what_a_field_or_a_column_cannot_hold_is_not_sent(more: dict[str, Any]) -> None:
    points = parsed(written())
    point = {name: value for name, value in {**alone(points, 0), **more}.items() if value is not None}
    assert not WRITES.holds(points, 0, json.dumps(point).encode())


def test_a_write_that_cannot_be_divided_is_unsupported() -> None:
    points = parsed(written(hash_keys=[1, 2, 3]))
    with pytest.raises(UnsupportedError):
        WRITES.merged(UPSERT, points, (), {0: WRITES.point(points, 0)})
    other = parsed(written())
    with pytest.raises(UnsupportedError):
        WRITES.merged(UPSERT, other, (), {0: json.dumps({**alone(other, 0), "text": 5}).encode()})


def test_a_collection_without_keys_has_no_place_for_others() -> None:
    points = parsed(written(has_keys=False), replace(SCHEMA, is_dynamic=False))
    assert not WRITES.holds(points, 0, json.dumps({**alone(points, 0), "tag": 1}).encode())
    assert WRITES.holds(points, 0, json.dumps({**alone(points, 0), "text": "b"}).encode())


def test_a_column_that_is_not_of_its_fields_type_is_not_written_anew() -> None:
    points = parsed(written(), replace(SCHEMA, fields={**TYPES, "i": FieldType(kind=INT64, is_nullable=True)}))
    assert not WRITES.holds(points, 0, json.dumps({**alone(points, 0), "i": 7}).encode())

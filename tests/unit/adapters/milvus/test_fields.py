"""The types of fields: what each holds, how values are compared, what is read of descriptions."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.milvus.messages import message_type
from vecsieve.adapters.milvus.fields import (
    ARRAY,
    BOOL,
    DOUBLE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    VARCHAR,
    FieldType,
    RestField,
    Row,
    can_hold,
    differing,
    is_exact,
    type_of,
)
from vecsieve.adapters.milvus.grpc_description import read_description
from vecsieve.adapters.milvus.search import read_rest_description

VALUE_CASES: list[tuple[FieldType, list[Any], list[Any]]] = [
    (FieldType(kind=BOOL), [True, False], [1, "true", None]),
    (FieldType(kind=INT8), [127, -128], [128, -129, 1.0, True, "1"]),
    (FieldType(kind=INT16), [2**15 - 1], [2**15]),
    (FieldType(kind=INT32), [2**31 - 1], [2**31]),
    (FieldType(kind=INT64), [2**63 - 1, -(2**63)], [2**63, None]),
    (FieldType(kind=FLOAT), [0, 1.5, 3e38], [1e39, math.inf, math.nan, "1", True]),
    (FieldType(kind=DOUBLE), [1e300, 5], [math.inf, 10**400, [1]]),
    (FieldType(kind=VARCHAR, most_bytes=4), ["", "über"[:3], "abcd"], ["abcde", "üüü", 5, "\ud800"]),
    (FieldType(kind=JSON), [{"a": [1, None]}, [], "a", 5, True], [math.nan, {"a": "\ud800"}, "a" * 70_000, None]),
    (FieldType(kind=ARRAY, element=INT8, most_elements=2), [[], [1, 2]], [[1, 2, 3], [128], [None], 1, {"a": 1}]),
    (FieldType(kind=ARRAY, element=VARCHAR, most_bytes=2), [["ab", ""]], [["abc"], [1]]),
    (FieldType(kind=0), [], [1, "a", True, None]),
    (FieldType(kind=101), [], [[1.0], "YQ=="]),
    (FieldType(kind=INT8, is_nullable=True), [None, 5], ["5"]),
    (FieldType(kind=INT8, is_nullable=True, has_default=True), [5], [None]),
]


@pytest.mark.parametrize("case", VALUE_CASES, ids=str)
def test_a_field_holds_values_of_its_type(case: tuple[FieldType, list[Any], list[Any]]) -> None:
    kind, good, bad = case
    assert [kind.holds(value) for value in good] == [True] * len(good)
    assert [kind.holds(value) for value in bad] == [False] * len(bad)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (FieldType(kind=INT64), "-5", -5),
        (FieldType(kind=INT64), "a", "a"),
        (FieldType(kind=VARCHAR), "5", "5"),
        (FieldType(kind=FLOAT), 0.1, 0.10000000149011612),
        (FieldType(kind=FLOAT), 1e39, 1e39),
        (FieldType(kind=DOUBLE), 0.1, 0.1),
        (FieldType(kind=ARRAY, element=FLOAT), [0.1, 2], [0.10000000149011612, 2.0]),
        (FieldType(kind=ARRAY, element=INT8), ["7"], [7]),
        (FieldType(kind=ARRAY, element=INT8), None, None),
    ],
)
def test_values_have_one_spelling(kind: FieldType, value: object, expected: object) -> None:
    assert kind.plain(value) == expected


TYPES = {
    "id": FieldType(kind=INT64),
    "vec": FieldType(kind=101),
    "bits": FieldType(kind=100),
    "text": FieldType(kind=VARCHAR),
    "n": FieldType(kind=INT64, is_nullable=True),
}
FORM = Row(key="id", types=TYPES)


def test_a_payload_is_a_row_without_its_id_its_vectors_and_its_nulls() -> None:
    row = {"id": 1, "vec": [1], "bits": "YQ==", "text": "a", "n": None, "tag": None, "more": "5"}
    assert FORM.payload_of(row) == {"text": "a", "tag": None, "more": "5"}
    assert FORM.payload_of({**row, "n": "5"})["n"] == 5
    assert FORM.same(row, {"text": "a", "id": 9, "tag": None, "more": "5"})
    assert not FORM.same(row, {"text": "a", "tag": None})


def test_a_merged_row_has_its_own_id_and_the_vectors_of_one() -> None:
    coming, stored = (
        {"id": 1, "vec": [1], "bits": "YQ==", "text": "a"},
        {"id": 2, "vec": [2], "bits": "Yg==", "text": "b"},
    )
    made = FORM.given(coming, {"text": "b", "n": None, "id": 7, "vec": [7], "tag": "t"}, stored)
    assert made == {"id": 1, "vec": [2], "bits": "Yg==", "text": "b", "tag": "t"}


@pytest.mark.parametrize(
    ("stored", "new", "is_dynamic", "expected"),
    [
        ({"text": "a"}, {"text": "b"}, False, True),
        ({"text": "a"}, {"text": 5}, False, False),
        ({"text": 5}, {"text": 5}, False, True),
        ({"text": "a", "n": 1}, {"text": "a"}, False, True),
        ({"text": "a"}, {}, False, False),
        ({"text": "a"}, {"text": "a", "tag": 1}, False, False),
        ({"text": "a"}, {"text": "a", "tag": 1}, True, True),
        ({"tag": 1}, {}, True, True),
        ({"tag": 1}, {}, False, False),
        ({}, {"$meta": 1}, True, False),
        ({}, {"tag": "a" * 70_000}, True, False),
        ({"tag": "a" * 70_000, "text": "a"}, {"tag": "a" * 70_000, "text": "b"}, True, True),
    ],
)
def test_a_collection_holds_what_its_fields_hold_and_keys_where_it_is_dynamic(
    stored: dict[str, object], new: dict[str, object], is_dynamic: bool, expected: bool
) -> None:
    assert can_hold(TYPES, stored, new, is_dynamic=is_dynamic) is expected


def test_values_of_other_types_differ() -> None:
    assert differing({"a": 1, "b": True, "c": {"x": 1, "y": 2}}, {"a": 1, "b": 1, "c": {"y": 2, "x": 1}, "d": 1}) == [
        "b",
        "d",
    ]


def test_a_description_has_types_and_limits() -> None:
    message = message_type("DescribeCollectionResponse")()
    add = message.schema.fields.add
    add(name="id", data_type=INT64, is_primary_key=True, autoID=True)
    add(name="text", data_type=VARCHAR, type_params=[{"key": "max_length", "value": "9"}], nullable=True)
    params = [
        {"key": "max_capacity", "value": "3"},
        {"key": "max_length", "value": "many"},
        {"key": "other", "value": "1"},
    ]
    add(name="tags", data_type=ARRAY, element_type=VARCHAR, type_params=params)
    add(name="n", data_type=INT8, default_value={})
    add(name="$meta", data_type=JSON)
    description = read_description(message.SerializeToString())
    assert description.fields == {
        "id": FieldType(kind=INT64),
        "text": FieldType(kind=VARCHAR, most_bytes=9, is_nullable=True),
        "tags": FieldType(kind=ARRAY, element=VARCHAR, most_elements=3),
        "n": FieldType(kind=INT8, has_default=True),
    }
    assert (description.primary, description.is_restorable) == ("id", False)


def test_a_description_over_rest_has_the_same_types_and_limits() -> None:
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "Int64", "primaryKey": True},
        {"name": "vec", "type": "FloatVector", "params": [{"key": "dim", "value": "8"}]},
        {"name": "text", "type": "VarChar", "params": [{"key": "max_length", "value": "9"}], "nullable": True},
        {"name": "old", "type": "VarChar(9)", "params": {"max_length": 9}},
        {"name": "tags", "type": "Array", "elementType": "VarChar", "defaultValue": {"Data": None}},
        {"name": "place", "type": "Geometry"},
    ]
    description = read_rest_description(json.dumps({"code": 0, "data": {"fields": fields}}).encode())
    assert description.fields == {
        "id": FieldType(kind=INT64),
        "vec": FieldType(kind=100),
        "text": FieldType(kind=VARCHAR, most_bytes=9, is_nullable=True),
        "old": FieldType(kind=VARCHAR),
        "tags": FieldType(kind=ARRAY, element=VARCHAR, has_default=True),
        "place": FieldType(kind=0),
    }
    assert type_of(RestField("f", "Float")).kind == FLOAT


def test_whole_numbers_are_exact_up_to_where_a_double_has_each() -> None:
    assert all(map(is_exact, (2**53, -(2**53), 0.1, 1e300, "a", None, True, {"a": [1, {"b": 2}]}, [])))
    assert not any(map(is_exact, (2**53 + 1, -(2**60), [2**60], {"a": [{"b": 2**60}]})))


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)
)


@given(kind=st.sampled_from([item for item, *_ in VALUE_CASES]), value=VALUES)
def test_the_spelling_of_a_value_is_held_as_the_value_is_and_is_its_own(kind: FieldType, value: Any) -> None:
    """Invariant: spelled twice is spelled once; a value that is held is held in its spelling."""
    once = kind.plain(value)
    assert json.dumps(kind.plain(once)) == json.dumps(once)
    assert not kind.holds(value) or kind.holds(once)

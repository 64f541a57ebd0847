from __future__ import annotations

import json
import math
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client.conversions.conversion import payload_to_grpc
from qdrant_client.grpc import ScoredPoint

from support.grpc.wire_fields import number_field
from vecsieve.adapters.qdrant.grpc_schema import MESSAGES
from vecsieve.adapters.qdrant.grpc_schema import VALUES as QDRANT
from vecsieve.adapters.wire.protobuf import FIXED64, encoded, length_field
from vecsieve.adapters.wire.schema import parsed
from vecsieve.adapters.wire.values import GOOGLE, RequestedKeys, Values, chosen_of

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SCHEMAS = pytest.mark.parametrize("schema", [QDRANT, GOOGLE], ids=["qdrant", "google"])


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        st.one_of(st.none(), st.booleans(), TEXTS, leaves),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
        max_leaves=8,
    )
    return st.dictionaries(TEXTS, values, max_size=4)


def qdrant_map(payload: dict[str, Any]) -> bytes:
    point = ScoredPoint(payload=payload_to_grpc(payload))
    data: bytes = point.SerializeToString()
    return data


def google_map(payload: dict[str, Any]) -> bytes:
    message = Struct()
    message.update(payload)
    return message.SerializeToString()


def texts(data: bytes, names: list[str], schema: Values) -> tuple[bytes | None, ...]:
    """Of a point, or of a Struct."""
    if schema is GOOGLE:
        return chosen_of([data], RequestedKeys(names))[0]
    return schema.chosen(parsed(MESSAGES["Point"], data).payload, RequestedKeys(names))


def as_json(data: bytes, schema: Values) -> bytes:
    return schema.json(parsed(schema._value, data))


@given(nested(st.one_of(INTEGERS, DOUBLES)))
def test_a_qdrant_payload_reads_as_it_was_stored(payload: dict[str, Any]) -> None:
    """Every key's JSON is the value the official client put there; integers and doubles stay apart."""
    names = [*payload, "no such key"]
    *spellings, absent = texts(qdrant_map(payload), names, QDRANT)
    assert absent is None
    assert [spelled(json.loads(raw or b"")) for raw in spellings] == [spelled(value) for value in payload.values()]


def spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@given(nested(DOUBLES))
def test_a_google_struct_reads_as_it_was_stored(payload: dict[str, Any]) -> None:
    """Every key's JSON is the value that protobuf's own library put there."""
    names = [*payload, "no such key"]
    *spellings, absent = texts(google_map(payload), names, GOOGLE)
    assert absent is None
    assert [json.loads(raw or b"") for raw in spellings] == list(payload.values())


@given(payload=nested(INTEGERS), seed=st.randoms(use_true_random=False))
def test_equal_values_have_equal_bytes_whatever_their_order(payload: dict[str, Any], seed: Any) -> None:
    """The order of a map's entries, which servers draw at random, does not show."""
    shuffled = list(payload.items())
    seed.shuffle(shuffled)
    around, other = {"a": payload}, {"a": dict(shuffled)}
    assert texts(qdrant_map(around), ["a"], QDRANT) == texts(qdrant_map(other), ["a"], QDRANT)


def test_whole_numbers_are_written_as_each_schema_means_them() -> None:
    double = encoded(2 << 3 | FIXED64) + bytes.fromhex("0000000000000840")
    assert as_json(double, QDRANT) == b"3.0"
    assert as_json(double, GOOGLE) == b"3"
    assert texts(google_map({"a": 1e300, "b": -0.5}), ["a", "b"], GOOGLE) == (b"1e+300", b"-0.5")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@SCHEMAS
def test_what_is_no_number_is_null_as_in_rest(number: float, schema: Values) -> None:
    assert schema.json(schema.entry("a", number).value) == b"null"


@SCHEMAS
def test_a_value_that_holds_nothing_is_null(schema: Values) -> None:
    assert as_json(b"", schema) == b"null"
    number = 1 if schema is GOOGLE else 2
    assert texts(length_field(number, length_field(1, b"a")), ["a"], schema) == (b"null",)


def test_of_a_repeated_key_the_last_one_counts() -> None:
    first, last = (length_field(1, b"a") + length_field(2, number_field(3, value)) for value in (1, 2))
    assert texts(length_field(2, first) + length_field(2, last), ["a"], QDRANT) == (b"2",)


def test_an_entry_with_its_value_first_is_read() -> None:
    value = number_field(3, 5)
    data = length_field(2, length_field(2, value) + length_field(1, b"a"))
    assert texts(data, ["a"], QDRANT) == (b"5",)


def test_a_key_of_more_than_127_bytes_is_read() -> None:
    assert texts(qdrant_map({"k" * 200: 1}), ["k" * 200], QDRANT) == (b"1",)


def test_the_empty_key_is_a_key() -> None:
    assert texts(length_field(2, length_field(2, number_field(3, 5))), [""], QDRANT) == (b"5",)
    assert texts(qdrant_map({"": 6}), [""], QDRANT) == (b"6",)


def test_a_key_that_is_no_text_is_nobodys() -> None:
    data = length_field(2, length_field(1, b"\xff") + length_field(2, number_field(3, 5)))
    assert texts(data, ["\udcff", "a"], QDRANT) == (None, None)


def deep(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        data = length_field(7, length_field(1, data))
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (number_field(9, 1), "known kinds"),
        (number_field(3, 1) + number_field(5, 1), "2 known kinds"),
        (number_field(4, 1), "known kinds"),
        (length_field(2, b"12345678"), "known kinds"),
        (length_field(4, b"\xff"), "utf-8"),
        (length_field(6, length_field(1, length_field(1, b"\xff") + length_field(2, b""))), "utf-8"),
        (deep(101), "deeper than 100"),
        (b"\x22", "Error parsing"),
    ],
)
def test_what_cannot_be_spelled_with_certainty_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_json(data, QDRANT)


def test_a_hundred_levels_are_read() -> None:
    data = deep(100)
    assert json.loads(as_json(data, QDRANT)) != []


@given(data=st.binary(max_size=60))
@SCHEMAS
def test_any_bytes_are_a_json_text_or_refused(data: bytes, schema: Values) -> None:
    """Whatever the bytes, what comes back is JSON, and what is raised is ValueError."""
    try:
        text = as_json(data, schema)
    except ValueError:
        return
    json.loads(text)

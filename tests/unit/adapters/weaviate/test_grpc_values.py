from __future__ import annotations

import struct
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.weaviate.conversations import VALUES
from support.weaviate.messages import message_type
from support.weaviate.model import spell
from vecsieve.adapters.weaviate.grpc import VALUES as CODEC
from vecsieve.adapters.weaviate.grpc_schema import MESSAGES
from vecsieve.adapters.wire.schema import parsed


def as_json(raw: bytes) -> bytes:
    return CODEC.json(parsed(MESSAGES["Value"], raw))


def spelled(value: Any) -> bytes:
    return as_json(value.SerializeToString(deterministic=True))


def value(**kinds: Any) -> Any:
    return message_type("Value")(**kinds)


@given(thing=VALUES)
def test_a_value_is_spelled_as_json_says_it(thing: Any) -> None:
    """What a property holds comes back from its JSON."""
    made = value()
    spell(made, thing)
    found = spelled(made)
    assert orjson.loads(found) == thing


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (value(number_value=3.0), b"3"),
        (value(number_value=0.5), b"0.5"),
        (value(number_value=1e300), b"1e+300"),
        (value(int_value=-7), b"-7"),
        (value(bool_value=False), b"false"),
        (value(string_value="old"), b'"old"'),
        (value(date_value="2026-01-01T00:00:00Z"), b'"2026-01-01T00:00:00Z"'),
        (value(uuid_value="u"), b'"u"'),
        (value(blob_value="aGk="), b'"aGk="'),
        (value(null_value=0), b"null"),
        (value(list_value={}), b"[]"),
        (value(list_value={"date_values": {"values": ["d"]}}), b'["d"]'),
        (value(list_value={"bool_values": {"values": [True, False]}}), b"[true,false]"),
        (value(list_value={"number_values": {"values": struct.pack("<2d", 1.5, 2)}}), b"[1.5,2]"),
        (value(list_value={"int_values": {"values": struct.pack("<q", -9)}}), b"[-9]"),
        (value(list_value={"int_values": {}}), b"[]"),
        (value(list_value={"object_values": {"values": [{"fields": {"b": value(int_value=1)}}, {}]}}), b'[{"b":1},{}]'),
        (
            value(object_value={"fields": {"b": value(null_value=0), "a": value(text_value="é")}}),
            '{"a":"é","b":null}'.encode(),
        ),
    ],
)
def test_every_kind_has_one_spelling(made: Any, wanted: bytes) -> None:
    assert spelled(made) == wanted


@pytest.mark.parametrize(
    "made",
    [
        value(),
        value(geo_value={}),
        value(list_value={"number_values": {"values": b"123"}}),
        value(number_value=1.5, text_value="x"),
    ],
)
def test_what_cannot_be_spelled_with_certainty_is_an_error(made: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        spelled(made)


@pytest.mark.parametrize("raw", [b"\x2a\x03\x4a\x01a", b"\x6a\x01\xff", b"\x2a\x04\x42\x02\x08\x01", b"\xff"])
def test_lists_of_unknown_kinds_and_broken_texts_are_errors(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        as_json(raw)


def test_what_is_nested_too_deeply_is_an_error() -> None:
    made = value(int_value=1)
    for _ in range(101):
        made = value(object_value={"fields": {"a": made}})
    with pytest.raises(ValueError, match="nested deeper"):
        spelled(made)


@given(raw=st.binary(max_size=40))
def test_arbitrary_bytes_are_spelled_or_refused(raw: bytes) -> None:
    """Whatever the bytes, what comes is JSON or a ValueError."""
    try:
        found = as_json(raw)
    except ValueError:
        return
    orjson.loads(found)

"""Bytes are fields that cover the message and that protobuf's own library finds too, or a ValueError; nothing else is raised."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import orjson
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct
from google.protobuf.unknown_fields import UnknownFieldSet

from fuzz.heard import heard
from vecsieve.adapters.qdrant.grpc_schema import VALUES as QDRANT
from vecsieve.adapters.wire.protobuf import FIXED32, FIXED64, LENGTH, VARINT, Field, fields, varint
from vecsieve.adapters.wire.schema import parsed
from vecsieve.adapters.wire.values import GOOGLE

WORDS = (
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x0a\x02\x08\x01",
    b"\x0b",
    b"\x0c",
    b"\x07",
    b"\x00",
    b"\x09",
    b"\x0d",
)
Given = ParamSpec("Given")
Value = TypeVar("Value")
_LONGEST_OF_32_BITS = 5
_LARGEST_NUMBER = 2**29 - 1  # of a field; beyond it protobuf's own library refuses the tag


def seeds() -> list[bytes]:
    """Messages of every dialect, and values nested in values."""
    nested = Struct()
    nested.update({"a": {"b": [1, "x", None, True, {"c": 1e300}]}, "": "é"})
    messages = [raw for one in heard() if not one.is_text for raw in (one.body, one.answer)]
    return [nested.SerializeToString(), b"\x08\x96\x01", *messages]


def check(data: bytes) -> None:
    """Walk the bytes in every way there is."""
    walked = _declared(fields, data)
    if walked is not None:
        assert b"".join(data[field.start : field.end] for field in walked) == data, "fields cover the message"
        _compare(data, walked)
    for values in (QDRANT, GOOGLE):
        message = _declared(parsed, values.struct, data)
        spelled = None if message is None else _declared(values.object_json, message.fields)
        if spelled is not None:
            orjson.loads(spelled)


def _declared(read: Callable[Given, Value], *given: Given.args, **named: Given.kwargs) -> Value | None:
    try:
        return read(*given, **named)
    except ValueError:
        return None


def _compare(data: bytes, walked: list[Field]) -> None:
    """The same numbers, kinds and values as protobuf's library finds in a message that it knows nothing of."""
    if any(field.number > _LARGEST_NUMBER or _is_padded(data, field) for field in walked):
        return
    try:
        message = Empty.FromString(data)
    except DecodeError as error:
        raise AssertionError("protobuf's own library refuses what is walked") from error
    unknown = UnknownFieldSet(message)
    unknown_fields = [unknown[index] for index in range(len(unknown))]
    triples = [(field.field_number, field.wire_type, field.data) for field in unknown_fields]
    assert triples == [(field.number, field.wire, _value(data, field)) for field in walked]


def _is_padded(data: bytes, field: Field) -> bool:
    """A tag or a length of more than five bytes: Google's reader refuses it, prost, which Qdrant reads with, takes it."""
    _, end = varint(data, field.start, field.end)
    return max(end - field.start, field.value - end) > _LONGEST_OF_32_BITS


def _value(data: bytes, field: Field) -> int | bytes:
    raw = data[field.value : field.end]
    if field.wire == VARINT:
        return varint(data, field.value, field.end)[0]
    if field.wire in {FIXED32, FIXED64}:
        number: int = struct.unpack("<I" if field.wire == FIXED32 else "<Q", raw)[0]
        return number
    assert field.wire == LENGTH
    return raw

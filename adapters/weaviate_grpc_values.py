"""Weaviate's property values as canonical JSON: keys in order, no white space, numbers as REST writes them.

Rule of this file: what cannot be spelled with certainty (places, telephone numbers, kinds nobody here knows) is a ValueError,
never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct

import orjson

from vecsieve.adapters.proto_alone import held
from vecsieve.adapters.proto_maps import entries, messages
from vecsieve.adapters.proto_values import spelled_text
from vecsieve.adapters.proto_wire import FIXED64, LENGTH, VARINT, Span, fields, only, text, varint

# Value.
_NUMBER, _OLD_TEXT, _BOOL, _OBJECT, _LIST = 1, 2, 3, 4, 5
_DATE, _UUID, _INT, _BLOB, _NULL, _TEXT = 6, 7, 8, 10, 12, 13
_NUMBER_TAG = _NUMBER << 3 | FIXED64
_BOOL_TAG, _INT_TAG, _NULL_TAG = _BOOL << 3 | VARINT, _INT << 3 | VARINT, _NULL << 3 | VARINT
_OBJECT_TAG, _LIST_TAG = _OBJECT << 3 | LENGTH, _LIST << 3 | LENGTH
_TEXT_TAGS = frozenset(number << 3 | LENGTH for number in (_OLD_TEXT, _DATE, _UUID, _BLOB, _TEXT))

# ListValue: each kind a message whose field 1 holds the elements.
_NUMBERS, _BOOLS, _OBJECTS, _DATES, _UUIDS, _INTS, _TEXTS = (number << 3 | LENGTH for number in (2, 3, 4, 5, 6, 7, 8))
_ELEMENTS = _MEMBERS = 1
_DOUBLE, _LONG = Struct("<d"), Struct("<q")
# Every integer up to here is a double of its own.
_EXACT = 2.0**53
# Protobuf's own readers refuse messages nested deeper than 100.
_MAX_DEPTH = 100


def is_nested(data: bytes, span: Span) -> bool:
    """Whether a Value is made of parts, which are spelled one after another."""
    return span[0] < span[1] and data[span[0]] in {_OBJECT_TAG, _LIST_TAG}


def as_json(data: bytes, span: Span) -> bytes | None:
    """The JSON of the Value that fills ``span``; None for null, which is how the server shows what is absent. Raises ValueError."""
    value = _value(data, span, _MAX_DEPTH)
    if isinstance(value, str):
        return spelled_text(value)
    try:
        return None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise ValueError(str(error)) from None


def _value(data: bytes, span: Span, depth: int) -> object:
    if span[0] == span[1] or not depth:
        raise ValueError(f"value at byte {span[0]} is empty, or nested deeper than {_MAX_DEPTH}")
    tag, at = held(data, span)
    if tag in _TEXT_TAGS:
        return data[at : span[1]].decode()
    if tag == _NUMBER_TAG:
        return _number(_DOUBLE.unpack_from(data, at)[0])
    if tag in _INTEGERS:
        return _INTEGERS[tag](varint(data, at, span[1])[0])
    if tag in _NESTED:
        return _NESTED[tag](data, (at, span[1]), depth - 1)
    raise ValueError(f"value at byte {span[0]} begins with tag {tag}, which is of no kind that can be spelled")


def _object(data: bytes, span: Span, depth: int) -> dict[str, object]:
    members = entries(data, messages(fields(data, span), _MEMBERS))
    return {key.decode(): _value(data, value, depth) for key, value in members}


def _list(data: bytes, span: Span, depth: int) -> list[object]:
    if span[0] == span[1]:  # a list of no kind has no elements
        return []
    tag, at = held(data, span)
    inside: Span = at, span[1]
    if tag == _OBJECTS:
        return [_object(data, each, depth) for each in messages(fields(data, inside), _ELEMENTS)]
    if tag in _READERS:
        return _READERS[tag](data, inside)
    raise ValueError(f"list at byte {span[0]} begins with tag {tag}, which is of no kind that can be spelled")


def _texts(data: bytes, span: Span) -> list[object]:
    found = fields(data, span)
    messages(found, _ELEMENTS)
    return [text(data, field) for field in found if field.number == _ELEMENTS]


def _bools(data: bytes, span: Span) -> list[object]:
    values: list[object] = []
    for field in fields(data, span):
        at = field.value
        while field.number == _ELEMENTS and at < field.end:  # packed, or one by one
            value, at = varint(data, at, field.end)
            values.append(value != 0)
    return values


def _fixed(shape: Struct, spelling: Callable[[float], object]) -> Callable[[bytes, Span], list[object]]:
    """Reads numbers of eight bytes each, all of them in one field."""

    def read(data: bytes, span: Span) -> list[object]:
        packed = only(fields(data, span), _ELEMENTS, LENGTH)
        if packed is None:
            return []
        if (packed.end - packed.value) % shape.size:
            raise ValueError(f"numbers at byte {packed.value} are not {shape.size} bytes each")
        return [spelling(value) for (value,) in shape.iter_unpack(data[packed.value : packed.end])]

    return read


def _number(number: float) -> object:
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


_INTEGERS: Mapping[int, Callable[[int], object]] = {_INT_TAG: _signed, _BOOL_TAG: bool, _NULL_TAG: lambda _: None}
_NESTED: Mapping[int, Callable[[bytes, Span, int], object]] = {_OBJECT_TAG: _object, _LIST_TAG: _list}
_READERS: Mapping[int, Callable[[bytes, Span], list[object]]] = {
    _NUMBERS: _fixed(_DOUBLE, _number),
    _INTS: _fixed(_LONG, int),
    _BOOLS: _bools,
    _DATES: _texts,
    _UUIDS: _texts,
    _TEXTS: _texts,
}

"""Protobuf's JSON-like values as canonical JSON: keys in order, no white space, numbers as over REST; and back.

Qdrant's ``Value`` and Google's differ only in the numbers of their fields. A value without an exact JSON form raises ValueError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

import orjson

from ..contract import FIELD_BYTES, NESTED_BYTES, Allowance
from .protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Span,
    encoded,
    entries,
    length_field,
    messages_in,
    single,
    varint,
)


class Kind(Enum):
    """The kind of a value's only field."""

    NULL = auto()
    DOUBLE = auto()  # 3.0 is written 3.0, because the schema has integers as well
    NUMBER = auto()  # 3.0 is written 3, as in protobuf's JSON mapping
    INTEGER = auto()  # of 64 bits, signed
    STRING = auto()
    BOOL = auto()
    STRUCT = auto()
    LIST = auto()


_WIRES = {Kind.NULL: VARINT, Kind.INTEGER: VARINT, Kind.BOOL: VARINT, Kind.DOUBLE: FIXED64, Kind.NUMBER: FIXED64}

# Tag of a value's only field -> its kind.
Schema = Mapping[int, Kind]


def _schema(*kinds: Kind) -> Schema:
    """From kinds in the order of their numbers, from 1."""
    return {number << 3 | _WIRES.get(kind, LENGTH): kind for number, kind in enumerate(kinds, 1)}


QDRANT = _schema(Kind.NULL, Kind.DOUBLE, Kind.INTEGER, Kind.STRING, Kind.BOOL, Kind.STRUCT, Kind.LIST)
GOOGLE = _schema(Kind.NULL, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.STRUCT, Kind.LIST)

_NESTED = frozenset({Kind.STRUCT, Kind.LIST})
_STRING, _INTEGER, _NUMBER = Kind.STRING, Kind.INTEGER, Kind.NUMBER  # looking up a member of an enum is slow

# Struct.fields and ListValue.values.
_MEMBERS = _ELEMENTS = 1

# Integers up to here are exact as doubles.
_EXACT = 2.0**53
_DOUBLE = struct.Struct("<d")
_LONG = 1 << 14
# Protobuf's own readers refuse messages nested deeper than 100.
_MAX_DEPTH = 100


class Wanted:
    """The wanted keys of a map, in this order. ``optional``: further ones, None beyond the allowances. One instance serves one reply."""

    __slots__ = ("_nested", "_optional", "_plain", "keys", "names")

    def __init__(self, names: Iterable[str], optional: Iterable[str] = ()) -> None:
        more = [name.encode(errors="surrogatepass") for name in optional]
        self.keys = (*[name.encode(errors="surrogatepass") for name in names], *more)
        # As a parsed map has them; a lone surrogate no message has.
        self.names = tuple([(_text(key), key) for key in self.keys])
        self._optional = frozenset(more)
        self._plain, self._nested = Allowance(FIELD_BYTES), Allowance(NESTED_BYTES)

    def covers(self, key: bytes, size: int, *, is_nested: bool) -> bool:
        """Whether the allowances cover a value of this many bytes."""
        if key not in self._optional:
            return True
        return (self._nested if is_nested else self._plain).covers(size)

    @property
    def is_cut(self) -> bool:
        """Whether a value was not covered."""
        return self._plain.left_bytes < 0 or self._nested.left_bytes < 0


def _text(key: bytes) -> str | None:
    """A key as a parsed map has it; None for a lone surrogate, which no message has."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def chosen_of(values: Mapping[str, Any], wanted: Wanted, schema: Schema) -> tuple[bytes | None, ...]:
    """The JSON of each wanted key of a parsed map, None if absent. ``values``: messages of which only the text is parsed, which most are.
    Raises ValueError.
    """
    found: list[bytes | None] = []
    for name, key in wanted.names:
        value = None if name is None else values.get(name)
        spelled = None
        if value is not None:
            text = value.string_value
            if text:
                if wanted.covers(key, len(text), is_nested=False):
                    spelled = spelled_text(text.decode())
            else:
                whole = value.SerializeToString()
                is_nested = bool(whole) and schema.get(whole[0]) in _NESTED
                if wanted.covers(key, len(whole), is_nested=is_nested):
                    spelled = as_json(whole, (0, len(whole)), schema)
        found.append(spelled)
    return tuple(found)


def as_json(data: bytes, span: Span, schema: Schema) -> bytes:
    """The JSON of the value that fills ``span``. Raises ValueError."""
    start, end = span
    kind = schema.get(data[start]) if start < end else None
    # Strings and numbers, which are the most frequent, take a third of the time of the general path.
    if kind is _STRING:
        size, at = varint(data, start + 1, end)
        if at + size == end:
            return spelled_text(data[at:end].decode())
    elif kind is _INTEGER:
        number, at = varint(data, start + 1, end)
        if at == end:
            return b"%d" % _signed(number)
    elif kind is _NUMBER and end == start + 9:
        return orjson.dumps(_number(_DOUBLE.unpack_from(data, start + 1)[0], kind))
    try:
        return orjson.dumps(_value(data, span, schema, _MAX_DEPTH), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise ValueError(str(error)) from None


def object_of_json(pairs: Iterable[tuple[bytes, bytes]], schema: Schema) -> bytes:
    """The JSON of a map. ``pairs``: keys and messages of values; the last one of a key counts. Raises ValueError."""
    return _spelled({key.decode(): _value(value, (0, len(value)), schema, _MAX_DEPTH) for key, value in pairs})


def objects_of_json(
    maps: Iterable[bytes], pairs: Callable[[bytes], Sequence[tuple[bytes, bytes]]], schema: Schema
) -> tuple[bytes | None, ...]:
    """The JSON of maps. ``pairs``: of one of them; may raise ValueError. One beyond the allowance, or without a JSON form, is left out."""
    allowance = Allowance(NESTED_BYTES)
    found: list[bytes | None] = []
    for each in maps:
        try:
            inside = pairs(each)
            is_read = allowance.covers(sum(len(key) + len(value) for key, value in inside))
            found.append(object_of_json(inside, schema) if is_read else None)
        except ValueError:
            found.append(None)
    return tuple(found)


def _spelled(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def map_message(values: Mapping[str, object], schema: Schema) -> bytes:
    """The message of a map, from JSON values."""
    return b"".join([length_field(_MEMBERS, entry(key, value, schema)) for key, value in values.items()])


def entry(key: str, value: object, schema: Schema) -> bytes:
    """One entry of a map, from a JSON value."""
    return entry_of(key, _encoded(value, schema))


def entry_of(key: str, value: bytes) -> bytes:
    """One entry of a map, from the message of its value."""
    return length_field(1, key.encode()) + length_field(2, value)


def _encoded(value: object, schema: Schema) -> bytes:
    """A value. An integer is a double where the schema has no integers; else it is text beyond 64 bits."""
    tags = {kind: encoded(tag) for tag, kind in schema.items()}
    if value is None:
        return tags[Kind.NULL] + encoded(0)
    if isinstance(value, bool):
        return tags[Kind.BOOL] + encoded(int(value))
    if isinstance(value, float) or (isinstance(value, int) and Kind.INTEGER not in tags):
        return tags[Kind.DOUBLE if Kind.DOUBLE in tags else Kind.NUMBER] + _DOUBLE.pack(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return tags[Kind.INTEGER] + encoded(value % 2**64)
    if isinstance(value, dict):
        kind, inside = Kind.STRUCT, map_message(value, schema)
    elif isinstance(value, list):
        kind, inside = Kind.LIST, b"".join([length_field(_ELEMENTS, _encoded(each, schema)) for each in value])
    else:
        kind, inside = Kind.STRING, str(value).encode()
    return tags[kind] + encoded(len(inside)) + inside


def kind_of(value: bytes, schema: Schema) -> Kind | None:
    """The kind of a value; None for an empty one, and for one of no known kind."""
    return schema.get(value[0]) if value else None


def with_member(value: bytes, key: str, member: object, schema: Schema) -> bytes:
    """A struct's value with one more member, unless it has that. Raises ValueError."""
    tag, at = single(value, (0, len(value)))
    present = entries(value, messages_in(value, (at, len(value)), _MEMBERS))
    if key.encode() in [name for name, _ in present]:
        return value
    inside = value[at:] + length_field(_MEMBERS, entry(key, member, schema))
    return encoded(tag) + encoded(len(inside)) + inside


def spelled_text(text: str) -> bytes:
    """A text as JSON. A long one is copied: the bytes that orjson returns hold eight times their size."""
    spelled = orjson.dumps(text)
    return spelled if len(spelled) < _LONG else bytes(memoryview(spelled))


def _value(data: bytes, span: Span, schema: Schema, depth: int) -> object:
    if span[0] == span[1]:
        return None  # an empty value, which servers show as null
    tag, at = single(data, span)
    kind, end = schema.get(tag), span[1]
    if kind is Kind.STRING:
        return data[at:end].decode()
    if kind is None:
        raise ValueError(f"value at byte {span[0]} begins with tag {tag}, which is of no known kind")
    if kind is Kind.STRUCT or kind is Kind.LIST:
        if not depth:
            raise ValueError(f"value at byte {span[0]} is nested deeper than {_MAX_DEPTH}")
        return (_struct if kind is Kind.STRUCT else _list)(data, (at, end), schema, depth - 1)
    if kind is Kind.DOUBLE or kind is Kind.NUMBER:
        return _number(_DOUBLE.unpack_from(data, at)[0], kind)
    return _scalar(varint(data, at, end)[0], kind)


def _number(number: float, kind: Kind) -> object:
    return int(number) if kind is Kind.NUMBER and number.is_integer() and abs(number) <= _EXACT else number


def _scalar(number: int, kind: Kind) -> object:
    if kind is Kind.NULL:
        return None
    return number != 0 if kind is Kind.BOOL else _signed(number)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _struct(data: bytes, span: Span, schema: Schema, depth: int) -> dict[str, object]:
    members = entries(data, messages_in(data, span, _MEMBERS))
    return {key.decode(): _value(data, value, schema, depth) for key, value in members}


def _list(data: bytes, span: Span, schema: Schema, depth: int) -> list[object]:
    return [_value(data, inner, schema, depth) for inner in messages_in(data, span, _ELEMENTS)]

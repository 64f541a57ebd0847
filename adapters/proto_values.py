"""Protobuf's JSON-like values as canonical JSON: keys in order, no white space, numbers as REST writes them.

Rule of this file: what cannot be spelled with certainty is a ValueError, never a guess. Qdrant's ``Value`` and Google's hold
the same things under different numbers; everything around them (struct, list) is alike.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType

import orjson

from vecsieve.adapters.proto_maps import entry
from vecsieve.adapters.proto_wire import FIXED64, LENGTH, VARINT, Field, Span, fields, text, unsigned


class Kind(Enum):
    """What a value's one field holds."""

    NULL = auto()
    DOUBLE = auto()  # beside integers: 3.0 stays 3.0
    NUMBER = auto()  # in place of integers: a whole one is written 3, as protobuf's JSON mapping does
    INTEGER = auto()  # of 64 bits, signed
    STRING = auto()
    BOOL = auto()
    STRUCT = auto()
    LIST = auto()


# Field number -> kind.
QDRANT: Mapping[int, Kind] = MappingProxyType(
    {1: Kind.NULL, 2: Kind.DOUBLE, 3: Kind.INTEGER, 4: Kind.STRING, 5: Kind.BOOL, 6: Kind.STRUCT, 7: Kind.LIST}
)
GOOGLE: Mapping[int, Kind] = MappingProxyType(
    {1: Kind.NULL, 2: Kind.NUMBER, 3: Kind.STRING, 4: Kind.BOOL, 5: Kind.STRUCT, 6: Kind.LIST}
)

_WIRES = {Kind.NULL: VARINT, Kind.INTEGER: VARINT, Kind.BOOL: VARINT, Kind.DOUBLE: FIXED64, Kind.NUMBER: FIXED64}

# Struct.fields and ListValue.values.
_MEMBERS = _ELEMENTS = 1

# Every integer up to here is a double of its own.
_EXACT = 2.0**53
_DOUBLE = struct.Struct("<d")
# Protobuf's own readers refuse messages nested deeper than 100.
_MAX_DEPTH = 100


def chosen(
    data: bytes, entries: Iterable[Field], names: Sequence[str], kinds: Mapping[int, Kind]
) -> tuple[bytes | None, ...]:
    """The JSON of each named key of a map of values, None where absent. ``entries``: the map's fields in its message.

    Of a repeated key the last one counts, as for every reader of protobuf. Raises ValueError.
    """
    wanted = {name.encode(errors="surrogatepass") for name in names}
    found: dict[bytes, Span] = {}
    for field in entries:
        key, value = entry(data, field)
        if key in wanted:
            found[key] = value
    spans = [found.get(name.encode(errors="surrogatepass")) for name in names]
    return tuple(None if span is None else as_json(data, span, kinds) for span in spans)


def as_json(data: bytes, span: Span, kinds: Mapping[int, Kind]) -> bytes:
    """The JSON of the value that fills ``span``. Raises ValueError."""
    try:
        return orjson.dumps(_value(data, span, kinds, _MAX_DEPTH), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise ValueError(str(error)) from None


def _value(data: bytes, span: Span, kinds: Mapping[int, Kind], depth: int) -> object:
    found = fields(data, span)
    if not found:
        return None  # a value that holds nothing: what servers show as null
    if len(found) > 1 or found[0].number not in kinds:
        raise ValueError(f"value at byte {span[0]} has {len(found)} fields, the first is {found[0].number}")
    field = found[0]
    kind = kinds[field.number]
    if field.wire != _WIRES.get(kind, LENGTH):
        raise ValueError(f"value at byte {span[0]} is {kind.name} of wire type {field.wire}")
    if kind in {Kind.STRUCT, Kind.LIST}:
        if not depth:
            raise ValueError(f"value at byte {span[0]} is nested deeper than {_MAX_DEPTH}")
        return (_struct if kind is Kind.STRUCT else _list)(data, field.span, kinds, depth - 1)
    return _scalar(data, field, kind)


def _scalar(data: bytes, field: Field, kind: Kind) -> object:
    if kind is Kind.NULL:
        return None
    if kind is Kind.STRING:
        return text(data, field)
    if kind is Kind.BOOL:
        return unsigned(data, field) != 0
    if kind is Kind.INTEGER:
        value = unsigned(data, field)
        return value - 2**64 if value >= 2**63 else value
    number = float(_DOUBLE.unpack_from(data, field.value)[0])
    return int(number) if kind is Kind.NUMBER and number.is_integer() and abs(number) <= _EXACT else number


def _struct(data: bytes, span: Span, kinds: Mapping[int, Kind], depth: int) -> dict[str, object]:
    entries = [entry(data, field) for field in fields(data, span) if field.number == _MEMBERS]
    return {key.decode(): _value(data, value, kinds, depth) for key, value in entries}


def _list(data: bytes, span: Span, kinds: Mapping[int, Kind], depth: int) -> list[object]:
    inner = [field for field in fields(data, span) if field.number == _ELEMENTS]
    if any(field.wire != LENGTH for field in inner):
        raise ValueError(f"list at byte {span[0]} holds what are no values")
    return [_value(data, field.span, kinds, depth) for field in inner]

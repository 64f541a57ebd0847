"""Protobuf's JSON-like values as canonical JSON: keys in order, no white space, numbers as over REST; and back.

A value is a message with one field. Databases name these fields alike and number them differently. Objects and lists are opaque until they
are read, because most never are. A value without an exact JSON form raises ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from google.protobuf.message import DecodeError

from ..contract import FIELD_BYTES, NESTED_BYTES, Allowance
from .protobuf import Messages
from .schema import compiled, has_unknown, parsed, serialized

# Messages beside a schema's own ``Value``. Entries keep their order, unlike a map.
NESTED = {
    "Struct": "1 fields Entry*",
    "Entry": "1 key bytes, 2 value Value",
    "ListValue": "1 values Value*",
}
_OBJECTS = frozenset({"struct_value", "object_value"})
_NESTED = _OBJECTS | {"list_value"}
_SCALAR_BYTES = 8
# Integers up to here are exact as doubles.
_EXACT = 2.0**53
_LONG = 1 << 14
# Protobuf's own readers refuse messages nested deeper than 100.
_MAX_DEPTH = 100


class RequestedKeys:
    """The wanted keys of a map, in this order. ``optional``: further ones, None beyond the allowances and without a JSON form. One instance
    serves one reply.
    """

    __slots__ = ("_allowances", "_optional", "keys")

    def __init__(self, names: Iterable[str], optional: Iterable[str] = ()) -> None:
        more = tuple(optional)
        self._optional = frozenset(more)
        self.keys = tuple(map(_key, (*names, *more)))
        self._allowances = Allowances()

    def read(self, key: str | None, value: Any, values: Values) -> bytes | None:
        """The JSON of a key's value. Raises ValueError for a required key."""
        return self._allowances.read(value, values) if key in self._optional else values.json(value)

    @property
    def is_cut(self) -> bool:
        """Whether a value was not covered."""
        return self._allowances.are_spent


class Allowances:
    """Budgets for optional values: one for scalars, one for objects and lists."""

    __slots__ = ("_nested", "_plain")

    def __init__(self) -> None:
        self._plain, self._nested = Allowance(FIELD_BYTES), Allowance(NESTED_BYTES)

    def read(self, value: Any, values: Values) -> bytes | None:
        """The JSON of a value; None without a JSON form, and beyond the allowance."""
        try:
            if text := value.string_value:  # most are texts: `covers` without a call for each
                self._plain.left_bytes -= len(text)
                return spelled_text(text.decode()) if self._plain.left_bytes >= 0 else None
            name, content = only(value)
            size = len(content) if isinstance(content, bytes) else _SCALAR_BYTES
            return values.json(value) if (self._nested if name in _NESTED else self._plain).covers(size) else None
        except ValueError:
            return None

    @property
    def are_spent(self) -> bool:
        return self._plain.left_bytes < 0 or self._nested.left_bytes < 0


def only(message: Any) -> tuple[str, Any]:
    """The name and the content of the only field; that of null for an empty message, as servers show it. Raises ValueError."""
    fields = message.ListFields()
    if len(fields) > 1 or has_unknown(message):
        raise ValueError(f"a value has {len(fields)} known kinds, expected one with a JSON form")
    return (fields[0][0].name, fields[0][1]) if fields else ("null_value", 0)


class Values:
    """The values of one schema. ``kinds``: its messages, with those of NESTED."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self.struct, self._value = kinds["Struct"], kinds["Value"]
        self._entry, self._list = kinds["Entry"], kinds["ListValue"]
        self._names = frozenset(self._value.DESCRIPTOR.fields_by_name)

    def json(self, value: Any) -> bytes:
        """A value's JSON. Raises ValueError."""
        if text := value.string_value:  # most are texts
            return spelled_text(text.decode())
        plain = self._plain(value, _MAX_DEPTH)
        try:
            return spelled_text(plain) if isinstance(plain, str) else orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError as error:
            raise ValueError(str(error)) from None

    def object_json(self, entries: Iterable[Any]) -> bytes:
        """All entries of a map in their order; the last one of a key counts. Raises ValueError, also for numbers without a JSON form."""
        members = {entry.key.decode(): self._plain(entry.value, _MAX_DEPTH) for entry in entries}
        return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def readable(
        self, kind: Any, messages: Iterable[bytes], entries_of: Callable[[Any], Iterable[Any]]
    ) -> tuple[bytes | None, ...]:
        """What can be read of the maps in several messages of a kind, as JSON objects; None for a message that cannot be parsed."""
        allowances = Allowances()
        objects: list[bytes | None] = []
        for message in messages:
            try:
                entries = entries_of(kind.FromString(message))
            except DecodeError:
                objects.append(None)
                continue
            values = [(entry.key.decode(errors="replace"), allowances.read(entry.value, self)) for entry in entries]
            objects.append(orjson.dumps({key: orjson.Fragment(raw) for key, raw in values if raw is not None}))
        return tuple(objects)

    def chosen(self, members: Mapping[str, Any], requested: RequestedKeys) -> tuple[bytes | None, ...]:
        """The JSON of each wanted key of a map, None if absent. Raises ValueError."""
        pairs = [(key, None if key is None else members.get(key)) for key in requested.keys]
        return tuple([None if value is None else requested.read(key, value, self) for key, value in pairs])

    def entry(self, key: str, value: object) -> Any:
        """One entry of a map, from a JSON value."""
        return self._entry(key=key.encode(), value=self._fields(value))

    def encoded(self, values: Mapping[str, object]) -> bytes:
        """The message of a map, from JSON values."""
        return serialized(self.struct(fields=[self.entry(key, value) for key, value in values.items()]))

    def with_member(self, key: str, value: Any, name: str, member: object) -> Any:
        """The entry of an object with one more member, unless it has that. Raises ValueError."""
        struct = parsed(self.struct, value.struct_value)
        if name.encode() not in [entry.key for entry in struct.fields]:
            struct.fields.append(self.entry(name, member))
        return self._entry(key=key.encode(), value={"struct_value": serialized(struct)})

    def _fields(self, value: object) -> dict[str, object]:
        """The field of a value. An integer is a double where the schema has no integers; else it is text beyond 64 bits."""
        match value:
            case None:
                return {"null_value": 0}
            case bool():
                return {"bool_value": value}
            case int() if "integer_value" in self._names:
                is_short = -(2**63) <= value < 2**63
                fields: dict[str, object] = {"integer_value": value} if is_short else {"string_value": b"%d" % value}
            case int() | float():
                fields = {"double_value" if "double_value" in self._names else "number_value": value}
            case dict():
                fields = {"struct_value": self.encoded(value)}
            case list():
                elements = self._list(values=[self._fields(element) for element in value])
                fields = {"list_value": serialized(elements)}
            case _:
                fields = {"string_value": str(value).encode()}
        return fields

    def _plain(self, value: Any, depth: int) -> object:
        name, content = only(value)
        if name in _NESTED:
            if not depth:
                raise ValueError(f"a value is nested deeper than {_MAX_DEPTH}")
            return self._object(content, depth - 1) if name in _OBJECTS else self._elements(content, depth - 1)
        if name == "null_value":
            return None
        if name == "number_value":  # of a schema without integers
            return whole(content)
        return content.decode() if isinstance(content, bytes) else content

    def _object(self, content: bytes, depth: int) -> dict[str, object]:
        entries = parsed(self.struct, content).fields
        return {entry.key.decode(): self._plain(entry.value, depth) for entry in entries}

    def _elements(self, content: bytes, depth: int) -> list[object]:
        return [self._plain(element, depth) for element in parsed(self._list, content).values]


def _key(name: str) -> str | None:
    """As a map has it; None for a lone surrogate, which no message has."""
    return None if any("\ud800" <= letter <= "\udfff" for letter in name) else name


def whole(number: float) -> float:
    """3.0 as 3, as in protobuf's JSON mapping."""
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def spelled_text(text: str) -> bytes:
    """A text as JSON. A long one is copied: the bytes that orjson returns hold eight times their size."""
    spelled = orjson.dumps(text)
    return spelled if len(spelled) < _LONG else bytes(memoryview(spelled))


# google.protobuf.Struct. It is opaque in the message that has it.
_STRUCTS = compiled(
    "vecsieve.structs",
    {
        "Value": (
            "1 null_value uint64, 2 number_value double, 3 string_value bytes, 4 bool_value bool, 5 struct_value bytes, "
            "6 list_value bytes"
        ),
        "Map": "1 fields map:Value",  # finds some keys
        **NESTED,
    },
)
GOOGLE = Values(_STRUCTS)
_MAP = _STRUCTS["Map"]


def chosen_of(structs: Sequence[bytes], requested: RequestedKeys) -> tuple[tuple[bytes | None, ...], ...]:
    """As ``Values.chosen`` of each."""
    if not requested.keys:
        return ((),) * len(structs)
    return tuple([GOOGLE.chosen(parsed(_MAP, struct).fields, requested) for struct in structs])


# What is counted of large messages.
COUNTED: Messages = {"struct": {}}

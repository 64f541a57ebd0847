"""The fields of a collection with their types: which values each can hold, and a row as a payload without its id and its vectors.

Clients of REST write, and read, integers as texts, and decimals of any length for numbers of 32 bits. Values are compared in one spelling.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct

import msgspec

from ..writes import Form

# DataType.
BOOL, INT8, INT16, INT32, INT64, FLOAT, DOUBLE, STRING, VARCHAR, ARRAY, JSON = 1, 2, 3, 4, 5, 10, 11, 20, 21, 22, 23
FIRST_VECTOR = 100  # types from here on are vectors, or structures of vectors
_BITS: Mapping[int, int] = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}
_TEXTS = frozenset({STRING, VARCHAR})
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_SINGLE = Struct("<f")
# The server's own limits, where a field has none.
LONGEST_TEXT, LONGEST_DOCUMENT, MOST_ELEMENTS = 65_535, 65_536, 4096
_EXACT = 2**53
DYNAMIC = "$meta"  # no key of the dynamic field may have its name

Payload = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """``kind``, ``element``: DataTypes, the latter of an array's elements. ``most_bytes``: of a text, or of an array's. ``most_elements``: of
    an array.
    """

    kind: int
    element: int = 0
    most_bytes: int = LONGEST_TEXT
    most_elements: int = MOST_ELEMENTS
    is_nullable: bool = False
    has_default: bool = False

    @property
    def is_vector(self) -> bool:
        return self.kind >= FIRST_VECTOR

    def plain(self, value: object) -> object:
        """In the spelling in which values are compared: integers as numbers, numbers of 32 bits as their doubles."""
        if self.kind == ARRAY and isinstance(value, list):
            return [_plain(element, self.element) for element in value]
        return _plain(value, self.kind)

    def holds(self, value: object) -> bool:
        """Whether the field can hold the value; None is null."""
        if value is None:
            return self.is_nullable and not self.has_default  # else the default would be stored
        if self.kind == JSON:
            return is_document(value)
        if self.kind == ARRAY:
            if not isinstance(value, list) or len(value) > self.most_elements:
                return False
            return all(self._holds(element, self.element) for element in value)
        return self._holds(value, self.kind)

    def _holds(self, value: object, kind: int) -> bool:
        if kind == BOOL or isinstance(value, bool):
            return kind == BOOL and isinstance(value, bool)
        if kind in _TEXTS:
            return isinstance(value, str) and (size := _size(value)) is not None and size <= self.most_bytes
        if not isinstance(value, int | float):
            return False
        if kind in _BITS:
            bound = 1 << (_BITS[kind] - 1)
            return isinstance(value, int) and -bound <= value < bound
        return kind in {FLOAT, DOUBLE} and _is_finite(value, kind)


def _plain(value: object, kind: int) -> object:
    if kind in _BITS and isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if kind == FLOAT and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _SINGLE.unpack(_SINGLE.pack(value))[0]
        except OverflowError:
            return value
    return value


def _is_finite(value: float, kind: int) -> bool:
    try:
        return math.isfinite(_SINGLE.unpack(_SINGLE.pack(value))[0] if kind == FLOAT else float(value))
    except OverflowError:
        return False


def _size(text: str) -> int | None:
    """In UTF-8; None for a surrogate, which has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def spelled(value: object) -> bytes:
    """A document. Raises ValueError for what has no exact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def is_document(value: object) -> bool:
    try:
        return len(spelled(value)) <= LONGEST_DOCUMENT
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Row(Form):
    """A row is its own payload, without its id and its vectors. A field that is null is one that is missing. ``key``: the field of the ids;
    ``types``: of all fields by name.
    """

    key: str = ""
    types: Mapping[str, FieldType] = field(default_factory=dict)

    def vectors_of(self, point: Mapping[str, object]) -> dict[str, object]:
        return {name: value for name, value in point.items() if name in self.types and self.types[name].is_vector}

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        payload: dict[str, object] = {}
        for name, value in point.items():
            kind = self.types.get(name)
            if name == self.key or (kind is not None and (kind.is_vector or value is None)):
                continue
            payload[name] = value if kind is None else kind.plain(value)
        return payload

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        """The id and the vectors are never those of a payload."""
        return {self.key: point.get(self.key), **self.vectors_of(vectors), **self.payload_of(payload)}


def is_exact(value: object) -> bool:
    """Whether a value has no whole number that a double may not hold."""
    if isinstance(value, dict):
        return all(map(is_exact, value.values()))
    if isinstance(value, list):
        return all(map(is_exact, value))
    return not isinstance(value, int) or abs(value) <= _EXACT


def differing(old: Payload, new: Payload) -> list[str]:
    """The names whose values are not the same in both, or missing in one."""
    return [
        name
        for name in dict.fromkeys((*old, *new))
        if name not in old or name not in new or compared(old[name]) != compared(new[name])
    ]


def compared(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def can_hold(types: Mapping[str, FieldType], old: Payload, new: Payload, *, is_dynamic: bool) -> bool:
    """Whether a collection can store ``new`` in place of ``old``, the payloads of rows, as far as they differ. Names without a field are keys
    of the dynamic field.
    """
    changed = differing(old, new)
    keys = {name: value for name, value in new.items() if name not in types}
    if not all(types[name].holds(new.get(name)) for name in changed if name in types):
        return False
    if all(name in types for name in changed):
        return True
    return is_dynamic and DYNAMIC not in keys and is_document(keys)


def limits(parameters: Mapping[str, str]) -> dict[str, int]:
    """The limits of a FieldType, from the parameters of a field; those that are no numbers are not known."""
    names = {"max_length": "most_bytes", "max_capacity": "most_elements"}
    return {names[key]: int(value) for key, value in parameters.items() if key in names and value.isdecimal()}


# Over REST.


_NULL = b"null"


class RestField(msgspec.Struct):
    name: str
    type: str
    primaryKey: bool = False  # noqa: N815 - the name on the wire
    autoId: bool = False  # noqa: N815 - the name on the wire
    nullable: bool = False
    elementType: str = ""  # noqa: N815 - the name on the wire
    defaultValue: msgspec.Raw = msgspec.Raw(_NULL)  # noqa: N815 - the name on the wire
    params: msgspec.Raw = msgspec.Raw(_NULL)


class _Param(msgspec.Struct):
    key: str
    value: str


_PARAMS_OF_REST = msgspec.json.Decoder(tuple[_Param, ...] | None)
_NAMES: Mapping[str, int] = {
    "Bool": BOOL, "Int8": INT8, "Int16": INT16, "Int32": INT32, "Int64": INT64, "Float": FLOAT, "Double": DOUBLE, "VarChar": VARCHAR,
    "Array": ARRAY, "JSON": JSON,
}  # fmt: skip


def bare(name: str) -> str:
    """A type without the dimension that version 1 adds, as in FloatVector(4)."""
    return name.partition("(")[0]


def type_of(field: RestField) -> FieldType:
    """Parameters in another form are not known: then the server's own limits apply."""
    try:
        params = _PARAMS_OF_REST.decode(field.params) or ()
    except (msgspec.DecodeError, UnicodeDecodeError):
        params = ()
    name = bare(field.type)
    return FieldType(
        kind=FIRST_VECTOR if "Vector" in name or "Struct" in name else _NAMES.get(name, 0),
        element=_NAMES.get(field.elementType, 0),
        is_nullable=field.nullable,
        has_default=bytes(field.defaultValue) != _NULL,
        **limits({param.key: param.value for param in params}),
    )

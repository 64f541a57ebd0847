"""Objects that are merged: the form of a single one, which values a property can hold, and its message over gRPC.

A property that is null is one that is missing, for the server as well. Its names begin with a lower-case letter there. Values that the server
itself writes in another way (dates, ids, places, phone numbers, references) are compared by what they mean.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import orjson

from ..wire.protobuf import encoded, length_field, number_field
from ..wire.protobuf_values import GOOGLE, map_message
from ..writes import Form
from .calls import Schema, spelled

_EXACT = 2**53  # the server's integers are doubles on their way
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_PLACE = {"latitude", "longitude"}
_FIRST = ("beacon", "input")  # of a reference and of a phone number: the server adds members to these
_FLOAT32 = 1e-6  # of places


@dataclass(frozen=True, slots=True)
class _Object(Form):
    payload: str = "properties"
    vectors: tuple[str, ...] = ("vector", "vectors")

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        found = Form.payload_of(self, point)
        return {spelled(name): value for name, value in found.items() if value is not None}

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        return Form.given(self, point, self.payload_of({self.payload: payload}), vectors)

    def same(self, one: Mapping[str, object], other: Mapping[str, object]) -> bool:
        return _is_alike(self.payload_of(one), self.payload_of(other))


FORM = _Object()


def _is_alike(stored: object, given: object) -> bool:
    """``stored``: as the server shows it."""
    if isinstance(stored, dict) and isinstance(given, dict):
        if stored.keys() == given.keys() == _PLACE:
            return all(_is_near(stored[name], given[name]) for name in _PLACE)
        named = given if any(name in given for name in _FIRST) else {**stored, **given}
        return all(name in stored and name in given and _is_alike(stored[name], given[name]) for name in named)
    if isinstance(stored, list) and isinstance(given, list):
        return len(stored) == len(given) and all(map(_is_alike, stored, given))
    if isinstance(stored, str) and isinstance(given, str):
        return _meant(stored) == _meant(given)
    return stored == given


def _is_near(one: Any, other: Any) -> bool:
    return _is_number(one) and _is_number(other) and math.isclose(one, other, rel_tol=_FLOAT32, abs_tol=_FLOAT32)


def _meant(text: str) -> object:
    """A date as a moment, an id in lower case, any other text as it is."""
    if _UUID.fullmatch(text):
        return text.lower()
    return text if (moment := _moment(text)) is None else moment


def _moment(text: str) -> datetime | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def can_hold(schema: Schema, own: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Whether the server can store ``new`` in place of the properties ``own``: what differs must have a property, which the server would make
    otherwise, and its type. Objects in objects, phone numbers and references cannot be changed.
    """
    changed = [name for name in new if name not in own or _text(own[name]) != _text(new[name])]
    return all(_holds(schema.types.get(name, ""), new[name]) for name in changed)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _holds(kind: str, value: object) -> bool:
    if kind.endswith("[]"):
        each = _HOLDS.get(kind[:-2])
        return each is not None and isinstance(value, list) and all(map(each, value))
    one = _HOLDS.get(kind) or _HOLDS_ALONE.get(kind)
    return one is not None and one(value)


def _is_text(value: object) -> bool:
    """A surrogate has no UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= _EXACT


def _is_base64(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(b64decode(value, validate=True))
    except ValueError:
        return False


def _is_place(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == _PLACE and all(map(_is_number, value.values()))


_HOLDS: Mapping[str, Callable[[object], bool]] = {
    "text": _is_text,
    "string": _is_text,
    "int": lambda value: isinstance(value, int) and _is_number(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "date": lambda value: isinstance(value, str) and _moment(value) is not None,
    "uuid": lambda value: isinstance(value, str) and _UUID.fullmatch(value) is not None,
}
_HOLDS_ALONE: Mapping[str, Callable[[object], bool]] = {"blob": _is_base64, "geoCoordinates": _is_place}


# BatchObject, its properties, and Vectors.
_ID, _PROPERTIES, _COLLECTION, _TENANT, _BYTES, _VECTORS = 1, 3, 4, 5, 6, 23
_PLAIN, _DOUBLES, _INTEGERS, _TEXTS, _BOOLS, _EMPTY = 1, 4, 5, 6, 7, 10
_VALUES, _NAME, _DOUBLE_BYTES = 1, 2, 3
_VECTOR_NAME, _PACKED, _TYPE, _SINGLE = 1, 3, 4, 1


def object_message(point: bytes, schema: Schema) -> bytes:
    """The BatchObject of a single object. Raises ValueError for one that it cannot hold, such as vectors of several rows."""
    value = orjson.loads(point)
    named = [(_ID, value["id"]), (_COLLECTION, value["class"]), (_TENANT, value.get("tenant") or "")]
    parts = [length_field(number, text.encode()) for number, text in named if text]
    parts.append(length_field(_PROPERTIES, _properties(value.get("properties") or {}, schema)))
    if value.get("vector"):
        parts.append(length_field(_BYTES, _packed(value["vector"])))
    for name, numbers in (value.get("vectors") or {}).items():
        inside = length_field(_VECTOR_NAME, name.encode()) + length_field(_PACKED, _packed(numbers))
        parts.append(length_field(_VECTORS, inside + number_field(_TYPE, _SINGLE)))
    return b"".join(parts)


def _packed(numbers: Sequence[float]) -> bytes:
    row = np.array(numbers, "<f4")
    if row.ndim != 1:
        raise ValueError("a vector of several rows")
    return row.tobytes()


def _properties(properties: Mapping[str, Any], schema: Schema) -> bytes:
    """Lists have messages of their own, by their kinds."""
    plain = {name: value for name, value in properties.items() if not isinstance(value, list)}
    parts = [length_field(_PLAIN, map_message(plain, GOOGLE))] if plain else []
    for name, value in properties.items():
        if value == []:
            parts.append(length_field(_EMPTY, name.encode()))
        elif isinstance(value, list):
            parts.append(_listed(name, value, schema.types.get(spelled(name), "")))
    return b"".join(parts)


def _listed(name: str, value: Sequence[Any], kind: str) -> bytes:
    """Raises ValueError for elements of several kinds, and for objects."""
    number = _kind(value, kind)
    if number == _TEXTS:
        inside = b"".join([length_field(_VALUES, each.encode()) for each in value])
    elif number == _DOUBLES:
        inside = length_field(_DOUBLE_BYTES, np.array(value, "<f8").tobytes())
    else:
        inside = length_field(_VALUES, b"".join([encoded(int(each) % 2**64) for each in value]))
    return length_field(number, inside + length_field(_NAME, name.encode()))


def _kind(value: Sequence[Any], kind: str) -> int:
    """``kind``: of the property, "" for unknown. Raises ValueError."""
    if all(isinstance(each, str) for each in value):
        return _TEXTS
    if all(isinstance(each, bool) for each in value):
        return _BOOLS
    if kind != "number[]" and all(isinstance(each, int) and not isinstance(each, bool) for each in value):
        return _INTEGERS
    if all(map(_is_number, value)):
        return _DOUBLES
    raise ValueError("a list of several kinds")

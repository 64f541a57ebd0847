"""Objects that are merged: the form of a single one, and which values a property can hold.

A property that is null is one that is missing, for the server as well. Its names begin with a lower-case letter there. Values that the server
itself writes in another way (dates, ids, places, phone numbers, references) are compared by what they mean.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

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
        payload = Form.payload_of(self, point)
        return {spelled(name): value for name, value in payload.items() if value is not None}

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        return Form.given(self, point, self.payload_of({self.payload: payload}), vectors)

    def same(self, one: Mapping[str, object], other: Mapping[str, object]) -> bool:
        return _is_alike(self.payload_of(one), self.payload_of(other))


FORM = _Object()


def id_as_json(identifier: str) -> bytes:
    """An id as the server writes it: in lower case, with its dashes. Another one is refused by the server."""
    with suppress(ValueError):
        identifier = str(UUID(identifier))
    return orjson.dumps(identifier.lower())


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
    return is_number(one) and is_number(other) and math.isclose(one, other, rel_tol=_FLOAT32, abs_tol=_FLOAT32)


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


def can_hold(schema: Schema, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Whether the server can store ``new`` in place of the properties ``old``: what differs must have a property, which the server would make
    otherwise, and its type. Objects in objects, phone numbers and references cannot be changed.
    """
    changed = [name for name in new if name not in old or _text(old[name]) != _text(new[name])]
    return all(_holds(schema.types.get(name, ""), new[name]) for name in changed)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _holds(kind: str, value: object) -> bool:
    if kind.endswith("[]"):
        holds = _HOLDS.get(kind[:-2])
        return holds is not None and isinstance(value, list) and all(map(holds, value))
    one = _HOLDS.get(kind) or _HOLDS_ALONE.get(kind)
    return one is not None and one(value)


def _is_text(value: object) -> bool:
    """A surrogate has no UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= _EXACT


def _is_base64(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(b64decode(value, validate=True))
    except ValueError:
        return False


def _is_place(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == _PLACE and all(map(is_number, value.values()))


_HOLDS: Mapping[str, Callable[[object], bool]] = {
    "text": _is_text,
    "string": _is_text,
    "int": lambda value: isinstance(value, int) and is_number(value),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "date": lambda value: isinstance(value, str) and _moment(value) is not None,
    "uuid": lambda value: isinstance(value, str) and _UUID.fullmatch(value) is not None,
}
_HOLDS_ALONE: Mapping[str, Callable[[object], bool]] = {"blob": _is_base64, "geoCoordinates": _is_place}

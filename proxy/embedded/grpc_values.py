"""Ids and payloads: messages as JSON values, and JSON values put into messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from vecsieve.proxy.embedded.errors import Refusal
from vecsieve.proxy.embedded.fields import Json

_SIGNED = range(-(2**63), 2**63)
_JSON_NULL = 0  # the one member of NullValue


def read_id(point: Any) -> int | str:
    """A PointId; the core checks the form of a UUID."""
    kind = point.WhichOneof("point_id_options")
    if kind is None:
        raise Refusal(400, "No ID options provided")
    identifier: int | str = getattr(point, kind)
    return identifier


def read_payload(values: Mapping[str, Any]) -> dict[str, Json]:
    """A map of Value. Raises the server's refusal of a number JSON does not have."""
    return {name: read_value(values[name]) for name in values}


def read_value(value: Any) -> Json:
    """A Value; one that says nothing is null."""
    kind = value.WhichOneof("kind")
    if kind in {None, "null_value"}:
        return None
    if kind == "struct_value":
        return read_payload(value.struct_value.fields)
    if kind == "list_value":
        return [read_value(item) for item in value.list_value.values]
    found = getattr(value, kind)
    if isinstance(found, float) and not math.isfinite(found):
        raise Refusal(400, "cannot convert to json number")
    return found


def write_id(target: Any, identifier: int | str) -> None:
    """Fill a PointId."""
    if isinstance(identifier, int):
        target.num = identifier
    else:
        target.uuid = identifier


def write_payload(target: Any, payload: Mapping[str, Json]) -> None:
    """Fill a map of Value."""
    for name, value in payload.items():
        write_value(target[name], value)


def write_value(target: Any, value: Json) -> None:
    """Fill a Value. As in the server, a whole number past 64 signed bits becomes a double."""
    match value:
        case None:
            target.null_value = _JSON_NULL
        case bool():
            target.bool_value = value
        case int() if value in _SIGNED:
            target.integer_value = value
        case int() | float():
            target.double_value = value
        case str():
            target.string_value = value
        case list():
            target.list_value.SetInParent()  # an empty list is a list, not nothing
            for item in value:
                write_value(target.list_value.values.add(), item)
        case dict():
            target.struct_value.SetInParent()
            write_payload(target.struct_value.fields, value)

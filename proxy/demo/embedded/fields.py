"""Typed reading of a JSON body, refusing as Qdrant's deserialiser and validator do.

`null` and absent are the same to an optional field. A field written twice under two of its names is an error.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from vecsieve.proxy.demo.embedded.errors import bad_format, bad_value

Json = Any
Body = Mapping[str, Any]

MAX_UNSIGNED = 2**64 - 1


def read(body: Body, name: str, *aliases: str) -> Json:
    """The value under `name` or one of its aliases; None when absent or null."""
    present = [spelling for spelling in (name, *aliases) if spelling in body]
    if len(present) > 1:
        raise bad_format(f"duplicate field `{name}`")
    return body[present[0]] if present else None


def required(body: Body, name: str, *aliases: str) -> Json:
    """Like `read`, and there must be something."""
    value = read(body, name, *aliases)
    if value is None:
        raise bad_format(f"missing field `{name}`")
    return value


def unsigned(value: Json, *, expected: str = "usize") -> int:
    """A whole number from 0 to 2^64 - 1; neither a float nor a boolean passes for one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_format(f"invalid type: {kind_of(value)}, expected {expected}")
    if not 0 <= value <= MAX_UNSIGNED:
        raise bad_format(f"invalid value: integer `{value}`, expected {expected}")
    return value


def limit_of(body: Body, name: str, *, default: int) -> int:
    """A count of at least 1, the default when absent."""
    value = read(body, name)
    return default if value is None else _counted(value, name)


def required_limit(body: Body, name: str, *aliases: str) -> int:
    """A count of at least 1 that must be there."""
    return _counted(required(body, name, *aliases), name)


def _counted(value: Json, name: str) -> int:
    if unsigned(value) == 0:
        raise bad_value(name, "value 0 invalid, must be 1 or larger")
    return int(value)


def offset_of(body: Body) -> int:
    """`offset` of a ranked search, 0 when absent."""
    value = read(body, "offset")
    return 0 if value is None else unsigned(value)


def number(value: Json, *, expected: str = "f32") -> float:
    """Any JSON number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_format(f"invalid type: {kind_of(value)}, expected {expected}")
    return float(value)


def optional_number(body: Body, name: str) -> float | None:
    """A number, or None when absent."""
    value = read(body, name)
    return None if value is None else number(value)


def text(value: Json) -> str:
    """A JSON string."""
    if not isinstance(value, str):
        raise bad_format(f"invalid type: {kind_of(value)}, expected a string")
    return value


def boolean(value: Json) -> bool:
    """A JSON boolean."""
    if not isinstance(value, bool):
        raise bad_format(f"invalid type: {kind_of(value)}, expected a boolean")
    return value


def mapping(value: Json, *, what: str = "a map") -> Body:
    """A JSON object."""
    if not isinstance(value, dict):
        raise bad_format(f"invalid type: {kind_of(value)}, expected {what}")
    return value


def items(value: Json) -> list[Json]:
    """A JSON array."""
    if not isinstance(value, list):
        raise bad_format(f"invalid type: {kind_of(value)}, expected a sequence")
    return value


def one_or_many(value: Json) -> list[Json]:
    """A JSON array, a single value standing for an array of one, or nothing."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def texts(value: Json) -> list[str]:
    """An array of strings."""
    return [text(item) for item in items(value)]


def is_point_id(value: Json) -> bool:
    """Whether the value has the type of an id; its form is checked by `point_id`."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def point_id(value: Json) -> int | str:
    """An unsigned number or a UUID in any of its spellings, returned in the canonical one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_UNSIGNED:
        return value
    if isinstance(value, str):
        try:
            return str(uuid.UUID(value))
        except ValueError:
            pass
    shown = value if is_point_id(value) else kind_of(value)
    raise bad_format(f"value {shown} is not a valid point ID, valid values are either an unsigned integer or a UUID")


def point_ids(value: Json) -> list[int | str]:
    """An array of ids."""
    return [point_id(item) for item in items(value)]


def kind_of(value: Json) -> str:
    """How the deserialiser names a value it did not want."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, str):
        return f'string "{value}"'
    if isinstance(value, int | float):
        return f"{'integer' if isinstance(value, int) else 'floating point'} `{value}`"
    return "sequence" if isinstance(value, list) else "map"

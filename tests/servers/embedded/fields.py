"""Typed reading of JSON bodies, and Qdrant's refusals: status, text and prefix of each kind of mistake.

`null` and absent are the same to an optional field. A field given under two of its names is an error.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Json = Any
Body = Mapping[str, Any]
T = TypeVar("T")

MAX_UNSIGNED = 2**64 - 1


class RefusalError(Exception):
    """An error response. `is_timed`: False for what Qdrant refuses before it starts measuring the time."""

    def __init__(self, status: int, message: str, *, is_timed: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.is_timed = is_timed


def _refusing(status: int, prefix: str, *, is_timed: bool = True) -> Callable[[str], RefusalError]:
    return lambda text: RefusalError(status, f"{prefix}: {text}", is_timed=is_timed)


bad_input = _refusing(400, "Wrong input")
bad_request = _refusing(400, "Bad request")  # also of strict mode
missing = _refusing(404, "Not found")
conflict = _refusing(409, "Wrong input")
service_error = _refusing(500, "Service internal error")
not_served = _refusing(501, "Not implemented by the embedded server")  # features of the real server
bad_format = _refusing(400, "Format error in JSON body", is_timed=False)  # of the JSON parser


def no_collection(name: str) -> RefusalError:
    """Clients look for this sentence."""
    return missing(f"Collection `{name}` doesn't exist!")


def bad_value(field: str, text: str, *, where: str = "JSON body") -> RefusalError:
    """Of the validator."""
    return RefusalError(422, f"Validation error in {where}: [{field}: {text}]", is_timed=False)


# The engine's texts and the server's for the same errors.
_REWORDED = {
    "Wrong usage of sparse vectors": "Conversion between sparse and regular vectors failed",
    "Wrong usage of multi vectors": "Conversion between multi and regular vectors failed",
    # qdrant-edge-py 0.9.0 reports any error in a formula like this. The server distinguishes a non-finite number from a
    # variable that it cannot use; the engine does not.
    "Operation cancelled: process cancelled by service": (
        "The formula produced a non-finite number, or has a variable that is missing or of another type"
    ),
}
_FAILURES = ("Inconsistent storage", "Storage file not found", "Out of memory", "Operation cancelled")


def from_engine(text: str) -> RefusalError:
    """As Qdrant 1.19 converts engine errors (`From<OperationError> for CollectionError`)."""
    if text.startswith("No point with id"):
        return missing(f"{text} found")
    if text.startswith("Service runtime error: "):
        return service_error(text.removeprefix("Service runtime error: "))
    if text in _REWORDED:
        return bad_input(_REWORDED[text])
    return service_error(text) if text.startswith(_FAILURES) else bad_input(text)


def read(body: Body, name: str, *aliases: str) -> Json:
    """The value under `name` or one of its aliases; None when absent or null."""
    if not aliases:
        return body.get(name)
    present = [spelling for spelling in (name, *aliases) if spelling in body]
    if len(present) > 1:
        raise bad_format(f"duplicate field `{name}`")
    return body[present[0]] if present else None


def required(body: Body, name: str, *aliases: str) -> Json:
    value = read(body, name, *aliases)
    if value is None:
        raise bad_format(f"missing field `{name}`")
    return value


def unsigned(value: Json, *, expected: str = "usize") -> int:
    """From 0 to 2^64 - 1; no float or boolean."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_format(f"invalid type: {kind_of(value)}, expected {expected}")
    if not 0 <= value <= MAX_UNSIGNED:
        raise bad_format(f"invalid value: integer `{value}`, expected {expected}")
    return value


def limit_of(body: Body, name: str, *, default: int) -> int:
    """At least 1."""
    value = read(body, name)
    return default if value is None else _counted(value, name)


def required_limit(body: Body, name: str, *aliases: str) -> int:
    """At least 1."""
    return _counted(required(body, name, *aliases), name)


def _counted(value: Json, name: str) -> int:
    if unsigned(value) == 0:
        raise bad_value(name, "value 0 invalid, must be 1 or larger")
    return int(value)


def offset_of(body: Body) -> int:
    value = read(body, "offset")
    return 0 if value is None else unsigned(value)


def number(value: Json, *, expected: str = "f32") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_format(f"invalid type: {kind_of(value)}, expected {expected}")
    return float(value)


def optional(value: Json, reader: Callable[[Json], T]) -> T | None:
    """`reader(value)`; None for null or absent."""
    return None if value is None else reader(value)


def optional_number(body: Body, name: str) -> float | None:
    return optional(read(body, name), number)


def text(value: Json) -> str:
    if not isinstance(value, str):
        raise bad_format(f"invalid type: {kind_of(value)}, expected a string")
    return value


def boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise bad_format(f"invalid type: {kind_of(value)}, expected a boolean")
    return value


def mapping(value: Json, *, what: str = "a map") -> Body:
    if not isinstance(value, dict):
        raise bad_format(f"invalid type: {kind_of(value)}, expected {what}")
    return value


def items(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise bad_format(f"invalid type: {kind_of(value)}, expected a sequence")
    return value


def one_or_many(value: Json) -> list[Json]:
    """A JSON array; a single value becomes an array of one, null an empty one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def texts(value: Json) -> list[str]:
    return [text(item) for item in items(value)]


def is_point_id(value: Json) -> bool:
    """By type alone; `point_id` checks the form."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def point_id(value: Json) -> int | str:
    """An unsigned number, or a UUID in canonical form."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_UNSIGNED:
        return value
    if isinstance(value, str):
        try:
            return str(uuid.UUID(value))
        except ValueError:
            pass
    seen = value if is_point_id(value) else kind_of(value)
    raise bad_format(f"value {seen} is not a valid point ID, valid values are either an unsigned integer or a UUID")


def point_ids(value: Json) -> list[int | str]:
    return [point_id(item) for item in items(value)]


def kind_of(value: Json) -> str:
    """How the deserialiser names a value of a wrong type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, str):
        return f'string "{value}"'
    if isinstance(value, int | float):
        return f"{'integer' if isinstance(value, int) else 'floating point'} `{value}`"
    return "sequence" if isinstance(value, list) else "map"

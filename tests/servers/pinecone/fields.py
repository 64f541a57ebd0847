"""Typed reading of bodies, and filters over metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from servers.pinecone.errors import invalid, unknown_field
from servers.pinecone.shapes import Reals
from servers.pinecone.store import Sparse

# Reading bodies as proto3's JSON: both spellings of a name, numbers as text, null for absent, nothing unknown.
#
# Records and documents are read with the same numbers and lists; their names have one spelling.


Json = Any
Body = Mapping[str, Any]

MAX_DIMENSION = 20_000
MAX_SPARSE = 1000
MAX_ID = 512
_WHOLE = re.compile(r"-?\d{1,18}")


def message(value: Json, names: tuple[str, ...], *, where: str = "") -> dict[str, Json]:
    """The fields of a message under their camelCase names, those that are null left out."""
    spellings = {spelling: name for name in names for spelling in (name, _snake(name))}
    members: dict[str, Json] = {}
    for spelling, item in mapping(value, where or "body").items():
        if spelling not in spellings:
            raise unknown_field(f"{where}.{spelling}" if where else spelling)
        name = spellings[spelling]
        if name in members:
            raise invalid(f"{name}: the field is there twice")
        if item is not None:
            members[name] = item
    return members


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def mapping(value: Json, where: str) -> Body:
    """A JSON object."""
    if not isinstance(value, Mapping):
        raise invalid(f"{where}: expected an object")
    return value


def text(value: Json, where: str, *, default: str = "") -> str:
    """A string; the default when absent."""
    if value is None:
        return default
    if not isinstance(value, str):
        raise invalid(f"{where}: expected a string")
    return value


def boolean(value: Json, where: str) -> bool:
    """A boolean; false when absent."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise invalid(f"{where}: expected true or false")
    return value


def whole(value: Json, where: str, *, least: int, most: int) -> int:
    """A whole number within bounds, as a number or as text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{where}: expected a whole number from {least} to {most}")
    if not least <= value <= most:
        raise invalid(f"{where} must be from {least} to {most}, got {value}")
    return value


def texts(value: Json, where: str, *, most: int | None = None) -> list[str]:
    """A list of strings; none when absent."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise invalid(f"{where}: expected a list of strings")
    if most is not None and len(value) > most:
        raise invalid(f"{where}: at most {most}, got {len(value)}")
    return value


def record_id(value: Json, where: str) -> str:
    """An id: 1 to 512 characters of ASCII."""
    identifier = text(value, where)
    if not 1 <= len(identifier) <= MAX_ID or not identifier.isascii():
        raise invalid(f"{where}: an id has 1 to {MAX_ID} ASCII characters")
    return identifier


def reals(value: Json, where: str, *, most: int = MAX_DIMENSION) -> Reals:
    """A list of float32, shape (n,), n up to `most`. A number may stand as text, as proto3 has it."""
    if not isinstance(value, list):
        raise invalid(f"{where}: expected a list of numbers")
    if len(value) > most:
        raise invalid(f"{where}: at most {most} values, got {len(value)}")
    if not set(map(type, value)) <= {int, float, str}:
        raise invalid(f"{where}: expected a list of numbers")
    try:
        with np.errstate(over="ignore"):
            numbers = np.array([float(item) for item in value], dtype=np.float64).astype(np.float32)
    except (ValueError, OverflowError):
        raise invalid(f"{where}: invalid value for type TYPE_FLOAT") from None
    if not np.isfinite(numbers).all():
        raise invalid(f"{where}: invalid value for type TYPE_FLOAT")
    return numbers


def sparse(value: Json, where: str) -> Sparse | None:
    """`{"indices":[],"values":[]}`; None when absent or empty."""
    if value is None:
        return None
    body = message(value, ("indices", "values"), where=where)
    return sparse_of(body.get("indices", []), body.get("values", []), where)


def sparse_of(indices: Json, values: Json, where: str) -> Sparse | None:
    """Indices (uint32, each once) and as many values. None when there are none."""
    weights = reals(values, f"{where}.values", most=MAX_SPARSE)
    if not isinstance(indices, list) or len(indices) != len(weights):
        raise invalid(f"{where}: as many indices as values are wanted")
    places = [whole(index, f"{where}.indices", least=0, most=2**32 - 1) for index in indices]
    if len(set(places)) != len(places):
        raise invalid(f"{where}: an index is there twice")
    return Sparse(indices=tuple(places), values=weights) if places else None


# The metadata filter: read once, then asked of every record.
#
# `$eq $ne $gt $gte $lt $lte $in $nin $exists $and $or`; a bare value means `$eq`, several fields mean all of them. A list of
# strings equals a value that is in it. `$ne` and `$nin` are the negations of `$eq` and `$in`, so a record without the field
# passes them [inferred: the public description does not say].


Metadata = Mapping[str, Json]
Filter = Callable[[Metadata], bool]

_MISSING = object()


def read_filter(value: Json) -> Filter:
    """The filter; everything passes when there is none. Raises RefusalError for what the service refuses."""
    if value is None:
        return lambda _: True
    if not isinstance(value, Mapping):
        raise invalid("filter: expected an object")
    return _all_of([_clause(name, condition) for name, condition in value.items()])


def _clause(name: str, condition: Json) -> Filter:
    if name in {"$and", "$or"}:
        if not isinstance(condition, list) or not condition:
            raise invalid(f"filter: {name} wants a list of filters that is not empty")
        parts = [read_filter(part) for part in condition]
        return _all_of(parts) if name == "$and" else _any_of(parts)
    if name.startswith("$"):
        raise invalid(f"filter: {name} is not a valid operator here")
    if not isinstance(condition, Mapping):
        return _test(name, "$eq", condition)
    if not condition:
        raise invalid(f"filter: no operator for {name!r}")
    return _all_of([_test(name, operator, operand) for operator, operand in condition.items()])


def _all_of(parts: list[Filter]) -> Filter:
    return lambda metadata: all(part(metadata) for part in parts)


def _any_of(parts: list[Filter]) -> Filter:
    return lambda metadata: any(part(metadata) for part in parts)


def _test(name: str, operator: str, operand: Json) -> Filter:
    if operator in {"$in", "$nin"}:
        return _membership(name, operator, operand)
    if operator in {"$gt", "$gte", "$lt", "$lte"}:
        return _comparison(name, operator, operand)
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise invalid("filter: $exists wants true or false")
        return lambda metadata: (name in metadata) is operand
    if operator not in {"$eq", "$ne"}:
        raise invalid(f"filter: {operator} is not a valid operator")
    _check_scalar(operator, operand)
    is_positive = operator == "$eq"
    return lambda metadata: _equals(metadata.get(name, _MISSING), operand) is is_positive


def _membership(name: str, operator: str, operand: Json) -> Filter:
    if not isinstance(operand, list):
        raise invalid(f"filter: {operator} wants a list")
    for item in operand:
        _check_scalar(operator, item)
    is_positive = operator == "$in"
    return lambda metadata: any(_equals(metadata.get(name, _MISSING), item) for item in operand) is is_positive


def _comparison(name: str, operator: str, operand: Json) -> Filter:
    if not _is_number(operand):
        raise invalid(f"filter: {operator} wants a number")
    compare: dict[str, Callable[[float], bool]] = {
        "$gt": lambda value: value > operand,
        "$gte": lambda value: value >= operand,
        "$lt": lambda value: value < operand,
        "$lte": lambda value: value <= operand,
    }
    test = compare[operator]
    return lambda metadata: _is_number(metadata.get(name)) and test(metadata[name])


def _check_scalar(operator: str, operand: Json) -> None:
    if not isinstance(operand, str | bool) and not _is_number(operand):
        raise invalid(f"filter: {operator} wants a string, a number or a boolean")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equals(value: Json, operand: Json) -> bool:
    """True is not 1 here, as in JSON; a list equals what it contains."""
    if isinstance(value, list):
        return any(_equals(item, operand) for item in value)
    return value == operand and isinstance(value, bool) is isinstance(operand, bool)

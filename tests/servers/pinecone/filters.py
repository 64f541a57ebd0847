"""The metadata filter: read once, then asked of every record.

`$eq $ne $gt $gte $lt $lte $in $nin $exists $and $or`; a bare value means `$eq`, several fields mean all of them. A list of
strings equals a value that is in it. `$ne` and `$nin` are the negations of `$eq` and `$in`, so a record without the field
passes them [inferred: the public description does not say].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from servers.pinecone.errors import invalid

Json = Any
Metadata = Mapping[str, Json]
Filter = Callable[[Metadata], bool]

_MISSING = object()


def read_filter(value: Json) -> Filter:
    """The filter; everything passes when there is none. Raises Refusal for what the service refuses."""
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
    wanted = operator == "$eq"
    return lambda metadata: _equals(metadata.get(name, _MISSING), operand) is wanted


def _membership(name: str, operator: str, operand: Json) -> Filter:
    if not isinstance(operand, list):
        raise invalid(f"filter: {operator} wants a list")
    for item in operand:
        _check_scalar(operator, item)
    wanted = operator == "$in"
    return lambda metadata: any(_equals(metadata.get(name, _MISSING), item) for item in operand) is wanted


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


def _equals(value: Json, wanted: Json) -> bool:
    """True is not 1 here, as in JSON; a list equals what it contains."""
    if isinstance(value, list):
        return any(_equals(item, wanted) for item in value)
    return value == wanted and isinstance(value, bool) is isinstance(wanted, bool)

"""Milvus's search parameters: a list of keys and values, all of them text, some said twice.

Which of two values counts differs between servers: alike they are one, and both are changed; unlike the search is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.proto_request import Shape, message, read, text_of
from vecsieve.adapters.proto_wire import Field, length_field

_KEY, _VALUE = 1, 2
_PAIR = Shape(frozenset({_KEY, _VALUE}))


@dataclass(frozen=True, slots=True)
class Pairs:
    """The fields of a list, the key of each, and what every key says."""

    fields: tuple[Field, ...]
    keys: tuple[str, ...]
    values: Mapping[str, str]


def read_pairs(data: bytes, found: Sequence[Field]) -> Pairs:
    """Read a list. Raises Unsupported."""
    keys: list[str] = []
    values: dict[str, str] = {}
    for field in found:
        pair = read(data, field.span, _PAIR)
        key, value = text_of(data, message(pair, _KEY)), text_of(data, message(pair, _VALUE))
        if values.setdefault(key, value) != value:
            raise Unsupported(Reason.AMBIGUOUS_FIELD)
        keys.append(key)
    return Pairs(tuple(found), tuple(keys), values)


def changed(pairs: Pairs, values: Mapping[str, str]) -> list[tuple[Field, bytes]]:
    """The fields of these keys with what they shall say, where they say something else, in the order of the wire."""
    return [
        (field, length_field(field.number, _pair(key, values[key])))
        for field, key in zip(pairs.fields, pairs.keys, strict=True)
        if key in values and values[key] != pairs.values[key]
    ]


def _pair(key: str, value: str) -> bytes:
    return length_field(_KEY, key.encode()) + length_field(_VALUE, value.encode())

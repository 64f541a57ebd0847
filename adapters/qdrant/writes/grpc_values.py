"""A point's message as JSON, as REST spells it, and back: vectors of all kinds, payloads, conditions of a filter.

Numbers survive both ways: a float of 32 bits is written with the fewest digits that give it again, an integer stays an integer.
"""

from __future__ import annotations

from struct import pack

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.qdrant.grpc_reply import ENTRIES, NAMED, UNNAMED, named
from vecsieve.adapters.wire.protobuf import (
    FIXED64,
    LENGTH,
    Field,
    Span,
    encoded,
    fields,
    length_field,
    number_field,
    only,
    unsigned,
)
from vecsieve.adapters.wire.vectors import packed_floats, row, unsigned_numbers

# Vector: its old fields, and since 1.17 one of three messages; in those the numbers, or a multivector's rows, and a sparse one's indices.
_DATA, _INDICES, _COUNT, _DENSE, _SPARSE, _MULTI = 1, 2, 3, 101, 102, 103
_VALUES, _SPARSE_INDICES = 1, 2
_OLD = frozenset({_DATA, _INDICES, _COUNT})


def vectors_json(data: bytes, span: Span | None) -> bytes:
    """Of one point: the unnamed vector, or an object of named ones. Raises ValueError for one that the database has yet to make."""
    each = {name: _vector(data, inner) for name, inner in named(data, span).items()}
    return orjson.dumps(each[""] if each.keys() == {""} else each, option=orjson.OPT_SERIALIZE_NUMPY)


def _vector(data: bytes, span: Span) -> object:
    found = fields(data, span)
    numbers = {field.number for field in found}
    if numbers <= _OLD:
        return _old(data, found)
    ((number, inside),) = [(field.number, fields(data, field.span)) for field in found]
    if number == _DENSE:
        return _floats(data, inside, _VALUES)
    if number == _SPARSE:
        return {"indices": unsigned_numbers(data, inside, _SPARSE_INDICES), "values": _floats(data, inside, _VALUES)}
    if number == _MULTI:
        return [_floats(data, fields(data, each.span), _VALUES) for each in inside if each.number == _VALUES]
    raise ValueError(f"vector at byte {span[0]} has field {number}, which is of no known kind")


def _old(data: bytes, found: list[Field]) -> object:
    values, indices, count = _floats(data, found, _DATA), only(found, _INDICES, LENGTH), only(found, _COUNT, 0)
    if indices is not None:
        return {"indices": unsigned_numbers(data, fields(data, indices.span), _DATA), "values": values}
    return values if count is None else values.reshape(unsigned(data, count), -1)


def _floats(data: bytes, found: list[Field], number: int) -> npt.NDArray[np.float32]:
    values = row(packed_floats(data, found, number))
    if not np.isfinite(values).all():
        raise ValueError("JSON has no such number")
    return values


def vectors_message(vectors: object) -> bytes:
    """The message of a point's vectors. ``vectors``: as JSON has them."""
    if isinstance(vectors, dict) and vectors.keys() != {"indices", "values"}:
        named_ones = [
            length_field(ENTRIES, length_field(1, name.encode()) + length_field(2, _message(each)))
            for name, each in vectors.items()
        ]
        return length_field(NAMED, b"".join(named_ones))
    return length_field(UNNAMED, _message(vectors))


def _message(vector: object) -> bytes:
    """In the old form, which all servers read."""
    if isinstance(vector, dict):
        indices = b"".join(map(encoded, vector["indices"]))
        return _packed(vector["values"]) + length_field(_INDICES, length_field(_DATA, indices))
    assert isinstance(vector, list)  # noqa: S101 - a vector as JSON has it
    if vector and isinstance(vector[0], list):
        return _packed([number for each in vector for number in each]) + number_field(_COUNT, len(vector))
    return _packed(vector)


def _packed(numbers: list[float]) -> bytes:
    return length_field(_DATA, np.array(numbers, "<f4").tobytes())


def entry(key: str, value: object) -> bytes:
    """One entry of a payload, as JSON has it."""
    return length_field(1, key.encode()) + length_field(2, _value(value))


def _value(value: object) -> bytes:
    """A Value. An integer beyond 64 bits is text."""
    if isinstance(value, dict):
        return length_field(6, b"".join(length_field(1, entry(key, inner)) for key, inner in value.items()))
    if isinstance(value, list):
        return length_field(7, b"".join(length_field(1, _value(inner)) for inner in value))
    if isinstance(value, float):
        return encoded(2 << 3 | FIXED64) + pack("<d", value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return number_field(5 if isinstance(value, bool) else 3, value % 2**64)
    return number_field(1, 0) if value is None else length_field(4, str(value).encode())


def condition(key: str, value: object) -> bytes:
    """The condition of a filter that a payload has this text, integer or boolean."""
    return length_field(1, length_field(1, key.encode()) + length_field(2, _match(value)))


def _match(value: object) -> bytes:
    if isinstance(value, bool):
        return number_field(3, int(value))
    if isinstance(value, int):
        return number_field(2, value % 2**64)
    return length_field(1, str(value).encode(errors="surrogatepass"))

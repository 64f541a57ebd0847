"""Rows over gRPC that are stored with other values than their client sent: the columns of a write, with cells replaced.

A cell that is the same keeps the client's bytes, and so does a column without other cells. A column is never added, but that of the dynamic
field: a missing one has a default, or is null for all rows.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from struct import Struct

import numpy as np

from ..wire.protobuf import LENGTH, VARINT, encoded, fields, length_field, number_field, only, unsigned, without
from . import grpc_columns as columns
from .fields import (
    ARRAY,
    BOOL,
    DOUBLE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    STRING,
    VARCHAR,
    FieldType,
    Payload,
    spelled,
)
from .grpc_columns import Column, value_of

# FieldData of a write; ScalarField, VectorField, SparseFloatArray.
_COLUMNS, _TYPE, _NAME, _SCALARS, _VECTORS, _IS_DYNAMIC, _VALID = 5, 1, 2, 3, 4, 6, 7
_ELEMENTS, _ELEMENT_TYPE = 1, 2
_DIM, _FLOATS, _BITS, _SPARSE = 1, 2, 3, 6
_DYNAMIC_NAME = b"$meta"
_SINGLE, _DOUBLE, _PAIR = Struct("<f"), Struct("<d"), Struct("<If")

# DataType -> the array of its values in ScalarField.
_KINDS: Mapping[int, int] = {
    BOOL: columns.BOOL, INT8: columns.INT, INT16: columns.INT, INT32: columns.INT, INT64: columns.LONG, FLOAT: columns.FLOATS,
    DOUBLE: columns.DOUBLE, STRING: columns.STRING, VARCHAR: columns.STRING, ARRAY: columns.ARRAY, JSON: columns.JSON,
}  # fmt: skip
# Elements that are packed in one field; each other one is a field.
_PACKED = frozenset({columns.BOOL, columns.INT, columns.LONG, columns.FLOATS, columns.DOUBLE})
_DOCUMENT = FieldType(kind=JSON)

Cells = Mapping[int, bytes | None]
"""By row the element of a column; None for null."""
Types = Mapping[str, FieldType]


def merged(
    data: bytes, each: Sequence[Column], types: Types, kept: Sequence[int], rows: Mapping[int, Payload]
) -> bytes:
    """The columns of a write with the rows ``kept``, of which some have other values. ``rows``: those, as JSON objects with all members.
    Raises ValueError for what has no place, or not its type.
    """
    places = np.array(kept, np.intp)
    parts: list[bytes] = []
    for column in each:
        cells = cells_of(data, column, each, types, rows)
        parts.append(_rebuilt(data, column, types, kept, cells) if cells else column.box.cut(data, places))
    if not any(column.is_dynamic for column in each):
        parts += _dynamic(types, kept, rows)
    return b"".join(parts)


def check(each: Sequence[Column], types: Types, own: Payload, new: Payload) -> None:
    """Raises ValueError for a field that has another value than in ``own``, and no column."""
    there = {column.name for column in each if not column.is_dynamic}
    if lost := [name for name in types if name not in there and own.get(name) != new.get(name)]:
        raise ValueError(f"no column for {lost}")


def cells_of(
    data: bytes, column: Column, each: Sequence[Column], types: Types, rows: Mapping[int, Payload]
) -> dict[int, bytes | None]:
    """The cells that are not the client's. Raises ValueError."""
    found: dict[int, bytes | None] = {}
    for row, members in rows.items():
        value = _document(members, types) if column.is_dynamic else members.get(column.name)
        before = json.loads(value_of(data, column, row))
        kind = types.get(column.name)
        if kind is not None and not kind.is_vector:
            before = kind.plain(before)
        if _compared(value) != _compared({} if column.is_dynamic and before is None else before):
            found[row] = _element(column, types, value)
    return found


def _compared(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _document(members: Payload, types: Types) -> dict[str, object]:
    """The keys of the dynamic field."""
    return {name: value for name, value in members.items() if name not in types}


def _element(column: Column, types: Types, value: object) -> bytes | None:
    """Raises ValueError."""
    if column.is_dynamic:
        return length_field(_ELEMENTS, spelled(value))
    kind = types.get(column.name)
    if kind is None or (value is None and not kind.is_nullable):
        raise ValueError(f"column {column.name} has no type, or no nulls")
    if value is None:
        return None
    return _vector(column, value) if kind.is_vector else _scalar(value, kind)


def _scalar(value: object, kind: FieldType) -> bytes:
    """Raises ValueError."""
    if not kind.holds(value):
        raise ValueError(f"a value is not of type {kind.kind}")
    if kind.kind != ARRAY:
        return _one(value, kind.kind)
    assert isinstance(value, list)  # noqa: S101 - an array holds nothing else
    return length_field(_ELEMENTS, _array(kind.element, [_one(inner, kind.element) for inner in value]))


def _array(kind: int, elements: Sequence[bytes]) -> bytes:
    """The array of a ScalarField. Raises ValueError."""
    number, inside = _KINDS[kind], b"".join(elements)
    return length_field(number, length_field(_ELEMENTS, inside) if number in _PACKED and inside else inside)


def _one(value: object, kind: int) -> bytes:
    return _ENCODED[_KINDS[kind]](value)


_ENCODED: Mapping[int, Callable[..., bytes]] = {
    **dict.fromkeys((columns.BOOL, columns.INT, columns.LONG), lambda value: encoded(int(value) % 2**64)),
    columns.FLOATS: _SINGLE.pack,
    columns.DOUBLE: _DOUBLE.pack,
    columns.STRING: lambda value: length_field(_ELEMENTS, value.encode()),
    columns.JSON: lambda value: length_field(_ELEMENTS, spelled(value)),
}


def _vector(column: Column, value: object) -> bytes:
    """From numbers, Base64, or an object of a sparse one's places. Raises ValueError."""
    content = column.content
    if content.values is None:
        raise ValueError(f"column {column.name} has no vectors")
    if isinstance(value, dict):
        pairs = sorted((int(place), weight) for place, weight in value.items())
        return length_field(_ELEMENTS, b"".join([_PAIR.pack(place, weight) for place, weight in pairs]))
    packed = b64decode(value, validate=True) if isinstance(value, str) else np.array(value, "<f4").tobytes()
    edges = content.values.edges
    if len(packed) != int(edges[1] - edges[0]):
        raise ValueError(f"a vector of column {column.name} has another length")
    return packed


def _rebuilt(data: bytes, column: Column, types: Types, kept: Sequence[int], cells: Cells) -> bytes:
    """A column with other cells. Raises ValueError for a null in a column without nulls."""
    span, mask = column.box.field.span, column.content.mask
    found = fields(data, span)
    if mask is not None and only(found, _VALID, LENGTH) is None:
        raise ValueError(f"column {column.name} has its validity elsewhere")
    elements, valid = _elements(data, column, kept, cells)
    kind = types.get(column.name, _DOCUMENT)
    rest = without(data, span, [each for each in found if each.number in {_SCALARS, _VECTORS, _VALID}])
    if kind.is_vector:
        content = length_field(_VECTORS, _vectors(data, column, elements))
    else:
        array = _KINDS[kind.kind]
        if column.content.kind not in {None, array}:
            raise ValueError(f"column {column.name} is not of its field's type")
        inside = b"".join(elements)
        inside = length_field(_ELEMENTS, inside) if array in _PACKED and inside else inside
        inside += number_field(_ELEMENT_TYPE, kind.element) if kind.kind == ARRAY else b""
        content = length_field(_SCALARS, length_field(array, inside))
    told = length_field(_VALID, bytes(valid)) if mask is not None or not all(valid) else b""
    return length_field(_COLUMNS, rest + content + told)


def _elements(data: bytes, column: Column, kept: Sequence[int], cells: Cells) -> tuple[list[bytes], list[bool]]:
    """Of the kept rows the elements, b"" for null; and which are not null. Where nulls have elements, these stay."""
    values, mask = column.content.values, column.content.mask
    edges = [] if values is None else values.edges.tolist()
    places = [-1] * column.rows if values is None else values.of(np.arange(column.rows, dtype=np.intp)).tolist()
    before = [data[edges[at] : edges[at + 1]] if at >= 0 else b"" for at in places]
    has_all = mask is not None and values is not None and values.places is None
    elements: list[bytes] = []
    for row in kept:
        cell = cells[row] if row in cells else before[row]
        elements.append(cell if cell is not None else before[row] if has_all else b"")
    return elements, [cells[row] is not None if row in cells else mask is None or bool(mask[row]) for row in kept]


def _vectors(data: bytes, column: Column, elements: Sequence[bytes]) -> bytes:
    """A VectorField."""
    values = column.content.values
    field = only(fields(data, column.box.field.span), _VECTORS, LENGTH)
    if values is None or field is None:
        raise ValueError(f"column {column.name} has no vectors")
    inside = fields(data, field.span)
    dim = only(inside, _DIM, VARINT)
    head = b"" if dim is None else number_field(_DIM, unsigned(data, dim))
    joined = b"".join(elements)
    (content,) = [each for each in inside if each.wire == LENGTH and each.number != columns.VECTOR_VALID]
    if content.number == _FLOATS:
        return head + length_field(_FLOATS, length_field(_ELEMENTS, joined))
    if content.number == _SPARSE:
        most = max(
            (int(np.frombuffer(columns.text_bytes(each), "<u4")[::2].max(initial=0)) + 1 for each in elements if each),
            default=0,
        )
        said = only(fields(data, content.span), _ELEMENT_TYPE, VARINT)  # its dimension
        return head + length_field(
            _SPARSE, joined + number_field(2, max(most, 0 if said is None else unsigned(data, said)))
        )
    if content.number in {_BITS, *columns.PACKED_VECTORS}:
        return head + length_field(content.number, joined)
    raise ValueError(f"vectors of column {column.name} are of the kind {content.number}")


def _dynamic(types: Types, kept: Sequence[int], rows: Mapping[int, Payload]) -> list[bytes]:
    """A column for the dynamic field, where no row of the client has one."""
    documents = {row: _document(members, types) for row, members in rows.items()}
    if not any(documents.values()):
        return []
    elements = b"".join([length_field(_ELEMENTS, spelled(documents.get(row, {}))) for row in kept])
    head = number_field(_TYPE, JSON) + length_field(_NAME, _DYNAMIC_NAME) + number_field(_IS_DYNAMIC, 1)
    return [length_field(_COLUMNS, head + length_field(_SCALARS, length_field(columns.JSON, elements)))]

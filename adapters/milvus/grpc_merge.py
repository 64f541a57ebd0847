"""Rows over gRPC that are stored with other values than their client sent: the columns of a write, with cells replaced.

A cell that is the same keeps the client's bytes. A column is never added, but that of the dynamic field: a missing one has a default, or is
null for all rows.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np

from ..wire.schema import serialized
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
    compared,
    spelled,
)
from .grpc_columns import Column, content_of, cut, documents_column, fill, put, value_of
from .grpc_schema import proto

_SINGLE, _DOUBLE, _PAIR = Struct("<f"), Struct("<d"), Struct("<If")

# DataType -> the array of its values in ScalarField.
_ARRAYS: Mapping[int, str] = {
    BOOL: "bool_data", **dict.fromkeys((INT8, INT16, INT32), "int_data"), INT64: "long_data", FLOAT: "float_data",
    DOUBLE: "double_data", **dict.fromkeys((STRING, VARCHAR), "string_data"), ARRAY: "array_data", JSON: "json_data",
}  # fmt: skip
_DOCUMENT = FieldType(kind=JSON)

Types = Mapping[str, FieldType]
Rows = Mapping[int, Payload]
"""By row all members of its JSON object."""


def merge(message: Any, columns: Sequence[Column], types: Types, kept: Sequence[int], rows: Rows) -> None:
    """Keep the rows ``kept`` of a write, of which ``rows`` have other values. Raises ValueError for what has no place, or not its type."""
    changed, documents = cells_of(columns, types, rows)
    for field, column, cells in zip(message.fields_data, columns, changed, strict=True):
        if cells:
            _replace(field, column, types.get(column.name, _DOCUMENT), kept, cells)
        else:
            cut(field, column, kept)
    if documents:
        message.fields_data.append(documents_column([documents.get(row, b"{}") for row in kept]))


def check(columns: Sequence[Column], types: Types, old: Payload, new: Payload) -> None:
    """Raises ValueError for a field that has another value than in ``old``, and no column."""
    there = {column.name for column in columns if not column.is_dynamic}
    if lost := [name for name in types if name not in there and old.get(name) != new.get(name)]:
        raise ValueError(f"no column for {lost}")


def cells_of(columns: Sequence[Column], types: Types, rows: Rows) -> tuple[list[dict[int, Any]], dict[int, bytes]]:
    """Of each column the elements that are not the client's, by row, None for null; and the documents of the dynamic field, where no row of the
    client has one. Raises ValueError.
    """
    documents = {row: _document(members, types) for row, members in rows.items()}
    has_documents = any(column.is_dynamic for column in columns) or not any(documents.values())
    cells = [_changed(column, types, documents if column.is_dynamic else rows) for column in columns]
    return cells, {} if has_documents else {row: spelled(document) for row, document in documents.items()}


def _changed(column: Column, types: Types, rows: Rows) -> dict[int, Any]:
    cells: dict[int, Any] = {}
    kind = types.get(column.name)
    for row, members in rows.items():
        value: object = members if column.is_dynamic else members.get(column.name)
        before = json.loads(value_of(column, row))
        if kind is not None and not kind.is_vector:
            before = kind.plain(before)
        if compared(value) != compared({} if column.is_dynamic and before is None else before):
            cells[row] = _element(column, _DOCUMENT if column.is_dynamic else kind, value)
    return cells


def _document(members: Payload, types: Types) -> dict[str, object]:
    """The keys of the dynamic field."""
    return {name: value for name, value in members.items() if name not in types}


def _element(column: Column, kind: FieldType | None, value: object) -> Any:
    if kind is None or (value is None and not kind.is_nullable):
        raise ValueError(f"column {column.name} has no type, or no nulls")
    if not kind.is_vector and column.array not in {"", _ARRAYS[kind.kind]}:
        raise ValueError(f"column {column.name} is not of its field's type")
    if value is None:
        return None
    if kind.is_vector:
        return _vector(column, value)
    return spelled(value) if column.is_dynamic else _scalar(value, kind)


def _scalar(value: object, kind: FieldType) -> Any:
    if not kind.holds(value):
        raise ValueError(f"a value is not of type {kind.kind}")
    if kind.kind != ARRAY:
        return _ENCODED[_ARRAYS[kind.kind]](value)
    assert isinstance(value, list)  # noqa: S101 - an array holds nothing else
    content, array = proto.Scalars(), _ARRAYS[kind.element]
    getattr(content, array).SetInParent()
    fill(content, array, [_ENCODED[array](inner) for inner in value])
    return serialized(content)


_ENCODED: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("bool_data", "int_data", "long_data"), int),
    "float_data": _SINGLE.pack,
    "double_data": _DOUBLE.pack,
    "string_data": str.encode,
    "json_data": spelled,
}


def _vector(column: Column, value: object) -> bytes:
    """From numbers, Base64, or an object of a sparse one's places. Raises ValueError."""
    if isinstance(value, dict) and column.array == "sparse_float_vector":
        pairs = sorted((int(place), weight) for place, weight in value.items())
        return b"".join([_PAIR.pack(place, weight) for place, weight in pairs])
    packed = b64decode(value, validate=True) if isinstance(value, str) else np.array(value, "<f4").tobytes()
    if len(packed) != column.width:
        raise ValueError(f"a vector of column {column.name} has another length")
    return packed


def _replace(message: Any, column: Column, kind: FieldType, kept: Sequence[int], cells: Mapping[int, Any]) -> None:
    """Keep some rows of a column, with other cells. Where nulls have elements, these stay."""
    elements, valid = column.elements(kept), column.validity(kept)
    has_all = bool(column.valid) and -1 not in column.places
    for place, row in enumerate(kept):
        if row in cells:
            valid[place] = cells[row] is not None
            if valid[place] or not has_all:
                elements[place] = cells[row]
    put(message, column.array or _ARRAYS[kind.kind], elements, valid)
    content = content_of(message)
    if kind.kind == ARRAY:
        content.array_data.element_type = kind.element
    if column.array == "sparse_float_vector":
        content.sparse_float_vector.dim = max(content.sparse_float_vector.dim, _dimension(elements))


def _dimension(vectors: Iterable[bytes | None]) -> int:
    """The least of sparse vectors."""
    return max((int(np.frombuffer(vector, "<u4")[::2].max()) + 1 for vector in vectors if vector), default=0)

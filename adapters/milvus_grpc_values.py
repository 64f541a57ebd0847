"""The values of a Milvus column as JSON, one a row, and those of a key in the column of dynamic fields."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import orjson

from vecsieve.adapters.allowance import Allowance
from vecsieve.adapters.json_spans import last_values
from vecsieve.adapters.milvus_grpc_columns import (
    BOOL,
    DATE,
    DOUBLE,
    FLOATS,
    INT,
    JSON,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    Column,
)
from vecsieve.adapters.proto_values import spelled_text
from vecsieve.adapters.proto_wire import fields, varint

Values = Sequence[bytes | None]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def column_values(data: bytes, column: Column, allowance: Allowance | None = None) -> Values:
    """(rows,) the JSON of each value; None for null, for what has no JSON of its own, and beyond the ``allowance``."""
    spell = None if column.kind is None else _SPELLED.get(column.kind)
    if column.values is None or spell is None:
        return [None] * column.rows
    edges = column.values.edges.tolist()
    return [
        None
        if at < 0 or not (allowance is None or allowance.covers(edges[at + 1] - edges[at]))
        else spell(data[edges[at] : edges[at + 1]])
        for at in column.elements().tolist()
    ]


def key_values(documents: Values, key: str) -> Values:
    """The member of this name in each JSON object; None where it has none, or is none."""
    return [None if document is None else last_values(document, (key,))[0] for document in documents]


def integer(element: bytes) -> bytes:
    """A varint of 64 bits, signed."""
    value = varint(element, 0, len(element))[0]
    return b"%d" % (value - 2**64 if value >= 2**63 else value)


def text_bytes(element: bytes) -> bytes:
    """What a text or bytes field holds. Raises ValueError."""
    (field,) = fields(element)
    return element[field.value : field.end]


def _text(element: bytes) -> bytes:
    return spelled_text(text_bytes(element).decode())


def _bool(element: bytes) -> bytes:
    return b"true" if element != b"\x00" else b"false"


def _float(element: bytes) -> bytes:
    return orjson.dumps(_FLOAT.unpack(element)[0])


def _double(element: bytes) -> bytes:
    return orjson.dumps(_DOUBLE.unpack(element)[0])


_SPELLED: Mapping[int, Callable[[bytes], bytes]] = {
    BOOL: _bool,
    INT: integer,
    LONG: integer,
    TIMESTAMP: integer,
    DATE: integer,
    TIME: integer,
    FLOATS: _float,
    DOUBLE: _double,
    STRING: _text,
    JSON: text_bytes,
}

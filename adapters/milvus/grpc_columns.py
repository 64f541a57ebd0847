"""The columns of messages over gRPC: the element of each row, columns with other rows or elements, and values as JSON.

Anything that is not known to have one element per row raises ValueError.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ..contract import Allowance
from ..wire.json import last_values
from ..wire.schema import has_unknown, parsed
from ..wire.values import spelled_text
from ..wire.vectors import spelled_floats
from .fields import DYNAMIC, JSON
from .grpc_schema import proto
from .search import BFLOAT16, FLOAT, FLOAT16, INT8, NUMBER_BYTES, as_matrix

Element = int | bytes
Values = Sequence[bytes | None]

# Vectors of numbers; those of 8 and 16 bits, and bits, are bytes of the content itself.
_VECTORS: Mapping[str, int] = {
    "float_vector": FLOAT, "float16_vector": FLOAT16, "bfloat16_vector": BFLOAT16, "int8_vector": INT8,
}  # fmt: skip
_BARE = frozenset({"binary_vector", "float16_vector", "bfloat16_vector", "int8_vector"})
_FIXED: Mapping[str, int] = {"float_data": 4, "double_data": 8}
_CONTENTS = ("scalars", "vectors", "struct_arrays")
# Fields of a content that are no arrays.
_NO_ARRAYS = frozenset({"dim", "valid_data"})


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of all rows. ``array``: the name of the array of its values, "" for none. ``stored``: its elements, or the bytes that pack
    them, ``width`` bytes each. ``places``: (rows,) the element of each row, -1 for none, empty without an array; a null may have an element.
    ``valid``: which rows are not null; empty without nulls. ``inner``: the columns of a structure.
    """

    rows: int
    name: str
    is_dynamic: bool
    array: str
    stored: Any
    width: int | None
    places: Sequence[int]
    valid: Sequence[bool]
    inner: tuple[Column, ...] = ()

    @property
    def vector(self) -> int | None:
        """The DataType of comparable vectors; None for other columns."""
        return _VECTORS.get(self.array)

    def elements(self, rows: Sequence[int]) -> list[Any]:
        """None for none."""
        if not self.array:
            return [None] * len(rows)
        stored, width, places = self.stored, self.width, [self.places[row] for row in rows]
        if width is None:
            return [stored[at] if at >= 0 else None for at in places]
        return [stored[at * width : (at + 1) * width] if at >= 0 else None for at in places]

    def validity(self, rows: Sequence[int]) -> list[bool]:
        """Which of these rows are not null."""
        return [self.valid[row] for row in rows] if self.valid else [True] * len(rows)

    def values(self, rows: Sequence[int]) -> list[Any]:
        """The elements; None for null."""
        elements = self.elements(rows)
        if not self.valid:
            return elements
        return [element if self.valid[row] else None for row, element in zip(rows, elements, strict=True)]


def read_columns(messages: Sequence[Any], rows: int) -> tuple[Column, ...]:
    return tuple([_column(message, rows, is_inner=False) for message in messages])


def _column(message: Any, rows: int, *, is_inner: bool) -> Column:
    content = content_of(message)
    valid = _validity(message, content, rows)
    array, listed, width = "", (), None
    inner: tuple[Column, ...] = ()
    places: Sequence[int] = ()
    if message.HasField("struct_arrays"):
        if is_inner:
            raise ValueError("a structure in a structure")
        inner = tuple([_column(field, rows, is_inner=True) for field in content.fields])
    else:
        array, listed, width = _array(content)
        places = _places(_size(listed, width), valid, rows)
    return Column(
        rows=rows,
        name=message.field_name.decode(),
        is_dynamic=message.is_dynamic,
        array=array,
        stored=list(listed) if width is None else b"".join(listed),
        width=width,
        places=places,
        valid=valid,
        inner=inner,
    )


def content_of(message: Any) -> Any:
    """The scalars, vectors or structures of a column. Raises ValueError."""
    contents = [getattr(message, name) for name in _CONTENTS if message.HasField(name)]
    if len(contents) != 1 or has_unknown(message) or has_unknown(contents[0]):
        raise ValueError("a column has several contents, none, or unknown fields")
    return contents[0]


def _validity(message: Any, content: Any, rows: int) -> Sequence[bool]:
    """(rows,) which rows are not null, of the column and of its content; empty without."""
    levels = [level.valid_data for level in (message, content) if getattr(level, "valid_data", ())]
    if any(len(valid) != rows for valid in levels) or (len(levels) > 1 and levels[0] != levels[1]):
        raise ValueError(f"validity is not one boolean for each of {rows} rows")
    return list(levels[0]) if levels else ()


def _array(content: Any) -> tuple[str, Any, int | None]:
    """The name of the array of a content, "" for none; its list; and the bytes of an element in it, None if the list has the elements.
    Raises ValueError.
    """
    names = [field.name for field, _ in content.ListFields() if field.name not in _NO_ARRAYS]
    if len(names) > 1:
        raise ValueError(f"content has {names}")
    if not names:
        return "", (), None
    (name,) = names
    listed, width = _list(content, name), _width(content, name)
    size = sum(map(len, listed)) if width is not None else 0
    if (name not in _BARE and has_unknown(getattr(content, name))) or (
        width is not None and (len(listed) > 1 or (size and (not width or size % width)))
    ):
        raise ValueError(f"{name} is no array of known elements")
    return name, listed, width


def _list(content: Any, name: str) -> Any:
    array = getattr(content, name)
    return array if name in _BARE else array.contents if name == "sparse_float_vector" else array.data


def _width(content: Any, name: str) -> int | None:
    if name == "binary_vector":
        return int(content.dim) // 8
    vector = _VECTORS.get(name)
    return _FIXED.get(name) if vector is None else NUMBER_BYTES[vector] * int(content.dim)


def _size(listed: Any, width: int | None) -> int:
    if width is None:
        return len(listed)
    return sum(map(len, listed)) // width if width else 0


def _places(size: int, valid: Sequence[bool], rows: int) -> Sequence[int]:
    """The element of each row: of all rows, or of the valid ones. Raises ValueError."""
    if size == rows:
        return range(rows)
    if not valid or size != sum(valid):
        raise ValueError(f"{size} values for {rows} rows")
    return [count - 1 if is_valid else -1 for count, is_valid in zip(accumulate(valid), valid, strict=True)]


def count_of(message: Any) -> int:
    """How many elements a column has. Raises ValueError."""
    _, listed, width = _array(content_of(message))
    return _size(listed, width)


def put(message: Any, array: str, elements: list[Any], valid: Sequence[bool]) -> None:
    """Change the rows of a column. If a null has no element, no null has one. ``array``: the name of the array, "" for none. Raises ValueError."""
    content = content_of(message)
    if array:
        if any(element is None for element in elements):
            elements = [element for element, is_valid in zip(elements, valid, strict=True) if is_valid]
        fill(content, array, elements)
    levels = [level for level in (message, content) if getattr(level, "valid_data", ())]
    for level in levels or ([] if all(valid) else [message]):
        level.valid_data[:] = valid


def fill(content: Any, array: str, elements: list[Any]) -> None:
    """Change the elements of an array. Raises ValueError for an array of another content."""
    if array not in content.DESCRIPTOR.fields_by_name:
        raise ValueError(f"{array} in another content")
    packed = _width(content, array) is not None
    _list(content, array)[:] = [b"".join(elements)] if packed and elements else elements


def documents_column(documents: list[bytes]) -> Any:
    """A column for the dynamic field."""
    return proto.Column(
        type=JSON, field_name=DYNAMIC.encode(), is_dynamic=True, scalars={"json_data": {"data": documents}}
    )


def cut(message: Any, column: Column, rows: Sequence[int]) -> None:
    """Keep these rows of a column, in their order."""
    for field, inner in zip(message.struct_arrays.fields if column.inner else (), column.inner, strict=True):
        cut(field, inner, rows)
    put(message, column.array, column.elements(rows), column.validity(rows))


def gathered(messages: Mapping[int, Any], columns: Mapping[int, Column], rows: Sequence[tuple[int, int]]) -> Any:
    """A column with rows of several replies, in their order. ``messages``, ``columns``: by reply; ``rows``: pairs of a reply and a row there.
    Raises ValueError if the columns differ in kind.
    """
    best = max(columns, key=lambda reply: bool(columns[reply].array) + bool(columns[reply].valid))
    model, message = columns[best], proto.Column()
    message.CopyFrom(messages[best])
    # A reply whose rows are all null may have no array.
    kinds = {(column.array, column.width) for column in columns.values() if column.array}
    if len(kinds) > 1 or any(len(column.inner) != len(model.inner) for column in columns.values()):
        raise ValueError(f"columns are of the kinds {kinds}")
    for at, part in enumerate(message.struct_arrays.fields if model.inner else ()):
        parts = {reply: message.struct_arrays.fields[at] for reply, message in messages.items()}
        part.CopyFrom(gathered(parts, {reply: column.inner[at] for reply, column in columns.items()}, rows))
    elements = {reply: column.elements(range(column.rows)) for reply, column in columns.items()}
    valid = {reply: column.validity(range(column.rows)) for reply, column in columns.items()}
    put(
        message,
        next((array for array, _ in kinds), ""),
        [elements[reply][row] for reply, row in rows],
        [valid[reply][row] for reply, row in rows],
    )
    return message


_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_NUMBER_SIZE = 8


def column_values(column: Column, allowance: Allowance | None = None) -> Values:
    """(rows,) the JSON of each value; None for null, for a kind without a JSON form, and beyond the ``allowance``."""
    spell = _SPELLED.get(column.array)
    if spell is None:
        return [None] * column.rows
    return [
        None
        if element is None
        or not (allowance is None or allowance.covers(_NUMBER_SIZE if isinstance(element, int) else len(element)))
        else spell(element)
        for element in column.values(range(column.rows))
    ]


def values_of(columns: Collection[Column], name: str, rows: int, allowance: Allowance | None = None) -> Values:
    """The JSON of a field in each row; None if absent. ``allowance``: of an optional field. Raises ValueError."""
    for column in columns:
        if column.name == name and not column.is_dynamic:
            return column_values(column, allowance)
    dynamic = next((column for column in columns if column.is_dynamic), None)
    documents: Values = [None] * rows if dynamic is None else column_values(dynamic, allowance)
    return [None if document is None else last_values(document, (name,))[0] for document in documents]


def vectors_of(columns: Collection[Column], name: str, rows: int) -> npt.NDArray[np.float32]:
    """(rows, d) of a column; d is 0 without one of vectors."""
    column = next((column for column in columns if column.name == name), None)
    if column is None or column.vector is None or not column.width:
        return np.full((rows, 0), np.nan, dtype=np.float32)
    places = np.array(column.places, dtype=np.intp) if column.valid else None
    if places is not None:
        places[~np.array(column.valid, dtype=np.bool_)] = -1
    return as_matrix(column.stored, column.vector, column.width, places)


def value_of(column: Column, row: int) -> bytes:
    """The JSON of one value, null for none; bytes are Base64, sparse vectors objects. Raises ValueError for a kind without a JSON form."""
    if column.inner:
        raise ValueError(f"column {column.name} has no JSON form")
    (element,) = column.values((row,))
    if element is None:
        return b"null"
    if isinstance(element, int):
        return _SPELLED[column.array](element)
    if column.array == "float_vector":
        return spelled_floats(element)
    if column.array in _BARE:
        return b'"%s"' % b64encode(element)
    if column.array == "sparse_float_vector":
        pairs = np.frombuffer(element, dtype=[("index", "<u4"), ("value", "<f4")])
        pairs_json = [b'"%d":%s' % (index, spelled_floats(value.tobytes())[1:-1]) for index, value in pairs]
        return b"{%s}" % b",".join(pairs_json)
    return _elements_of(element) if column.array == "array_data" else _spelled(column.array, element)


def _elements_of(data: bytes) -> bytes:
    """The JSON of an array, which is a ScalarField. Raises ValueError."""
    content = parsed(proto.Scalars, data)
    array, listed, width = _array(content)
    if has_unknown(content) or content.valid_data:
        raise ValueError("an array has nulls or unknown fields")
    packed = b"".join(listed) if width else b""
    elements = [packed[at : at + width] for at in range(0, len(packed), width)] if width else listed
    return b"[%s]" % b",".join([_spelled(array, element) for element in elements])


def _spelled(array: str, element: Element) -> bytes:
    spell = _SPELLED.get(array)
    if spell is None:
        raise ValueError(f"{array} has no JSON form")
    return spell(element)


_SPELLED: Mapping[str, Callable[[Any], bytes]] = {
    "bool_data": lambda element: b"true" if element else b"false",
    **dict.fromkeys(
        ("int_data", "long_data", "timestamptz_data", "date_data", "time_data"), lambda element: b"%d" % element
    ),
    "float_data": lambda element: orjson.dumps(_FLOAT.unpack(element)[0]),
    "double_data": lambda element: orjson.dumps(_DOUBLE.unpack(element)[0]),
    "string_data": lambda element: spelled_text(element.decode()),
    "json_data": lambda element: element,
}

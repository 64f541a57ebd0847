"""The columns of a reply over gRPC: the element of each row, the columns' bytes for some of the rows, and values as JSON.

Anything that is not known to have one element per row raises ValueError.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from ..contract import Allowance
from ..wire.json import last_values
from ..wire.protobuf import LENGTH, VARINT, Field, fields, length_field, only, text, unsigned, varint
from ..wire.protobuf_values import spelled_text
from ..wire.vectors import spelled_floats
from .search import BFLOAT16, FLOAT, FLOAT16, INT8

# A strip is a run of elements. A box is a message with strips or other boxes; its other bytes stay unchanged.

Indices = npt.NDArray[np.intp]

_LAST_OF_A_VARINT = 0x80


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """Consecutive elements. ``start``, ``end``: offsets, tags included. ``number``: of the field that packs them; None if each element is a
    field. ``edges``: (m + 1,) element i is from ``edges[i]`` to ``edges[i + 1]``. ``places``: (rows,) the element of each row, -1 for none;
    None: row i has element i. ``is_validity``: it tells which rows are not null.
    """

    start: int
    end: int
    number: int | None
    edges: Indices
    places: Indices | None = None
    is_validity: bool = False

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    def of(self, rows: Indices) -> Indices:
        """The elements of these rows, -1 for none."""
        return rows if self.places is None else self.places[rows]

    def cut(self, data: bytes, rows: Indices) -> bytes:
        """The bytes of the elements of these rows, in their order."""
        edges = self.edges.tolist()
        inside = b"".join([data[edges[at] : edges[at + 1]] for at in self.of(rows).tolist() if at >= 0])
        return length_field(self.number, inside) if self.number is not None and inside else inside


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A message and the parts in it, in the order of the wire."""

    field: Field
    parts: tuple[Part, ...]

    @property
    def start(self) -> int:
        """Of the field, tag included."""
        return self.field.start

    @property
    def end(self) -> int:
        """Of the field."""
        return self.field.end

    def cut(self, data: bytes, rows: Indices) -> bytes:
        """The message with these rows, in their order."""
        return length_field(self.field.number, recut(data, self.field.span, self.parts, rows))


Part = Strip | Box


def recut(data: bytes, span: tuple[int, int], parts: Sequence[Part], rows: Indices) -> bytes:
    """The bytes of ``span``, with these rows of its parts."""
    pieces: list[bytes] = []
    at = span[0]
    for part in parts:
        pieces += (data[at : part.start], part.cut(data, rows))
        at = part.end
    pieces.append(data[at : span[1]])
    return b"".join(pieces)


_VALID_ROW = b"\x01"
Source = tuple[bytes, Part]
"""A part of one of several replies, and the bytes that contain it."""


def gathered(sources: Mapping[int, Source], rows: Sequence[tuple[int, int]]) -> bytes:
    """The bytes of one part with rows of several replies, in their order. ``sources``: the part in each reply; ``rows``: pairs of an index
    in it and a row there. The bytes between parts are those of a reply that has all of them. Raises ValueError if the parts differ in kind.
    """
    data, model = max(sources.values(), key=lambda source: _strips(source[1]))
    if isinstance(model, Strip):
        return _gathered_strip(sources, rows)
    boxes = {number: (other, _keyed(box)) for number, (other, box) in sources.items()}
    parts = _keyed(model)
    if any(keyed.keys() - parts.keys() for _, keyed in boxes.values()):
        raise ValueError(f"part at byte {model.start} is of another kind in another reply")
    pieces: list[bytes] = []
    at, end = model.field.span
    for key, part in parts.items():
        inside = {number: (other, keyed[key]) for number, (other, keyed) in boxes.items() if key in keyed}
        pieces += (data[at : part.start], gathered(inside, rows))
        at = part.end
    pieces.append(data[at:end])
    return length_field(model.field.number, b"".join(pieces))


def _gathered_strip(sources: Mapping[int, Source], rows: Sequence[tuple[int, int]]) -> bytes:
    packed, lacking = None, b""  # a reply whose rows are all null may have no elements
    elements: dict[int, list[bytes]] = {}  # for each reply those of all its rows; b"" for none
    for number, (data, strip) in sources.items():
        if not isinstance(strip, Strip):
            raise ValueError(f"part at byte {strip.start} is of another kind in another reply")  # noqa: TRY004 - of the bytes, not of our own
        edges, packed = strip.edges.tolist(), strip.number
        lacking = _VALID_ROW if strip.is_validity else b""  # and one without nulls no validity
        places = range(strip.size) if strip.places is None else strip.places.tolist()
        elements[number] = [data[edges[at] : edges[at + 1]] if at >= 0 else b"" for at in places]
    inside = b"".join([elements[number][row] if number in elements else lacking for number, row in rows])
    return length_field(packed, inside) if packed is not None and inside else inside


def _strips(part: Part) -> int:
    """How many runs of elements there are in a part."""
    return 1 if isinstance(part, Strip) else 1 + sum(map(_strips, part.parts))


def _keyed(part: Part) -> dict[tuple[int | None, int], Part]:
    """The parts of a box, each by its number and its occurrence. Raises ValueError for anything but a box."""
    if isinstance(part, Strip):
        raise ValueError(f"part at byte {part.start} is of another kind in another reply")  # noqa: TRY004 - of the bytes, not of our own
    numbers = [each.number if isinstance(each, Strip) else each.field.number for each in part.parts]
    return {(number, numbers[:at].count(number)): part.parts[at] for at, number in enumerate(numbers)}


def fixed(field: Field, width: int) -> Strip:
    """Packed elements of ``width`` bytes each. Raises ValueError."""
    size = field.end - field.value
    if field.wire != LENGTH or (size and (not width or size % width)):
        raise ValueError(f"field {field.number} at byte {field.start} holds no elements of {width} bytes")
    edges = np.arange(field.value, field.end + 1, width or 1, dtype=np.intp)
    return Strip(field.start, field.end, field.number, edges)


def varints(data: bytes, field: Field) -> Strip:
    """Packed integers or booleans. Raises ValueError."""
    if field.wire != LENGTH:
        raise ValueError(f"field {field.number} at byte {field.start} is of wire type {field.wire}")
    ends = np.flatnonzero(np.frombuffer(data[field.value : field.end], dtype=np.uint8) < _LAST_OF_A_VARINT)
    edges = np.concatenate(([field.value], ends + field.value + 1)).astype(np.intp)
    if edges[-1] != field.end or (len(edges) > 1 and np.diff(edges).max() > 10):
        raise ValueError(f"field {field.number} at byte {field.start} holds no integers")
    return Strip(field.start, field.end, field.number, edges)


def single(found: Sequence[Field], number: int) -> Strip | None:
    """Elements that are a field each; None for none. Raises ValueError for other fields between them."""
    those = [field for field in found if field.number == number]
    if not those:
        return None
    if any(field.wire != LENGTH for field in those):
        raise ValueError(f"element at byte {those[0].start} is neither text nor a message")
    starts = [field.start for field in those]
    if starts[1:] != [field.end for field in those[:-1]]:
        raise ValueError(f"elements at byte {starts[0]} are interrupted")
    return Strip(starts[0], those[-1].end, None, np.array([*starts, those[-1].end], dtype=np.intp))


# FieldData.
_TYPE, _NAME, _SCALARS, _VECTORS, _ID, _IS_DYNAMIC, _VALID, _STRUCTS = 1, 2, 3, 4, 5, 6, 7, 8
_KNOWN = frozenset(range(1, 9))
_STRUCT_FIELDS = 1

# ScalarField: the array of each kind, whose elements are field 1 of it.
BOOL, INT, LONG, FLOATS, DOUBLE, STRING, ARRAY, JSON, TIMESTAMP, DATE, TIME = 1, 2, 3, 4, 5, 6, 8, 9, 11, 15, 16
_VARINTS = frozenset({BOOL, INT, LONG, TIMESTAMP, DATE, TIME})
_FIXED: Mapping[int, int] = {FLOATS: 4, DOUBLE: 8}
_SINGLE = frozenset({STRING, 7, ARRAY, JSON, 10, 12, 13, 14})  # 7: bytes; 10 and 12: geometry; 13 and 14: molecules
_ELEMENTS = 1
_SCALAR_VALID = 17

# VectorField: vectors of numbers, bits, sparse ones, lists of vectors.
_DIM, _FLOAT_VECTOR, _BITS, _SPARSE, _LISTS = 1, 2, 3, 6, 8
_WIDTHS: Mapping[int, int] = {_FLOAT_VECTOR: 4, 4: 2, 5: 2, 7: 1}  # bytes a number
_TYPES: Mapping[int, int] = {_FLOAT_VECTOR: FLOAT, 4: FLOAT16, 5: BFLOAT16, 7: INT8}
_LIST_ELEMENTS = 2
VECTOR_VALID = 9
PACKED_VECTORS = frozenset({4, 5, 7})  # those whose numbers are bytes of one field

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """The parts of a column, and its values. ``kind``: the number of the array in ScalarField; ``vector``: the DataType of comparable
    vectors; None for other columns. ``values``: None if there are none. ``mask``: (rows,) which rows are not null, None if the reply has no
    mask; a null may have an element.
    """

    parts: tuple[Part, ...]
    kind: int | None = None
    vector: int | None = None
    width: int = 0
    values: Strip | None = None
    mask: Mask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of all rows."""

    box: Box
    name: str
    rows: int
    is_dynamic: bool
    content: Content

    def elements(self) -> Indices:
        """(rows,) the element of each row; -1 for null, and for no value."""
        values, mask = self.content.values, self.content.mask
        if values is None:
            return np.full(self.rows, -1, dtype=np.intp)
        found = values.of(np.arange(self.rows, dtype=np.intp))
        return found if mask is None else np.where(mask, found, -1)


def read_column(data: bytes, field: Field, rows: int) -> Column:
    """Raises ValueError."""
    if field.wire != LENGTH:
        raise ValueError(f"column at byte {field.start} is of wire type {field.wire}")
    found = fields(data, field.span)
    if unknown := {inner.number for inner in found} - _KNOWN:
        raise ValueError(f"column at byte {field.start} has fields {sorted(unknown)}, which are unknown")
    name, dynamic = only(found, _NAME, LENGTH), only(found, _IS_DYNAMIC, VARINT)
    scalars, vectors, structs = (only(found, number, LENGTH) for number in (_SCALARS, _VECTORS, _STRUCTS))
    if sum(each is not None for each in (scalars, vectors, structs)) != 1:
        raise ValueError(f"column at byte {field.start} is not of one kind")
    mask, parts = _validity(data, found, _VALID, rows)
    if scalars is not None:
        content = _scalars(data, scalars, mask, rows)
    elif vectors is not None:
        content = _vectors(data, vectors, mask, rows)
    else:
        assert structs is not None  # noqa: S101 - one of the three is there
        content = _structs(data, structs, rows)
    return Column(
        box=Box(field, _in_order([*parts, *content.parts])),
        name="" if name is None else text(data, name),
        rows=rows,
        is_dynamic=dynamic is not None and unsigned(data, dynamic) != 0,
        content=content,
    )


def _scalars(data: bytes, field: Field, mask: Mask | None, rows: int) -> Content:
    found, mask, valid = _masked(data, field, _SCALAR_VALID, mask, rows)
    array = _one(found, field)
    if array is None:
        _aligned(None, mask, rows)
        return Content((Box(field, tuple(valid)),))
    strip = _aligned(_scalar_strip(data, array), mask, rows)
    box = Box(array, () if strip is None else (strip,))
    return Content((Box(field, _in_order([box, *valid])),), kind=array.number, values=strip, mask=mask)


def _scalar_strip(data: bytes, array: Field) -> Strip | None:
    found, kind = fields(data, array.span), array.number
    if kind in _SINGLE:
        return single(found, _ELEMENTS)
    packed = only(found, _ELEMENTS, LENGTH)
    if kind in _VARINTS:
        return None if packed is None else varints(data, packed)
    if kind in _FIXED:
        return None if packed is None else fixed(packed, _FIXED[kind])
    raise ValueError(f"scalars at byte {array.start} are of the unknown kind {kind}")


def _vectors(data: bytes, field: Field, mask: Mask | None, rows: int) -> Content:
    found, mask, valid = _masked(data, field, VECTOR_VALID, mask, rows)
    dim = only(found, _DIM, VARINT)
    dimension = 0 if dim is None else unsigned(data, dim)
    content = _one([inner for inner in found if inner.number != _DIM], field)
    if content is None:
        _aligned(None, mask, rows)
        return Content((Box(field, tuple(valid)),))
    number = content.number
    width = _WIDTHS.get(number, 0) * dimension
    if number in {_FLOAT_VECTOR, _SPARSE, _LISTS}:
        strip = _aligned(_vector_strip(data, content, width), mask, rows)
        part: Part | None = Box(content, () if strip is None else (strip,))
    elif number in _WIDTHS or number == _BITS:
        part = strip = _aligned(fixed(content, dimension // 8 if number == _BITS else width), mask, rows)
    else:
        raise ValueError(f"vectors at byte {content.start} are of the unknown kind {number}")
    parts = _in_order([*valid, *([] if part is None else [part])])
    return Content((Box(field, parts),), vector=_TYPES.get(number), width=width, values=strip, mask=mask)


def _vector_strip(data: bytes, content: Field, width: int) -> Strip | None:
    found = fields(data, content.span)
    if content.number == _FLOAT_VECTOR:
        packed = only(found, _ELEMENTS, LENGTH)
        return None if packed is None else fixed(packed, width)
    return single(found, _LIST_ELEMENTS if content.number == _LISTS else _ELEMENTS)


def _structs(data: bytes, field: Field, rows: int) -> Content:
    """Fields of structures, each a column."""
    found = fields(data, field.span)
    if any(inner.number != _STRUCT_FIELDS for inner in found):
        raise ValueError(f"structures at byte {field.start} hold unknown fields")
    return Content((Box(field, tuple(read_column(data, inner, rows).box for inner in found)),))


def _masked(
    data: bytes, field: Field, number: int, mask: Mask | None, rows: int
) -> tuple[list[Field], Mask | None, list[Strip]]:
    """The fields of a column's content without its validity; the mask; and the strips of the validity."""
    found = fields(data, field.span)
    own, strips = _validity(data, found, number, rows)
    if own is not None and mask is not None and not np.array_equal(own, mask):
        raise ValueError(f"column at byte {field.start} has two different validities")
    return [inner for inner in found if inner.number != number], mask if own is None else own, strips


def _validity(data: bytes, found: Sequence[Field], number: int, rows: int) -> tuple[Mask | None, list[Strip]]:
    """(rows,) which rows have a value, None if the column has no validity; and its strip."""
    field = only(found, number, LENGTH)
    if field is None or field.value == field.end:
        return None, []
    strip = replace(fixed(field, 1), is_validity=True)
    mask = np.frombuffer(data[field.value : field.end], dtype=np.uint8)
    if len(mask) != rows or mask.max() > 1:
        raise ValueError(f"validity at byte {field.start} is not one boolean for each of {rows} rows")
    return mask.astype(np.bool_), [strip]


def _one(found: Sequence[Field], field: Field) -> Field | None:
    """The array in a column's content; None for none. Raises ValueError for several."""
    if len(found) > 1 or any(inner.wire != LENGTH for inner in found):
        raise ValueError(f"content at byte {field.start} is not one array")
    return found[0] if found else None


def _aligned(strip: Strip | None, mask: Mask | None, rows: int) -> Strip | None:
    """The strip with the element of each row: of all rows, or of the valid ones. Raises ValueError."""
    size = 0 if strip is None else strip.size
    if size == rows:
        return strip
    if mask is None or size != int(mask.sum()):
        raise ValueError(f"{size} values for {rows} rows")
    places = np.where(mask, np.cumsum(mask) - 1, -1).astype(np.intp)
    return None if strip is None else replace(strip, places=places)


def _in_order(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: part.start))


Values = Sequence[bytes | None]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def column_values(data: bytes, column: Column, allowance: Allowance | None = None) -> Values:
    """(rows,) the JSON of each value; None for null, for a kind without a JSON form, and beyond the ``allowance``."""
    kind, values = column.content.kind, column.content.values
    spell = None if kind is None else _SPELLED.get(kind)
    if values is None or spell is None:
        return [None] * column.rows
    edges = values.edges.tolist()
    return [
        None
        if at < 0 or not (allowance is None or allowance.covers(edges[at + 1] - edges[at]))
        else spell(data[edges[at] : edges[at + 1]])
        for at in column.elements().tolist()
    ]


def rows_of(data: bytes, field: Field) -> int:
    """How many values a column of scalars without nulls has. Raises ValueError."""
    scalars = only(fields(data, field.span), _SCALARS, LENGTH)
    array = None if scalars is None else _one(fields(data, scalars.span), scalars)
    strip = None if array is None else _scalar_strip(data, array)
    return 0 if strip is None else strip.size


def value_of(data: bytes, column: Column, row: int) -> bytes:
    """The JSON of one value, null for none; bytes are Base64, sparse vectors objects. Raises ValueError for a kind without a JSON form."""
    kind, values, at = column.content.kind, column.content.values, int(column.elements()[row])
    if values is None or at < 0:
        return b"null"
    element = data[values.edges[at] : values.edges[at + 1]]
    if kind is not None:
        return _scalar(kind, element)
    if column.content.vector == FLOAT:
        return spelled_floats(element)
    if column.content.vector is not None or values.number == _BITS:
        return b'"%s"' % b64encode(element)
    inside = [part.field.number for part in _boxes(column.box)]
    if _SPARSE not in inside:
        raise ValueError(f"column at byte {column.box.start} has no JSON form")
    pairs = np.frombuffer(text_bytes(element), dtype=[("index", "<u4"), ("value", "<f4")])
    return b"{%s}" % b",".join([b'"%d":%s' % (index, spelled_floats(value.tobytes())[1:-1]) for index, value in pairs])


def _boxes(box: Box) -> list[Box]:
    inner = [part for part in box.parts if isinstance(part, Box)]
    return [box, *[each for part in inner for each in _boxes(part)]]


def _scalar(kind: int, element: bytes) -> bytes:
    """Raises ValueError."""
    if kind in _SPELLED:
        return _SPELLED[kind](element)
    if kind != ARRAY:
        raise ValueError(f"values of kind {kind} have no JSON form")
    (field,) = fields(element)
    found = fields(element, field.span)
    if not found:
        return b"[]"
    (array,) = found
    strip = _scalar_strip(element, array)
    edges = [] if strip is None else strip.edges.tolist()
    each = [_scalar(array.number, element[start:end]) for start, end in pairwise(edges)]
    return b"[%s]" % b",".join(each)


def key_values(documents: Values, key: str) -> Values:
    """The value of this key in each JSON object; None if absent."""
    return [None if document is None else last_values(document, (key,))[0] for document in documents]


def integer(element: bytes) -> bytes:
    """The JSON of a signed varint of 64 bits."""
    value = varint(element, 0, len(element))[0]
    return b"%d" % (value - 2**64 if value >= 2**63 else value)


def text_bytes(element: bytes) -> bytes:
    """The value of an element that is a field. Raises ValueError."""
    (field,) = fields(element)
    return element[field.value : field.end]


def _text(element: bytes) -> bytes:
    return spelled_text(text_bytes(element).decode())


_SPELLED: Mapping[int, Callable[[bytes], bytes]] = {
    BOOL: lambda element: b"true" if element != b"\x00" else b"false",
    **dict.fromkeys((INT, LONG, TIMESTAMP, DATE, TIME), integer),
    FLOATS: lambda element: orjson.dumps(_FLOAT.unpack(element)[0]),
    DOUBLE: lambda element: orjson.dumps(_DOUBLE.unpack(element)[0]),
    STRING: _text,
    JSON: text_bytes,
}

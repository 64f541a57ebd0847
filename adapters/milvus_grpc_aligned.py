"""What stands once per row in a Milvus reply, and its bytes for some of the rows.

A strip is one run of elements. A box is a message around strips or other boxes; all else in it stays as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.proto_wire import LENGTH, Field, length_field

Indices = npt.NDArray[np.intp]

_LAST_OF_A_VARINT = 0x80


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """Elements that follow each other. ``start``, ``end``: what they fill, tags included. ``number``: of the one field that
    holds them all; None where each is a field of its own. ``edges``: (m + 1,) where element i begins, i + 1 where it ends.
    ``places``: (rows,) the element of each row, -1 where it has none; None: row i has element i.
    """

    start: int
    end: int
    number: int | None
    edges: Indices
    places: Indices | None = None

    @property
    def size(self) -> int:
        """How many elements."""
        return len(self.edges) - 1

    def of(self, rows: Indices) -> Indices:
        """The elements of these rows, -1 where one has none."""
        return rows if self.places is None else self.places[rows]

    def cut(self, data: bytes, rows: Indices) -> bytes:
        """The elements of these rows, in their order."""
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
        """Where it begins, tag included."""
        return self.field.start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.field.end

    def cut(self, data: bytes, rows: Indices) -> bytes:
        """The message with these rows, in their order."""
        return length_field(self.field.number, recut(data, self.field.span, self.parts, rows))


Part = Strip | Box


def recut(data: bytes, span: tuple[int, int], parts: Sequence[Part], rows: Indices) -> bytes:
    """What fills ``span``, its parts with these rows."""
    pieces: list[bytes] = []
    at = span[0]
    for part in parts:
        pieces += (data[at : part.start], part.cut(data, rows))
        at = part.end
    pieces.append(data[at : span[1]])
    return b"".join(pieces)


def fixed(field: Field, width: int) -> Strip:
    """Elements of so many bytes each, packed into one field. Raises ValueError."""
    size = field.end - field.value
    if field.wire != LENGTH or (size and (not width or size % width)):
        raise ValueError(f"field {field.number} at byte {field.start} holds no elements of {width} bytes")
    edges = np.arange(field.value, field.end + 1, width or 1, dtype=np.intp)
    return Strip(field.start, field.end, field.number, edges)


def varints(data: bytes, field: Field) -> Strip:
    """Integers or switches, packed into one field. Raises ValueError."""
    if field.wire != LENGTH:
        raise ValueError(f"field {field.number} at byte {field.start} is of wire type {field.wire}")
    ends = np.flatnonzero(np.frombuffer(data[field.value : field.end], dtype=np.uint8) < _LAST_OF_A_VARINT)
    edges = np.concatenate(([field.value], ends + field.value + 1)).astype(np.intp)
    if edges[-1] != field.end or (len(edges) > 1 and np.diff(edges).max() > 10):
        raise ValueError(f"field {field.number} at byte {field.start} holds no integers")
    return Strip(field.start, field.end, field.number, edges)


def single(found: Sequence[Field], number: int) -> Strip | None:
    """Elements that are a field each; None where there are none. Raises ValueError where something stands between."""
    those = [field for field in found if field.number == number]
    if not those:
        return None
    if any(field.wire != LENGTH for field in those):
        raise ValueError(f"element at byte {those[0].start} is neither text nor a message")
    starts = [field.start for field in those]
    if starts[1:] != [field.end for field in those[:-1]]:
        raise ValueError(f"elements at byte {starts[0]} are interrupted")
    return Strip(starts[0], those[-1].end, None, np.array([*starts, those[-1].end], dtype=np.intp))

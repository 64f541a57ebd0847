"""Repeated protobuf numbers to numpy: floats of 32 bits, and unsigned integers of as many.

Writers pack them into one field; a reader must also take them one by one, or in several parts
(https://protobuf.dev/programming-guides/encoding/#packed). Floats stay bytes until all rows are one matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.wire.protobuf import FIXED32, LENGTH, VARINT, Field, varint

Matrix = npt.NDArray[np.float32]

_SIZE = 4
_LITTLE = np.dtype("<f4")
_MOST = 2**32 - 1


def packed_floats(data: bytes, found: Iterable[Field], number: int) -> bytes:
    """The floats of field ``number``, four bytes each; b"" where there are none. Raises ValueError."""
    pieces: list[bytes] = []
    for field in found:
        if field.number != number:
            continue
        if field.wire not in {LENGTH, FIXED32} or (field.end - field.value) % _SIZE:
            raise ValueError(f"field {number} at byte {field.start} holds no floats")
        pieces.append(data[field.value : field.end])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def row(packed: bytes) -> npt.NDArray[np.float32]:
    """(d,) of packed floats; d may be 0, and values may be no numbers."""
    return np.frombuffer(packed, dtype=_LITTLE).astype(np.float32, copy=False)


def matrix(rows: Sequence[bytes | None]) -> Matrix:
    """(n, d) of packed floats, d being the length of the first row that is not empty; NaN rows for all that cannot be used:
    None, of another length, or with a value that is not finite.
    """
    size = next((len(packed) for packed in rows if packed), 0)
    filler = b"\xff" * size  # a NaN in every place
    joined = b"".join([packed if packed is not None and len(packed) == size else filler for packed in rows])
    found = row(joined).reshape(len(rows), size // _SIZE)
    if size and not np.isfinite(found).all():
        found = found.copy()  # it was a view of the bytes
        found[~np.isfinite(found).all(axis=1)] = np.nan
    return found


def unsigned_numbers(data: bytes, found: Iterable[Field], number: int) -> npt.NDArray[np.int64]:
    """(n,) the integers of field ``number``, such as a sparse vector's indices. Raises ValueError."""
    values: list[int] = []
    for field in found:
        if field.number != number:
            continue
        if field.wire not in {LENGTH, VARINT}:
            raise ValueError(f"field {number} at byte {field.start} holds no integers")
        at = field.value
        while at < field.end:
            value, at = varint(data, at, field.end)
            values.append(value)
    if any(value > _MOST for value in values):
        raise ValueError(f"field {number} holds an integer of more than 32 bits")
    return np.array(values, dtype=np.int64)


# Which vectors of a reply can be used.


def without_vector(vectors: npt.NDArray[np.float32]) -> int:
    """How many rows (n, d) are no usable vector: those of NaN, and all where nobody has a vector (d = 0)."""
    if not vectors.shape[1]:
        return len(vectors)
    with np.errstate(over="ignore"):
        # A row with a NaN has a NaN for its square: half the time of looking at every number.
        squares = np.einsum("ij,ij->i", vectors, vectors)
    return int(np.isnan(squares).sum())


# Sparse vectors as rows of one matrix over the union of their indices.
#
# The rows have the inner products of the vectors they stand for, so that selection need not know of sparse ones.

# A dense matrix over the union of sparse indices: no wider, and no larger than 64 MiB.
MAX_SPARSE_WIDTH = 65_536
MAX_SPARSE_CELLS = 2**24

# Indices and values, equally long and not empty.
SparseRow = tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]]


def union_matrix(rows: Sequence[SparseRow | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32; a row of NaN for None and for values beyond float32, d = 0 when there is none or the union is too wide."""
    present = [row[0] for row in rows if row is not None]
    union = np.unique(np.concatenate(present)) if present else np.zeros(0, dtype=np.int64)
    if len(union) > MAX_SPARSE_WIDTH or len(union) * len(rows) > MAX_SPARSE_CELLS:
        union = union[:0]
    matrix = np.full((len(rows), len(union)), np.nan, dtype=np.float32)
    if not len(union):
        return matrix
    with np.errstate(over="ignore"):
        for index, row in enumerate(rows):
            if row is not None:
                matrix[index] = 0.0
                matrix[index, np.searchsorted(union, row[0])] = row[1]
    matrix[~np.isfinite(matrix).all(axis=1)] = np.nan
    return matrix

"""Vectors to numpy: repeated protobuf numbers of 32 bits, and sparse rows.

Repeated numbers may be packed, in one field or several, or stand one by one
(https://protobuf.dev/programming-guides/encoding/#packed). Floats stay bytes until all rows are one matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

Matrix = npt.NDArray[np.float32]

_SIZE = 4
_LITTLE = np.dtype("<f4")


def row(packed: bytes) -> npt.NDArray[np.float32]:
    """(d,) of packed floats; d may be 0, values may be NaN."""
    return np.frombuffer(packed, dtype=_LITTLE).astype(np.float32, copy=False)


def whole_floats(packed: bytes) -> bytes:
    """The same. Raises ValueError for bytes that are no floats."""
    if len(packed) % _SIZE:
        raise ValueError(f"a vector of {len(packed)} bytes holds no whole floats")
    return packed


def spelled_floats(packed: bytes) -> bytes:
    """The JSON of packed floats, each with the fewest digits that identify it. Raises ValueError for numbers without a JSON form."""
    values = row(packed)
    if not np.isfinite(values).all():
        raise ValueError("JSON has no such number")
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def matrix(rows: Sequence[bytes | None]) -> Matrix:
    """(n, d) of packed floats, d being the length of the first row that is not empty; NaN rows for None, for another length and for
    values that are not finite.
    """
    size = next((len(packed) for packed in rows if packed), 0)
    filler = b"\xff" * size  # NaN in every place
    joined = b"".join([packed if packed is not None and len(packed) == size else filler for packed in rows])
    stacked = row(joined).reshape(len(rows), size // _SIZE)
    if size and not np.isfinite(stacked).all():
        stacked = stacked.copy()  # a view of bytes is read-only
        stacked[~np.isfinite(stacked).all(axis=1)] = np.nan
    return stacked


def usable(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
    """A query vector (d,) with numbers that are all finite; None for any other."""
    return vector if len(vector) and bool(np.isfinite(vector).all()) else None


def without_vector(vectors: npt.NDArray[np.float32]) -> int:
    """The number of rows (n, d) that are NaN; n if d = 0."""
    if not vectors.shape[1]:
        return len(vectors)
    with np.errstate(over="ignore"):
        # The square of a row with a NaN is NaN: half the time of testing every number.
        squares = np.einsum("ij,ij->i", vectors, vectors)
    return int(np.isnan(squares).sum())


# Sparse vectors become rows of one dense matrix over the union of their indices, with the same inner products. Its limits:
MAX_SPARSE_WIDTH = 65_536
MAX_SPARSE_CELLS = 2**24

# Indices and values, of equal length, not empty.
SparseRow = tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]]


def union_matrix(rows: Sequence[SparseRow | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32; NaN rows for None and for values beyond float32; d = 0 if there is none or the union is too wide."""
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

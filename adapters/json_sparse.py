"""Sparse vectors, ``{"indices": [..], "values": [..]}``, as rows of one matrix over the union of their indices.

The rows have the inner products of the vectors they stand for, so that selection need not know of sparse ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.json_floats import Row
from vecsieve.adapters.json_spans import members

# A dense matrix over the union of sparse indices: no wider, and no larger than 64 MiB.
MAX_SPARSE_WIDTH = 65_536
MAX_SPARSE_CELLS = 2**24


def sparse_matrix(values: Sequence[bytes | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32; a row of NaN for what is no sparse vector, d = 0 when there is none or the union is too wide.

    Raises ValueError for an object that cannot be read with certainty.
    """
    rows = [_sparse(value) for value in values]
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


def numbers(value: bytes | None) -> Row | None:
    """An array of numbers, or of equally long arrays of numbers; None for everything else."""
    # The same guard as in json_floats: numpy would turn these literals and strings into numbers.
    if value is None or any(mark in value for mark in (b'"', b"t", b"f", b"n", b"{")):
        return None
    try:
        rows = np.array(orjson.loads(value), dtype=np.float64)
    except (ValueError, OverflowError):  # ValueError: not JSON, or ragged
        return None
    return rows if np.isfinite(rows).all() else None


def _sparse(value: bytes | None) -> tuple[npt.NDArray[np.int64], Row] | None:
    """Indices and values of a sparse vector; None when it is none, or empty."""
    if value is None or not value.startswith(b"{"):
        return None
    found = members(value, (0, len(value)))
    if found.keys() != {"indices", "values"}:
        return None
    indices, weights = (numbers(value[found[key].value : found[key].end]) for key in ("indices", "values"))
    if indices is None or weights is None or indices.shape != weights.shape or indices.ndim != 1 or not indices.size:
        return None
    return indices.astype(np.int64), weights

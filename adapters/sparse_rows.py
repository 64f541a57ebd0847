"""Sparse vectors as rows of one matrix over the union of their indices.

The rows have the inner products of the vectors they stand for, so that selection need not know of sparse ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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

"""Milvus's vectors as rows of float32, whatever number they are stored as."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.milvus_schema import BFLOAT16, FLOAT, FLOAT16, INT8

Matrix = npt.NDArray[np.float32]

# DataType -> bytes a number.
NUMBER_BYTES: Mapping[int, int] = {FLOAT: 4, FLOAT16: 2, BFLOAT16: 2, INT8: 1}


def numbers(packed: bytes, kind: int) -> Matrix:
    """The numbers of a vector, or of several behind each other. ``packed``: whole numbers of ``kind``."""
    if kind == FLOAT:
        return np.frombuffer(packed, dtype="<f4").astype(np.float32, copy=False)
    if kind == FLOAT16:
        return np.frombuffer(packed, dtype="<f2").astype(np.float32)
    if kind == BFLOAT16:  # the upper half of a float32
        return (np.frombuffer(packed, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(packed, dtype=np.int8).astype(np.float32)


def as_query(packed: bytes, kind: int) -> Matrix | None:
    """(d,) a query vector; None where it is none to compare with. Raises ValueError for half a number."""
    if len(packed) % NUMBER_BYTES[kind]:
        raise ValueError(f"{len(packed)} bytes are no whole numbers of type {kind}")
    found = numbers(packed, kind)
    return found if len(found) and bool(np.isfinite(found).all()) else None


def as_matrix(packed: bytes, kind: int, width: int, rows: npt.NDArray[np.intp]) -> Matrix:
    """(n, d) the vectors ``rows`` of those packed behind each other, ``width`` bytes each; NaN for a row of -1, and where a
    value is not finite.
    """
    found = numbers(packed, kind).reshape(-1, width // NUMBER_BYTES[kind])
    # A row that is missing takes the place of another, and is then blotted out.
    matrix = found[rows] if len(found) else np.zeros((len(rows), found.shape[1]), dtype=np.float32)
    matrix[(rows < 0) | ~np.isfinite(matrix).all(axis=1)] = np.nan
    return matrix

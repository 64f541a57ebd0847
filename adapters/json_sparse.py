"""Sparse vectors, ``{"indices": [..], "values": [..]}``, to numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.json_floats import Row
from vecsieve.adapters.json_spans import members
from vecsieve.adapters.sparse_rows import union_matrix


def sparse_matrix(values: Sequence[bytes | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32; a row of NaN for what is no sparse vector, d = 0 when there is none or the union is too wide.

    Raises ValueError for an object that cannot be read with certainty.
    """
    return union_matrix([_sparse(value) for value in values])


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

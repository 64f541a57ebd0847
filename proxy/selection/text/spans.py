"""Chunks of one document that cover the same part of it: overlap is read off the spans, without looking at the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices


def shares(documents: Sequence[str | None], spans: FloatVector, rows: Indices, columns: Indices) -> FloatMatrix:
    """Share (n, m) float32 in [0, 1] of the shorter span that both cover, for candidates ``rows`` and ``columns``.

    ``documents``: of all candidates. ``spans``: (all, 2) float64, [start, end). 0 where the documents differ or one is not
    known, and where a span is not known, infinite, empty or turned round.
    """
    numbers = _numbered(documents)
    same = (numbers[rows][:, None] == numbers[columns][None, :]) & (numbers[rows][:, None] >= 0)
    if not same.any():
        return np.zeros(same.shape, np.float32)
    # Halved: the length of any finite span is finite then.
    start, end = spans[:, 0] / 2.0, spans[:, 1] / 2.0
    with np.errstate(invalid="ignore"):
        length = end - start
        known = np.isfinite(length) & (length > 0.0)
        both = np.minimum(end[rows][:, None], end[columns][None, :])
        both -= np.maximum(start[rows][:, None], start[columns][None, :])
        shorter = np.minimum(length[rows][:, None], length[columns][None, :])
    same &= known[rows][:, None] & known[columns][None, :]
    share = np.zeros(same.shape, np.float64)
    np.divide(both, shorter, out=share, where=same)
    return np.clip(share, 0.0, 1.0).astype(np.float32)


def _numbered(documents: Sequence[str | None]) -> Indices:
    """Documents as numbers (n,): equal documents, equal numbers; -1 where there is none."""
    known: dict[str, int] = {}
    numbers = [-1 if name is None else known.setdefault(name, len(known)) for name in documents]
    return np.array(numbers, dtype=np.intp)

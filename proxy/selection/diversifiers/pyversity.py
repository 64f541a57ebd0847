"""The diversifiers of the optional library pyversity: MSD, COVER and SSD.

Called with its own defaults, so that its documentation is true here. Two things are done before and one after: rows are
scaled to unit length, because the library's own scaling overflows on components near the end of float32's range; a row
that is not usable becomes zero, which the library reads as unlike everything, as MMR and DPP here do; and whatever it should
leave out is appended by rank, so that the page is full.
"""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.geometry import rows_of
from vecsieve.proxy.selection.policy import Method
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices


def external(gains: FloatVector, vectors: FloatMatrix, *, method: Method, diversity: float, count: int) -> Indices:
    """Indices of ``count`` picks (all, when there are fewer), in pick order; ties go to the lower index.

    At diversity 0 the library is not asked: it sorts by relevance with a sort that is not stable.

    ``gains``: (m,) finite, scaled to [0, 1], higher is more relevant. ``vectors``: (m, d). Raises ModuleNotFoundError
    where the library is missing.
    """
    count = min(count, len(gains))
    by_relevance = np.argsort(-gains, kind="stable").astype(np.intp, copy=False)
    if diversity == 0.0 or not count:
        return by_relevance[:count]
    from pyversity import diversify  # optional

    result = diversify(_unit(vectors), gains, count, strategy=method.value, diversity=diversity)
    picks = result.indices.astype(np.intp)
    rest = by_relevance[~np.isin(by_relevance, picks)]
    return np.concatenate((picks, rest))[:count]


def _unit(vectors: FloatMatrix) -> FloatMatrix:
    """Rows of length one, zero where not usable (m, d)."""
    rows = rows_of(vectors)
    unit = np.zeros_like(rows.values)
    unit[rows.usable] = rows.values[rows.usable] / np.sqrt(rows.squares[rows.usable])[:, None]
    return unit

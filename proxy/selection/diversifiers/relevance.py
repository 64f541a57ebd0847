"""Relevance: the backend's scores, made higher-is-better and comparable.

Whether a high score is good is derived from the ranking, not assumed. On cosine and dot collections scores fall with rank, on Euclid and
Manhattan they rise. After fusion or a backend's own MMR they may do neither. In that case, and if a score is missing, the rank is used.
"""

from __future__ import annotations

import numpy as np

from ..geometry import across, rows_of
from ..values import Candidates, FloatVector


def by_rank(n: int) -> FloatVector:
    """From 1 for the first candidate down to 0 for the last, in equal steps (n,)."""
    return np.linspace(1.0, 0.0, n)


def oriented(scores: FloatVector) -> FloatVector:
    """The scores (n,) if they never rise, their negatives if they never fall, else (or if one is not finite) by rank."""
    if not np.isfinite(scores).all():
        return by_rank(len(scores))
    if (scores[1:] <= scores[:-1]).all():
        return scores
    if (scores[1:] >= scores[:-1]).all():
        return -scores
    return by_rank(len(scores))


def scaled(values: FloatVector) -> FloatVector:
    """Min-max over all values (n,): [0, 1]; all ones if they are equal, or too far apart for float64."""
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    span = high - low
    if not 0.0 < span < np.inf:
        return np.ones(len(values))
    return (values - low) / span


def query_distance(candidates: Candidates, *, magnitude: bool) -> FloatVector | None:
    """Distance of each candidate to the query (n,); None when there is no usable query of the same dimension."""
    if candidates.query is None or candidates.query.shape != (candidates.vectors.shape[1],):
        return None
    query = rows_of(np.ascontiguousarray(candidates.query[None, :], dtype=np.float32))
    if not query.usable[0]:
        return None
    return across(rows_of(candidates.vectors), query, magnitude=magnitude)[:, 0].astype(np.float64)

"""How near is a duplicate: one number for every pool, or a share of the pool's own median distance.

The same cosine distance means different things in different models and collections (a safe cut ran from 0.05 to 0.50
over eleven labelled sets); divided by the pool's median distance it hardly moves.
"""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.geometry import Geometry, pairs
from vecsieve.proxy.selection.policy import Fixed, Relative

# The scale is read from so many candidates at most, so that asking for more does not change what "near" means.
SCALE_FROM = 50


def median_distance(geometry: Geometry) -> float:
    """Median of the pairwise distances of the first 50 usable candidates; 0.0 when there are fewer than two."""
    chosen = geometry.usable.nonzero()[0][:SCALE_FROM]
    m = len(chosen)
    if m < 2:
        return 0.0
    distance = geometry.distance[:m, :m] if chosen[-1] == m - 1 else geometry.distance[np.ix_(chosen, chosen)]
    return _median(pairs(distance))


def resolve(threshold: Fixed | Relative, median: float) -> float:
    """The cut for a pool with this median distance. With no pair to compare the cut is the minimum, and merges nothing."""
    if isinstance(threshold, Fixed):
        return threshold.value
    return min(max(threshold.factor * median, threshold.minimum), threshold.maximum)


def _median(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> float:
    """np.median without its 20 microseconds of ceremony. ``values``: not empty, finite; they are reordered."""
    middle = len(values) // 2
    if len(values) % 2:
        values.partition(middle)
        return float(values[middle])
    values.partition((middle - 1, middle))
    return (float(values[middle - 1]) + float(values[middle])) / 2.0

"""Leader clustering: walk down the ranking; a candidate near the leader of a cluster joins it, any other leads a new one.

The oldest incremental clustering (Hartigan 1975, "the leader algorithm"), with the backend's rank as its order. A cluster
is therefore always "these are within the cut of that better-ranked one", which is what a person who asks why a result
is missing wants to hear; and the leader is the member that the default representative would choose anyway.
"""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.values import FloatMatrix, Indices


def lead(distance: FloatMatrix, cut: float) -> Indices:
    """For each of n candidates the leader of its cluster (itself for a leader): the nearest one at ``cut`` or less.

    Ties by rank. An infinite distance to any member forbids the cluster, not just the pair: candidates that may not share a
    cluster never meet in one by way of a third. ``distance``: (n, n), symmetric.
    """
    n = len(distance)
    heads = np.arange(n, dtype=np.intp)
    if not n:
        return heads
    forbidden = np.isinf(distance)
    reach = np.full(
        (n, n), np.inf, np.float32
    )  # row i: distance to leader i, infinite where i does not lead or may not
    reach[0] = distance[0]
    for i in range(1, n):
        column = reach[:i, i]
        nearest = int(column.argmin())
        if column[nearest] <= cut:
            heads[i] = nearest
            if forbidden[i].any():
                reach[nearest, forbidden[i]] = np.inf
        else:
            reach[i] = distance[i]
    return heads

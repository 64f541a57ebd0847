"""Fill a page with the least redundant duplicates when there are too few representatives."""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.values import FloatMatrix, Indices


def fill(kept: Indices, distance: FloatMatrix, count: int) -> Indices:
    """``count`` further indices (all the rest, when there are fewer), in rank order.

    One at a time: the candidate whose nearest kept candidate is farthest away, ties by rank. Each one counts as kept for
    the next, because two copies of one far duplicate must not both come in while another duplicate is left out.
    ``distance``: (n, n); ``kept``: indices, not empty unless the pool is.
    """
    count = min(count, len(distance) - len(kept))
    chosen = np.empty(max(count, 0), dtype=np.intp)
    if not len(chosen):
        return chosen
    nearest = distance[kept].min(axis=0)
    nearest[kept] = -1.0  # below every distance: what is kept is never chosen again
    for place in range(count):
        choice = chosen[place] = nearest.argmax()
        np.minimum(nearest, distance[choice], out=nearest)
        nearest[choice] = -1.0
    return np.sort(chosen)

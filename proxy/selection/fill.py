"""Fill a page with the least redundant duplicates when there are too few representatives."""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.values import FloatMatrix, Indices

NOBODY = np.empty(0, np.intp)


def fill(kept: Indices, distance: FloatMatrix, count: int, *, behind: Indices = NOBODY) -> Indices:
    """``count`` further indices (all the rest, when there are fewer), in rank order.

    One at a time: the candidate whose nearest kept candidate is farthest away, ties by rank. Each one counts as kept for
    the next, because two copies of one far duplicate must not both come in while another duplicate is left out.
    ``distance``: (n, n); ``kept``: indices, not empty unless the pool is. ``behind``: candidates that are chosen only when
    all others are, in rank order: what a cap holds back comes before a short page.
    """
    count = min(count, len(distance) - len(kept))
    chosen = np.empty(max(count, 0), dtype=np.intp)
    if not len(chosen):
        return chosen
    nearest = distance[kept].min(axis=0)
    nearest[behind] = -0.5  # below every distance, and no nearness changes it
    nearest[kept] = -1.0  # below everything: what is kept is never chosen again
    for place in range(count):
        choice = chosen[place] = nearest.argmax()
        np.minimum(nearest, distance[choice], out=nearest)
        nearest[choice] = -1.0
    return np.sort(chosen)

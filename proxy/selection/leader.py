"""Leader clustering: walk down the ranking; a candidate near the leader of a cluster joins it, any other leads a new one.

The oldest incremental clustering (Hartigan 1975, "the leader algorithm"), with the backend's rank as its order. A cluster
is therefore always "these are within the cut of that better-ranked one", which is what a person who asks why a result
is missing wants to hear; and whether a candidate leads depends on what stands before it alone, so the list of leaders is
the same however many are asked for.

The cut may depend on how many lead already (thresholds.py says why it grows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.selection.geometry import NOISE
from vecsieve.proxy.selection.values import FloatMatrix, Indices


@dataclass(frozen=True, slots=True)
class Led:
    """Outcome of a walk over b candidates behind m earlier leaders.

    ``leaders``: those of the b that lead, ascending. ``heads``: (b,) whom each follows, itself for a leader, -1 - j for
    earlier leader j.
    """

    leaders: Indices
    heads: Indices


def lead(inside: FloatMatrix, cuts: Sequence[float], back: FloatMatrix | None = None, *, slack: float = NOISE) -> Led:
    """Walk b candidates in rank order.

    ``inside``: (b, b) their distances. ``back``: (b, m) distances to earlier leaders, None for none. ``cuts``: at index k,
    the distance at which a candidate follows when k lead already (m + b of them); ``slack``: by how much a distance may be
    off. A follower goes to the nearest leader,
    ties by rank. An infinite distance forbids: whoever is infinitely far from a member of a cluster may not join it, so that
    two who may not share a cluster never meet in one by way of a third.
    """
    count, earlier = len(inside), 0 if back is None else back.shape[1]
    nearest = np.full(count, np.inf, np.float32) if back is None else back.min(axis=1, initial=np.inf)
    if not count:
        return Led(np.empty(0, np.intp), np.empty(0, np.intp))
    if np.isinf(inside).any() or (back is not None and np.isinf(back).any()):
        return _forbidding(inside, cuts, back, slack)
    leaders: list[int] = []
    cut = cuts[earlier] + slack
    for i in range(count):
        if nearest.item(i) > cut:
            leaders.append(i)
            np.minimum(nearest, inside[i], out=nearest)
            cut = cuts[min(earlier + len(leaders), len(cuts) - 1)] + slack
    return _followed(inside, back, np.array(leaders, dtype=np.intp))


def _followed(inside: FloatMatrix, back: FloatMatrix | None, leaders: Indices) -> Led:
    """Who follows whom, once it is known who leads: the nearest leader that stands before the follower."""
    count = len(inside)
    heads = np.arange(count, dtype=np.intp)
    is_follower = np.ones(count, np.bool_)
    is_follower[leaders] = False
    followers = is_follower.nonzero()[0]
    if not len(followers):
        return Led(leaders, heads)
    to_leaders = inside.take(followers, axis=0).take(leaders, axis=1)
    to_leaders[leaders[None, :] > followers[:, None]] = np.inf
    if back is not None and back.shape[1]:
        to_leaders = np.concatenate((back[followers], to_leaders), axis=1)
        names = np.concatenate((-1 - np.arange(back.shape[1], dtype=np.intp), leaders))
    else:
        names = leaders
    # Within NOISE of the nearest is a tie: which of two copies a rounding error favours is nobody's choice.
    choice = (to_leaders <= to_leaders.min(axis=1)[:, None] + NOISE).argmax(axis=1)
    heads[followers] = names[choice]
    return Led(leaders, heads)


def _forbidding(inside: FloatMatrix, cuts: Sequence[float], back: FloatMatrix | None, slack: float) -> Led:
    """The same walk where some may not meet: the reach of every cluster is kept apart, a row a leader."""
    count = len(inside)
    earlier = np.empty((0, count), np.float32) if back is None else back.T
    reach = np.concatenate((earlier, np.full((count, count), np.inf, np.float32)))
    names = [-1 - j for j in range(len(earlier))]
    forbidden = np.isinf(inside)
    heads = np.arange(count, dtype=np.intp)
    leaders: list[int] = []
    for i in range(count):
        column = reach[: len(names), i]
        low = float(column.min(initial=np.inf))
        if low <= cuts[len(names)] + slack:
            row = int((column <= low + NOISE).argmax())
            heads[i] = names[row]
            reach[row, forbidden[i]] = np.inf
        else:
            reach[len(names)] = inside[i]
            names.append(i)
            leaders.append(i)
    return Led(np.array(leaders, dtype=np.intp), heads)

"""Agglomerative clustering up to a threshold: merge the two nearest clusters while they are at most that far apart.

Only candidates with some other candidate within the threshold are handed to the linkage; all others are singletons.
That is exact for all three linkages. The distance of two clusters is the smallest (single), largest (complete) or mean
(average) distance of their cross pairs, so it is at most the threshold only if some cross pair is. A candidate
without a neighbour is therefore never merged, and, because the distance of two clusters is read from their own
members alone, leaving it out changes no other merge. On a clean pool nothing is left and the linkage is not run.

Infinite distances (unusable vectors, other tenants, vetoes) forbid. Under complete and average linkage no finite
threshold admits a merge over such a pair, since the largest and the mean distance of the two clusters are infinite;
fastcluster documents that it handles infinite distances. Single linkage would chain around the pair by way of a third, so
its clusters are taken apart again (``_parted``); where nobody is infinitely far from part of a cluster only, as with tenants
and unusable vectors, there is nothing to take apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import fastcluster
import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.geometry import NOISE, pairs
from vecsieve.proxy.selection.policy import Linkage
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices

# Leader clustering: walk down the ranking; a candidate near the leader of a cluster joins it, any other leads a new one.
#
# The oldest incremental clustering (Hartigan 1975, "the leader algorithm"), with the backend's rank as its order. A cluster
# is therefore always "these are within the cut of that better-ranked one", which is what a person who asks why a result
# is missing wants to hear; and whether a candidate leads depends on what stands before it alone, so the list of leaders is
# the same however many are asked for.
#
# The cut may depend on how many lead already (thresholds.py says why it grows).


def lead(
    inside: FloatMatrix, cuts: Sequence[float], back: FloatMatrix | None = None, *, slack: float = NOISE
) -> Indices:
    """Whom each of b candidates follows (b,): itself for a leader, -1 - j for earlier leader j. They are walked in rank order.

    ``inside``: (b, b) their distances. ``back``: (b, m) distances to earlier leaders, None for none. ``cuts``: at index k,
    the distance at which a candidate follows when k lead already (m + b of them); ``slack``: by how much a distance may be
    off. A follower goes to the nearest leader,
    ties by rank. An infinite distance forbids: whoever is infinitely far from a member of a cluster may not join it, so that
    two who may not share a cluster never meet in one by way of a third.
    """
    count, earlier = len(inside), 0 if back is None else back.shape[1]
    nearest = np.full(count, np.inf, np.float32) if back is None else back.min(axis=1, initial=np.inf)
    if not count:
        return np.empty(0, np.intp)
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


def _followed(inside: FloatMatrix, back: FloatMatrix | None, leaders: Indices) -> Indices:
    """Who follows whom, once it is known who leads: the nearest leader that stands before the follower."""
    count = len(inside)
    heads = np.arange(count, dtype=np.intp)
    is_follower = np.ones(count, np.bool_)
    is_follower[leaders] = False
    followers = is_follower.nonzero()[0]
    if not len(followers):
        return heads
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
    return heads


def _forbidding(inside: FloatMatrix, cuts: Sequence[float], back: FloatMatrix | None, slack: float) -> Indices:
    """The same walk where some may not meet: the reach of every cluster is kept apart, a row a leader."""
    count = len(inside)
    earlier = np.empty((0, count), np.float32) if back is None else back.T
    reach = np.concatenate((earlier, np.full((count, count), np.inf, np.float32)))
    names = [-1 - j for j in range(len(earlier))]
    forbidden = np.isinf(inside)
    heads = np.arange(count, dtype=np.intp)
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
    return heads


Tenants = npt.NDArray[np.int64]


def cluster(distance: FloatMatrix, cuts: float | Sequence[float], linkage: Linkage, *, slack: float = NOISE) -> Indices:
    """Labels (n,) of the clusters of ``distance`` (n, n), numbered in order of each cluster's best rank.

    ``cuts``: the threshold, or one for each number of clusters that lead already, at least n of them; only Linkage.LEADER
    reads more than the first. Clusters at a distance equal to the threshold merge; ``slack``: by how much a distance may be off.
    Where several merges are equally near, the linkage's own scan in rank order decides: same input, same labels.
    """
    if not len(distance):
        return np.empty(0, np.intp)
    if not isinstance(cuts, Sequence):
        cuts = [cuts] * len(distance)
    if linkage is Linkage.LEADER:
        return _numbered(lead(distance, cuts, slack=slack))
    return _agglomerated(distance, cuts[0] + slack, linkage)


def _agglomerated(distance: FloatMatrix, cut: float, linkage: Linkage) -> Indices:
    n = len(distance)
    near = distance <= cut
    near.flat[:: n + 1] = False
    crowd = np.flatnonzero(near.any(axis=1))
    heads = np.arange(n, dtype=np.intp)
    if len(crowd):
        among = distance if len(crowd) == n else distance.take(crowd, axis=0).take(crowd, axis=1)
        found = _heads(pairs(among).astype(np.float64), len(crowd), cut, linkage)
        heads[crowd] = crowd[_parted(among, found) if linkage is Linkage.SINGLE else found]
    return _numbered(heads)


def _parted(distance: FloatMatrix, heads: Indices) -> Indices:
    """Clusters without two that are infinitely far apart: in rank order each joins the nearest part that takes it."""
    parted = heads.copy()
    for head in np.unique(heads).tolist():
        members = np.flatnonzero(heads == head)
        inside = distance[np.ix_(members, members)]
        if np.isinf(inside).any():
            parted[members] = members[lead(inside, [float(np.finfo(np.float32).max)] * len(members))]
    return parted


def separate(distance: FloatMatrix, rows: Tenants, columns: Tenants) -> FloatMatrix:
    """``distance`` (n, m) with different tenants infinitely far apart: never merged, never compared.

    ``rows`` (n,) and ``columns`` (m,): each side's tenant numbers.
    """
    apart: FloatMatrix = np.where(rows[:, None] == columns[None, :], distance, np.float32(np.inf))
    return apart


def best_ranked(labels: Indices) -> Indices:
    """The best-ranked member of each cluster (distinct,), for labels numbered in order of best rank."""
    # The highest label so far never falls and leaves out no number: where it first reaches k stands the first k.
    highest = np.maximum.accumulate(labels)
    return highest.searchsorted(np.arange(highest[-1] + 1 if len(highest) else 0))


def _heads(condensed: FloatVector, m: int, cut: float, linkage: Linkage) -> Indices:
    """For each of m candidates the best-ranked member of its cluster."""
    steps = fastcluster.linkage(condensed, method=linkage.value, preserve_input=False)
    merges = int(np.searchsorted(steps[:, 2], cut, side="right"))
    # Step i joins two earlier clusters into number m + i. Walking back from the last one, each cluster hands its
    # own top down to its two parts, so that every candidate ends up with the top of the last cluster it is in.
    joined = steps[:merges, :2].astype(np.intp).tolist()
    best = list(range(m))
    for left, right in joined:
        best.append(min(best[left], best[right]))
    for number in range(m + merges - 1, m - 1, -1):
        left, right = joined[number - m]
        best[left] = best[right] = best[number]
    return np.array(best[:m], dtype=np.intp)


def _numbered(heads: Indices) -> Indices:
    """Labels from heads: the k-th candidate that is its own head leads cluster k."""
    leads = heads == np.arange(len(heads))
    return (np.cumsum(leads) - 1)[heads]

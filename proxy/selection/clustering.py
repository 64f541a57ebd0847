"""Agglomerative clustering up to a threshold: merge the two nearest clusters while they are at most that far apart.

Only candidates with some other candidate within the threshold are handed to the linkage; all others are singletons.
That is exact for every linkage: a leader's followers are all near it, and for the other three the distance of two clusters is the smallest (single), largest (complete) or mean
(average) distance of their cross pairs, so it is at most the threshold only if some cross pair is. A candidate
without a neighbour is therefore never merged, and, because the distance of two clusters is read from their own
members alone, leaving it out changes no other merge. On a clean pool nothing is left and the linkage is not run.

Infinite distances (unusable vectors, other tenants) cannot merge under any linkage, for the same reason: as long as
every cluster lies within one tenant, all cross pairs of two tenants' clusters are infinite, and so are their smallest,
largest and mean; no finite threshold admits the merge, so every cluster stays within one tenant. fastcluster documents
that it handles infinite distances under these three.
"""

from __future__ import annotations

import fastcluster
import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.geometry import NOISE, pairs
from vecsieve.proxy.selection.leader import lead
from vecsieve.proxy.selection.policy import Linkage
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices

Tenants = npt.NDArray[np.int64]


def cluster(distance: FloatMatrix, threshold: float, linkage: Linkage) -> Indices:
    """Labels (n,) of the clusters of ``distance`` (n, n), numbered in order of each cluster's best rank.

    Clusters at a distance equal to the threshold merge, where equal means: as far as float32 can tell (NOISE).
    Where several merges are equally near, the linkage's own scan in rank order decides: same input, same labels.
    """
    n = len(distance)
    cut = threshold + NOISE
    near = distance <= cut
    near.flat[:: n + 1] = False
    crowd = np.flatnonzero(near.any(axis=1))
    if not len(crowd):
        return np.arange(n, dtype=np.intp)
    heads = np.arange(n, dtype=np.intp)
    if linkage is Linkage.LEADER:
        heads[crowd] = crowd[lead(_among(distance, crowd), cut)]
    else:
        heads[crowd] = crowd[_heads(pairs(_among(distance, crowd)).astype(np.float64), len(crowd), cut, linkage)]
    return _numbered(heads)


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


def _among(distance: FloatMatrix, crowd: Indices) -> FloatMatrix:
    """The distances of the crowd to itself."""
    return distance if len(crowd) == len(distance) else distance.take(crowd, axis=0).take(crowd, axis=1)


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

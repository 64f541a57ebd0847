"""Clusters up to a threshold: by agglomerative clustering or by the leader algorithm.

Agglomerative clustering merges the two nearest clusters while their distance is at most the threshold. Only candidates with a neighbour
within the threshold are passed to the linkage; all others are singletons. This is exact: the distance of two clusters is the smallest
(single), largest (complete) or mean (average) distance of their cross pairs, so it can be at most the threshold only if that of some cross
pair is. Leaving out a singleton changes no other merge, because the distance of two clusters depends on their own members only. For a pool
without duplicates the linkage is not run.

Leader clustering walks down the ranking (Hartigan 1975, "the leader algorithm"). A candidate close to the leader of a cluster joins it; any
other candidate leads a new cluster. So all members of a cluster are within the cut of one better-ranked result, which is an explanation
that a user can check. Whether a candidate leads depends only on the candidates ranked before it, so the list of leaders does not depend on
top_k. The cut may depend on the number of leaders so far (certainty.py).

Infinite distances (unusable vectors, other tenants, vetoes) forbid a merge. Under complete and average linkage no finite threshold admits a
merge over such a pair, since the largest and the mean distance of the two clusters are infinite; fastcluster documents that it handles
infinite distances. Single linkage would connect the pair through a third candidate, so its clusters are split afterwards (``_parted``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import fastcluster
import numpy as np
import numpy.typing as npt

from .geometry import NOISE, above, pairs
from .policy import Linkage
from .values import FloatMatrix, FloatVector, Indices


def lead(
    inside: FloatMatrix, cuts: Sequence[float], back: FloatMatrix | None = None, *, slack: float = NOISE
) -> Indices:
    """The leader of each of b candidates (b,): itself for a leader, -1 - j for earlier leader j.

    ``inside``: (b, b) their distances, in rank order. ``back``: (b, m) distances to earlier leaders, None if there are none. ``cuts``:
    index k has the distance at which a candidate follows when there are k leaders (m + b of them). ``slack``: the possible error of a
    distance. A follower goes to the nearest leader, ties by rank. A candidate at infinite distance from a member of a cluster may not join
    it.
    """
    count = len(inside)
    if not count:
        return np.empty(0, np.intp)
    # Leaders whose distances differ by less than NOISE are equally near.
    reach = max(cuts) + slack + 2 * NOISE
    meetings = _meetings(inside, reach)
    earlier = 0 if back is None else back.shape[1]
    if not meetings.later and not earlier:
        return np.arange(count, dtype=np.intp)
    met = {} if back is None or not earlier else _met(back, reach)
    heads = np.array(_walked(meetings, cuts, met, slack, led=earlier, number=inside.dtype.type), np.intp)
    if len(set(heads.tolist())) < count - 1:  # at least two followers
        forbidden = np.isinf(inside)
        if np.count_nonzero(forbidden) and (forbidden & (heads[:, None] == heads)).any():
            return _forbidding(inside, cuts, back, slack)
    return heads


class _Meetings(NamedTuple):
    """The close pairs of b candidates: those of candidate i with later ones are from ``borders[i]`` to ``borders[i + 1]``.

    ``later``, ``apart``: for p pairs, the later candidate and the distance.
    """

    borders: list[int]
    later: list[int]
    apart: list[float]


def _meetings(inside: FloatMatrix, reach: float) -> _Meetings:
    count = len(inside)
    near = inside <= reach
    near &= above(count)
    places = near.ravel().nonzero()[0]
    earlier, later = np.divmod(places, count)
    return _Meetings(
        earlier.searchsorted(np.arange(count + 1)).tolist(),
        later.tolist(),
        np.ascontiguousarray(inside).ravel().take(places).tolist(),
    )


# For each candidate, the leaders that are close to it, by rank, with their distances.
_Met = dict[int, list[tuple[float, int]]]


def _met(back: FloatMatrix, reach: float) -> _Met:
    """The earlier leaders (m) within ``reach`` of b candidates, from their distances ``back`` (b, m), as -1 - j for leader j."""
    met: _Met = {}
    places = (back <= reach).nonzero()
    for i, j, apart in zip(*(axis.tolist() for axis in places), back[places].tolist(), strict=True):
        met.setdefault(i, []).append((apart, -1 - j))
    return met


def _walked(
    meetings: _Meetings, cuts: Sequence[float], met: _Met, slack: float, *, led: int, number: Callable[[float], Any]
) -> list[int]:
    """The leader of each of b candidates, as for ``lead``, when no pair is forbidden: of the nearest better-ranked leaders the best-ranked.
    Distances within NOISE are equal: a rounding error must not decide between two copies.

    A candidate is compared only with leaders close to it. ``led``: the number of earlier leaders, those in ``met``. ``number``: the type of
    a distance.
    """
    borders, later, apart = meetings.borders, meetings.later, meetings.apart
    heads = list(range(len(borders) - 1))
    cut = cuts[led] + slack
    for i in range(len(heads)):
        near = met.get(i)
        if near is not None and (low := min(near)[0]) <= cut:
            if len(near) > 1:
                bound = number(low) + np.float32(NOISE)
                near = [neighbour for neighbour in near if neighbour[0] <= bound]
            heads[i] = near[0][1]
            continue
        for pair in range(borders[i], borders[i + 1]):
            met.setdefault(later[pair], []).append((apart[pair], i))
        led += 1
        if led < len(cuts):
            cut = cuts[led] + slack
    return heads


def _forbidding(inside: FloatMatrix, cuts: Sequence[float], back: FloatMatrix | None, slack: float) -> Indices:
    """The same walk with forbidden pairs: the reach of every cluster that others may join is kept separately, one row per leader."""
    count = len(inside)
    earlier = np.empty((0, count), np.float32) if back is None else back.T
    reach = np.concatenate((earlier, np.full((count, count), np.inf, np.float32)))
    names = [-1 - j for j in range(len(earlier))]
    leading = len(names)
    forbidden = np.isinf(inside)
    near = inside <= max(cuts) + slack
    near.flat[:: count + 1] = False
    has_near: list[bool] = np.logical_or.reduce(near, axis=0).tolist()
    heads = np.arange(count, dtype=np.intp)
    for i in range(count):
        if has_near[i] or len(earlier):
            column = reach[: len(names), i]
            low = float(column.min(initial=np.inf))
            if low <= cuts[leading] + slack:
                row = int((column <= low + NOISE).argmax())
                heads[i] = names[row]
                reach[row, forbidden[i]] = np.inf
                continue
            if has_near[i]:
                reach[len(names)] = inside[i]
                names.append(i)
        leading += 1
    return heads


def cluster(distance: FloatMatrix, cuts: float | Sequence[float], linkage: Linkage, *, slack: float = NOISE) -> Indices:
    """Labels (n,) of the clusters of ``distance`` (n, n), numbered in order of each cluster's best rank.

    ``cuts``: the threshold, or one for each number of existing clusters, at least n; only Linkage.LEADER uses more than the first. Clusters
    at a distance equal to the threshold merge. ``slack``: the possible error of a distance. If several merges are equally near, the
    linkage's own scan in rank order decides: same input, same labels.
    """
    if not len(distance):
        return np.empty(0, np.intp)
    if not isinstance(cuts, Sequence):
        cuts = [cuts] * len(distance)
    return _numbered(LINKAGES[linkage](distance, cuts, slack))


def _leader(distance: FloatMatrix, cuts: Sequence[float], slack: float) -> Indices:
    return lead(distance, cuts, slack=slack)


def _single(distance: FloatMatrix, cuts: Sequence[float], slack: float) -> Indices:
    return _agglomerated(distance, cuts[0] + slack, "single", _parted)


def _complete(distance: FloatMatrix, cuts: Sequence[float], slack: float) -> Indices:
    return _agglomerated(distance, cuts[0] + slack, "complete")


def _average(distance: FloatMatrix, cuts: Sequence[float], slack: float) -> Indices:
    return _agglomerated(distance, cuts[0] + slack, "average")


# For each linkage, a function from a square distance to the heads (n,): the best-ranked member of each candidate's cluster.
LINKAGES: Mapping[Linkage, Callable[[FloatMatrix, Sequence[float], float], Indices]] = MappingProxyType(
    {
        Linkage.SINGLE: _single,
        Linkage.COMPLETE: _complete,
        Linkage.AVERAGE: _average,
        Linkage.LEADER: _leader,
    }
)


def _agglomerated(
    distance: FloatMatrix,
    cut: float,
    method: str,
    mend: Callable[[FloatMatrix, Indices], Indices] = lambda _, heads: heads,
) -> Indices:
    """The heads (n,) by a ``method`` of fastcluster. ``mend``: applied to the clusters found, with the distances."""
    n = len(distance)
    near = distance <= cut
    near.flat[:: n + 1] = False
    crowd = np.flatnonzero(near.any(axis=1))
    heads = np.arange(n, dtype=np.intp)
    if len(crowd):
        among = distance if len(crowd) == n else distance.take(crowd, axis=0).take(crowd, axis=1)
        heads[crowd] = crowd[mend(among, _heads(pairs(among).astype(np.float64), len(crowd), cut, method))]
    return heads


def _parted(distance: FloatMatrix, heads: Indices) -> Indices:
    """The clusters, split so that no two members are infinitely far apart. In rank order each member joins the nearest part that allows it."""
    parted = heads.copy()
    for head in np.unique(heads).tolist():
        members = np.flatnonzero(heads == head)
        inside = distance[np.ix_(members, members)]
        if np.isinf(inside).any():
            parted[members] = members[lead(inside, [float(np.finfo(np.float32).max)] * len(members))]
    return parted


Tenants = npt.NDArray[np.int64]


def separate(distance: FloatMatrix, rows: Tenants, columns: Tenants) -> FloatMatrix:
    """``distance`` (n, m) with different tenants infinitely far apart: never merged, never compared.

    ``rows`` (n,) and ``columns`` (m,): each side's tenant numbers.
    """
    apart: FloatMatrix = np.where(rows[:, None] == columns[None, :], distance, np.float32(np.inf))
    return apart


def _heads(condensed: FloatVector, m: int, cut: float, method: str) -> Indices:
    """For each of m candidates, the best-ranked member of its cluster."""
    steps = fastcluster.linkage(condensed, method=method, preserve_input=False)
    merges = int(np.searchsorted(steps[:, 2], cut, side="right"))
    # Step i joins two earlier clusters into number m + i. Walking back from the last step, each cluster passes its best-ranked member to
    # its two parts, so that every candidate gets that of the last cluster that contains it.
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
    if leads.all():
        return heads
    return (np.cumsum(leads) - 1)[heads]

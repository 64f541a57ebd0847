"""Families of copies: a leader, and what lies within the cut of it. Nothing chains: a copy of a copy is no member.

The leader algorithm of selection/leader.py on a sparse graph. A collection has no ranking, so the order is another: the
point with most copies within the cut leads first, so that a family's leader is the text that stands there most often in
nearly these words. Ties by place, hence by id.

Exact copies are one node, so that a hundred equal texts are one family, although no list of neighbours holds a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.jobs.analyze.gathered import Gathered, Known
from vecsieve.proxy.jobs.analyze.ids import NOWHERE
from vecsieve.proxy.selection.geometry import NOISE
from vecsieve.proxy.selection.values import FloatMatrix, Indices


@dataclass(frozen=True, slots=True)
class _Graph:
    """Symmetric edges by their start: those of node i are ``starts[i]:starts[i + 1]``, by end."""

    starts: Indices
    ends: npt.NDArray[np.int32]
    distances: FloatMatrix

    def near(self, node: int) -> npt.NDArray[np.int32]:
        return self.ends[self.starts[node] : self.starts[node + 1]]


def first_copies(gathered: Gathered) -> Indices:
    """For each of n points the first one that it is an exact copy of: itself, unless one of the same key stands before."""
    n = len(gathered.keys)
    firsts = np.arange(n, dtype=np.intp)
    for kind in (Known.TEXT, Known.VECTOR):
        of_kind = np.flatnonzero(gathered.known == kind)
        _, first, inverse = np.unique(gathered.keys[of_kind], return_index=True, return_inverse=True)
        firsts[of_kind] = of_kind[first[inverse]]
    return firsts


def leaders(gathered: Gathered, firsts: Indices, cut: float) -> Indices:
    """For each of n points the leader of its family, itself for one that leads (or stands alone).

    ``firsts``: as first_copies gives it. ``cut``: the distance up to which points are copies, itself included.
    """
    graph = _graph(gathered, firsts, cut)
    size = np.bincount(firsts, minlength=len(firsts))
    heads = np.arange(len(firsts), dtype=np.intp)
    leading = _leading(graph, size)
    joining = np.repeat(np.arange(len(heads)), np.diff(graph.starts))
    chosen = leading[graph.ends] & ~leading[joining]
    joining, ends, distances = joining[chosen], graph.ends[chosen], graph.distances[chosen]
    order = np.lexsort((ends, distances, joining))  # the nearest leader takes a point; of equally near ones, the first
    joined, first = np.unique(joining[order], return_index=True)
    heads[joined] = ends[order][first]
    return heads[firsts]


def saturated(gathered: Gathered, cut: float) -> int:
    """How many points have all their listed neighbours within the cut, and may have more that no list holds."""
    return int((gathered.distances[:, -1] <= cut + NOISE).sum())


def _leading(graph: _Graph, size: Indices) -> npt.NDArray[np.bool_]:
    """Which nodes (n,) lead: gone through by how many points each would gather, no node near a leader leads itself."""
    n = len(size)
    leading = np.ones(n, np.bool_)
    degree = np.diff(graph.starts)
    crowd = np.flatnonzero(degree)
    if not len(crowd):
        return leading
    around = np.add.reduceat(size[graph.ends], graph.starts[crowd])  # nodes without edges take no room between these
    gathers = size[crowd] + around
    reached = np.zeros(n, np.bool_)
    for node in crowd[np.argsort(-gathers, kind="stable")].tolist():
        if reached[node]:
            leading[node] = False
        else:
            reached[graph.near(node)] = True
    return leading


def _graph(gathered: Gathered, firsts: Indices, cut: float) -> _Graph:
    """Edges within the cut between first copies, both ways, each once and with its smallest distance."""
    n = len(firsts)
    rows, columns = np.nonzero((gathered.distances <= cut + NOISE) & (gathered.others != NOWHERE))
    left = firsts[gathered.looked[rows]]
    right = firsts[gathered.others[rows, columns]]
    distances = gathered.distances[rows, columns]
    apart = left != right
    left, right, distances = left[apart], right[apart], distances[apart]
    pair = np.concatenate((left, right)) * n + np.concatenate((right, left))  # n < 2^31: fits
    both = np.concatenate((distances, distances))
    order = np.lexsort((both, pair))
    pair, both = pair[order], both[order]
    once = np.ones(len(pair), np.bool_)
    once[1:] = pair[1:] != pair[:-1]
    starts_at, ends = np.divmod(pair[once], n) if n else (pair, pair)
    starts = np.concatenate(([0], np.cumsum(np.bincount(starts_at, minlength=n)))).astype(np.intp)
    return _Graph(starts, ends.astype(np.int32), both[once])

"""Families of copies: a leader, and what lies within the cut of it. Nothing chains: a copy of a copy is no member.

The leader algorithm of selection/leader.py on a sparse graph. A collection has no ranking, so the order is another: the
point with most edges goes first, those of its own list and those of the lists it stands in, so that a family's leader is
the text that stands there most often in nearly these words. Ties by place, hence by id.

Exact copies are one node, so that a hundred equal texts are one family, although no list of neighbours holds a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.jobs.analyze.reading import NEIGHBOURS, NOWHERE, Gathered, Known
from vecsieve.proxy.selection.geometry import NOISE, Mask
from vecsieve.proxy.selection.values import FloatMatrix, Indices

_Nodes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Edges:
    """Who has whom in its list within the cut, between first copies: ``left`` has ``right``, (e,) each.

    ``mentions``: (n,) how many edges a node has, both ways, those among its own exact copies included. Four bytes a number
    elsewhere: where everything has twenty copies, a million points have twenty million edges.
    """

    left: _Nodes
    right: _Nodes
    distances: FloatMatrix
    mentions: Indices


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
    edges = _edges(gathered, firsts, cut)
    leading = _leading(edges)
    heads = np.arange(len(firsts), dtype=np.intp)
    joining, leader, distances = _candidates(edges, leading)
    order = np.lexsort(
        (leader, distances, joining)
    )  # the nearest leader takes a point; of equally near ones, the first
    joined, first = np.unique(joining[order], return_index=True)
    heads[joined] = leader[order[first]]
    return heads[firsts]


def saturated(gathered: Gathered, cut: float) -> int:
    """How many points have all their listed neighbours within the cut, and may have more that no list holds."""
    return int((gathered.distances[:, -1] <= cut + NOISE).sum())


def _edges(gathered: Gathered, firsts: Indices, cut: float) -> _Edges:
    within = np.flatnonzero((gathered.distances <= cut + NOISE) & (gathered.others != NOWHERE))
    left = firsts[gathered.looked[within // NEIGHBOURS]].astype(np.int32)
    right = firsts[gathered.others.ravel()[within]].astype(np.int32)
    mentions = np.bincount(left, minlength=len(firsts)) + np.bincount(right, minlength=len(firsts))
    apart = left != right
    return _Edges(left[apart], right[apart], gathered.distances.ravel()[within[apart]], mentions)


def _leading(edges: _Edges) -> Mask:
    """Which nodes (n,) lead: gone through by mentions, no node within the cut of a leader leads itself."""
    n = len(edges.mentions)
    listed, listing = _by_start(edges.left, edges.right, n), _by_start(edges.right, edges.left, n)
    reached = np.zeros(n, np.bool_)
    leading = np.ones(n, np.bool_)
    crowd = np.unique(np.concatenate((edges.left, edges.right)))
    for node in crowd[np.argsort(-edges.mentions[crowd], kind="stable")].tolist():
        if reached[node]:
            leading[node] = False
            continue
        for starts, ends in (listed, listing):  # a distance has two ends, a list only one
            reached[ends[starts[node] : starts[node + 1]]] = True
    return leading


def _by_start(starts: _Nodes, ends: _Nodes, n: int) -> tuple[Indices, _Nodes]:
    """The edges grouped by their start: those of node i end at ``[1][[0][i] : [0][i + 1]]``."""
    counts = np.bincount(starts, minlength=n)
    return np.concatenate(([0], np.cumsum(counts))), ends[np.argsort(starts, kind="stable")]


def _candidates(edges: _Edges, leading: Mask) -> tuple[_Nodes, _Nodes, FloatMatrix]:
    """The edges between a node that does not lead and one that does: the former, the latter, how far."""
    down = leading[edges.right] & ~leading[edges.left]
    up = leading[edges.left] & ~leading[edges.right]
    return (
        np.concatenate((edges.left[down], edges.right[up])),
        np.concatenate((edges.right[down], edges.left[up])),
        np.concatenate((edges.distances[down], edges.distances[up])),
    )


# How many points have a copy, at one cut or another: the curve that says how much hangs on the choice of the cut.

CUTS = (0.01, 0.02, 0.05, 0.08, 0.10, 0.15, 0.20, 0.25, 0.30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """One point of the curve. ``with_copy``: points looked at that have another within the cut.

    ``redundant``: those that could go if every family kept one; None for a sample, where families are not whole.
    """

    cut: float
    with_copy: int
    redundant: int | None


def density(gathered: Gathered, firsts: Indices, cut: float) -> Density:
    """The curve at one cut. ``firsts``: as families.first_copies gives it."""
    return Density(
        cut=cut,
        with_copy=int(near(gathered, firsts, cut).sum()),
        redundant=redundant(leaders(gathered, firsts, cut)) if gathered.whole else None,
    )


def near(gathered: Gathered, firsts: Indices, cut: float) -> Mask:
    """Which of the m points looked at have a copy: another within the cut, or one of the same text."""
    within: Mask = gathered.distances[:, 0] <= cut + NOISE
    return within | exact(gathered, firsts)


def exact(gathered: Gathered, firsts: Indices) -> Mask:
    """Which of the m points looked at have an exact copy."""
    sizes = np.bincount(firsts, minlength=len(firsts))
    many: Mask = sizes[firsts[gathered.looked]] > 1
    return many


def redundant(heads: Indices) -> int:
    """How many points are not the one their family keeps."""
    return int((heads != np.arange(len(heads))).sum())

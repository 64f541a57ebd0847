"""Families of copies. A family is a leader and the points within the cut of it. A copy of another member is not enough.

This is the leader algorithm of selection/clustering.py on a sparse graph. A collection has no ranking, so points are ordered by their
number of edges, highest first: the leader is the most repeated text. Ties are ordered by place, so by id. Exact copies are one
node, so that a hundred equal texts are one family without an edge for each pair.

The direction between two sources follows from shares, not from leaders: if nine tenths of A have a copy in B, but only one tenth of B has
one in A, then A repeats a part of B. Vectors do not show which of two equal texts came first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...selection.geometry import NOISE, Mask
from ...selection.values import FloatMatrix, Indices
from ..pairs.ids import NOWHERE, Places
from .reading import Gathered, Known

_Nodes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Edges:
    """Pairs within the cut, between first copies. ``left`` and ``right``: (e,) int32 each, because a million points may have twenty million
    edges. ``mentions``: (n,) the number of edges of each node, including the edges between its exact copies.
    """

    left: _Nodes
    right: _Nodes
    distances: FloatMatrix
    mentions: Indices


def first_copies(gathered: Gathered) -> Indices:
    """For each of n points, the first point with the same key, which may be the point itself."""
    n = len(gathered.keys)
    firsts = np.arange(n, dtype=np.intp)
    for kind in (Known.TEXT, Known.VECTOR):
        of_kind = np.flatnonzero(gathered.known == kind)
        _, first, inverse = np.unique(gathered.keys[of_kind], return_index=True, return_inverse=True)
        firsts[of_kind] = of_kind[first[inverse]]
    return firsts


def leaders(gathered: Gathered, firsts: Indices, cut: float) -> Indices:
    """For each of n points the leader of its family, itself for a leader and for a point without copies.

    ``firsts``: of first_copies. ``cut``: the largest distance of a copy.
    """
    edges = _edges(gathered, firsts, cut)
    leading = _leading(edges)
    heads = np.arange(len(firsts), dtype=np.intp)
    joining, leader, distances = _candidates(edges, leading)
    order = np.lexsort(
        (leader, distances, joining)
    )  # the nearest leader takes a point; of equally near leaders, the first
    joined, first = np.unique(joining[order], return_index=True)
    heads[joined] = leader[order[first]]
    return heads[firsts]


def saturated(gathered: Gathered, cut: float) -> int:
    """How many points have all listed neighbours within the cut, and so may have more copies."""
    return int((gathered.listed <= cut + NOISE).sum())


def _edges(gathered: Gathered, firsts: Indices, cut: float) -> _Edges:
    within = gathered.distances <= cut + NOISE
    left, right = firsts[gathered.pairs[within].T].astype(np.int32)
    mentions = np.bincount(left, minlength=len(firsts)) + np.bincount(right, minlength=len(firsts))
    apart = left != right
    return _Edges(left[apart], right[apart], gathered.distances[within][apart], mentions)


def _leading(edges: _Edges) -> Mask:
    """Which nodes (n,) are leaders: by mentions, each node that is not within the cut of an earlier leader."""
    n = len(edges.mentions)
    listed, listing = _by_start(edges.left, edges.right, n), _by_start(edges.right, edges.left, n)
    reached = np.zeros(n, np.bool_)
    leading = np.ones(n, np.bool_)
    crowd = np.unique(np.concatenate((edges.left, edges.right)))
    for node in crowd[np.argsort(-edges.mentions[crowd], kind="stable")].tolist():
        if reached[node]:
            leading[node] = False
            continue
        for starts, ends in (listed, listing):
            reached[ends[starts[node] : starts[node + 1]]] = True
    return leading


def _by_start(starts: _Nodes, ends: _Nodes, n: int) -> tuple[Indices, _Nodes]:
    """Edges by their start, in CSR form: (n + 1,) offsets, and the ends."""
    counts = np.bincount(starts, minlength=n)
    return np.concatenate(([0], np.cumsum(counts))), ends[np.argsort(starts, kind="stable")]


def _candidates(edges: _Edges, leading: Mask) -> tuple[_Nodes, _Nodes, FloatMatrix]:
    """The edges from a node to a leader, without edges between leaders: nodes, leaders, distances."""
    down = leading[edges.right] & ~leading[edges.left]
    up = leading[edges.left] & ~leading[edges.right]
    return (
        np.concatenate((edges.left[down], edges.right[up])),
        np.concatenate((edges.right[down], edges.left[up])),
        np.concatenate((edges.distances[down], edges.distances[up])),
    )


CUTS = (0.01, 0.02, 0.05, 0.08, 0.10, 0.15, 0.20, 0.25, 0.30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """One point of the curve. ``with_copy``: examined points with another within the cut.

    ``redundant``: points to remove if each family kept one. None for a sample, because its families are incomplete, and if ``estimated``.
    ``estimated``: whether ``with_copy`` is extrapolated from a few searches, because sketches find too few pairs at this cut.
    """

    cut: float
    with_copy: int
    redundant: int | None
    estimated: bool = False


def density_at(gathered: Gathered, firsts: Indices, cut: float) -> Density:
    return Density(
        cut=cut,
        with_copy=int(near(gathered, firsts, cut).sum()),
        redundant=redundant(leaders(gathered, firsts, cut)) if gathered.whole else None,
    )


def near(gathered: Gathered, firsts: Indices, cut: float) -> Mask:
    """(m,) bool: the examined points with a copy within the cut, or of the same text."""
    within = np.zeros(len(firsts), np.bool_)
    within[gathered.pairs[gathered.distances <= cut + NOISE]] = True
    many: Mask = within[gathered.looked] | exact(gathered, firsts)
    return many


def exact(gathered: Gathered, firsts: Indices) -> Mask:
    """(m,) bool: the examined points with an exact copy."""
    sizes = np.bincount(firsts, minlength=len(firsts))
    many: Mask = sizes[firsts[gathered.looked]] > 1
    return many


def redundant(heads: Indices) -> int:
    return int((heads != np.arange(len(heads))).sum())


SHOWN = 12  # sources with a row and a column of their own: the width of a page or a wide terminal
NO_SOURCE = "(none)"
OTHERS = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """``copied``: for each source in the report, itself included, how many of its points have a copy there. ``with_copy``: in any."""

    name: str
    points: int
    with_copy: int
    copied: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """``rows``: the largest sources by points, then by name; the rest as one. ``distinct``: of all sources."""

    distinct: int
    rows: tuple[SourceRow, ...]


def sources(gathered: Gathered, heads: Indices) -> Sources | None:
    """The table of sources for the examined points; None if no point has a source. ``heads``: (n,) leaders."""
    if not gathered.source_names:
        return None
    names, groups = _groups(gathered)
    family, counts = _counted(groups, heads, len(names))
    mine = groups[gathered.looked]
    rows = (
        _row(name, number, gathered.looked[mine == number], (family, counts), heads)
        for number, name in enumerate(names)
    )
    return Sources(distinct=len(gathered.source_names), rows=tuple(rows))


def _row(name: str, number: int, points: Places, families: tuple[Indices, Indices], heads: Indices) -> SourceRow:
    """``points``: places of the source with this number. ``families``: of _counted."""
    family, counts = families
    own = np.zeros(counts.shape[1], np.intp)
    own[number] = 1  # the point itself is not counted as a copy
    copied = counts[np.searchsorted(family, heads[points[np.isin(heads[points], family)]])] > own
    return SourceRow(
        name=name,
        points=len(points),
        with_copy=int(copied.any(axis=1).sum()),
        copied=tuple(int(each) for each in copied.sum(axis=0)),
    )


def _groups(gathered: Gathered) -> tuple[list[str], Indices]:
    """The names of the rows, and for each point (n,) the number of its row."""
    mine = gathered.sources[gathered.looked]
    counts = np.bincount(mine[mine != NOWHERE], minlength=len(gathered.source_names))
    names = gathered.source_names
    order = sorted(range(len(names)), key=lambda each: (-int(counts[each]), names[each]))
    shown = [names[each] for each in order[:SHOWN]]
    number = np.full(len(names) + 1, len(shown), np.intp)  # NOWHERE, which is -1, indexes the last one
    number[order[:SHOWN]] = np.arange(len(shown))
    if len(names) > SHOWN:
        shown.append(OTHERS)
    if (mine == NOWHERE).any():
        number[-1] = len(shown)
        shown.append(NO_SOURCE)
    return shown, number[gathered.sources]


def _counted(groups: Indices, heads: Indices, width: int) -> tuple[Indices, Indices]:
    """Families of more than one point: leaders (f,) ascending, and points by row (f, width)."""
    among = np.flatnonzero(np.bincount(heads, minlength=len(heads))[heads] > 1)
    family, inverse = np.unique(heads[among], return_inverse=True)
    columns = (
        width + 1
    )  # a sample's neighbours may have no source although sampled points do: one more column, not shown
    counts = np.bincount(inverse * columns + groups[among], minlength=len(family) * columns)
    return family, counts.reshape(len(family), columns)[:, :width]

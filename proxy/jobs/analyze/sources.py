"""Which source makes the copies: for each pair of sources, how much of the one stands in the other again.

A direction is read off the shares, not off the families' leaders: if nine tenths of A have a copy in B and one tenth of B has
one in A, then A repeats a part of B. Which of two equal texts was there first, no vector knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.jobs.analyze.reading import NOWHERE, Gathered, Places
from vecsieve.proxy.selection.values import Indices

SHOWN = 12  # sources with a row and a column of their own, which is what a page or a wide terminal holds
NO_SOURCE = "(none)"
OTHERS = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One source. ``copied``: how many of its points have a copy in each of the sources, itself included, in their order.

    ``with_copy``: how many have one anywhere.
    """

    name: str
    points: int
    with_copy: int
    copied: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """``rows``: the largest sources by points, then by name; the rest as one. ``distinct``: how many there are."""

    distinct: int
    rows: tuple[SourceRow, ...]


def sources(gathered: Gathered, heads: Indices) -> Sources | None:
    """Who copies whom, among the points looked at; None where no point names a source. ``heads``: (n,) leaders."""
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
    """The row of the source of this number. ``points``: its places. ``families``: as _counted gives them."""
    family, counts = families
    own = np.zeros(counts.shape[1], np.intp)
    own[number] = 1  # the point itself is no copy of it
    copied = counts[np.searchsorted(family, heads[points[np.isin(heads[points], family)]])] > own
    return SourceRow(
        name=name,
        points=len(points),
        with_copy=int(copied.any(axis=1).sum()),
        copied=tuple(int(each) for each in copied.sum(axis=0)),
    )


def _groups(gathered: Gathered) -> tuple[list[str], Indices]:
    """The names that are shown, and the number (n,) of each point's among them."""
    mine = gathered.sources[gathered.looked]
    counts = np.bincount(mine[mine != NOWHERE], minlength=len(gathered.source_names))
    names = gathered.source_names
    order = sorted(range(len(names)), key=lambda each: (-int(counts[each]), names[each]))
    shown = [names[each] for each in order[:SHOWN]]
    number = np.full(len(names) + 1, len(shown), np.intp)  # the last one is read for NOWHERE
    number[order[:SHOWN]] = np.arange(len(shown))
    if len(names) > SHOWN:
        shown.append(OTHERS)
    if (mine == NOWHERE).any():
        number[-1] = len(shown)
        shown.append(NO_SOURCE)
    return shown, number[gathered.sources]


def _counted(groups: Indices, heads: Indices, width: int) -> tuple[Indices, Indices]:
    """The families of more than one point, by leader (f,) ascending, and how many points of each source they hold (f, width)."""
    among = np.flatnonzero(np.bincount(heads, minlength=len(heads))[heads] > 1)
    family, inverse = np.unique(heads[among], return_inverse=True)
    columns = width + 1  # a sample's neighbours may have no source where the sample has one everywhere: not shown
    counts = np.bincount(inverse * columns + groups[among], minlength=len(family) * columns)
    return family, counts.reshape(len(family), columns)[:, :width]

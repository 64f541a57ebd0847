"""Families of repeats, as a sweep forms them (jobs/sweep/judging.py). A family is a leader and the points all of which the leader says. A repeat of
another member is not enough. The largest text leads; of equally large ones the one that says the most others, then the first by id.

The direction between two sources follows from shares, not from leaders: if nine tenths of A have a repeat in B, but only one tenth of B has
one in A, then A repeats a part of B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...selection.values import Indices
from ..pairs.ids import NOWHERE, Places
from ..sweep.families import Families, families, strongest
from ..sweep.judging import Evidence
from .reading import Gathered, Known


def firsts_of(gathered: Gathered) -> Indices:
    """For each of n points, the first point with the same key, which may be the point itself."""
    n = len(gathered.keys)
    firsts = np.arange(n, dtype=np.intp)
    for kind in (Known.TEXT, Known.VECTOR):
        of_kind = np.flatnonzero(gathered.known == kind)
        _, first, inverse = np.unique(gathered.keys[of_kind], return_index=True, return_inverse=True)
        firsts[of_kind] = of_kind[first[inverse]]
    return firsts


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Families):
    """With the ``evidence`` (n,) for which a point repeats its head, Evidence.NONE for a leader."""

    evidence: Indices


def grouped(gathered: Gathered) -> Grouped:
    """The families of the points."""
    firsts, coverings = firsts_of(gathered), gathered.coverings
    all_pairs = np.ones(len(coverings.pairs), np.bool_)
    formed = families(coverings, all_pairs, firsts, np.zeros(len(firsts)))
    evidence = np.where(formed.leaving, _equal(gathered), Evidence.NONE)
    others = np.flatnonzero(firsts != firsts[formed.heads])
    evidence[others] = coverings.evidence[strongest(coverings, formed, others)]
    return Grouped(heads=formed.heads, firsts=firsts, evidence=evidence)


def _equal(gathered: Gathered) -> Indices:
    """The evidence (n,) of points with equal keys."""
    return np.where(gathered.known == Known.VECTOR, Evidence.EQUAL_VECTOR, Evidence.EQUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """``points``: examined points that say nothing that another point does not; of several that say the same, all but one, but all of them in a sample,
    which does not know its families. Its parts: ``equal`` texts; texts ``contained`` in one other; ``edited`` copies, which a search would collapse
    and a sweep leaves; ``vectors`` that are nearly equal, of points without texts.
    """

    points: int
    equal: int
    contained: int
    edited: int
    vectors: int

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Each with its name."""
        return (
            ("equal", self.equal),
            ("contained in one other", self.contained),
            ("edited copies", self.edited),
            ("nearly equal vectors, without texts", self.vectors),
        )


def repeats(gathered: Gathered, families: Grouped) -> Repeats:
    """Of the examined points."""
    evidence = families.evidence
    if not gathered.whole:  # why another point says all of each, whichever of them would stay
        n = len(families.heads)
        weakest = np.full(n, len(Evidence), np.intp)
        np.minimum.at(weakest, gathered.coverings.pairs[:, 0], gathered.coverings.evidence.astype(np.intp))
        is_equal = np.bincount(families.firsts, minlength=n)[families.firsts] > 1
        evidence = np.where(weakest < len(Evidence), weakest, Evidence.NONE)
        evidence = np.where(is_equal, _equal(gathered), evidence)
    evidence = evidence[gathered.examined]
    has_text = gathered.known[gathered.examined] == Known.TEXT
    counts = np.bincount(evidence[has_text], minlength=len(Evidence)).tolist()
    return Repeats(
        points=int((evidence != Evidence.NONE).sum()),
        equal=counts[Evidence.EQUAL],
        contained=counts[Evidence.CONTAINED],
        edited=counts[Evidence.SEARCHED],
        vectors=int((evidence[~has_text] != Evidence.NONE).sum()),
    )


def name_of(evidence: int) -> str:
    """As in the lines of a sweep; "edited" for what a sweep leaves alone."""
    return "edited" if evidence == Evidence.SEARCHED else Evidence(evidence).name.lower()


MOST_SOURCES = 12  # sources with a row and a column of their own: the width of a page or a wide terminal
NO_SOURCE = "(none)"
OTHERS = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """``copied``: for each source in the report, itself included, how many of its points have a repeat or an original there. ``repeated``: in any."""

    name: str
    points: int
    repeated: int
    copied: tuple[int, ...]

    @property
    def is_one(self) -> bool:
        """Whether it is one source, not the rest or the points without a source."""
        return self.name not in {NO_SOURCE, OTHERS}


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
    mine = groups[gathered.examined]
    rows = (
        _row(name, number, gathered.examined[mine == number], (family, counts), heads)
        for number, name in enumerate(names)
    )
    return Sources(distinct=len(gathered.source_names), rows=tuple(rows))


def _row(name: str, number: int, points: Places, families: tuple[Indices, Indices], heads: Indices) -> SourceRow:
    """``points``: places of the source with this number. ``families``: of _counted."""
    family, counts = families
    itself = np.zeros(counts.shape[1], np.intp)
    itself[number] = 1  # the point itself does not count
    copied = counts[np.searchsorted(family, heads[points[np.isin(heads[points], family)]])] > itself
    return SourceRow(
        name=name,
        points=len(points),
        repeated=int(copied.any(axis=1).sum()),
        copied=tuple(int(count) for count in copied.sum(axis=0)),
    )


def _groups(gathered: Gathered) -> tuple[list[str], Indices]:
    """The names of the rows, and for each point (n,) the number of its row."""
    mine = gathered.sources[gathered.examined]
    counts = np.bincount(mine[mine != NOWHERE], minlength=len(gathered.source_names))
    names = gathered.source_names
    order = sorted(range(len(names)), key=lambda source: (-int(counts[source]), names[source]))
    sources = [names[source] for source in order[:MOST_SOURCES]]
    number = np.full(len(names) + 1, len(sources), np.intp)  # NOWHERE, which is -1, indexes the last one
    number[order[:MOST_SOURCES]] = np.arange(len(sources))
    if len(names) > MOST_SOURCES:
        sources.append(OTHERS)
    if (mine == NOWHERE).any():
        number[-1] = len(sources)
        sources.append(NO_SOURCE)
    return sources, number[gathered.sources]


def _counted(groups: Indices, heads: Indices, width: int) -> tuple[Indices, Indices]:
    """Families of more than one point: leaders (f,) ascending, and points by row (f, width)."""
    among = np.flatnonzero(np.bincount(heads, minlength=len(heads))[heads] > 1)
    family, inverse = np.unique(heads[among], return_inverse=True)
    columns = (
        width + 1
    )  # a sample's neighbours may have no source although sampled points do: one more column, not shown
    counts = np.bincount(inverse * columns + groups[among], minlength=len(family) * columns)
    return family, counts.reshape(len(family), columns)[:, :width]

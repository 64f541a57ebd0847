"""Ten pairs around a cut, for a person to read: is what lies just below still a copy, and what lies just above none?

Five from 60 to 100 % of the cut, five from there to 140 %, spread, so that the place where copies end can be seen even
when it is not quite where the cut is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from vecsieve.proxy.jobs.calibrate.survey import Pool
from vecsieve.proxy.jobs.source import PointId
from vecsieve.proxy.selection.geometry import NOISE

BELOW = (0.6, 0.7, 0.8, 0.9, 1.0)  # of the cut
ABOVE = (1.01, 1.1, 1.2, 1.3, 1.4)
SHOWN_CHARACTERS = 280
KEPT_SHARED = 40  # of a shared beginning, for orientation


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two points that came up in one pool. ``merged``: whether the cut makes one result of them.

    ``texts``: cut out from where they first differ, None for a point without text.
    """

    ids: tuple[PointId, PointId]
    texts: tuple[str | None, str | None]
    distance: float
    merged: bool


@dataclass(frozen=True, slots=True)
class _Found:
    distance: float
    pool: int
    row: int
    column: int


def borderline(pools: Sequence[Pool], cut: float) -> tuple[Pair, ...]:
    """At most ten pairs, nearest first. No point comes twice: a big family of copies would fill the list."""
    found = _between(pools, BELOW[0] * cut * 0.8, ABOVE[-1] * cut * 1.2)
    distances = np.array([each.distance for each in found], np.float64)
    used: set[PointId] = set()
    pairs: list[Pair] = []
    for share in (*BELOW, *ABOVE):
        merged = share <= 1.0
        for at in np.argsort(np.abs(distances - share * cut), kind="stable").tolist():
            ids = _ids(pools, found[at])
            if (found[at].distance <= cut + NOISE) is merged and used.isdisjoint(ids):
                used.update(ids)
                pairs.append(_pair(pools, found[at], merged=merged))
                break
    return tuple(sorted(pairs, key=lambda pair: pair.distance))


def _between(pools: Sequence[Pool], low: float, high: float) -> list[_Found]:
    """Every pair with a distance in that range, in the order of pools and ranks."""
    found: list[_Found] = []
    for number, pool in enumerate(pools):
        rows, columns = np.nonzero(np.triu((pool.distance >= low) & (pool.distance <= high), 1))
        found.extend(
            _Found(float(pool.distance[row, column]), number, row, column)
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        )
    return found


def _ids(pools: Sequence[Pool], found: _Found) -> tuple[PointId, PointId]:
    ids = pools[found.pool].ids
    return ids[found.row], ids[found.column]


def _pair(pools: Sequence[Pool], found: _Found, *, merged: bool) -> Pair:
    texts = pools[found.pool].texts
    return Pair(
        ids=_ids(pools, found),
        texts=differing(texts[found.row], texts[found.column]),
        distance=found.distance,
        merged=merged,
    )


def differing(one: str | None, other: str | None) -> tuple[str | None, str | None]:
    """Both texts shortened to what is worth reading: a long beginning that they share is left out of both."""
    if one is None or other is None:
        return one and one[:SHOWN_CHARACTERS], other and other[:SHOWN_CHARACTERS]
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    start = shared - KEPT_SHARED if shared > SHOWN_CHARACTERS // 2 else 0
    return _from(one, start), _from(other, start)


def _from(text: str, start: int) -> str:
    return f"{'… ' if start else ''}{text[start : start + SHOWN_CHARACTERS]}"

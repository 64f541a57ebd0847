"""What is kept of a collection while it is read: arrays, sized once, filled page by page.

Memory: 165 bytes for each point that is looked at (its place, and 20 neighbours at 4 bytes of place and 4 of distance)
and 13 for each point of the collection (what it is a copy of, which source it is from), beside the ids (ids.py: 8 or 36).
A million points are about 190 MB, whatever their vectors and texts weigh: neither is kept. Judging takes more for a
moment: up to 0.8 kB a point where everything has twenty copies, next to nothing where there are few (measured).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.jobs.analyze.ids import NOWHERE, Places
from vecsieve.proxy.selection.values import FloatMatrix

NEIGHBOURS = 20


class Known(IntEnum):
    """What a point's key was made of."""

    UNSEEN = 0  # not read, or gone before it could be
    TEXT = 1  # its canonical text
    VECTOR = 2  # it has no text: the very bytes of its vector
    NOTHING = 3  # neither text nor vector; a copy of nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The arrays of a collection with n points, m of which are looked at; frozen are the arrays, not what they hold.

    ``looked``: (m,) places, ascending. ``others``: (m, 20) places of the nearest other points, best first, NOWHERE beyond the
    last. ``distances``: (m, 20), infinite there. ``keys``: (n,) equal for exact copies of one ``known`` kind (n,).
    ``sources``: (n,) numbers of ``source_names``, which grows; -1 for none. ``vectors``: (m,) whether the point has one.
    """

    looked: Places
    others: Places
    distances: FloatMatrix
    keys: npt.NDArray[np.uint64]
    known: npt.NDArray[np.uint8]
    sources: Places
    source_names: list[str]
    vectors: npt.NDArray[np.bool_]

    @property
    def whole(self) -> bool:
        """Whether every point is looked at, so that what is found is the collection's and no sample's."""
        return len(self.looked) == len(self.keys)


def nothing_yet(points: int, looked: Places) -> Gathered:
    """The arrays before the first page. ``points``: n."""
    m = len(looked)
    return Gathered(
        looked=looked,
        others=np.full((m, NEIGHBOURS), NOWHERE, np.int32),
        distances=np.full((m, NEIGHBOURS), np.inf, np.float32),
        keys=np.zeros(points, np.uint64),
        known=np.zeros(points, np.uint8),
        sources=np.full(points, NOWHERE, np.int32),
        source_names=[],
        vectors=np.zeros(m, np.bool_),
    )


def spread(points: int, limit: int | None) -> Places:
    """Places of at most ``limit`` points, evenly spread over all of them; every point without a limit."""
    if limit is None or limit >= points:
        return np.arange(points, dtype=np.int32)
    return (np.arange(limit, dtype=np.int64) * points // limit).astype(np.int32)

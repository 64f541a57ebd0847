"""The input and output of selection: frozen values that check their shapes. And steps, which divide long work.

Shapes: n candidates in backend order, d dimensions.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence, Sized
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .reading.text import Text

FloatVector = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]


class Metric(StrEnum):
    """The metric by which a collection is searched."""

    COSINE = "cosine"
    EUCLIDEAN = "euclidean"
    MANHATTAN = "manhattan"
    DOT = "dot"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Metadata of n candidates; None for what was not requested.

    ``texts``, and ``documents``, ``sources`` as strings: n of each, None for a candidate without one. ``spans``: (n, 2)
    float64, [start, end) within the document in any unit, NaN if unknown. ``recency``: (n,) float64, larger is newer, NaN if unknown.
    ``citations``: (n,) int64, the number of filled citation fields, -1 if unknown.
    """

    texts: tuple[Text | None, ...] | None = None
    documents: tuple[str | None, ...] | None = None
    sources: tuple[str | None, ...] | None = None
    spans: FloatVector | None = None
    recency: FloatVector | None = None
    citations: npt.NDArray[np.int64] | None = None


_PER_CANDIDATE = ("vectors", "tenants", "squares", "text_lengths")


class Statements(Protocol):
    """What the candidates of a pool say besides their texts."""

    def differ(self, rows: Indices, others: Indices) -> npt.NDArray[np.bool_]:
        """Of ``rows`` (n,), for candidates without a text: whether each says anything that the one at its place in ``others`` (n,) does not."""

    def unsaid(self, row: int, others: Sequence[int], text: str) -> tuple[str, int] | None:
        """The first sentence of a candidate, besides its ``text``, that one of the others does not say, and which one; None if each says all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """One pool, in backend order.

    ``scores``: (n,) float64, NaN if missing. ``vectors``: (n, d) float32; a row that is not finite or is zero is unusable: its candidate is
    a singleton. ``query``: (d,) float32 or None. ``tenants``: (n,) int64 or None: only equal numbers may share a cluster. ``text_lengths``:
    (n,) int64, -1 if unknown, or None. ``metric``: by which the pool was ranked. ``squares``: (n,) float32, the squared lengths of exactly
    these rows, so that a copy's distance is 0; None if not computed. ``statements``: None if no more is known of any candidate.
    """

    scores: FloatVector
    vectors: FloatMatrix
    metric: Metric
    query: FloatMatrix | None = None
    tenants: npt.NDArray[np.int64] | None = None
    text_lengths: npt.NDArray[np.int64] | None = None
    metadata: Metadata = Metadata()
    squares: FloatMatrix | None = None
    statements: Statements | None = None

    def __post_init__(self) -> None:
        """Reject what no kernel can read. Raises ValueError with the value seen and the value wanted."""
        n = len(self.scores)
        if self.vectors.ndim != 2 or self.vectors.dtype != np.float32:
            raise ValueError(f"vectors: saw {self.vectors.dtype} {self.vectors.shape}, wanted float32 (n, d)")
        for owner, names in ((self, _PER_CANDIDATE), (self.metadata, Metadata.__slots__)):
            for name in names:
                rows: Sized | None = getattr(owner, name)
                if rows is not None and len(rows) != n:
                    raise ValueError(f"{name}: saw {len(rows)} rows, wanted one for each of the {n} scores")

    @property
    def size(self) -> int:
        """The number of candidates (n)."""
        return len(self.scores)


class Link(IntEnum):
    """Why a candidate shares a cluster with its representative."""

    NONE = 0
    EQUAL = 1  # the same text
    CONTAINED = 2  # the representative's text holds it in one piece
    JOINED = 3  # the representative's text holds it in pieces, or together with another result
    EDITED = 4  # an edited copy of a long text
    REWORDED = 5  # the same in other words
    DISTANCE = 6  # vectors within the cut, directly or through other members of the cluster


# What leaves by proof: nothing of it is missing on the page.
PROVEN = (Link.EQUAL, Link.CONTAINED, Link.JOINED)


class Fate(IntEnum):
    """What happened to a candidate."""

    KEPT = 0  # in the answer, as the representative of its cluster
    FILLED = 1  # in the answer, although its cluster is already represented: there were too few representatives
    COLLAPSED = 2  # left out, because its cluster is represented by another candidate of the pool
    NOT_CHOSEN = 3  # beyond what was requested, or passed over by the diversifier; no other result represents it
    CAPPED = 4  # left out, because its document or source has as many results as the policy allows
    EARLIER = 6  # chosen, but left out for a result that no earlier list or turn had shown
    OVER_BUDGET = 5  # chosen, but left out because better results used up the token budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The result: ``keep`` in answer order; for each candidate its cluster, its fate and its representative.

    ``labels``: (n,) cluster numbers, in order of each cluster's best rank; candidates that the page did not need are clusters of one.
    ``representative``: (n,) index of the representative of i's cluster (i itself for a representative). ``also``: (n,) a second result that holds
    part of i's text; -1: none. ``distinct``: number of clusters. ``wanting``: how many representatives the page lacks (0 if there were enough); it does
    not tell whether the backend has more candidates. ``acted``: False if the gate kept the backend's own answer; ``restrained``: because vectors
    alone would have collapsed most of a pool whose scores differ (metric.py). ``threshold``: the cut of vectors that was used (a growing cut: at the
    last rank of the page), NaN if vectors decided nothing. ``median``: pairwise distance of the first 50 candidates, 0.0 if none was measured.
    ``links``: (n,) Link, why i shares a cluster with its representative; NONE for the representative itself. ``similarities``: (n,) float32 by that
    link: the share of its text that is on the page as it is, 1 - doubt for REWORDED, 1 - distance or the probability for DISTANCE; NaN without a link.
    ``cuts``: (n,) float32, the similarity required at i's rank; NaN if no cut decided.
    """

    keep: Indices
    labels: Indices
    representative: Indices
    also: Indices
    fates: npt.NDArray[np.int8]
    distinct: int
    wanting: int
    acted: bool
    restrained: bool = False
    threshold: float
    median: float
    links: npt.NDArray[np.int8]
    similarities: FloatMatrix
    cuts: FloatMatrix


def best_ranked(labels: Indices) -> Indices:
    """The best-ranked member of each cluster (distinct,), for labels numbered in order of best rank."""
    # The highest label so far never falls and skips no number: the first k is where it first reaches k.
    highest = np.maximum.accumulate(labels)
    return highest.searchsorted(np.arange(highest[-1] + 1 if len(highest) else 0))


# Long work is a generator that yields between its steps and returns the result.
#
# Selection has no event loop and no clock. A caller on an event loop lets other tasks run at each yield; other callers run all steps at
# once. The result is the same. A step takes at most some 15 ms, because the number of characters, words or pairs in it is bounded.

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def finished(steps: Steps[T]) -> T:
    """Run all steps of the work at once and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result

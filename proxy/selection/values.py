"""What selection takes and gives: frozen values, no behaviour but a check of shapes at the door.

Shapes: n candidates in backend order, d dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt

FloatVector = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]


class Linkage(StrEnum):
    """How the distance of two clusters is read off their members' distances."""

    SINGLE = "single"
    COMPLETE = "complete"
    AVERAGE = "average"


class Strategy(StrEnum):
    """Which member stands for its cluster."""

    RANK = "rank"
    CENTROID = "centroid"
    HYBRID = "hybrid"
    QUERY_CLOSEST = "query_closest"
    LONGEST = "longest"
    AUTO = "auto"


class When(StrEnum):
    """Whether selection acts only when two of the first top_k share a cluster, or on every pool."""

    REDUNDANT = "redundant"
    ALWAYS = "always"


class Order(StrEnum):
    """The order of the answer: the backend's, or the order in which MMR picked."""

    BACKEND = "backend"
    MMR = "mmr"


class Short(StrEnum):
    """What happens when there are fewer representatives than top_k."""

    GROW_THEN_FILL = "grow_then_fill"
    FILL = "fill"
    ALLOW = "allow"


class Relevance(StrEnum):
    """How MMR reads relevance: the score as it is, or scaled to [0, 1] over the pool."""

    RAW = "raw"
    MINMAX = "minmax"


class Similarity(StrEnum):
    """How MMR reads similarity: 1 - distance, or max(0, 1 - distance / median pool distance)."""

    RAW = "raw"
    SCALED = "scaled"


class Distance(StrEnum):
    """Cosine distance always, or (auto) with a term for length where the pool says that length carries meaning."""

    AUTO = "auto"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A threshold that is one number for every pool: candidates at distance <= value merge."""

    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """factor x median pairwise distance of the first 50 candidates, clipped to [minimum, maximum]."""

    factor: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mmr:
    """Maximal marginal relevance (Carbonell and Goldstein 1998): weight 1.0 = relevance only, 0.0 = diversity only."""

    weight: float
    relevance: Relevance
    similarity: Similarity


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to choose. Every member is given: defaults live in the settings."""

    linkage: Linkage
    threshold: Fixed | Relative
    when: When
    representative: Strategy
    mmr: Mmr | None
    order: Order
    short: Short
    distance: Distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """One pool, in backend order.

    ``scores``: (n,) float64, NaN where missing. ``vectors``: (n, d) float32, a row that is not finite or is zero is
    unusable: its candidate is a singleton. ``query``: (d,) float32 or None. ``tenants``: (n,) int64 or None: only
    equal numbers may share a cluster. ``text_lengths``: (n,) int64, -1 where unknown, or None.
    ``magnitude``: whether vector length carries meaning.
    """

    scores: FloatVector
    vectors: FloatMatrix
    magnitude: bool
    query: FloatMatrix | None = None
    tenants: npt.NDArray[np.int64] | None = None
    text_lengths: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Refuse what no kernel could read. Raises ValueError that says what was seen and what was wanted."""
        n = len(self.scores)
        if self.vectors.ndim != 2 or self.vectors.dtype != np.float32:
            raise ValueError(f"vectors: saw {self.vectors.dtype} {self.vectors.shape}, wanted float32 (n, d)")
        for name, rows in (("vectors", self.vectors), ("tenants", self.tenants), ("text_lengths", self.text_lengths)):
            if rows is not None and len(rows) != n:
                raise ValueError(f"{name}: saw {len(rows)} rows, wanted one for each of the {n} scores")

    @property
    def size(self) -> int:
        """How many candidates there are (n)."""
        return len(self.scores)


class Fate(IntEnum):
    """What became of a candidate."""

    KEPT = 0  # in the answer, as the representative of its cluster
    FILLED = 1  # in the answer, although its cluster is already represented: there were too few representatives
    COLLAPSED = 2  # left out, because its cluster is represented by another candidate of the pool
    NOT_CHOSEN = 3  # beyond what was asked for, or passed over by MMR; nothing stands in its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The outcome: ``keep`` in answer order; per candidate its cluster, its fate and who stands for it.

    ``labels``: (n,) cluster numbers, in order of each cluster's best rank. ``representative``: (n,) index of the
    candidate that stands for i's cluster (i itself for a representative). ``distinct``: number of clusters.
    ``wanting``: how many representatives were missing for the page (0 when there were enough); it says nothing of
    whether the backend has more candidates to give.
    ``acted``: False when the gate left the backend's own answer alone. ``threshold``: the cut that was used.
    """

    keep: Indices
    labels: Indices
    representative: Indices
    fates: npt.NDArray[np.int8]
    distinct: int
    wanting: int
    acted: bool
    threshold: float

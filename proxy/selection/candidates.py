"""The input of selection: one pool, as frozen values that check their shapes."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.text.features import Text
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What is known of n candidates beside their vectors; None for what was not asked for.

    ``texts``, and ``titles``, ``documents``, ``sources`` as strings: n of each, None where a candidate has none.
    ``spans``: (n, 2) float64, [start, end) within the document in any unit, NaN where unknown. ``recency``: (n,) float64, larger is newer,
    NaN where unknown. ``citations``: (n,) int64, how many citation fields are filled, -1 where unknown.
    """

    texts: tuple[Text | None, ...] | None = None
    titles: tuple[str | None, ...] | None = None
    documents: tuple[str | None, ...] | None = None
    sources: tuple[str | None, ...] | None = None
    spans: FloatVector | None = None
    recency: FloatVector | None = None
    citations: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """One pool, in backend order.

    ``scores``: (n,) float64, NaN where missing. ``vectors``: (n, d) float32, a row that is not finite or is zero is
    unusable: its candidate is a singleton. ``query``: (d,) float32 or None. ``tenants``: (n,) int64 or None: only
    equal numbers may share a cluster. ``text_lengths``: (n,) int64, -1 where unknown, or None.
    ``metric``: by which the pool was ranked. ``squares``: (n,) float32, the rows' squared lengths, None where nobody worked them
    out; of the rows as they are here, so that a copy's distance is 0.
    """

    scores: FloatVector
    vectors: FloatMatrix
    metric: Metric
    query: FloatMatrix | None = None
    tenants: npt.NDArray[np.int64] | None = None
    text_lengths: npt.NDArray[np.int64] | None = None
    metadata: Metadata = Metadata()
    squares: FloatMatrix | None = None

    def __post_init__(self) -> None:
        """Refuse what no kernel could read. Raises ValueError that says what was seen and what was wanted."""
        n = len(self.scores)
        if self.vectors.ndim != 2 or self.vectors.dtype != np.float32:
            raise ValueError(f"vectors: saw {self.vectors.dtype} {self.vectors.shape}, wanted float32 (n, d)")
        known = self.metadata
        per_candidate: tuple[tuple[str, Sized | None], ...] = (
            ("vectors", self.vectors),
            ("tenants", self.tenants),
            ("squares", self.squares),
            ("text_lengths", self.text_lengths),
            *((name, getattr(known, name)) for name in Metadata.__slots__),
        )
        for name, rows in per_candidate:
            if rows is not None and len(rows) != n:
                raise ValueError(f"{name}: saw {len(rows)} rows, wanted one for each of the {n} scores")

    @property
    def size(self) -> int:
        """How many candidates there are (n)."""
        return len(self.scores)

"""Maximal marginal relevance (Carbonell and Goldstein 1998): pick candidates that are relevant and unlike earlier picks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..geometry import NOISE
from ..values import Candidates, FloatMatrix, FloatVector, Indices
from .choice import Choice
from .relevance import by_rank, oriented, query_distance, scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Mmr:
    """``weight``: 1.0 = relevance only, 0.0 = diversity only. ``is_scaled``: relevance is scaled to [0, 1] over the pool, and similarity by the
    pool's median distance; otherwise both are raw.
    """

    weight: float
    is_scaled: bool

    def pick(self, choice: Choice, count: int) -> Indices:
        """See Diversifier."""
        gains, among = choice.gains(relevance(choice.candidates, self)), choice.among()
        if self.is_scaled:
            return mmr(gains, among, weight=self.weight, count=count, scale=choice.measured.typical)
        return mmr(gains, among * np.float32(choice.measured.display_unit), weight=self.weight, count=count)


def relevance(candidates: Candidates, mmr: Mmr) -> FloatVector:
    """Relevance (n,) as the policy defines it, over the whole pool.

    At weight 1.0 it is the rank, whatever the scores: relevance alone means the backend's own order, and a cosine computed here may differ
    from the backend's in the last digit and swap two neighbours.
    """
    if mmr.weight == 1.0:
        return by_rank(candidates.size)
    if mmr.is_scaled:
        return scaled(oriented(candidates.scores))
    similarity = _to_query(candidates)
    return oriented(candidates.scores) if similarity is None else similarity


def _to_query(candidates: Candidates) -> FloatVector | None:
    """Cosine to the query (n,), or None if any candidate has none: two scales in one list cannot be compared."""
    distance = query_distance(candidates, magnitude=False)
    if distance is None or not np.isfinite(distance).all():
        return None
    return 1.0 - distance


def mmr(
    relevance: FloatVector, distance: FloatMatrix, *, weight: float, count: int, scale: float | None = None
) -> Indices:
    """Indices of ``count`` picks (all, when there are fewer), in pick order.

    Each pick has the largest ``weight * relevance - (1 - weight) * (largest similarity to the picks before it)``; the first has nothing
    before it, so it is the most relevant, and index 0 at weight 0. Ties go to the lower index.

    ``relevance``: (m,) finite. ``distance``: (m, m); infinite means unknown and counts as similarity 0. ``scale``: None: similarity is 1 -
    distance; a number: max(0, 1 - distance / scale). Within a pool, raw cosines to the query span less than those among candidates, so that
    raw MMR drifts to the far end of the pool. With scale 0 (a pool of copies) copies have similarity 1, all others 0.
    """
    count = min(count, len(relevance))
    picks = np.empty(count, dtype=np.intp)
    if not count:
        return picks
    gain = weight * relevance
    penalties = _penalties(distance, weight, scale)
    pick = picks[0] = gain.argmax()
    worst = penalties[pick].copy()
    for place in range(1, count):
        gain[pick] = -np.inf
        pick = picks[place] = (gain - worst).argmax()
        np.maximum(worst, penalties[pick], out=worst)
    return picks


def _penalties(distance: FloatMatrix, weight: float, scale: float | None) -> FloatMatrix:
    """(1 - weight) * similarity of every pair (m, m)."""
    if scale is None:
        similarity = np.subtract(np.float32(1.0), distance)
        similarity[np.isinf(similarity)] = 0.0
    else:
        similarity = np.multiply(distance, np.float32(-1.0 / max(scale, NOISE)))
        similarity += np.float32(1.0)
        np.maximum(similarity, np.float32(0.0), out=similarity)
    similarity *= np.float32(1.0 - weight)
    return similarity

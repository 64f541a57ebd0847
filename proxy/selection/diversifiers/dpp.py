"""Greedy determinantal point process (Chen, Zhang and Zhou 2018): the picks whose kernel has the largest determinant.

The kernel is L = diag(q) S diag(q), with S the similarity of the candidates and q their quality, q = exp(alpha * z), z the relevance as
standard scores. The determinant gained by candidate i is q_i^2 times the part of S_ii that the earlier picks leave unexplained, and Chen's
alpha = (1 - diversity) / (2 * diversity), so that the logarithm of the gain, times diversity, is

    (1 - diversity) * z_i + diversity * log(unexplained_i)

which is compared here. It has no exponential that could overflow, and both ends are exact: at 0 it is the order of relevance, at 1
relevance has no effect.

S need not be positive semidefinite. Clipping similarities at zero, scaling them by the pool's median and setting tenants apart can each
break that. Then the unexplained part of a candidate may fall below zero. It counts as zero, because this happens to candidates that the
picks already explain. Repairing the kernel's eigenvalues would cost more than the selection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..geometry import NOISE
from ..values import FloatMatrix, FloatVector, Indices
from .choice import Choice
from .relevance import scaled


@dataclass(frozen=True, slots=True)
class Dpp:
    """``diversity``: 0.0 = relevance only, 1.0 = diversity only (1 - weight of MMR)."""

    diversity: float

    def pick(self, choice: Choice, count: int) -> Indices:
        """See Diversifier."""
        gains, typical = choice.scaled_gains(self.diversity), choice.measured.typical
        return dpp(gains, choice.among(), diversity=self.diversity, count=count, scale=typical)


def dpp(gains: FloatVector, distance: FloatMatrix, *, diversity: float, count: int, scale: float | None) -> Indices:
    """Indices of ``count`` picks (all, when there are fewer), in pick order; ties go to the lower index.

    A candidate without an unexplained part (a copy of a pick, within NOISE) comes after all others, in order of relevance, so the page is
    always full.

    ``gains``: (m,) finite, higher is more relevant. ``distance``: (m, m); infinite means unknown and counts as similarity 0. ``scale``:
    None: similarity is 1 - distance; a number: max(0, 1 - distance / scale). O(count^2 * m).
    """
    by_relevance = np.argsort(-gains, kind="stable").astype(np.intp, copy=False)
    count = min(count, len(gains))
    if diversity == 0.0 or not count:
        return by_relevance[:count]
    picks = _greedy((1.0 - diversity) * _standard(gains), _similarity(distance, scale), diversity, count)
    rest = by_relevance[~np.isin(by_relevance, picks)]
    return np.concatenate((picks, rest[: count - len(picks)]))


def _greedy(quality: FloatVector, similarity: npt.NDArray[np.float64], diversity: float, count: int) -> Indices:
    """At most ``count`` picks; it ends when no candidate has an unexplained part.

    Row t of ``factor`` is row t of the Cholesky factor of S over the picks, extended to all candidates (m,): what a candidate has in common
    with pick t and with none of the earlier picks.
    """
    unexplained = similarity.diagonal().copy()
    factor = np.empty((count, len(quality)))
    picks = np.empty(count, dtype=np.intp)
    for place in range(count):
        is_open = unexplained > NOISE
        if not is_open.any():
            return picks[:place]
        values = np.full(len(quality), -np.inf)
        values[is_open] = quality[is_open] + diversity * np.log(unexplained[is_open])
        # Values within NOISE of the best are equal: a rounding error must not decide.
        pick = picks[place] = (values >= values.max() - NOISE).argmax()
        shared = similarity[pick] - factor[:place, pick] @ factor[:place]
        factor[place] = shared / np.sqrt(unexplained[pick])
        unexplained -= factor[place] ** 2
        unexplained[pick] = 0.0
    return picks


def _standard(gains: FloatVector) -> FloatVector:
    """Standard scores (m,): mean 0, deviation 1; all zero if the gains are equal."""
    spread = scaled(gains)  # to [0, 1] first, so that no square overflows
    spread = spread - spread.mean()
    deviation = float(spread.std())
    standard: FloatVector = spread / deviation if deviation > 0.0 else spread
    return standard


def _similarity(distance: FloatMatrix, scale: float | None) -> npt.NDArray[np.float64]:
    """The similarity of every pair (m, m), as MMR defines it."""
    unit = 1.0 if scale is None else max(scale, NOISE)
    similarity = 1.0 - distance.astype(np.float64) / unit
    similarity[np.isinf(similarity)] = 0.0
    return similarity if scale is None else np.maximum(0.0, similarity)

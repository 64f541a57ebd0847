"""What a diversifier chooses from: the candidates allowed on the page, their relevance and their distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..distances import Distances
from ..values import Candidates, FloatMatrix, FloatVector, Indices, best_ranked
from .relevance import by_rank, oriented, scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """m of the n candidates of a pool.

    ``standing``: (m,) the candidates that may be picked, as indices into the pool, in order of relevance: each cluster's representative,
    followed by further members if the policy allows them. ``labels``: (n,) numbered in order of best rank. ``distance``: (n, n), tenants
    apart. ``measured``: the unit of the distances, and the typical one to scale them by.
    """

    candidates: Candidates
    standing: Indices
    labels: Indices
    distance: FloatMatrix
    measured: Distances

    def among(self) -> FloatMatrix:
        """The distances of the candidates that may be picked (m, m)."""
        return self.distance.take(self.standing, axis=0).take(self.standing, axis=1)

    def gains(self, relevance: FloatVector) -> FloatVector:
        """The relevance of the candidates that may be picked (m,), from the ``relevance`` of the whole pool (n,).

        A cluster is as relevant as its best-ranked member, whichever member represents it. Otherwise a centroid from the end of the pool
        would make the best cluster the least relevant one. Further members have their own relevance.
        """
        labels = self.labels[self.standing]
        is_first = np.zeros(len(self.standing), np.bool_)
        is_first[np.unique(labels, return_index=True)[1]] = True
        return relevance[np.where(is_first, best_ranked(self.labels)[labels], self.standing)]

    def scaled_gains(self, diversity: float) -> FloatVector:
        """``gains`` of the scores, scaled to [0, 1]. At diversity 0 the rank is used instead of the scores."""
        candidates = self.candidates
        return self.gains(by_rank(candidates.size) if diversity == 0.0 else scaled(oriented(candidates.scores)))


class Diversifier(Protocol):
    """Chooses which representatives are on the page. Implementations: modules of ``diversifiers``."""

    def pick(self, choice: Choice, count: int) -> Indices:
        """``count`` places in ``choice.standing`` (all, if there are fewer), in pick order; ties go to the lower place."""
        ...


def diversify(choice: Choice, diversifier: Diversifier | None, count: int) -> Indices:
    """``count`` of ``choice.standing`` (all, if there are fewer), as indices into the pool, in pick order.

    Without a diversifier, with MMR at weight 1 and with others at diversity 0, the order of ``standing`` is kept.
    """
    if diversifier is None or not len(choice.standing):
        return choice.standing[:count]
    return choice.standing[diversifier.pick(choice, count)]

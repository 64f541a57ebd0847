"""Which of the representatives make the page: by rank, or by the diversifier of the policy."""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.clustering import best_ranked
from vecsieve.proxy.selection.distances import Distances
from vecsieve.proxy.selection.diversifiers.dpp import dpp
from vecsieve.proxy.selection.diversifiers.mmr import mmr
from vecsieve.proxy.selection.diversifiers.pyversity import external
from vecsieve.proxy.selection.diversifiers.relevance import by_rank, oriented, relevance, scaled
from vecsieve.proxy.selection.policy import Dpp, External, Mmr, Similarity
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, FloatVector, Indices


def diversify(
    candidates: Candidates,
    standing: Indices,
    labels: Indices,
    distance: FloatMatrix,
    measured: Distances,
    *,
    count: int,
    diversifier: Mmr | Dpp | External | None,
) -> Indices:
    """``count`` of ``standing`` (all, when there are fewer), as indices into the pool, in pick order.

    ``standing``: who may be picked, in order of relevance: each cluster's representative, and behind it further members
    where the policy allows some. ``labels``: (n,) numbered in order of best rank. ``distance``: (n, n), tenants apart.
    ``measured``: the unit of the distances, and the typical one, by which they are scaled.

    No diversifier, MMR at weight 1 and the others at diversity 0 are the order of ``standing``.
    """
    if diversifier is None or not len(standing):
        return standing[:count]
    gains = _gains(candidates, standing, labels, diversifier)
    if isinstance(diversifier, External):
        rows = candidates.vectors.take(standing, axis=0)
        chosen = external(gains, rows, method=diversifier.method, diversity=diversifier.diversity, count=count)
        return standing[chosen]
    among = distance.take(standing, axis=0).take(standing, axis=1)
    if isinstance(diversifier, Dpp):
        return standing[dpp(gains, among, diversity=diversifier.diversity, count=count, scale=measured.typical)]
    if diversifier.similarity is Similarity.SCALED:
        return standing[mmr(gains, among, weight=diversifier.weight, count=count, scale=measured.typical)]
    shown = among * np.float32(measured.shown_unit)
    return standing[mmr(gains, shown, weight=diversifier.weight, count=count)]


def _gains(
    candidates: Candidates, standing: Indices, labels: Indices, diversifier: Mmr | Dpp | External
) -> FloatVector:
    """The relevance of each that may be picked (m,).

    A cluster is as relevant as its best-ranked member, whoever represents it: a centroid from the end of the pool must not
    make the best cluster the least relevant one. Its further members, if there are any, speak for themselves.
    """
    own = labels[standing]
    is_first = np.zeros(len(standing), np.bool_)
    is_first[np.unique(own, return_index=True)[1]] = True
    ranks = np.where(is_first, best_ranked(labels)[own], standing)
    return _pool_gains(candidates, diversifier)[ranks]


def _pool_gains(candidates: Candidates, diversifier: Mmr | Dpp | External) -> FloatVector:
    """Relevance (n,) over the whole pool. Diversity 0 is the rank, whatever the scores, as weight 1 is for MMR."""
    if isinstance(diversifier, Mmr):
        return relevance(candidates, diversifier)
    return by_rank(candidates.size) if diversifier.diversity == 0.0 else scaled(oriented(candidates.scores))

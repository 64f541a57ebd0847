"""Who stands for a cluster. Every strategy falls back to the best rank where what it looks at is missing or equal."""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.chain import best_of
from vecsieve.proxy.selection.clustering import best_ranked
from vecsieve.proxy.selection.geometry import NOISE
from vecsieve.proxy.selection.policy import Strategy, Tie
from vecsieve.proxy.selection.relevance import oriented, query_distance, scaled
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, FloatVector, Indices

# Scores weigh more than the middle: the usual blend of the tools that offer it.
HYBRID_SCORE = 0.7


def represent(
    labels: Indices,
    distance: FloatMatrix,
    candidates: Candidates,
    *,
    strategy: Strategy,
    magnitude: bool,
    chain: tuple[Tie, ...] = (),
    authority: tuple[str, ...] = (),
) -> Indices:
    """The representative of each cluster (distinct,), indices into the pool.

    ``labels``: (n,) numbered in order of best rank. ``distance``: (n, n).
    rank: the best-ranked member. centroid: the one nearest to the others. hybrid: 0.7 score + 0.3 nearness to the
    others, each min-max scaled within the cluster. query_closest: nearest to the query. longest: longest text. auto:
    rank where the cluster's scores differ, else centroid. chain: the ties of ``chain``, one after the other. Ties go
    to the better rank.
    """
    standing = best_ranked(labels)
    if strategy is Strategy.RANK or len(standing) == len(labels):
        return standing
    merit = _pool_merit(candidates, strategy, magnitude=magnitude)
    crowded = np.flatnonzero(np.bincount(labels) > 1)
    for label in crowded.tolist():
        members = np.flatnonzero(labels == label)
        if strategy is Strategy.CHAIN:
            standing[label] = best_of(members, candidates.metadata, candidates.text_lengths, chain, authority)
            continue
        values = _cluster_merit(members, distance, merit, strategy)
        # Within NOISE of the best is a tie: which of two copies a rounding error favours is nobody's choice.
        standing[label] = members[np.argmax(values >= values.max() - NOISE)]
    return standing


def _pool_merit(candidates: Candidates, strategy: Strategy, *, magnitude: bool) -> FloatVector:
    """What the strategy reads of each candidate by itself (n,), higher is better; all equal where it is missing."""
    missing = np.zeros(candidates.size)
    if strategy is Strategy.LONGEST:
        return missing if candidates.text_lengths is None else candidates.text_lengths.astype(np.float64)
    if strategy is Strategy.QUERY_CLOSEST:
        distance = query_distance(candidates, magnitude=magnitude)
        return missing if distance is None else -distance
    if strategy is Strategy.HYBRID:
        return oriented(candidates.scores)
    return candidates.scores


def _cluster_merit(members: Indices, distance: FloatMatrix, merit: FloatVector, strategy: Strategy) -> FloatVector:
    own = merit[members]
    if strategy in {Strategy.LONGEST, Strategy.QUERY_CLOSEST}:
        return own
    if strategy is Strategy.AUTO and np.isfinite(own).all() and np.ptp(own) > 0.0:
        return -np.arange(len(members), dtype=np.float64)
    closeness = _closeness(members, distance)
    if strategy is Strategy.HYBRID:
        return HYBRID_SCORE * scaled(own) + (1.0 - HYBRID_SCORE) * scaled(closeness)
    return closeness


def _closeness(members: Indices, distance: FloatMatrix) -> FloatVector:
    """How near each member is to the cluster's centre, higher is nearer.

    The cosine to the mean of unit rows grows with the sum of the cosines to all members, so the mean distance to
    the members says the same without touching the vectors; and it has a meaning for the distance with length, too.
    """
    centrality: FloatVector = -distance[np.ix_(members, members)].mean(axis=1, dtype=np.float64)
    return centrality

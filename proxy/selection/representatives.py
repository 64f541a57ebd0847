"""Who stands for a cluster. Every strategy falls back to the best rank where what it looks at is missing or equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.clustering import best_ranked
from vecsieve.proxy.selection.diversifiers.relevance import oriented, query_distance, scaled
from vecsieve.proxy.selection.geometry import NOISE
from vecsieve.proxy.selection.policy import Strategy, Tie
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, FloatVector, Indices, Metadata

# The chain of ties: who of a cluster stands for it, by what is known of its members beside vectors and scores.
#
# Each tie looks only at those who were equal on all before it; the rank is always the last. What is unknown of a member
# loses against what is known of another, and a tie of which nothing is known decides nothing.

Lengths = npt.NDArray[np.int64]


def best_of(
    members: Indices,
    metadata: Metadata,
    text_lengths: Lengths | None,
    chain: tuple[Tie, ...],
    authority: tuple[str, ...],
) -> int:
    """The member of ``members`` (not empty, in any order) that comes out of the chain.

    citations: more. authority: earlier in ``authority``; sources not listed come behind all that are, unknown ones last.
    recency: newer. shorter: shorter span where every member has one, else shorter text, as the two have no common
    unit. rank: better.
    """
    left = np.sort(members)
    for tie in chain:
        if len(left) == 1 or tie is Tie.RANK:
            break
        merit = _merit(left, metadata, text_lengths, tie, authority)
        left = left[merit == merit.max()]
    return int(left[0])


def _merit(
    members: Indices, metadata: Metadata, text_lengths: Lengths | None, tie: Tie, authority: tuple[str, ...]
) -> FloatVector:
    """What one tie makes of each member (m,), higher is better, minus infinity where unknown."""
    if tie is Tie.CITATIONS and metadata.citations is not None:
        citations = metadata.citations[members].astype(np.float64)
        return _known(citations, citations >= 0)
    if tie is Tie.AUTHORITY and metadata.sources is not None:
        return _trust([metadata.sources[i] for i in members.tolist()], authority)
    if tie is Tie.RECENCY and metadata.recency is not None:
        return _known(metadata.recency[members])
    if tie is Tie.SHORTER:
        return _shortness(members, metadata.spans, text_lengths)
    return np.zeros(len(members))


def _trust(sources: Sequence[str | None], authority: tuple[str, ...]) -> FloatVector:
    places = {source: place for place, source in reversed(list(enumerate(authority)))}
    return np.array([-np.inf if source is None else -float(places.get(source, len(authority))) for source in sources])


def _shortness(members: Indices, spans: FloatVector | None, text_lengths: Lengths | None) -> FloatVector:
    """Minus the length of each member's span or text (m,). A span that ends before it starts is no span."""
    unknown = np.full(len(members), -np.inf)
    of_spans = unknown
    if spans is not None:
        with np.errstate(invalid="ignore"):  # infinity minus infinity is not known either
            widths = spans[members, 1] - spans[members, 0]
        of_spans = _known(-widths, widths >= 0.0)
    of_texts = unknown
    if text_lengths is not None:
        lengths = text_lengths[members]
        of_texts = _known(-lengths.astype(np.float64), lengths >= 0)
    return of_spans if np.isfinite(of_spans).all() or not np.isfinite(of_texts).any() else of_texts


def _known(values: FloatVector, known: npt.NDArray[np.bool_] | None = None) -> FloatVector:
    """The values (m,), minus infinity where they are not finite or not ``known``."""
    good = np.isfinite(values) if known is None else np.isfinite(values) & known
    return np.where(good, values, -np.inf)


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

"""Which member represents its cluster. If the values that a strategy needs are missing or equal, the best rank decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from .diversifiers.relevance import oriented, query_distance, scaled
from .geometry import NOISE, Mask
from .policy import Strategy, Tie
from .values import Candidates, FloatMatrix, FloatVector, Indices, Metadata, best_ranked

Lengths = npt.NDArray[np.int64]


def best_of(
    members: Indices,
    metadata: Metadata,
    text_lengths: Lengths | None,
    chain: tuple[Tie, ...],
    authority: tuple[str, ...],
) -> int:
    """The member of ``members`` (not empty, in any order) that the ``chain`` prefers.

    Each tie compares only the members that were equal on all ties before it; the rank is always the last. An unknown value loses against a
    known one. A tie without a known value for any member is skipped.

    citations: more. authority: earlier in ``authority``; sources that are not listed come after all listed ones, unknown sources last.
    recency: newer. shorter: shorter span if every member has one, else shorter text, because spans and texts have no common unit. rank:
    better.
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
    """The value of each member for one tie (m,), higher is better, minus infinity if unknown."""
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
        with np.errstate(invalid="ignore"):  # infinity minus infinity is unknown as well
            widths = spans[members, 1] - spans[members, 0]
        of_spans = _known(-widths, widths >= 0.0)
    of_texts = unknown
    if text_lengths is not None:
        lengths = text_lengths[members]
        of_texts = _known(-lengths.astype(np.float64), lengths >= 0)
    return of_spans if np.isfinite(of_spans).all() or not np.isfinite(of_texts).any() else of_texts


def _known(values: FloatVector, known: npt.NDArray[np.bool_] | None = None) -> FloatVector:
    """The values (m,), minus infinity if they are not finite or not ``known``."""
    good = np.isfinite(values) if known is None else np.isfinite(values) & known
    return np.where(good, values, -np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """The input of strategies. ``distance``: (n, n), computed when needed. The other members are those of ``represent``."""

    candidates: Candidates
    distance: Callable[[], FloatMatrix]
    magnitude: bool
    chain: tuple[Tie, ...]
    authority: tuple[str, ...]


_Choose = Callable[[Indices], int]
"""Returns the representative among a cluster's members (m,), ascending."""

# The weights of the score and of closeness to the other members in the strategy hybrid: the usual blend of tools that offer it.
HYBRID_SCORE = 0.7


def represent(  # noqa: PLR0913 - a cluster, and how one of it is chosen
    labels: Indices,
    distance: Callable[[], FloatMatrix],
    candidates: Candidates,
    *,
    strategy: Strategy,
    magnitude: bool,
    may_stand: Mask | None = None,
    chain: tuple[Tie, ...] = (),
    authority: tuple[str, ...] = (),
) -> Indices:
    """The representative of each cluster (distinct,), as indices into the pool. Ties go to the better rank.

    ``labels``: (n,) numbered in order of best rank. ``distance``: gives (n, n). ``magnitude``: whether a vector's length is part of
    its distance to the query. ``may_stand``: (n,) which members may represent their cluster, its best-ranked among them; None: all. ``chain`` and ``authority``: for the strategy chain.
    """
    standing = best_ranked(labels)
    if strategy is Strategy.RANK or len(standing) == len(labels):
        return standing
    pool = _Pool(candidates=candidates, distance=distance, magnitude=magnitude, chain=chain, authority=authority)
    choose = REPRESENTATIVES[strategy](pool)
    for label in np.flatnonzero(np.bincount(labels) > 1).tolist():
        members = np.flatnonzero(labels == label if may_stand is None else (labels == label) & may_stand)
        standing[label] = choose(members) if len(members) else standing[label]
    return standing


def _best(merit: Callable[[Indices], FloatVector]) -> _Choose:
    """The member with the highest merit. Merits within NOISE of the highest are equal: a rounding error must not decide."""

    def choose(members: Indices) -> int:
        values = merit(members)
        return int(members[np.argmax(values >= values.max() - NOISE)])

    return choose


def _centroid(pool: _Pool) -> _Choose:
    """The member nearest to the others."""
    distance = pool.distance()
    return _best(lambda members: _closeness(members, distance))


def _hybrid(pool: _Pool) -> _Choose:
    """0.7 score + 0.3 nearness to the others, each min-max scaled within the cluster."""
    scores, distance = oriented(pool.candidates.scores), pool.distance()

    def merit(members: Indices) -> FloatVector:
        closeness = _closeness(members, distance)
        return HYBRID_SCORE * scaled(scores[members]) + (1.0 - HYBRID_SCORE) * scaled(closeness)

    return _best(merit)


def _query_closest(pool: _Pool) -> _Choose:
    distance = query_distance(pool.candidates, magnitude=pool.magnitude)
    merit = np.zeros(pool.candidates.size) if distance is None else -distance
    return _best(lambda members: merit[members])


def _longest(pool: _Pool) -> _Choose:
    lengths = pool.candidates.text_lengths
    merit = np.zeros(pool.candidates.size) if lengths is None else lengths.astype(np.float64)
    return _best(lambda members: merit[members])


def _auto(pool: _Pool) -> _Choose:
    """The best rank if the cluster's scores differ, else the centroid."""
    scores, centroid = pool.candidates.scores, _centroid(pool)

    def choose(members: Indices) -> int:
        group_scores = scores[members]
        has_order = bool(np.isfinite(group_scores).all()) and float(np.ptp(group_scores)) > 0.0
        return int(members[0]) if has_order else centroid(members)

    return choose


def _chain(pool: _Pool) -> _Choose:
    known, lengths = pool.candidates.metadata, pool.candidates.text_lengths
    return lambda members: best_of(members, known, lengths, pool.chain, pool.authority)


# Strategy.RANK has no entry: it is the first member of every cluster.
REPRESENTATIVES: Mapping[Strategy, Callable[[_Pool], _Choose]] = MappingProxyType(
    {
        Strategy.CENTROID: _centroid,
        Strategy.HYBRID: _hybrid,
        Strategy.QUERY_CLOSEST: _query_closest,
        Strategy.LONGEST: _longest,
        Strategy.AUTO: _auto,
        Strategy.CHAIN: _chain,
    }
)


def _closeness(members: Indices, distance: FloatMatrix) -> FloatVector:
    """How near each member is to the cluster's centre, higher is nearer.

    The cosine to the mean of unit rows grows with the sum of the cosines to all members. So the mean distance to the members gives the same
    order without reading the vectors, and it also has a meaning for distances that include length.
    """
    centrality: FloatVector = -distance[np.ix_(members, members)].mean(axis=1, dtype=np.float64)
    return centrality

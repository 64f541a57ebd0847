"""The clusters of a pool: what texts decide, and what vectors decide where a text is missing.

Texts decide every pair of candidates that both have one (judging/). Vectors decide the other pairs: by default only nearly equal vectors merge; with
a threshold they are clustered by it. A policy that reads no texts clusters by vectors alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from .certainty import by_vectors, doubts_allowed
from .clustering import cluster, separate
from .distances import (
    NEARLY_EQUAL,
    CosineDistances,
    Distances,
    bare_bounds,
    cosine_distances,
    neighbourhoods,
    relative_distances,
)
from .geometry import SCALE_FROM, Mask
from .judging.rewordings import ALIKE, Rewordings, sentence_of
from .judging.walk import Reword, Walk, Walked
from .policy import Certain, Distance, Fixed, Linkage, Policy, Strategy, Threshold
from .values import PROVEN, Candidates, FloatMatrix, Indices, Link, Metric, Steps, best_ranked

NOBODY = np.empty(0, np.intp)
_DISTANCE = np.int8(Link.DISTANCE)


@dataclass(slots=True)
class Grouped:
    """``labels``: (n,). ``heads``: (n,) the best-ranked member of each candidate's cluster. ``walked``: what texts decided. ``links``,
    ``similarities``, ``cuts``: (n,) as in Selection, to the head. ``vectors``: None if vectors decided nothing.
    """

    candidates: Candidates
    policy: Policy
    labels: Indices
    heads: Indices
    distinct: int
    walked: Walked
    similarities: FloatMatrix
    cuts: FloatMatrix
    vectors: ByVectors | None
    _measured: Distances | None = field(default=None)

    @property
    def links(self) -> npt.NDArray[np.int8]:
        """Why each candidate shares a cluster with its head: (n,) Link."""
        return self.walked.links

    @property
    def followers(self) -> Indices:
        """The candidates that are not the best-ranked of their cluster, ascending."""
        return np.flatnonzero(self.heads != np.arange(len(self.labels))) if self.distinct < len(self.labels) else NOBODY

    @property
    def measured(self) -> Distances:
        """The distances in which the policy's threshold is expressed."""
        if self._measured is None:
            self._measured = (
                distances_of(self.candidates, self.policy) if self.vectors is None else self.vectors.measured
            )
        return self._measured

    @property
    def apart(self) -> FloatMatrix:
        """Distances (n, n) by vectors, forbidden pairs infinitely far apart, members of a text's cluster at 0: the input of a diversifier."""
        distance = self.measured.inside(0, self.candidates.size).distance
        if self.candidates.tenants is not None:
            distance = separate(distance, self.candidates.tenants, self.candidates.tenants)
        same = (self.labels[:, None] == self.labels) & np.isfinite(distance)
        by_text = (self.links != Link.NONE) & (self.links != Link.DISTANCE)
        return np.where(same & (by_text[:, None] | by_text), np.float32(0.0), distance)

    @property
    def proven(self) -> Mask:
        """Which candidates (n,) are said by their head, or by it and another result, so that a page gains nothing from them."""
        is_proven: Mask = np.isin(self.links, PROVEN)
        return is_proven

    @property
    def may_stand(self) -> Mask:
        """Which candidates (n,) may represent their cluster: whose text is the head's, and those that merged by vectors."""
        may: Mask = (self.links == Link.NONE) | (self.links == Link.EQUAL) | (self.links == Link.DISTANCE)
        return may

    @property
    def median(self) -> float:
        """The median distance, 0.0 if vectors decided nothing."""
        return 0.0 if self.vectors is None else self.vectors.measured.median

    def cut_at(self, top_k: int) -> float:
        """The cut at the last rank of a page, NaN if vectors decided nothing."""
        if self.vectors is None:
            return math.nan
        return self.vectors.display_cuts[min(max(top_k, 1), len(self.vectors.display_cuts)) - 1]


@dataclass(frozen=True, slots=True)
class ByVectors:
    """What vectors are compared by. ``cuts``: by the number of results so far, in the unit of what is clustered; ``display_cuts``: as people see them."""

    measured: Distances
    typical: float
    cuts: Sequence[float]
    display_cuts: Sequence[float]
    linkage: Linkage
    is_certain: bool

    def to_cluster(self, distance: FloatMatrix, bare: FloatMatrix | float) -> FloatMatrix:
        """The matrix to cluster (n, m): the doubt under the calibrated rule, else the distance. ``bare``: beyond which vectors may be near by chance."""
        if not self.is_certain:
            return distance
        unit = self.typical or 1.0
        return by_vectors(distance / np.float32(unit), bare / unit)

    def similarity(self, values: FloatMatrix) -> FloatMatrix:
        """The similarity of clustered values, as people see it."""
        unit = 1.0 if self.is_certain else self.measured.display_unit
        similarities: FloatMatrix = np.float32(1.0) - values * np.float32(unit)
        return similarities


def by_vectors_of(candidates: Candidates, policy: Policy, scale: float | None) -> ByVectors:
    """What the vectors of a pool are compared by. ``scale``: the typical distance for cuts, None for the pool's own."""
    measured = distances_of(candidates, policy)
    if not isinstance(measured, CosineDistances):
        measured = measured.narrowed(candidates.vectors, policy.chance)
    is_certain = isinstance(policy.threshold, Certain)
    by_rank = cuts_of(measured, policy, scale, candidates.size)
    linkage = Linkage.LEADER if is_certain or policy.threshold is None else policy.linkage
    unit = 1.0 if is_certain else measured.display_unit
    return ByVectors(
        measured, typical_of(measured, scale), by_rank, [cut * unit for cut in by_rank], linkage, is_certain
    )


def distances_of(candidates: Candidates, policy: Policy) -> Distances:
    """The distances in which the policy's threshold is expressed."""
    if isinstance(policy.threshold, Fixed):
        return cosine_distances(candidates.vectors, magnitude=counts_length(candidates, policy))
    metric = Metric.COSINE if policy.distance is Distance.COSINE else candidates.metric
    return relative_distances(candidates.vectors, metric, chance=policy.chance, squares=candidates.squares)


def counts_length(candidates: Candidates, policy: Policy) -> bool:
    """Whether a vector's length is part of a cosine distance."""
    return candidates.metric is not Metric.COSINE and policy.distance is Distance.AUTO


def cuts(
    threshold: Threshold | None, typical: float, count: int, *, largest: float = math.inf, unit: float = 1.0
) -> list[float]:
    """The cuts for a pool with this typical distance after 0 to ``count - 1`` results; the first is never used. Under the calibrated rule a
    cut is the doubt that is allowed, else a distance.

    ``largest``: the bound for closeness by chance. ``unit``: the cosine distance of 1.0, in which a threshold's own bounds are given.
    """
    if isinstance(threshold, Certain):
        return doubts_allowed(threshold, count)
    if isinstance(threshold, Fixed):
        return [threshold.value / unit] * count
    if threshold is None:
        return [min(NEARLY_EQUAL * typical, largest)] * count
    cut = min(threshold.factor * typical, largest)
    return [min(max(cut, threshold.minimum / unit), threshold.maximum / unit)] * count


def typical_of(measured: Distances, scale: float | None) -> float:
    """The typical distance for cuts. ``scale``: one in the metric's own measure, instead of the pool's."""
    return measured.typical if scale is None else scale / measured.unit


def cuts_of(measured: Distances, policy: Policy, scale: float | None, count: int) -> list[float]:
    """The cuts after 0 to ``count - 1`` results."""
    return cuts(
        policy.threshold,
        typical_of(measured, scale),
        max(count, 1),
        largest=measured.largest,
        unit=measured.display_unit,
    )


def lacks_texts(candidates: Candidates, policy: Policy) -> bool:
    """Whether vectors alone decide some pair."""
    texts = candidates.metadata.texts
    return policy.texts is None or texts is None or None in texts


def group(candidates: Candidates, policy: Policy, scale: float | None) -> Steps[Grouped]:
    """Judge the texts and cluster the vectors of a whole pool. ``scale``: the typical distance for cuts, None for the pool's own."""
    walk = Walk(candidates, policy, rewordings_of(candidates, policy))
    yield from walk.steps()
    if not lacks_texts(candidates, policy):
        return of_texts(candidates, policy, walk)
    vectors = by_vectors_of(candidates, policy, scale)
    distance = vectors.measured.inside(0, candidates.size).distance
    bare: FloatMatrix | float = vectors.measured.largest
    if vectors.is_certain:
        near = neighbourhoods(distance[:, :SCALE_FROM])
        bare = bare_bounds(near, near, vectors.measured.largest)
    clustered = set_apart(vectors.to_cluster(distance, bare), candidates, policy, walk.walked, vectors)
    labels = cluster(clustered, vectors.cuts, vectors.linkage, slack=vectors.measured.slack)
    return _grouped(candidates, policy, walk.walked, vectors, (labels, clustered))


def of_texts(candidates: Candidates, policy: Policy, walk: Walk) -> Grouped:
    """The clusters of a pool in which texts decided every pair."""
    return _grouped(candidates, policy, walk.walked, None, None)


def rewordings_of(candidates: Candidates, policy: Policy) -> Reword | None:
    """What finds rewordings in a pool; None if the policy has none, or the pool has too few sentences."""
    texts = candidates.metadata.texts
    if policy.rewordings is None or texts is None or policy.texts is None:
        return None
    sentences = [sentence_of(text) for text in texts]
    if len(sentences) - sentences.count(None) < ALIKE:
        return None
    metric = Metric.COSINE if policy.distance is Distance.COSINE else candidates.metric
    measured = relative_distances(candidates.vectors, metric, chance=policy.chance, squares=candidates.squares)
    distance = measured.inside(0, candidates.size).distance
    if candidates.tenants is not None:
        distance = separate(distance, candidates.tenants, candidates.tenants)
    return Rewordings(sentences, distance, measured.largest, policy.rewordings)


def set_apart(
    distance: FloatMatrix,
    candidates: Candidates,
    policy: Policy,
    walked: Walked,
    vectors: ByVectors,
    rows: slice | None = None,
    columns: Indices | slice | None = None,
) -> FloatMatrix:
    """``distance`` (n, m) with pairs that vectors must not merge infinitely far apart: of two texts, two tenants, a source that is always kept,
    candidates that left by their texts, and nearly equal vectors whose payloads say different things: an embedding model has one vector for many
    symbols. ``rows``, ``columns``: which candidates they are; None: all.
    """
    rows = slice(0, candidates.size) if rows is None else rows
    columns = rows if columns is None else columns
    apart = distance.copy()
    if candidates.tenants is not None:
        apart = separate(apart, candidates.tenants[rows], candidates.tenants[columns])
    has_text, has_left = walked.has_text, walked.links != Link.NONE
    if has_text.any():
        apart[np.logical_and.outer(has_text[rows], has_text[columns])] = np.inf
        apart[has_left[rows]] = np.inf
        apart[:, has_left[columns]] = np.inf
    sources = candidates.metadata.sources
    if policy.keep_sources and sources is not None:
        is_pinned = np.array([source in policy.keep_sources for source in sources], np.bool_)
        apart[is_pinned[rows]] = np.inf
        apart[:, is_pinned[columns]] = np.inf
    if policy.texts is not None and policy.threshold is None and candidates.statements is not None:
        _keep_apart(apart, candidates, policy, vectors, rows, columns)
    return apart


def _keep_apart(
    distance: FloatMatrix,
    candidates: Candidates,
    policy: Policy,
    vectors: ByVectors,
    rows: slice,
    columns: Indices | slice,
) -> None:
    """Pairs in ``distance`` (n, m) of nearly equal vectors of which the lower-ranked says something more, besides texts, become infinitely far apart.
    If the lower-ranked may represent both, they must say the same.
    """
    indices = np.arange(candidates.size, dtype=np.intp)
    near = np.nonzero(distance <= vectors.cuts[0] + vectors.measured.slack)
    pairs = indices[rows][near[0]], indices[columns][near[1]]
    above, below = np.minimum(*pairs), np.maximum(*pairs)
    if candidates.statements is None or not (above != below).any():
        return
    apart = candidates.statements.differ(below, above)
    if policy.representative is not Strategy.RANK:
        apart |= candidates.statements.differ(above, below)
    distance[near[0][apart], near[1][apart]] = np.inf


def _grouped(
    candidates: Candidates,
    policy: Policy,
    walked: Walked,
    vectors: ByVectors | None,
    clustered: tuple[Indices, FloatMatrix] | None,
) -> Grouped:
    n = candidates.size
    indices = np.arange(n, dtype=np.intp)
    heads = walked.representative
    similarities, needed = walked.shares, np.full(n, np.nan, np.float32)
    if vectors is not None and clustered is not None:
        labels, values = clustered
        by_vector = best_ranked(labels)[labels] if n else indices
        joined = (by_vector != indices).nonzero()[0]
        if len(joined):
            heads = np.where(by_vector != indices, by_vector, heads)
            walked.links[joined] = _DISTANCE
            apart = values[joined, heads[joined]]
            apart = np.where(np.isinf(apart), np.float32(np.nan), apart)  # linked through a third candidate
            similarities[joined] = vectors.similarity(apart)
            before = np.maximum.accumulate(labels)[joined]
            needed[joined] = (
                1.0 - np.asarray(vectors.display_cuts, np.float32)[np.minimum(before, len(vectors.display_cuts) - 1)]
            )
        heads = heads[heads]  # whose holder left for a candidate without a text
    labels, distinct = numbered(heads)
    return Grouped(candidates, policy, labels, heads, distinct, walked, similarities, needed, vectors)


def numbered(heads: Indices) -> tuple[Indices, int]:
    """Cluster numbers in order of best rank, and how many there are. ``heads``: (n,) the representative of each candidate's cluster."""
    if (heads == np.arange(len(heads))).all():  # as in most pools
        return heads, len(heads)
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(head, len(numbers)) for head in heads.tolist()], np.intp), len(numbers)


def alone(grouped: Grouped) -> Grouped:
    """The same pool with every candidate in a cluster of its own."""
    n = len(grouped.labels)
    indices = np.arange(n, dtype=np.intp)
    walked = replace(
        grouped.walked,
        representative=indices,
        also=np.full(n, -1, np.intp),
        links=np.zeros(n, np.int8),
        shares=np.full(n, np.nan, np.float32),
    )
    return replace(
        grouped,
        labels=indices,
        heads=indices,
        distinct=n,
        walked=walked,
        similarities=walked.shares,
        cuts=np.full(n, np.nan, np.float32),
    )

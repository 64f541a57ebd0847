"""A pool kept so that other policies can choose from it later: what was compared, pair by pair, without texts and vectors.

``keeping`` takes a pool's evidence once, ``rejudged`` chooses by any threshold, certainty, diversifier or gate. The same policy gives
the same page as ``select`` (a diversifier's with texts: almost always), but for: representatives other than the best-ranked, caps per document and source, near-text signals other
than the policy's own, and doubts
within 1.5e-5 of the cut. 7 bytes a pair, 11 where the metric is not cosine: a pool of 40 is 6.5 kB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.certainty import SHIPPED, by_vectors
from vecsieve.proxy.selection.clustering import best_ranked, cluster
from vecsieve.proxy.selection.distances import CosineDistances, RelativeDistances, cosine_distances
from vecsieve.proxy.selection.diversifiers.choice import Choice, diversify
from vecsieve.proxy.selection.diversifiers.relevance import query_distance
from vecsieve.proxy.selection.evidence import UNKNOWN, Codes
from vecsieve.proxy.selection.geometry import NOISE, rows_of
from vecsieve.proxy.selection.grouping import counts_length, cuts, group, settle
from vecsieve.proxy.selection.metric import is_implausible, may_be_restrained
from vecsieve.proxy.selection.policy import Caps, Certain, Fixed, Linkage, Order, Policy, Short, Strategy, When
from vecsieve.proxy.selection.single import expand, fill
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, FloatVector, Indices, Metric, Steps, finished

COPY, TENANT, VETO = 1, 2, 4  # of a pair, as bits: texts make them copies, tenants or a guard keep them apart
_LEVELS = 65534  # of a doubt; the number above is "not compared"

_ANYTHING = Certain(first=0.0, last=0.0)
_ONE_EACH = Caps(per_cluster=1, per_document=None, per_source=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPool:
    """p pairs of n candidates, in the order of ``np.triu_indices(n, 1)``.

    ``doubt``: uint16 of the calibrated rule with texts. ``relative``: float32 distances over the pool's typical one.
    ``cosine``: float32 cosine distances; None where the relative ones give them. ``bits``: uint8. ``has_texts``: whether texts were compared. ``scores``: (n,). ``to_query``: (n,) cosine distance
    to the query, None where it is unknown. ``median``: the typical distance in the metric's own measure. ``largest``: as in
    RelativeDistances. ``policy``: the one that chose.
    """

    top_k: int
    policy: Policy
    scores: FloatVector
    to_query: FloatVector | None
    doubt: npt.NDArray[np.uint16]
    relative: FloatMatrix
    cosine: FloatMatrix | None
    bits: npt.NDArray[np.uint8]
    has_texts: bool
    is_cosine: bool
    median: float
    largest: float

    @property
    def size_bytes(self) -> int:
        """About what it holds."""
        return 700 + 16 * len(self.scores) + (7 if self.cosine is None else 11) * len(self.doubt)


@dataclass(frozen=True, slots=True)
class Page:
    """``keep``: as in Selection. ``labels``: (n,) clusters in order of best rank. ``filled``: duplicates among the results."""

    keep: Indices
    labels: Indices
    filled: int


def keeping(candidates: Candidates, *, top_k: int, policy: Policy) -> Steps[KeptPool]:
    """The evidence of a pool, in steps. It compares all pairs in full, which costs more than choosing a page."""
    relaxed = replace(
        policy,
        threshold=_ANYTHING,
        linkage=Linkage.LEADER,
        when=When.ALWAYS,
        caps=_ONE_EACH,
        representative=Strategy.CENTROID,  # pairs are then judged in full, and none by a bound
    )
    grouped = yield from group(candidates, relaxed, top_k, None)
    yield
    measured = grouped.measured
    assert isinstance(measured, RelativeDistances)  # noqa: S101 - the calibrated rule reads no others
    pairs = np.triu_indices(candidates.size, 1)
    apart = grouped.distance[pairs]
    bits = np.zeros(len(apart), np.uint8)
    if grouped.evidence is not None:
        bits[(grouped.evidence.distance[pairs] == 0.0) & (grouped.evidence.similarities[pairs] == 1.0)] |= COPY
    if candidates.tenants is not None:
        bits[candidates.tenants[pairs[0]] != candidates.tenants[pairs[1]]] |= TENANT
    bits[np.isinf(apart) & (bits & TENANT == 0)] |= VETO
    is_cosine = measured.metric is Metric.COSINE
    fixed = None if is_cosine else cosine_distances(candidates.vectors, magnitude=counts_length(candidates, policy))
    return KeptPool(
        top_k=top_k,
        policy=policy,
        scores=candidates.scores.copy(),
        to_query=query_distance(candidates, magnitude=False),
        doubt=_as_levels(apart if grouped.evidence is None else grouped.evidence.distance[pairs]),
        relative=grouped.raw[pairs],
        cosine=None if fixed is None else fixed.inside(0, candidates.size).distance[pairs],
        bits=bits,
        has_texts=grouped.evidence is not None,
        is_cosine=is_cosine,
        median=measured.median,
        largest=measured.largest,
    )


def rejudged(pool: KeptPool, policy: Policy) -> Page:
    """The page that ``policy`` chooses."""
    n, top_k = len(pool.scores), pool.top_k
    reads = policy.text is not None and pool.has_texts
    raw = _square(n, pool.relative)
    distance, cut, slack = _compared(pool, policy, raw, reads=reads)
    linkage = Linkage.LEADER if isinstance(policy.threshold, Certain) else policy.linkage
    labels = np.empty(0, np.intp)
    if n:
        vetoed = _square(n, (pool.bits & VETO if reads else np.zeros_like(pool.bits)).astype(np.float32)).astype(
            np.int8
        )

        def ask(first: Indices, second: Indices) -> Steps[Codes]:
            yield from ()
            return vetoed[first, second]

        labels, _ = finished(
            settle(distance, lambda apart: cluster(apart, cut, linkage, slack=slack), ask, reach=max(cut))
        )
    standing = best_ranked(labels)
    heads = standing[labels]
    own = np.arange(min(top_k, n), dtype=np.intp)
    is_restrained = (
        not reads
        and may_be_restrained(policy)
        and len(standing) < n
        and is_implausible(heads, raw[np.arange(n), heads], pool.scores)
    )
    if is_restrained:
        return Page(own, np.arange(n, dtype=np.intp), 0)
    if policy.when is When.REDUNDANT and int(np.bincount(labels[:top_k]).max(initial=0)) <= policy.caps.per_cluster:
        return Page(own, labels, 0)
    choices = expand(labels, standing, policy.caps.per_cluster)
    if policy.diversifier is not None and (len(choices) > top_k or policy.order is Order.MMR):
        choices = diversify(_choice(pool, policy, choices, labels, raw, distance), policy.diversifier, top_k)
    picks = choices[:top_k]
    fills = picks[:0] if policy.short is Short.ALLOW else fill(picks, distance, top_k - len(picks))
    keep = np.concatenate((picks, fills))
    return Page(keep if policy.order is Order.MMR else np.sort(keep), labels, len(fills))


def _compared(
    pool: KeptPool, policy: Policy, raw: FloatMatrix, *, reads: bool
) -> tuple[FloatMatrix, list[float], float]:
    """What is clustered (n, n), the cuts by how many results stand, and the possible error of a distance."""
    n, threshold = len(pool.scores), policy.threshold
    unit = pool.median or 1.0
    shown_unit = unit if pool.is_cosine else 1.0
    if isinstance(threshold, Fixed):
        pairs, cut, slack = _cosines(pool), cuts(threshold, 0.0, max(n, 1)), NOISE
    else:
        pairs, slack = pool.relative.copy(), 0.0
        cut = cuts(threshold, 1.0, max(n, 1), largest=pool.largest, unit=shown_unit)
    if isinstance(threshold, Certain):
        pairs = _from_levels(pool.doubt) if reads else by_vectors(pairs, pool.largest, threshold.model or SHIPPED)
    elif reads:
        pairs = np.where(np.isinf(pairs), UNKNOWN, pairs)
        pairs[pool.bits & COPY != 0] = 0.0
    pairs[pool.bits & TENANT != 0] = np.inf
    return _square(n, pairs), cut, slack


def _choice(
    pool: KeptPool, policy: Policy, choices: Indices, labels: Indices, raw: FloatMatrix, distance: FloatMatrix
) -> Choice:
    """What a diversifier chooses from. In place of the vectors, two numbers each that have the same cosine to the query."""
    is_fixed = isinstance(policy.threshold, Fixed)
    apart = _square(len(pool.scores), _cosines(pool)) if is_fixed else raw
    apart = np.where(np.isinf(distance), np.float32(np.inf), np.where(distance == 0.0, np.float32(0.0), apart))
    cosines = np.ones(len(pool.scores)) if pool.to_query is None else 1.0 - pool.to_query
    vectors = np.stack((cosines, np.sqrt(np.maximum(0.0, 1.0 - cosines**2))), axis=1).astype(np.float32)
    known = pool.to_query is not None and bool(np.isfinite(cosines).all())
    candidates = Candidates(
        scores=pool.scores,
        vectors=vectors,
        metric=Metric.COSINE,
        query=np.array([1.0, 0.0], np.float32) if known else None,
    )
    unit = pool.median or 1.0
    measured = CosineDistances(
        vectors,
        rows_of(vectors),
        magnitude=False,
        median=pool.median if is_fixed else 1.0,
        shown_unit=1.0 if is_fixed or not pool.is_cosine else unit,
    )
    return Choice(candidates=candidates, standing=choices, labels=labels, distance=apart, measured=measured)


def _as_levels(doubt: FloatMatrix) -> npt.NDArray[np.uint16]:
    """Rounded down, so that a doubt that is allowed stays so; only none is 0. Infinite ones have a bit beside."""
    known = np.where(np.isfinite(doubt), np.clip(doubt, 0.0, 1.0), 1.0)
    levels: npt.NDArray[np.uint16] = np.maximum(np.floor(known * _LEVELS), known > 0.0).astype(np.uint16)
    return levels


def _from_levels(levels: npt.NDArray[np.uint16]) -> FloatMatrix:
    found: FloatMatrix = (levels / np.float32(_LEVELS)).astype(np.float32)
    return found


def _cosines(pool: KeptPool) -> FloatMatrix:
    """The cosine distances of its pairs (p,)."""
    return pool.relative * np.float32(pool.median or 1.0) if pool.cosine is None else pool.cosine.copy()


def _square(n: int, pairs: npt.NDArray[np.float32]) -> FloatMatrix:
    matrix = np.zeros((n, n), np.float32)
    rows, columns = _triangle(n)
    matrix[rows, columns] = pairs
    matrix[columns, rows] = pairs
    return matrix


@lru_cache(maxsize=64)
def _triangle(n: int) -> tuple[Indices, Indices]:
    found: tuple[Indices, Indices] = np.triu_indices(n, 1)
    return found

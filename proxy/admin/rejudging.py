"""A pool kept so that other policies can select from it later: the comparison of each pair, without texts and vectors.

``keeping`` computes a pool's evidence once, ``rejudged`` selects by any threshold, certainty, diversifier, caps or gate. The same policy
gives the same page as ``select`` and ``paging``, except for: representatives other than the best-ranked; near-text signals other than the
policy's own and the containment of the preset exact; doubts within 1.5e-5 of the cut; the filling of a page, if a selection knows doubts
beyond the cut only by their bounds; texts of one template that a selection compares only with a third one; pages beyond the first 50 ranks
by another linkage than leader. A pair takes 7 bytes, 11 if the metric is not cosine: a pool of 40 takes 7 to 8.4 kB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import policy_of
from vecsieve.config.schema import RuleSettings

from ..search.policy import resolved
from ..selection.certainty import SHIPPED, Weighed, by_vectors, pair_features, vector_features, weighed
from ..selection.clustering import cluster
from ..selection.distances import (
    CosineDistances,
    RelativeDistances,
    bare_bounds,
    cosine_distances,
    neighbourhoods,
)
from ..selection.diversifiers.choice import Choice, diversify
from ..selection.diversifiers.relevance import query_distance
from ..selection.geometry import NOISE, SCALE_FROM, Mask, rows_of
from ..selection.grouping import NOBODY, Grouped, counts_length, cuts, distances_of, group_by, settle
from ..selection.guards.templates import from_one_template
from ..selection.metric import is_implausible, may_be_restrained
from ..selection.policy import Caps, Certain, Fixed, Linkage, Order, Policy, Short, Strategy, When
from ..selection.single import Names, capped, expand, fill
from ..selection.text.evidence import UNKNOWN, Codes, counts_clusters_alone
from ..selection.text.matching import matches
from ..selection.text.reading import Texts, read
from ..selection.values import (
    Candidates,
    FloatMatrix,
    FloatVector,
    Indices,
    Link,
    Metric,
    Steps,
    best_ranked,
    finished,
)

# Bits of a pair: equal texts or overlapping spans make them copies; tenants or a guard keep them apart; near by the signals of the policy
# that selected, near by those of the preset exact; equal texts, which do not fill a page; one text contains most of the other by the
# calibrated rule, which then needs no close vectors; one has no text, so that vectors alone decide.
COPY, TENANT, VETO, NEAR, CONTAINED, EQUAL, INSIDE, BARE = 1, 2, 4, 8, 16, 32, 64, 128
_LEVELS = 65534  # levels of a doubt; the number above means "not compared"
_EXACT = resolved(policy_of(PolicySettings(), RuleSettings(preset="exact")), mode=None).selection.text

_ANYTHING = Certain(first=0.0, last=0.0)
_ONE_EACH = Caps(per_cluster=1, per_document=None, per_source=None)


Numbers = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPool:
    """p pairs of n candidates, in the order of ``np.triu_indices(n, 1)``.

    ``doubt``: uint16 of the calibrated rule with texts, for any distance of the vectors. ``relative``: float32 distances divided by the
    pool's typical one. ``cosine``: float32 cosine distances; None if they follow from the relative ones. ``bits``: uint8. ``has_texts``:
    whether texts were compared. ``scores``: (n,), by ``metric``. ``to_query``: (n,) cosine distance to the query, None if unknown. ``median``: the typical
    distance in the metric's own measure. ``largest``: as in RelativeDistances; ``narrowed``: for clusters that rely on vectors. ``policy``:
    the one that selected. ``offset``: of a page of one list, else None. ``documents``, ``sources``: (n,) numbers instead of names, -1 for
    none; None if unknown. ``standing``: (n,) the result that each candidate repeats by the calibrated rule, itself for none; ``features``:
    (c, f) of the c candidates that repeat one, by rank; both None if another rule selected.
    """

    top_k: int
    offset: int | None
    policy: Policy
    documents: Numbers | None
    sources: Numbers | None
    scores: FloatVector
    to_query: FloatVector | None
    doubt: npt.NDArray[np.uint16]
    relative: FloatMatrix
    cosine: FloatMatrix | None
    bits: npt.NDArray[np.uint8]
    has_texts: bool
    is_cosine: bool
    metric: Metric
    median: float
    largest: float
    narrowed: float
    standing: Numbers | None = None
    features: npt.NDArray[np.float16] | None = None

    def why(self, row: int, standing: int) -> tuple[Weighed, ...]:
        """The largest weights in the probability that candidate ``row`` repeats candidate ``standing``; () if unknown."""
        if self.standing is None or self.features is None or not 0 <= row < len(self.standing):
            return ()
        if self.standing[row] != standing:
            return ()
        threshold = self.policy.threshold
        model = (threshold.model if isinstance(threshold, Certain) else None) or SHIPPED
        place = np.count_nonzero(self.standing[:row] != np.arange(row))
        return weighed(self.features[place].tolist(), model) if standing != row else ()

    @property
    def size_bytes(self) -> int:
        """Approximate memory use."""
        return (
            700
            + (0 if self.features is None else self.features.nbytes)
            + 22 * len(self.scores)
            + (7 if self.cosine is None else 11) * len(self.doubt)
        )


@dataclass(frozen=True, slots=True)
class Page:
    """``keep``: as in Selection. ``labels``: (n,) clusters in order of best rank. ``filled``: duplicates among the results."""

    keep: Indices
    labels: Indices
    filled: int


def keeping(candidates: Candidates, *, top_k: int, policy: Policy, offset: int | None = None) -> Steps[KeptPool]:
    """Compute the evidence of a pool, in steps. It compares all pairs completely, which costs more than selecting a page."""
    relaxed = replace(
        policy,
        text=None if policy.text is None else replace(policy.text, near=()),
        threshold=_ANYTHING,
        linkage=Linkage.LEADER,
        when=When.ALWAYS,
        caps=_ONE_EACH,
        representative=Strategy.CENTROID,  # pairs are then judged completely, none by a bound
    )
    measured = distances_of(candidates, relaxed)
    assert isinstance(measured, RelativeDistances)  # noqa: S101 - the calibrated rule reads no others
    narrowed = measured.narrowed(candidates.vectors, policy.chance)
    # The bound for closeness by chance depends on the clusters, and these on the policy: it is computed when a page is selected.
    grouped = yield from group_by(replace(narrowed, largest=math.inf), candidates, relaxed, top_k, None)
    yield
    pairs = np.triu_indices(candidates.size, 1)
    apart = grouped.distance[pairs]
    bits = yield from _bits(candidates, policy, grouped, pairs)
    is_cosine = measured.metric is Metric.COSINE
    fixed = None if is_cosine else cosine_distances(candidates.vectors, magnitude=counts_length(candidates, policy))
    kept = KeptPool(
        top_k=top_k,
        offset=offset,
        policy=policy,
        documents=_numbered(candidates.metadata.documents),
        sources=_numbered(candidates.metadata.sources),
        scores=candidates.scores.copy(),
        to_query=query_distance(candidates, magnitude=False),
        doubt=_as_levels(apart if grouped.evidence is None else grouped.evidence.distance[pairs]),
        relative=grouped.raw[pairs],
        cosine=None if fixed is None else fixed.inside(0, candidates.size).distance[pairs],
        bits=bits,
        has_texts=grouped.evidence is not None,
        is_cosine=is_cosine,
        metric=candidates.metric,
        median=narrowed.median,
        largest=measured.largest,
        narrowed=narrowed.largest,
    )
    if not isinstance(policy.threshold, Certain):
        return kept
    yield
    return _explained(kept, candidates, grouped.raw)


def _explained(kept: KeptPool, candidates: Candidates, relative: FloatMatrix) -> KeptPool:
    """The pool with the rule's features of each candidate and the result that it repeats."""
    labels = rejudged(kept, kept.policy).labels
    standing = best_ranked(labels)[labels]
    copies = rows = np.flatnonzero(standing != np.arange(len(standing)))
    apart = relative[rows, standing[rows]].astype(np.float64)
    if kept.has_texts and kept.policy.text is not None:
        texts = read(candidates.metadata, kept.policy.text)
        both = (texts.numbers[rows] != 0) & (texts.numbers[standing[rows]] != 0)
        rows, apart = rows[both], np.where(np.isfinite(apart), apart, 1.0)[both]
        pairs = pair_features(texts, standing[rows], rows, apart)
    else:
        pairs = vector_features(np.where(np.isfinite(apart), apart, 1.0))
    features = np.zeros((len(copies), pairs.shape[1]), np.float16)
    features[copies.searchsorted(rows)] = pairs
    return replace(kept, standing=standing.astype(np.int16), features=features)


def _bits(
    candidates: Candidates, policy: Policy, grouped: Grouped, pairs: tuple[Indices, Indices]
) -> Steps[npt.NDArray[np.uint8]]:
    """The policy-independent bits of the pairs (p,)."""
    bits = np.zeros(len(pairs[0]), np.uint8)
    if candidates.tenants is not None:
        bits[candidates.tenants[pairs[0]] != candidates.tenants[pairs[1]]] |= TENANT
    bits[np.isinf(grouped.distance[pairs]) & (bits & TENANT == 0)] |= VETO
    if grouped.evidence is None or policy.text is None:
        return bits
    links = grouped.evidence.links[pairs]
    bits[(links == Link.IDENTICAL) | (links == Link.SPAN)] |= COPY
    bits[links == Link.IDENTICAL] |= EQUAL
    bits[links == Link.CONTAINMENT] |= INSIDE
    texts, each = read(candidates.metadata, policy.text), np.arange(candidates.size, dtype=np.intp)
    yield from texts.reading(each.tolist())
    bits[(texts.numbers[pairs[0]] == 0) | (texts.numbers[pairs[1]] == 0)] |= BARE
    reach = np.inf if policy.text.reach is None else policy.text.reach
    compared = np.triu((grouped.raw <= reach) | np.isinf(grouped.raw), 1)
    if policy.guards.templates:
        bits[(yield from _of_templates(texts, compared))[pairs]] |= VETO
    for bit, rules in ((NEAR, policy.text), (CONTAINED, _EXACT)):
        if rules is not None and rules.near:
            found = yield from matches(texts, each, each, compared, replace(rules, identical=False, span=None))
            bits[found.links[pairs] != Link.NONE] |= bit
            yield
    return bits


def _of_templates(texts: Texts, compared: Mask) -> Steps[Mask]:
    """Which of the compared pairs (n, n) are made from one template, in either order."""
    apart = np.zeros_like(compared)
    for row, columns in enumerate(compared):
        others = columns.nonzero()[0]
        found = yield from from_one_template(texts, np.full(len(others), row), others)
        apart[row, others[found]] = True
        yield
    return apart


def rejudged(pool: KeptPool, policy: Policy) -> Page:
    n, top_k = len(pool.scores), pool.top_k
    reads = policy.text is not None and pool.has_texts
    raw = _square(n, pool.relative)
    distance, labels = _clustered(pool, policy, reads=reads)
    standing = best_ranked(labels)
    if pool.offset is not None:
        return _page_of_list(pool, policy, labels, standing)
    heads = standing[labels]
    own = np.arange(min(top_k, n), dtype=np.intp)
    is_restrained = (
        not reads
        and may_be_restrained(policy)
        and len(standing) < n
        and is_implausible(heads, raw[np.arange(n), heads], pool.scores, pool.metric)
    )
    if is_restrained:
        return Page(own, np.arange(n, dtype=np.intp), 0)
    names = _named(pool.documents), _named(pool.sources)
    is_capped = not counts_clusters_alone(policy.caps)
    is_distinct = int(np.bincount(labels[:top_k]).max(initial=0)) <= policy.caps.per_cluster
    if policy.when is When.REDUNDANT and is_distinct and not len(capped(own, *names, policy.caps, top_k)[1]):
        return Page(own, labels, 0)
    choices = expand(labels, standing, policy.caps.per_cluster)
    if policy.diversifier is not None and (len(choices) > top_k or policy.order is Order.MMR):
        choice = _choice(pool, policy, choices, labels, raw, distance)
        choices = diversify(choice, policy.diversifier, len(choices) if is_capped else top_k)
    picks, held = capped(choices, *names, policy.caps, top_k) if is_capped else (choices[:top_k], NOBODY)
    fills = picks[:0]
    if policy.short is not Short.ALLOW:
        once = reads and policy.short is Short.GROW_THEN_FILL
        equal = _square(n, (pool.bits & EQUAL).astype(np.float32)) > 0.0 if once else None
        fills = fill(picks, distance, top_k - len(picks), behind=held, equal=equal)
    keep = np.concatenate((picks, fills))
    return Page(keep if policy.order is Order.MMR else np.sort(keep), labels, len(fills))


def _page_of_list(pool: KeptPool, policy: Policy, labels: Indices, standing: Indices) -> Page:
    """The page of one list of representatives in rank order, followed by the other candidates (paged.py)."""
    assert pool.offset is not None  # noqa: S101 - asked before
    start, end = pool.offset, pool.offset + pool.top_k
    listed = np.sort(standing)
    if policy.short is not Short.ALLOW:
        listed = np.concatenate((listed, np.setdiff1d(np.arange(len(labels)), standing)))
    keep = listed[start:end]
    return Page(np.sort(keep), labels, int(np.count_nonzero(~np.isin(keep, standing))))


def _clustered(pool: KeptPool, policy: Policy, *, reads: bool) -> tuple[FloatMatrix, Indices]:
    """The clustered matrix (n, n), with forbidden pairs, and the clusters (n,). The bound for closeness by chance is narrowed as in
    ``group``, if some candidate shares a cluster because of its vector only; for a list it always is (paged.py).
    """
    largest = pool.largest if pool.offset is None else pool.narrowed
    distance, labels = _settled(pool, policy, largest, reads=reads)
    if pool.narrowed == largest or isinstance(policy.threshold, Fixed):
        return distance, labels
    heads = best_ranked(labels)[labels]
    followers = np.flatnonzero(heads != np.arange(len(heads)))
    if reads:
        bits = _linking(pool, policy) | (INSIDE if isinstance(policy.threshold, Certain) else 0)
        linked = _square(len(heads), (pool.bits & bits != 0).astype(np.float32))
        followers = followers[linked[followers, heads[followers]] == 0.0]
    return _settled(pool, policy, pool.narrowed, reads=reads) if len(followers) else (distance, labels)


def _settled(pool: KeptPool, policy: Policy, largest: float, *, reads: bool) -> tuple[FloatMatrix, Indices]:
    """The same with the bound ``largest`` for closeness by chance."""
    n = len(pool.scores)
    distance, cut, slack = _compared(pool, policy, largest, reads=reads)
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
    return distance, labels


def _compared(pool: KeptPool, policy: Policy, largest: float, *, reads: bool) -> tuple[FloatMatrix, list[float], float]:
    """The matrix to cluster (n, n), the cuts by the number of results so far, and the possible error of a distance."""
    n, threshold = len(pool.scores), policy.threshold
    unit = pool.median or 1.0
    shown_unit = unit if pool.is_cosine else 1.0
    if isinstance(threshold, Fixed):
        pairs, cut, slack = _cosines(pool), cuts(threshold, 0.0, max(n, 1)), NOISE
    else:
        pairs, slack = pool.relative.copy(), 0.0
        cut = cuts(threshold, 1.0, max(n, 1), largest=largest, unit=shown_unit)
    if isinstance(threshold, Certain):
        pairs = _doubts(pool, largest) if reads else by_vectors(pairs, _bare(pool, largest), threshold.model or SHIPPED)
    elif reads:
        pairs = np.where(np.isinf(pairs), UNKNOWN, pairs)
    if reads:
        pairs[pool.bits & _linking(pool, policy) != 0] = 0.0
    pairs[pool.bits & TENANT != 0] = np.inf
    return _square(n, pairs), cut, slack


def _bare(pool: KeptPool, largest: float) -> FloatMatrix:
    """How near its pairs (p,) must be to be copies by their vectors alone, with the bound ``largest`` for closeness by chance."""
    n = len(pool.scores)
    near = neighbourhoods(_square(n, pool.relative)[:, :SCALE_FROM])
    return bare_bounds(near, near, largest)[_triangle(n)]


def _doubts(pool: KeptPool, largest: float) -> FloatMatrix:
    """The doubts of its pairs (p,) with the bound ``largest`` for closeness by chance."""
    apart = np.where(np.isinf(pool.relative), np.float32(1.0), pool.relative)
    doubt = (pool.doubt / np.float32(_LEVELS)).astype(np.float32)
    is_bare = pool.bits & BARE != 0
    beyond = apart > (np.where(is_bare, _bare(pool, largest), np.float32(largest)) if is_bare.any() else largest)
    return np.where(beyond & (pool.bits & INSIDE == 0) & (pool.doubt > 0), np.float32(1.0), doubt)


def _linking(pool: KeptPool, policy: Policy) -> int:
    """The bits of a pair that make it a pair of copies under ``policy``."""
    near = () if policy.text is None else policy.text.near
    if not near:
        return COPY
    if pool.policy.text is not None and near == pool.policy.text.near:
        return COPY | NEAR
    return COPY | CONTAINED if _EXACT is not None and near == _EXACT.near else COPY


def _numbered(names: Names | None) -> Numbers | None:
    """Numbers (n,), equal for equal names."""
    if names is None or not any(name is not None for name in names):
        return None
    known: dict[str, int] = {}
    return np.array([-1 if name is None else known.setdefault(name, len(known)) for name in names], np.int16)


def _named(numbers: Numbers | None) -> Names | None:
    return None if numbers is None else [None if number < 0 else str(number) for number in numbers.tolist()]


def _choice(
    pool: KeptPool, policy: Policy, choices: Indices, labels: Indices, raw: FloatMatrix, distance: FloatMatrix
) -> Choice:
    """The input of a diversifier. Instead of the vectors, two numbers each with the same cosine to the query."""
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
    """Rounded down, so that an allowed doubt stays allowed; only no doubt is 0. Infinite ones have a bit of their own."""
    known = np.where(np.isfinite(doubt), np.clip(doubt, 0.0, 1.0), 1.0)
    levels: npt.NDArray[np.uint16] = np.maximum(np.floor(known * _LEVELS), known > 0.0).astype(np.uint16)
    return levels


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

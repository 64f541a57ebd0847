"""The clusters of a pool, by vectors, texts, tenants and guards.

All of them are combined into one distance matrix and clustered once. Copies by text are at distance 0. Pairs that must not share a cluster
are infinitely far apart. Every other pair has the distance of its vectors, or, if one side has no vector, a distance above any cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .certainty import ByChance, doubts_allowed
from .clustering import cluster, lead, separate
from .distances import (
    CosineDistances,
    Distances,
    RelativeDistances,
    bare_bounds,
    cosine_distances,
    neighbourhoods,
    relative_distances,
)
from .geometry import SCALE_FROM, Mask, above
from .guards.templates import Apart, from_one_template
from .guards.veto import vetoes
from .policy import Certain, Distance, Fixed, Guards, Linkage, Policy, Threshold, When
from .text.evidence import (
    UNKNOWN,
    Codes,
    Evidence,
    by_vectors_alone,
    counts_clusters_alone,
    is_reached,
    opened,
    weigh,
)
from .text.reading import Texts, read
from .values import Candidates, FloatMatrix, Indices, Link, Metric, Steps, Veto, best_ranked

# A page with a pair this close, relative to the typical distance, is rarely without copies, so it is not examined separately from the rest
# of the pool.
NEAR = 0.15

# Up to this many candidates are clustered again in the same step: a few milliseconds.
FEW = 150

_NONE, _CONTAINMENT, _DISTANCE = np.int8(Link.NONE), np.int8(Link.CONTAINMENT), np.int8(Link.DISTANCE)

NOBODY = np.empty(0, np.intp)

Ask = Callable[[Indices, Indices], Steps[Codes]]
"""Returns the Veto of pairs (first[i], second[i]), first < second."""


def settle(
    distance: FloatMatrix,
    label: Callable[[FloatMatrix], Indices],
    ask: Ask,
    *,
    reach: float,
) -> Steps[tuple[Indices, Codes]]:
    """Cluster until no cluster holds a pair that a guard keeps apart: (labels (n,), vetoes (n,)).

    ``label`` clusters a distance matrix. In the first round only pairs that share a cluster are checked by the guards. Once a guard has
    separated a pair, all pairs within ``reach`` are checked: they would share a cluster one after another, and one round for each would
    take seconds. Each pair is checked once. ``distance`` is changed. The loop ends, because every round forbids at least one more pair and
    a forbidden pair never shares a cluster again.
    """
    n = len(distance)
    held: Codes = np.zeros(n, np.int8)
    asked: Mask | None = None
    while True:
        labels = label(distance)
        if n and asked is None and labels.item(n - 1) == n - 1:
            return labels, held  # all are singletons
        met = labels[:, None] == labels
        if asked is not None:
            met |= distance <= reach
            met &= ~asked
        met &= above(n)
        first, second = np.divmod(met.ravel().nonzero()[0], n) if n else (NOBODY, NOBODY)
        codes = (yield from ask(first, second)) if len(first) else held[:0]
        kept_apart = codes.nonzero()[0]
        if not len(kept_apart):
            return labels, held
        if n > FEW:
            yield
        asked = met if asked is None else asked | met
        first, second = first.take(kept_apart), second.take(kept_apart)
        held[second[::-1]] = codes.take(kept_apart)[
            ::-1
        ]  # of several vetoes, that of the best-ranked partner: it is written last
        distance[first, second] = distance[second, first] = np.inf


def asker(candidates: Candidates, guards: Guards, texts: Texts | None, apart: Apart | None = None) -> Ask | None:
    """The function that ``settle`` calls; None if no guard can apply. ``apart``: None where vectors are unknown."""
    known = candidates.metadata
    if (texts is None or known.texts is None) and (known.sources is None or not guards.keep_sources):
        return None
    given = known.texts if known.texts is not None and texts is not None else (None,) * candidates.size
    forms: list[Hashable] = [0] * candidates.size if texts is None else texts.numbers.tolist()
    if 0 in forms:
        forms = [number or (None if text is None else text.raw) for number, text in zip(forms, given, strict=True)]

    def ask(first: Indices, second: Indices) -> Steps[Codes]:
        word_counts = None if texts is None else texts.word_counts
        codes = yield from vetoes(given, known, first, second, guards, word_counts, forms.__getitem__)
        if texts is not None and guards.templates:
            left = (codes == 0).nonzero()[0]
            found = yield from from_one_template(texts, first.take(left), second.take(left), apart)
            codes[left[found]] = Veto.TEMPLATE
        return codes

    return ask


def standing_vetoes(held: Codes, representative: Indices) -> Codes:
    """The vetoes that kept a candidate as a separate result: (n,)."""
    alone = representative == np.arange(len(held))
    return np.where(alone, held, np.int8(Veto.NONE)).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Grouped:
    """``distance``: (n, n), as clustered: tenants and vetoed pairs infinitely far apart, copies by text at 0. ``raw``: (n, n), by vectors
    alone. ``shown``: (n, n), shown to people as 1 - similarity, before vetoes. ``evidence``: of texts, None if none were read.
    ``measured``: the unit of ``raw``. ``cuts``: in the unit of ``shown``, by the number of results so far. ``labels``: (n,). ``heads``:
    (n,), the best-ranked member of each candidate's cluster. ``held``: (n,) Veto.
    """

    distance: FloatMatrix
    evidence: Evidence | None
    raw: FloatMatrix
    shown: FloatMatrix
    measured: Distances
    cuts: Sequence[float]
    labels: Indices
    heads: Indices
    distinct: int
    held: Codes

    @property
    def followers(self) -> Indices:
        """The candidates that are not the best-ranked of their cluster, ascending."""
        return np.flatnonzero(self.heads != np.arange(len(self.labels))) if self.distinct < len(self.labels) else NOBODY

    @property
    def apart(self) -> FloatMatrix:
        """Distances (n, n) in the unit of ``measured``, forbidden pairs infinitely far apart, copies at 0: the input of a diversifier."""
        forbidden = np.isinf(self.distance)
        copies = self.distance == 0.0
        return np.where(forbidden, np.float32(np.inf), np.where(copies, np.float32(0.0), self.raw))


def distances_of(candidates: Candidates, policy: Policy) -> Distances:
    """The distances in which the policy's threshold is expressed."""
    if isinstance(policy.threshold, Fixed):
        return cosine_distances(candidates.vectors, magnitude=counts_length(candidates, policy))
    return relative_distances(
        candidates.vectors, _metric(candidates, policy), chance=policy.chance, squares=candidates.squares
    )


def lacks_texts(candidates: Candidates, policy: Policy) -> bool:
    """Whether vectors alone decide some pair."""
    texts = candidates.metadata.texts
    return policy.text is None or texts is None or None in texts


def apart_in(candidates: Candidates, policy: Policy, measured: Distances) -> Apart:
    """What tells how far pairs are apart, as a share of the typical distance. ``measured``: of the policy."""
    if isinstance(measured, RelativeDistances):
        return measured.of_pairs

    def apart(first: Indices, second: Indices) -> FloatMatrix:
        relative = relative_distances(candidates.vectors, _metric(candidates, policy), chance=None)
        return relative.of_pairs(first, second)

    return apart


def _metric(candidates: Candidates, policy: Policy) -> Metric:
    return Metric.COSINE if policy.distance is Distance.COSINE else candidates.metric


def counts_length(candidates: Candidates, policy: Policy) -> bool:
    """Whether a vector's length is part of a cosine distance."""
    return candidates.metric is not Metric.COSINE and policy.distance is Distance.AUTO


def cuts(
    threshold: Threshold, typical: float, count: int, *, largest: float = math.inf, unit: float = 1.0
) -> list[float]:
    """The cuts for a pool with this typical distance after 0 to ``count - 1`` results; the first is never used. Under the calibrated rule a
    cut is the doubt that is allowed, else a distance.

    ``largest``: the bound for closeness by chance. ``unit``: the cosine distance of 1.0, in which a threshold's own bounds are given.
    """
    if isinstance(threshold, Certain):
        return doubts_allowed(threshold, count)
    if isinstance(threshold, Fixed):
        return [threshold.value / unit] * count
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
        unit=measured.shown_unit,
    )


def group(candidates: Candidates, policy: Policy, top_k: int, scale: float | None) -> Steps[Grouped]:
    """Measure, read and cluster the pool.

    ``top_k``: texts are read only if they could change that page. ``scale``: the typical distance for cuts, None for the pool's own.
    """
    measured = distances_of(candidates, policy)
    grouped = yield from group_by(measured, candidates, policy, top_k, scale)
    if policy.chance is None or isinstance(measured, CosineDistances) or not _leans_on_vectors(grouped):
        return grouped
    narrowed = measured.narrowed(candidates.vectors, policy.chance)
    if narrowed is measured:
        return grouped
    return (yield from group_by(narrowed, candidates, policy, top_k, scale))


def _leans_on_vectors(grouped: Grouped) -> bool:
    """Whether some candidate shares a cluster only because of its vector."""
    followers = grouped.followers
    if grouped.evidence is None:
        return len(followers) > 0
    places = followers * len(grouped.labels) + grouped.heads.take(followers)
    return not grouped.evidence.links.take(places).all()


def group_by(
    measured: Distances, candidates: Candidates, policy: Policy, top_k: int, scale: float | None
) -> Steps[Grouped]:
    """Group by these distances, whose bound for closeness by chance applies."""
    geometry = measured.inside(0, candidates.size)
    # The scale belongs to the embedding model, not to a tenant: it is computed before tenants are set apart.
    cut = cuts_of(measured, policy, scale, candidates.size)
    typical = typical_of(measured, scale)
    raw = geometry.distance
    is_certain = isinstance(policy.threshold, Certain)
    most = 0.0 if is_certain else max(cut)
    texts = _texts_worth_reading(candidates, policy, raw, typical=typical, most=most, top_k=top_k)
    distance = raw if texts is None else opened(raw)
    if candidates.tenants is not None:
        distance = separate(distance, candidates.tenants, candidates.tenants)
    evidence = None
    by_chance = ByChance(measured.largest, measured.largest)
    if is_certain and lacks_texts(candidates, policy):
        near = neighbourhoods(raw[:, :SCALE_FROM])
        by_chance = replace(by_chance, bare=bare_bounds(near, near, measured.largest))
    if texts is not None and (
        yield from _is_distinct_page(distance[:top_k, :top_k], texts, policy, measured, typical=typical, cut=cut)
    ):
        texts = None
    if texts is not None:
        each = np.arange(candidates.size, dtype=np.intp)
        evidence = yield from weigh(distance, texts, each, each, policy=policy, typical=typical, by_chance=by_chance)
        distance = evidence.distance
    elif is_certain and policy.text is not None and candidates.metadata.texts is not None:
        distance = np.where(
            np.isinf(distance), distance, np.float32(1.0)
        )  # no pair of the page is close enough for copies
    else:
        distance = by_vectors_alone(distance, policy, typical=typical, by_chance=by_chance)
    shown = distance if is_certain else raw * np.float32(measured.shown_unit)
    linkage = Linkage.LEADER if is_certain else policy.linkage
    ask = asker(candidates, policy.guards, texts, apart_in(candidates, policy, measured))
    if ask is None:
        labels, held = cluster(distance, cut, linkage, slack=measured.slack), np.zeros(candidates.size, np.int8)
    else:
        distance = distance.copy() if distance is raw or distance is shown else distance
        labels, held = yield from settle(
            distance, lambda apart: cluster(apart, cut, linkage, slack=measured.slack), ask, reach=max(cut)
        )
    if texts is not None and not is_certain:
        distance = np.where(distance == UNKNOWN, np.float32(np.inf), distance)
    first = best_ranked(labels)
    heads, distinct = first[labels], len(first)
    shown_cuts = cut if is_certain else [each * measured.shown_unit for each in cut]
    return Grouped(distance, evidence, raw, shown, measured, shown_cuts, labels, heads, distinct, held)


def _is_distinct_page(
    distance: FloatMatrix, texts: Texts, policy: Policy, measured: Distances, *, typical: float, cut: Sequence[float]
) -> Steps[bool]:
    """Whether no two of the first top_k are copies, so that candidates behind them need not be examined. ``distance``: of the first top_k.

    Candidates behind do not affect which candidates lead, so the page alone decides. Used only if a repeated cluster is the only condition
    of the gate, and if the answer is not obvious.
    """
    count = len(distance)
    if (
        not isinstance(policy.threshold, Certain)
        or policy.when is not When.REDUNDANT
        or policy.caps.per_cluster != 1
        or not counts_clusters_alone(policy.caps)
        or count == len(texts)
    ):
        return False
    each = np.arange(len(texts), dtype=np.intp)
    yield from texts.reading(each.tolist())
    page = each[:count]
    if len(set(texts.numbers[:count].tolist())) < count or np.count_nonzero(distance <= NEAR * typical) > count:
        return False
    by_chance = ByChance(measured.largest, measured.largest)
    found = yield from weigh(distance, texts, page, page, policy=policy, typical=typical, by_chance=by_chance)
    return bool((lead(found.distance, cut, slack=measured.slack) == page).all())


def alone(grouped: Grouped) -> Grouped:
    """The same pool with every candidate in a cluster of its own."""
    n = len(grouped.labels)
    each = np.arange(n, dtype=np.intp)
    return replace(grouped, labels=each, heads=each, distinct=n, held=np.zeros(n, np.int8))


def _texts_worth_reading(
    candidates: Candidates, policy: Policy, distance: FloatMatrix, *, typical: float, most: float, top_k: int
) -> Texts | None:
    """The texts, unless they could not open the gate because no two of the first top_k are close enough for copies."""
    if policy.text is None or candidates.metadata.texts is None:
        return None
    reach = policy.text.reach
    if policy.when is When.REDUNDANT and reach is not None and policy.text.stitch is None:
        first = distance[:top_k, :top_k]
        if not is_reached(first, max(reach * typical, most)):
            return None
    return read(candidates.metadata, policy.text)


def links_of(grouped: Grouped, representative: Indices) -> dict[str, Any]:
    """The members of a selection that explain why each candidate shares a cluster with its representative."""
    n = len(representative)
    links, similarities = np.zeros(n, np.int8), np.full(n, np.nan, np.float32)
    needed = similarities.copy()
    others = (representative != np.arange(n)).nonzero()[0]
    if len(others):
        pairs = others * n + representative.take(others)
        by_text, values = links.take(others), similarities.take(others)
        if grouped.evidence is not None:
            by_text, values = grouped.evidence.links.take(pairs), grouped.evidence.similarities.take(pairs)
        links[others], similarities[others] = linked(by_text, values, grouped.shown.take(pairs))
        # Labels are numbered by first appearance, so each candidate that raises the maximum leads.
        before = np.maximum.accumulate(grouped.labels)[others] + (grouped.heads[others] != others)
        needed[others] = required(grouped.cuts, before, links[others], similarities[others])
    vetoes = standing_vetoes(grouped.held, representative) if grouped.held.any() else grouped.held
    return {"links": links, "similarities": similarities, "cuts": needed, "vetoes": vetoes}


def required(cuts: Sequence[float], before: Indices, links: Codes, similarities: FloatMatrix) -> FloatMatrix:
    """The similarity (m,) that candidates had to reach; NaN if no cut decided.

    ``before``: (m,) the number of leaders before each. ``cuts``: as distances, by the number of leaders.
    """
    found = np.float32(1.0) - np.asarray(cuts, np.float32)[np.minimum(before, len(cuts) - 1)]
    by_cut = (links == _DISTANCE) | ((links == _CONTAINMENT) & (similarities < 1.0))
    return np.where(by_cut & np.isfinite(similarities), found, np.float32(np.nan))


def linked(links: Codes, similarities: FloatMatrix, distance: FloatMatrix) -> tuple[Codes, FloatMatrix]:
    """Links and similarities (n,) of each candidate to its representative, from the texts of that pair or, without text evidence, from its
    ``distance`` (n,).
    """
    is_silent = links == _NONE
    by_vectors = np.float32(1.0) - distance
    by_vectors[np.isinf(distance)] = np.nan  # one of the two has no vector: they are linked through a third candidate
    return np.where(is_silent, _DISTANCE, links), np.where(is_silent, by_vectors, similarities)

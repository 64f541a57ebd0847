"""The pool as clusters: vectors, texts and guards brought together, once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vecsieve.proxy.selection.clustering import best_ranked, cluster, separate
from vecsieve.proxy.selection.distances import CosineDistances, Distances, cosine_distances, relative_distances
from vecsieve.proxy.selection.evidence import (
    UNKNOWN,
    Codes,
    Evidence,
    asker,
    is_reached,
    opened,
    settle,
    weigh,
)
from vecsieve.proxy.selection.geometry import Geometry, Mask
from vecsieve.proxy.selection.policy import Distance, Fixed, Growing, Linkage, Policy, When
from vecsieve.proxy.selection.steps import Steps
from vecsieve.proxy.selection.text.reading import Texts, read
from vecsieve.proxy.selection.thresholds import agreement, cuts, tempered
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, Link, Metric


@dataclass(frozen=True, slots=True)
class Grouped:
    """``distance``: (n, n), tenants and vetoed pairs infinitely far apart, copies by text at 0. ``raw``: (n, n), by vectors
    alone. ``evidence``: what texts say, None where none were read. ``measured``: the unit of both. ``threshold``: the cut
    for the page's last place, in that unit. ``labels``: (n,). ``held``: (n,) Veto.
    """

    distance: FloatMatrix
    evidence: Evidence | None
    raw: FloatMatrix
    measured: Distances
    threshold: float
    labels: Indices
    distinct: int
    held: Codes


def distances_of(candidates: Candidates, policy: Policy) -> Distances:
    """The distances that the policy's threshold is read in."""
    if isinstance(policy.threshold, Fixed):
        return cosine_distances(candidates.vectors, magnitude=counts_length(candidates, policy))
    metric = Metric.COSINE if policy.distance is Distance.COSINE else candidates.metric
    return relative_distances(candidates.vectors, metric, chance=policy.chance)


def counts_length(candidates: Candidates, policy: Policy) -> bool:
    """Whether a vector's length is part of a cosine distance."""
    return candidates.metric is not Metric.COSINE and policy.distance is Distance.AUTO


def cuts_of(measured: Distances, first: Geometry, policy: Policy, scale: float | None, count: int) -> list[float]:
    """The cuts when 0 to ``count - 1`` results stand. ``first``: the pool's first candidates. ``scale``: a typical distance
    in the metric's own measure, to be used in place of the pool's own.
    """
    typical = measured.typical if scale is None else scale / measured.unit
    return cuts(
        policy.threshold,
        typical * trust(first, policy),
        max(count, 1),
        largest=measured.largest,
        unit=measured.shown_unit,
    )


def group(candidates: Candidates, policy: Policy, top_k: int, scale: float | None) -> Steps[Grouped]:
    """Measure, read and cluster the pool.

    ``top_k``: texts are read only if they could change that page. ``scale``: the typical distance to cut by, None for the
    pool's own.
    """
    measured = distances_of(candidates, policy)
    grouped = yield from _grouped(measured, candidates, policy, top_k, scale)
    if isinstance(measured, CosineDistances) or not _leans_on_vectors(grouped):
        return grouped
    narrowed = measured.narrowed(candidates.vectors, policy.chance)
    if narrowed is measured:
        return grouped
    return (yield from _grouped(narrowed, candidates, policy, top_k, scale))


def _leans_on_vectors(grouped: Grouped) -> bool:
    """Whether some candidate shares a cluster for no other reason than that its vector is near."""
    each = np.arange(len(grouped.labels))
    first = best_ranked(grouped.labels)[grouped.labels]
    by_vector = first != each
    if grouped.evidence is not None:
        by_vector &= grouped.evidence.links[each, first] == Link.NONE
    return bool(by_vector.any())


def _grouped(
    measured: Distances, candidates: Candidates, policy: Policy, top_k: int, scale: float | None
) -> Steps[Grouped]:
    geometry = measured.inside(0, candidates.size)
    # The scale belongs to the embedding model, not to a tenant: it is read before tenants are set apart.
    cut = cuts_of(measured, geometry, policy, scale, candidates.size)
    raw = geometry.distance
    texts = _texts_worth_reading(candidates, policy, raw, typical=measured.typical, most=max(cut), top_k=top_k)
    distance = raw if texts is None else opened(raw)
    if candidates.tenants is not None:
        distance = separate(distance, candidates.tenants, candidates.tenants)
    evidence = None
    if texts is not None and policy.text is not None:
        each = np.arange(candidates.size, dtype=np.intp)
        evidence = yield from weigh(
            distance, texts, each, each, rules=policy.text, typical=measured.typical, largest=measured.largest
        )
        distance = evidence.distance
    linkage = Linkage.LEADER if isinstance(policy.threshold, Growing) else policy.linkage
    ask = asker(candidates, policy.guards, texts)
    if ask is None:
        labels, held = cluster(distance, cut, linkage, slack=measured.slack), np.zeros(candidates.size, np.int8)
    else:
        distance = distance.copy() if distance is raw else distance
        labels, held = yield from settle(
            distance, lambda apart: cluster(apart, cut, linkage, slack=measured.slack), ask, reach=max(cut)
        )
    if texts is not None:
        distance = np.where(distance == UNKNOWN, np.float32(np.inf), distance)
    distinct = int(labels.max(initial=-1)) + 1
    return Grouped(distance, evidence, raw, measured, cut[min(top_k, len(cut)) - 1], labels, distinct, held)


def alone(grouped: Grouped) -> Grouped:
    """The same pool with every candidate in a cluster of its own."""
    n = len(grouped.labels)
    return replace(grouped, labels=np.arange(n, dtype=np.intp), distinct=n, held=np.zeros(n, np.int8))


def trust(geometry: Geometry, policy: Policy) -> float:
    """How far the pool's ranking can be trusted to say who the answer is; read only where the threshold minds."""
    if not isinstance(policy.threshold, Growing):
        return 1.0
    return tempered(policy.threshold, agreement(geometry))


def _texts_worth_reading(
    candidates: Candidates, policy: Policy, distance: FloatMatrix, *, typical: float, most: float, top_k: int
) -> Texts | None:
    """The texts, unless they could not open the gate: no two of the first top_k are near enough to be copies."""
    if policy.text is None or candidates.metadata.texts is None:
        return None
    reach = policy.text.reach
    if policy.when is When.REDUNDANT and reach is not None:
        first = distance[:top_k, :top_k]
        if not is_reached(first, max(reach * typical, most * policy.text.short_factor)):
            return None
    return read(candidates.metadata, policy.text)


def links_of(grouped: Grouped, representative: Indices) -> tuple[Codes, FloatMatrix]:
    """Why each candidate shares a cluster with its representative (n,), and by how much (n,)."""
    each = np.arange(len(representative), dtype=np.intp)
    distance, stands = (
        grouped.raw[each, representative] * np.float32(grouped.measured.shown_unit),
        representative == each,
    )
    if grouped.evidence is None:
        return linked(np.zeros(len(each), np.int8), np.full(len(each), np.nan, np.float32), distance, stands)
    links, similarities = grouped.evidence.links, grouped.evidence.similarities
    return linked(links[each, representative], similarities[each, representative], distance, stands)


def linked(links: Codes, similarities: FloatMatrix, distance: FloatMatrix, stands: Mask) -> tuple[Codes, FloatMatrix]:
    """Links and similarities (n,) of each candidate to its representative, from what texts say of that pair and, where
    they say nothing, its ``distance`` (n,). ``stands``: (n,) bool, who is its own representative.
    """
    found, values = links.copy(), similarities.copy()
    by_vectors = links == Link.NONE
    found[by_vectors] = Link.DISTANCE
    values[by_vectors] = np.float32(1.0) - distance[by_vectors]
    values[np.isinf(values)] = np.nan  # one of the two has no vector: they met by way of a third
    found[stands] = Link.NONE
    values[stands] = np.nan
    return found, values

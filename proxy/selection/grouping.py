"""The pool as clusters, by vectors, texts, tenants and guards.

All of them are combined into one distance matrix, so that one clustering serves all. A pair of copies by text is at distance
0. A pair that may not share a cluster is infinitely far apart. Every other pair is as far apart as its vectors, and farther
than any cut where one side has no vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.clustering import best_ranked, cluster, separate
from vecsieve.proxy.selection.distances import CosineDistances, Distances, cosine_distances, relative_distances
from vecsieve.proxy.selection.geometry import Geometry, Mask
from vecsieve.proxy.selection.guards.veto import vetoes
from vecsieve.proxy.selection.policy import Distance, Fixed, Growing, Guards, Linkage, Policy, TextRules, When
from vecsieve.proxy.selection.text.bounds import short
from vecsieve.proxy.selection.text.matching import matches
from vecsieve.proxy.selection.text.reading import Texts, read
from vecsieve.proxy.selection.thresholds import agreement, cuts, tempered
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, Link, Metric, Steps, Veto

# The distance of a pair that cannot be compared by vectors. It is above any distance (distances.FARTHEST) and any cut, and
# finite: such a pair may still share a cluster.
UNKNOWN = np.float32(1e9)

# Up to so many candidates are clustered again in the same step: a few milliseconds.
FEW = 150

Codes = npt.NDArray[np.int8]
Ask = Callable[[Indices, Indices], Steps[Codes]]
"""Gives the Veto of pairs (first[i], second[i]), first < second."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """``distance``: (n, m) float32, for clustering. ``links``: (n, m) Link, by texts only. ``similarities``: (n, m)."""

    distance: FloatMatrix
    links: Codes
    similarities: FloatMatrix


def weigh(
    distance: FloatMatrix,
    texts: Texts,
    rows: Indices,
    columns: Indices,
    *,
    rules: TextRules,
    typical: float,
    largest: float = math.inf,
) -> Steps[Evidence]:
    """Lay what the texts say over the ``distance`` (n, m) of candidates ``rows`` to candidates ``columns``.

    Infinite distances that stem from missing vectors must be told apart from forbidden ones before: see ``opened``.
    ``typical``: the pool's typical distance. ``largest``: a distance beyond this is near by chance, whatever the texts' length.
    """
    reach = np.inf if rules.reach is None else rules.reach * typical
    compared = (distance <= reach) | (distance == UNKNOWN)
    compared &= np.isfinite(distance) & (rows[:, None] != columns[None, :])
    yield from texts.reading(np.union1d(rows, columns).tolist())
    found = yield from matches(texts, rows, columns, compared, rules)
    distance = _eased(distance, texts, rows, columns, rules, largest)
    return Evidence(np.where(found.links != Link.NONE, np.float32(0.0), distance), found.links, found.similarities)


def _eased(
    distance: FloatMatrix, texts: Texts, rows: Indices, columns: Indices, rules: TextRules, largest: float
) -> FloatMatrix:
    """The distance with two short texts nearer by the short factor.

    A short text says one thing, and there are many ways to say it. On sets of tickets, opinions and questions, duplicates are
    about as far apart as neighbouring topics, and merging those costs no answer. Short facts that differ in one word are left
    to the guards.
    """
    if rules.short_factor == 1.0:
        return distance
    is_short = short(texts.raw, texts.word_counts, rules.short_words)
    both = is_short[rows][:, None] & is_short[columns][None, :] & (distance <= largest) & (distance != UNKNOWN)
    return np.where(both, distance / np.float32(rules.short_factor), distance)


def opened(distance: FloatMatrix) -> FloatMatrix:
    """The distance with UNKNOWN where it is infinite: for texts to decide what vectors cannot."""
    if np.isfinite(distance).all():
        return distance
    return np.where(np.isinf(distance), UNKNOWN, distance)


def is_reached(distance: FloatMatrix, reach: float) -> bool:
    """Whether any two of a square ``distance`` are within ``reach``, or cannot be compared by their vectors."""
    near = (distance <= reach) | (distance == UNKNOWN) | np.isinf(distance)
    return int(np.count_nonzero(near)) > len(distance)  # the diagonal is always near


def settle(
    distance: FloatMatrix,
    label: Callable[[FloatMatrix], Indices],
    ask: Ask,
    *,
    reach: float,
) -> Steps[tuple[Indices, Codes]]:
    """Cluster until no cluster holds two that a guard keeps apart: (labels (n,), vetoes (n,)).

    ``label`` clusters a distance matrix. In the first round only pairs that share a cluster are asked about; the others need
    no guard. Once a guard has separated a pair, all pairs within ``reach`` are asked about: they would share a cluster one
    after another, and one round for each would take seconds. Each pair is asked about once. ``distance`` is changed.
    The loop ends, because every round forbids at least one more pair and a forbidden pair never shares a cluster again.
    """
    n = len(distance)
    held: Codes = np.zeros(n, np.int8)
    asked = np.eye(n, dtype=np.bool_)
    while True:
        labels = label(distance)
        met = labels[:, None] == labels[None, :]
        if held.any():
            met |= distance <= reach
        first, second = np.nonzero(np.triu(met & ~asked))
        codes = (yield from ask(first, second)) if len(first) else np.empty(0, np.int8)
        kept_apart = np.flatnonzero(codes)
        if not len(kept_apart):
            return labels, held
        if n > FEW:
            yield
        asked[first, second] = True
        stay, best = np.unique(second[kept_apart], return_index=True)  # of several the best-ranked partner's veto
        held[stay] = codes[kept_apart[best]]
        distance[first[kept_apart], second[kept_apart]] = np.inf
        distance[second[kept_apart], first[kept_apart]] = np.inf


def asker(candidates: Candidates, guards: Guards, texts: Texts | None) -> Ask | None:
    """What ``settle`` asks; None where no guard can have anything to say."""
    known = candidates.metadata
    if (texts is None or known.texts is None) and (known.sources is None or not guards.keep_sources):
        return None
    raw = known.texts if known.texts is not None and texts is not None else (None,) * candidates.size
    counts = None if texts is None else texts.word_counts

    def form(place: int) -> str | None:
        return (None if texts is None else texts.canonical(place)) or raw[place]

    def ask(first: Indices, second: Indices) -> Steps[Codes]:
        return vetoes(raw, known.sources, first, second, guards, counts, form)

    return ask


def standing_vetoes(held: Codes, representative: Indices) -> Codes:
    """Only the vetoes that kept a candidate as a result of its own: (n,)."""
    alone = representative == np.arange(len(held))
    return np.where(alone, held, np.int8(Veto.NONE)).astype(np.int8)


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

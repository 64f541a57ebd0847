"""One search, one page: geometry, clusters, gate, representatives, MMR, fill, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.clustering import best_ranked, cluster, separate
from vecsieve.proxy.selection.fill import fill
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.mmr import mmr
from vecsieve.proxy.selection.policy import Distance, Mmr, Order, Policy, Short, Similarity, When
from vecsieve.proxy.selection.relevance import relevance
from vecsieve.proxy.selection.representatives import represent
from vecsieve.proxy.selection.thresholds import median_distance, resolve
from vecsieve.proxy.selection.values import Candidates, Fate, FloatMatrix, Indices, Selection


@dataclass(frozen=True, slots=True)
class _Clustered:
    """The pool as clusters: ``distance`` (n, n), tenants apart; ``labels`` (n,)."""

    distance: FloatMatrix
    median: float
    threshold: float
    labels: Indices
    distinct: int


def silent(_stage: str) -> None:
    """A lap that nobody times."""


def select(candidates: Candidates, *, top_k: int, policy: Policy, lap: Callable[[str], None] = silent) -> Selection:
    """Choose ``top_k`` of the candidates.

    ``lap`` is called with "cluster", "select" and "mmr" when that stage is over, always in this order, so that the caller
    can time what has no clock. Raises ValueError for a negative ``top_k``.

    ``wanting`` above 0 says that a larger pool could give a better page; ``keep`` is a full page all the same (unless
    the policy allows a short one), for a caller who has no larger pool to ask for.
    """
    if top_k < 0:
        raise ValueError(f"top_k: saw {top_k}, wanted 0 or more")
    clustered = _cluster(candidates, policy)
    lap("cluster")
    if _leaves_alone(clustered.labels, top_k, policy):
        lap("select")
        lap("mmr")
        return _native(clustered, top_k)
    magnitude = _counts_length(candidates, policy)
    standing = represent(
        clustered.labels, clustered.distance, candidates, strategy=policy.representative, magnitude=magnitude
    )
    lap("select")
    picks = _pick(candidates, clustered, standing, top_k=top_k, policy=policy)
    lap("mmr")
    fills = np.empty(0, np.intp)
    if policy.short is not Short.ALLOW:
        fills = fill(picks, clustered.distance, top_k - len(picks))
    keep = np.concatenate((picks, fills))
    return _outcome(clustered, standing, keep if policy.order is Order.MMR else np.sort(keep), top_k=top_k)


def _counts_length(candidates: Candidates, policy: Policy) -> bool:
    return candidates.magnitude and policy.distance is Distance.AUTO


def _cluster(candidates: Candidates, policy: Policy) -> _Clustered:
    geometry = measure(candidates.vectors, magnitude=_counts_length(candidates, policy))
    # The scale belongs to the embedding model, not to a tenant: it is read before tenants are set apart.
    median = median_distance(geometry)
    threshold = resolve(policy.threshold, median)
    distance = geometry.distance
    if candidates.tenants is not None:
        distance = separate(distance, candidates.tenants, candidates.tenants)
    labels = cluster(distance, threshold, policy.linkage)
    return _Clustered(distance, median, threshold, labels, int(labels.max(initial=-1)) + 1)


def _leaves_alone(labels: Indices, top_k: int, policy: Policy) -> bool:
    """Whether the gate stays shut: no two of the first top_k share a cluster.

    Labels are numbered by first appearance, so they do not repeat exactly when they count up.
    """
    first = labels[:top_k]
    return policy.when is When.REDUNDANT and first.tolist() == list(range(len(first)))


def _pick(candidates: Candidates, clustered: _Clustered, standing: Indices, *, top_k: int, policy: Policy) -> Indices:
    """The representatives of the page, as indices into the pool, in pick order.

    MMR has a say only where there is a choice: with no more representatives than top_k all of them are kept, and
    it could only reorder them, which it does when the policy asks for its order.

    A cluster is as relevant as its best-ranked member, whoever represents it: a centroid from the end of the pool must not
    make the best cluster the least relevant one.
    """
    if not isinstance(policy.diversifier, Mmr) or (len(standing) <= top_k and policy.order is not Order.MMR):
        return standing[:top_k]
    gains = relevance(candidates, policy.diversifier)[best_ranked(clustered.labels)]
    chosen = mmr(
        gains,
        clustered.distance.take(standing, axis=0).take(standing, axis=1),
        weight=policy.diversifier.weight,
        count=top_k,
        scale=clustered.median if policy.diversifier.similarity is Similarity.SCALED else None,
    )
    return standing[chosen]


def _native(clustered: _Clustered, top_k: int) -> Selection:
    """The backend's own first top_k. Nothing was collapsed: the rest is simply beyond what was asked for."""
    fates = np.full(len(clustered.labels), Fate.NOT_CHOSEN, np.int8)
    fates[:top_k] = Fate.KEPT
    return Selection(
        keep=np.arange(min(top_k, len(fates)), dtype=np.intp),
        labels=clustered.labels,
        representative=best_ranked(clustered.labels)[clustered.labels],
        fates=fates,
        distinct=clustered.distinct,
        wanting=max(0, top_k - clustered.distinct),
        acted=False,
        threshold=clustered.threshold,
        **unlinked(len(fates)),
    )


def _outcome(clustered: _Clustered, standing: Indices, keep: Indices, *, top_k: int) -> Selection:
    representative = standing[clustered.labels]
    return Selection(
        keep=keep,
        labels=clustered.labels,
        representative=representative,
        fates=fates_of(representative, keep),
        distinct=clustered.distinct,
        wanting=max(0, top_k - clustered.distinct),
        acted=True,
        threshold=clustered.threshold,
        **unlinked(len(representative)),
    )


def fates_of(representative: Indices, keep: Indices) -> npt.NDArray[np.int8]:
    """What became of each candidate (n,), given who stands for it and who is kept."""
    stands = representative == np.arange(len(representative))
    fates = np.where(stands, Fate.NOT_CHOSEN.value, Fate.COLLAPSED.value).astype(np.int8)
    fates[keep] = np.where(stands[keep], Fate.KEPT.value, Fate.FILLED.value)
    return fates


def unlinked(n: int) -> dict[str, Any]:
    """The three arrays of a selection in which nothing is linked."""
    return {
        "links": np.zeros(n, np.int8),
        "similarities": np.full(n, np.nan, np.float32),
        "vetoes": np.zeros(n, np.int8),
    }

"""One deduplicated list, read page by page.

A client that names an offset reads one list in pieces, so there must be one list: D, a function of the raw ranking
alone. Candidates are consumed in blocks of 50 raw ranks. Of each block, whatever lies within the threshold of an earlier
emitted representative is collapsed into the nearest one; the rest is clustered, and the best-ranked member of each
cluster is emitted. The threshold comes from the first block.

Why the pages are stable: block b reads its own candidates and what blocks before it emitted, nothing else, so D cannot change
when more is fetched behind a complete block, and an incomplete block is used only when the backend has no more to
give. And neither top_k nor offset enters the recurrence, so every page size slices the same D: which is also why there is
no MMR here (its set depends on how many are asked for) and why the representative is always the best rank.

D ascends in rank, and the first 50 ranks without duplicates are emitted as they are: a clean list comes back unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.selection.clustering import best_ranked, cluster, separate
from vecsieve.proxy.selection.geometry import NOISE, Mask, across, measure, rows_of
from vecsieve.proxy.selection.policy import Distance, Policy, Short, When
from vecsieve.proxy.selection.single import fates_of, unlinked
from vecsieve.proxy.selection.thresholds import SCALE_FROM, median_distance, resolve
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, Selection

# Raw ranks per block: the pool a single page of ten is chosen from, and as many as the threshold's scale is read from.
# A caller who wants rank r decided fetches up to the next multiple of this.
BLOCK = SCALE_FROM


@dataclass(frozen=True, slots=True)
class _Walk:
    """How far the recurrence went: ``emitted`` is D; ``representative`` (n,) says who stands for each candidate."""

    threshold: float
    emitted: Indices
    representative: Indices


def page(candidates: Candidates, *, top_k: int, offset: int, policy: Policy, exhausted: bool) -> Selection:
    """The page ``D[offset : offset + top_k]``, in rank order.

    ``exhausted``: there is no more to fetch, so that an incomplete last block counts. Then the sequence continues
    behind D with the collapsed candidates in rank order (unless the policy allows short pages), so that a client who
    reads on meets every candidate once. ``wanting``: how many of the page are missing from D. ``labels`` of candidates
    that the page did not need are clusters of one. Raises ValueError for a negative ``top_k`` or ``offset``.
    """
    if top_k < 0 or offset < 0:
        raise ValueError(f"top_k, offset: saw {top_k}, {offset}, wanted 0 or more")
    end = offset + top_k
    usable = candidates.size if exhausted else candidates.size - candidates.size % BLOCK
    walk = _walk(candidates, policy, ranks=usable, enough=end)
    sequence = walk.emitted
    if exhausted and policy.short is not Short.ALLOW and len(sequence) < end:
        collapsed = np.ones(candidates.size, np.bool_)
        collapsed[sequence] = False
        sequence = np.concatenate((sequence, np.flatnonzero(collapsed)))
    keep = np.sort(sequence[offset:end])
    labels = np.unique(walk.representative, return_inverse=True)[1].astype(np.intp, copy=False)
    return Selection(
        keep=keep,
        labels=labels,
        representative=walk.representative,
        fates=fates_of(walk.representative, keep),
        distinct=int(labels.max(initial=-1)) + 1,
        wanting=end - min(max(len(walk.emitted), offset), end),
        acted=policy.when is When.ALWAYS or not np.array_equal(keep, np.arange(candidates.size)[offset:end]),
        threshold=walk.threshold,
        **unlinked(candidates.size),
    )


def _walk(candidates: Candidates, policy: Policy, *, ranks: int, enough: int) -> _Walk:
    """Consume the blocks of the first ``ranks`` candidates until ``enough`` are emitted."""
    magnitude = candidates.magnitude and policy.distance is Distance.AUTO
    rows = rows_of(candidates.vectors)
    threshold = resolve(policy.threshold, 0.0)
    emitted = np.empty(0, np.intp)
    representative = np.arange(candidates.size, dtype=np.intp)
    for start in range(0, ranks, BLOCK):
        if len(emitted) >= enough:
            break
        stop = min(start + BLOCK, ranks)
        block = np.arange(start, stop, dtype=np.intp)
        # The shapes of both products depend on what came before alone: BLAS rounds by shape, and a distance that
        # changed in its last digit with the number of fetched candidates could move a page.
        geometry = measure(candidates.vectors[start:stop], magnitude=magnitude)
        if start == 0:
            threshold = resolve(policy.threshold, median_distance(geometry))
        # Against all earlier rows, not the emitted ones alone: a slice is no copy, and the copies took most of the time.
        back = across(rows.at(slice(start, stop)), rows.at(slice(start)), magnitude=magnitude)[:, emitted]
        is_old, elders = _elders(_apart(back, candidates, block, emitted), threshold)
        representative[block[is_old]] = emitted[elders]
        fresh = block[~is_old]
        inside = _apart(geometry.distance[np.ix_(~is_old, ~is_old)], candidates, fresh, fresh)
        labels = cluster(inside, threshold, policy.linkage)
        heads = fresh[best_ranked(labels)]
        representative[fresh] = heads[labels]
        emitted = np.concatenate((emitted, heads))
    return _Walk(threshold, emitted, representative)


def _elders(back: FloatMatrix, threshold: float) -> tuple[Mask, Indices]:
    """Which of a block's candidates are near something emitted, and the column of the nearest (ties by rank).

    ``back``: (b, m) distances to the m emitted.
    """
    nearest = back.min(axis=1, initial=np.inf)
    is_old = nearest <= threshold + NOISE
    if not is_old.any():
        return is_old, np.empty(0, np.intp)
    return is_old, (back[is_old] <= nearest[is_old, None] + NOISE).argmax(axis=1)


def _apart(distance: FloatMatrix, candidates: Candidates, rows: Indices, columns: Indices) -> FloatMatrix:
    if candidates.tenants is None:
        return distance
    return separate(distance, candidates.tenants[rows], candidates.tenants[columns])

"""One deduplicated list, read page by page.

A client that names an offset reads one list in pieces, so there must be one list: D, a function of the raw ranking only. Texts are judged in rank
order, each by those kept before it. Vectors decide in blocks of 50 raw ranks: candidates within the cut of an earlier emitted representative are
collapsed into the nearest one; the others are clustered, and the best-ranked member of each cluster is emitted. The scale and repeated header lines
are learned from the first block.

Pages are stable for two reasons. Block b reads only its own candidates, those of the first block and those emitted by earlier blocks. So
D does not change when more candidates are fetched after a complete block; an incomplete block is used only when the backend has no more.
Neither top_k nor offset enters the recurrence, so every page size slices the same D. For this reason there is no diversifier (its choice
depends on top_k), there are no caps (they count per page), and the representative is always the best rank.

D ascends in rank, and the first 50 ranks without duplicates are emitted unchanged: a clean list is not changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .clustering import cluster, lead
from .distances import bare_bounds, neighbourhoods
from .geometry import NOISE, SCALE_FROM, Mask
from .grouping import ByVectors, by_vectors_of, lacks_texts, numbered, rewordings_of, set_apart
from .judging.walk import Walk, Walked
from .metric import is_implausible, may_be_restrained
from .policy import Linkage, Policy, Short, When
from .single import decides_a_page, fates_of
from .values import Candidates, FloatMatrix, Indices, Link, Selection, Steps, best_ranked

# Raw ranks per block: the pool of a single page of ten, and the number of candidates from which the threshold's scale is computed. To
# decide rank r, a caller must fetch up to the next multiple of this.
BLOCK = SCALE_FROM

# With more emitted ranks than this, one block takes several steps.
MANY = 2 * BLOCK


@dataclass(slots=True)
class _List:
    """The state of the recurrence. ``emitted`` is D; the arrays have one entry per candidate, as in Selection. ``near``: neighbourhoods."""

    emitted: Indices
    representative: Indices
    links: npt.NDArray[np.int8]
    similarities: FloatMatrix
    cuts: FloatMatrix
    near: FloatMatrix
    restrained: bool = False

    def leave_alone(self, ranks: int) -> None:
        """Make each of the first ``ranks`` candidates a cluster of its own."""
        n = len(self.representative)
        self.emitted, self.representative = np.arange(ranks, dtype=np.intp), np.arange(n, dtype=np.intp)
        self.links, self.similarities = np.zeros(n, np.int8), np.full(n, np.nan, np.float32)
        self.cuts, self.restrained = np.full(n, np.nan, np.float32), True


@dataclass(frozen=True, slots=True)
class _Block:
    """Ranks ``start`` to ``stop``: what is clustered among them, and to the m candidates emitted before."""

    start: int
    stop: int
    inside: FloatMatrix
    back: FloatMatrix


def paging(
    candidates: Candidates,
    *,
    top_k: int,
    offset: int,
    policy: Policy,
    exhausted: bool,
    scale: float | None = None,
) -> Steps[Selection]:
    """The page ``D[offset : offset + top_k]``, in rank order.

    Works in steps of a few milliseconds: reading and judging some texts, or deciding a block.

    ``exhausted``: there is no more to fetch, so an incomplete last block counts. Then D is followed by the collapsed candidates in rank
    order (unless the policy allows short pages), so that a client who reads on gets every candidate once. ``wanting``: how many results of
    the page D lacks. ``labels`` of candidates that the page did not need are clusters of one. ``scale``: the typical distance, except for a
    fixed threshold; None: the first block's own median. Raises ValueError for a negative ``top_k`` or ``offset``.
    """
    if top_k < 0 or offset < 0:
        raise ValueError(f"top_k, offset: saw {top_k}, {offset}, wanted 0 or more")
    end = offset + top_k
    usable = candidates.size if exhausted else candidates.size - candidates.size % BLOCK
    needs_vectors = lacks_texts(candidates, policy)
    # As on a single page, which this list must begin with.
    exchanges = not needs_vectors and policy.rewordings is None and decides_a_page(policy)
    walk = Walk(candidates, policy, rewordings_of(candidates, policy), exchanges=exchanges)
    yield from walk.steps(None if needs_vectors else end, stop=usable)
    listed = _begun(walk.walked)
    vectors = None
    if needs_vectors:
        vectors = by_vectors_of(candidates, policy, scale)
        yield from _walked(candidates, policy, vectors, walk.walked, listed, ranks=usable, enough=end)
    else:
        listed.emitted = np.array(walk.kept, np.intp)
    is_filled = exhausted and policy.short is not Short.ALLOW and len(listed.emitted) < end
    sequence = _with_collapsed(listed.emitted, candidates.size) if is_filled else listed.emitted
    keep = sequence[offset:end] if walk.exchanged else np.sort(sequence[offset:end])
    return _page(policy, vectors, walk.walked, listed, keep, offset, end)


def _with_collapsed(emitted: Indices, size: int) -> Indices:
    """D, then the collapsed candidates in rank order."""
    collapsed = np.ones(size, np.bool_)
    collapsed[emitted] = False
    return np.concatenate((emitted, np.flatnonzero(collapsed)))


def _page(
    policy: Policy, vectors: ByVectors | None, walked: Walked, listed: _List, keep: Indices, offset: int, end: int
) -> Selection:
    """The selection of the ranks ``keep``, which are places ``offset`` to ``end`` of the list."""
    ranks = np.arange(len(listed.representative))
    representative = listed.representative[listed.representative]
    labels, distinct = numbered(representative)
    is_native = np.array_equal(keep, ranks[offset:end])
    return Selection(
        keep=keep,
        labels=labels,
        representative=representative,
        also=walked.also,
        fates=fates_of(representative, keep),
        distinct=distinct,
        wanting=end - min(max(len(listed.emitted), offset), end),
        acted=policy.when is When.ALWAYS or not is_native,
        restrained=listed.restrained,
        threshold=math.nan
        if vectors is None
        else vectors.display_cuts[min(max(end, 1), len(vectors.display_cuts)) - 1],
        median=0.0 if vectors is None else vectors.measured.median,
        links=listed.links,
        similarities=listed.similarities,
        cuts=listed.cuts,
    )


def _begun(walked: Walked) -> _List:
    """The state before the first block: what texts decided."""
    n = len(walked.representative)
    return _List(
        emitted=np.empty(0, np.intp),
        representative=walked.representative.copy(),
        links=walked.links.copy(),
        similarities=walked.shares.copy(),
        cuts=np.full(n, np.nan, np.float32),
        near=np.full(n, np.inf, np.float32),
    )


def _walked(
    candidates: Candidates,
    policy: Policy,
    vectors: ByVectors,
    walked: Walked,
    listed: _List,
    *,
    ranks: int,
    enough: int,
) -> Steps[None]:
    """Process the blocks of the first ``ranks`` candidates until ``enough`` are emitted, one per step."""
    for start in range(0, ranks, BLOCK):
        if len(listed.emitted) >= enough:
            break
        block = _block(candidates, policy, vectors, walked, listed, start, min(start + BLOCK, ranks))
        if len(listed.emitted) > MANY:
            yield
        _consume(vectors, block, walked, listed)
        if start == 0 and _is_implausible(candidates, policy, vectors, walked, block, listed):
            listed.leave_alone(ranks)
            break
        yield


def _is_implausible(
    candidates: Candidates, policy: Policy, vectors: ByVectors, walked: Walked, first: _Block, listed: _List
) -> bool:
    """Whether the first block's clusters were made by vectors alone and must be rejected."""
    if walked.has_text.any() or not may_be_restrained(policy):
        return False
    stands = listed.representative[: first.stop]
    distance = vectors.measured.inside(0, first.stop).distance[np.arange(len(stands)), stands]
    return is_implausible(stands, distance, candidates.scores[: first.stop], candidates.metric)


def _block(
    candidates: Candidates, policy: Policy, vectors: ByVectors, walked: Walked, listed: _List, start: int, stop: int
) -> _Block:
    """Measure one block."""
    emitted = listed.emitted
    # The shapes of both products depend only on earlier candidates: BLAS rounds by shape, and a distance that changed in its last digit
    # with the number of fetched candidates could change a page.
    inside = vectors.measured.inside(start, stop).distance
    # Only against emitted candidates: a list full of copies has few, and against all earlier rows a list of a thousand took 90 ms, nearly
    # all of it for distances that were never used.
    back = vectors.measured.back(start, stop, emitted)
    among: FloatMatrix | float = vectors.measured.largest
    to_emitted: FloatMatrix | float = vectors.measured.largest
    if vectors.is_certain:
        firsts = vectors.measured.back(start, stop, np.arange(SCALE_FROM, dtype=np.intp)) if start else inside
        listed.near[start:stop] = near = neighbourhoods(firsts, start)
        among = bare_bounds(near, near, vectors.measured.largest)
        to_emitted = bare_bounds(near, listed.near[emitted], vectors.measured.largest)
    rows = slice(start, stop)
    return _Block(
        start,
        stop,
        set_apart(vectors.to_cluster(inside, among), candidates, policy, walked, vectors, rows),
        set_apart(vectors.to_cluster(back, to_emitted), candidates, policy, walked, vectors, rows, emitted),
    )


def _consume(vectors: ByVectors, block: _Block, walked: Walked, listed: _List) -> None:
    """Decide the representatives of the block's candidates, and add them to the list."""
    ranks = np.arange(block.start, block.stop, dtype=np.intp)
    heads = _heads(vectors, block, listed.emitted)
    joined = np.flatnonzero(heads != ranks)
    if len(joined):
        values = np.where(
            heads[joined] >= block.start,
            block.inside[joined, np.maximum(heads[joined] - block.start, 0)],
            block.back[
                joined, np.minimum(np.searchsorted(listed.emitted, heads[joined]), max(block.back.shape[1] - 1, 0))
            ]
            if block.back.shape[1]
            else np.float32(np.nan),
        )
        places = ranks[joined]
        listed.representative[places], listed.links[places] = heads[joined], Link.DISTANCE
        listed.similarities[places] = vectors.similarity(np.where(np.isinf(values), np.float32(np.nan), values))
        leads = np.cumsum(heads == ranks) - (heads == ranks)
        before = np.minimum(len(listed.emitted) + leads[joined], len(vectors.display_cuts) - 1)
        listed.cuts[places] = 1.0 - np.asarray(vectors.display_cuts, np.float32)[before]
    stays = (heads == ranks) & (walked.links[ranks] == Link.NONE)
    listed.emitted = np.concatenate((listed.emitted, ranks[stays]))


def _heads(vectors: ByVectors, block: _Block, emitted: Indices) -> Indices:
    """The representative of each candidate of the block (b,), as indices into the pool; itself if it is emitted."""
    ranks = np.arange(block.start, block.stop, dtype=np.intp)
    if vectors.linkage is Linkage.LEADER:
        leaders = lead(block.inside, vectors.cuts, block.back, slack=vectors.measured.slack)
        return np.where(
            leaders < 0, emitted[-1 - np.minimum(leaders, -1)] if len(emitted) else ranks, ranks[np.maximum(leaders, 0)]
        )
    heads = ranks.copy()
    is_old, elders = _elders(block.back, vectors.cuts[0] + vectors.measured.slack)
    heads[is_old] = emitted[elders]
    fresh = ranks[~is_old]
    labels = cluster(
        block.inside[np.ix_(~is_old, ~is_old)], vectors.cuts, vectors.linkage, slack=vectors.measured.slack
    )
    heads[~is_old] = fresh[best_ranked(labels)][labels] if len(fresh) else fresh
    return heads


def _elders(back: FloatMatrix, cut: float) -> tuple[Mask, Indices]:
    """Which of a block's candidates are close to an emitted one, and the column of the nearest (ties by rank).

    ``back``: (b, m) distances to the m emitted.
    """
    nearest = back.min(axis=1, initial=np.inf)
    is_old = nearest <= cut
    if not is_old.any():
        return is_old, np.empty(0, np.intp)
    return is_old, (back[is_old] <= nearest[is_old, None] + NOISE).argmax(axis=1)

"""One deduplicated list, read page by page.

A client that names an offset reads one list in pieces, so there must be one list: D, a function of the raw ranking only. Candidates are
processed in blocks of 50 raw ranks. In each block, candidates within the cut of an earlier emitted representative, or copies of it by text,
are collapsed into the nearest one; the others are clustered, and the best-ranked member of each cluster is emitted. The scale and repeated
header lines are learned from the first block.

Pages are stable for two reasons. Block b reads only its own candidates, those of the first block and those emitted by earlier blocks. So
D does not change when more candidates are fetched after a complete block; an incomplete block is used only when the backend has no more.
Neither top_k nor offset enters the recurrence, so every page size slices the same D. For this reason there is no diversifier (its choice
depends on top_k), there are no caps (they count per page), and the representative is always the best rank.

D ascends in rank, and the first 50 ranks without duplicates are emitted unchanged: a clean list is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .certainty import ByChance
from .clustering import cluster, lead, separate
from .distances import CosineDistances, Distances, bare_bounds, neighbourhoods
from .geometry import NOISE, SCALE_FROM, Mask
from .grouping import (
    Ask,
    apart_in,
    asker,
    cuts_of,
    distances_of,
    lacks_texts,
    linked,
    required,
    standing_vetoes,
    typical_of,
)
from .metric import is_implausible, may_be_restrained
from .policy import Certain, Linkage, Policy, Short, When
from .single import fates_of
from .text.evidence import Codes, Evidence, by_vectors_alone, opened, weigh
from .text.reading import Texts, read
from .values import Candidates, FloatMatrix, Indices, Selection, Steps, best_ranked

# Raw ranks per block: the pool of a single page of ten, and the number of candidates from which the threshold's scale is computed. To
# decide rank r, a caller must fetch up to the next multiple of this.
BLOCK = SCALE_FROM

# With more emitted ranks than this, one block takes several steps.
MANY = 2 * BLOCK


@dataclass(frozen=True, slots=True)
class _Reading:
    """Values for all blocks. Everything measured comes from the first block. ``is_bare``: vectors alone decide some pair."""

    policy: Policy
    measured: Distances
    typical: float
    cuts: Sequence[float]
    texts: Texts | None
    ask: Ask | None
    is_bare: bool

    @property
    def linkage(self) -> Linkage:
        """The calibrated rule always walks the ranking, whatever the policy's linkage."""
        return Linkage.LEADER if self.is_certain else self.policy.linkage

    @property
    def is_certain(self) -> bool:
        """Whether doubts are compared instead of distances."""
        return isinstance(self.policy.threshold, Certain)

    @property
    def shown_cuts(self) -> list[float]:
        """The cuts in the unit shown to people."""
        unit = 1.0 if self.is_certain else self.measured.shown_unit
        return [cut * unit for cut in self.cuts]


@dataclass(slots=True)
class _Walk:
    """The state of the recurrence. ``emitted`` is D; the arrays have one entry per candidate, as in Selection. ``near``: neighbourhoods."""

    emitted: Indices
    representative: Indices
    links: Codes
    similarities: FloatMatrix
    held: Codes
    near: FloatMatrix
    restrained: bool

    def leave_alone(self, ranks: int) -> None:
        """Make each of the first ``ranks`` candidates a cluster of its own."""
        n = len(self.representative)
        self.emitted, self.representative = np.arange(ranks, dtype=np.intp), np.arange(n, dtype=np.intp)
        self.links, self.similarities = np.zeros(n, np.int8), np.full(n, np.nan, np.float32)
        self.held, self.restrained = np.zeros(n, np.int8), True


@dataclass(frozen=True, slots=True)
class _Block:
    """Ranks ``start`` to ``stop``: distances among them and to the m candidates emitted before, and text evidence for both.

    ``shown``: both as shown to people, before vetoes.
    """

    start: int
    stop: int
    inside: FloatMatrix
    back: FloatMatrix
    shown: tuple[FloatMatrix, FloatMatrix]
    evidence: tuple[Evidence, Evidence] | None


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

    Works in steps of a few milliseconds: reading, comparing or guarding some texts of a block, or deciding a block.

    ``exhausted``: there is no more to fetch, so an incomplete last block counts. Then D is followed by the collapsed candidates in rank
    order (unless the policy allows short pages), so that a client who reads on gets every candidate once. ``wanting``: how many results of
    the page D lacks. ``labels`` of candidates that the page did not need are clusters of one. ``scale``: the typical distance, except for a
    fixed threshold; None: the first block's own median. Raises ValueError for a negative ``top_k`` or ``offset``.
    """
    if top_k < 0 or offset < 0:
        raise ValueError(f"top_k, offset: saw {top_k}, {offset}, wanted 0 or more")
    end = offset + top_k
    usable = candidates.size if exhausted else candidates.size - candidates.size % BLOCK
    texts = _texts(candidates, policy)
    for start in range(0, 0 if texts is None else candidates.size, BLOCK):
        assert texts is not None  # noqa: S101 - or there would be no block to read
        yield from texts.reading(range(start, min(start + BLOCK, candidates.size)))
        yield
    reading = _read(candidates, policy, scale, texts)
    walk = _begun(candidates)
    yield from _walked(candidates, reading, walk, ranks=usable, enough=end)
    is_filled = exhausted and policy.short is not Short.ALLOW and len(walk.emitted) < end
    sequence = _with_collapsed(walk.emitted, candidates.size) if is_filled else walk.emitted
    return _page(reading, walk, np.sort(sequence[offset:end]), offset, end)


def _with_collapsed(emitted: Indices, size: int) -> Indices:
    """D, then the collapsed candidates in rank order."""
    collapsed = np.ones(size, np.bool_)
    collapsed[emitted] = False
    return np.concatenate((emitted, np.flatnonzero(collapsed)))


def _page(reading: _Reading, walk: _Walk, keep: Indices, offset: int, end: int) -> Selection:
    """The selection of the ranks ``keep``, which are places ``offset`` to ``end`` of the list."""
    ranks = np.arange(len(walk.representative))
    leads = walk.representative == ranks
    labels = np.unique(walk.representative, return_inverse=True)[1].astype(np.intp, copy=False)
    is_native = np.array_equal(keep, ranks[offset:end])
    return Selection(
        keep=keep,
        labels=labels,
        representative=walk.representative,
        fates=fates_of(walk.representative, keep),
        distinct=int(labels.max(initial=-1)) + 1,
        wanting=end - min(max(len(walk.emitted), offset), end),
        acted=reading.policy.when is When.ALWAYS or not is_native,
        restrained=walk.restrained,
        threshold=reading.shown_cuts[min(max(end, 1), len(reading.cuts)) - 1],
        median=reading.measured.median,
        links=walk.links,
        similarities=walk.similarities,
        cuts=required(reading.shown_cuts, np.cumsum(leads) - leads, walk.links, walk.similarities),
        vetoes=standing_vetoes(walk.held, walk.representative),
    )


def _texts(candidates: Candidates, policy: Policy) -> Texts | None:
    known = candidates.metadata
    if policy.text is None or known.texts is None:
        return None
    return read(known, policy.text, learn_from=slice(BLOCK))


def _read(candidates: Candidates, policy: Policy, scale: float | None, texts: Texts | None) -> _Reading:
    measured = distances_of(candidates, policy)
    if not isinstance(measured, CosineDistances):
        measured = measured.narrowed(candidates.vectors, policy.chance)
    return _Reading(
        policy=policy,
        measured=measured,
        typical=typical_of(measured, scale),
        cuts=cuts_of(measured, policy, scale, candidates.size),
        texts=texts,
        ask=asker(candidates, policy.guards, texts, apart_in(candidates, policy, measured)),
        is_bare=isinstance(policy.threshold, Certain) and lacks_texts(candidates, policy),
    )


def _begun(candidates: Candidates) -> _Walk:
    """The state before the first block."""
    n = candidates.size
    return _Walk(
        emitted=np.empty(0, np.intp),
        representative=np.arange(n, dtype=np.intp),
        links=np.zeros(n, np.int8),
        similarities=np.full(n, np.nan, np.float32),
        held=np.zeros(n, np.int8),
        near=np.full(n, np.inf, np.float32),
        restrained=False,
    )


def _walked(candidates: Candidates, reading: _Reading, walk: _Walk, *, ranks: int, enough: int) -> Steps[None]:
    """Process the blocks of the first ``ranks`` candidates until ``enough`` are emitted, one per step."""
    for start in range(0, ranks, BLOCK):
        if len(walk.emitted) >= enough:
            break
        block = yield from _block(candidates, reading, walk, start, min(start + BLOCK, ranks))
        if len(walk.emitted) > MANY:
            yield
        yield from _consume(reading, block, walk)
        if start == 0 and _is_implausible(candidates, reading, block, walk):
            walk.leave_alone(ranks)
            break
        yield


def _is_implausible(candidates: Candidates, reading: _Reading, first: _Block, walk: _Walk) -> bool:
    """Whether the first block's clusters were made by vectors alone and must be rejected."""
    if reading.texts is not None or not may_be_restrained(reading.policy):
        return False
    stands = walk.representative[: first.stop]
    distance = first.shown[0][np.arange(len(stands)), stands]
    return is_implausible(stands, distance, candidates.scores[: first.stop], candidates.metric)


def _block(candidates: Candidates, reading: _Reading, walk: _Walk, start: int, stop: int) -> Steps[_Block]:
    """Measure one block."""
    emitted = walk.emitted
    # The shapes of both products depend only on earlier candidates: BLAS rounds by shape, and a distance that changed in its last digit
    # with the number of fetched candidates could change a page.
    inside = reading.measured.inside(start, stop).distance
    # Only against emitted candidates: a list full of copies has few, and against all earlier rows a list of a thousand took 90 ms, nearly
    # all of it for distances that were never used.
    back = reading.measured.back(start, stop, emitted)
    unit = np.float32(reading.measured.shown_unit)
    raw = inside, back
    among, to_emitted = _by_chance(reading, walk, inside, start, stop)
    each = np.arange(start, stop, dtype=np.intp)
    if reading.texts is not None:
        inside, back = opened(inside), opened(back)
    if candidates.tenants is not None:
        own, theirs = candidates.tenants[each], candidates.tenants[emitted]
        inside, back = separate(inside, own, own), separate(back, own, theirs)
    policy, typical, evidence = reading.policy, reading.typical, None
    if reading.texts is not None:
        here = yield from weigh(inside, reading.texts, each, each, policy=policy, typical=typical, by_chance=among)
        if len(emitted) > MANY:
            yield
        there = yield from weigh(
            back, reading.texts, each, emitted, policy=policy, typical=typical, by_chance=to_emitted
        )
        evidence, inside, back = (here, there), here.distance, there.distance
    else:
        inside = by_vectors_alone(inside, policy, typical=typical, by_chance=among)
        back = by_vectors_alone(back, policy, typical=typical, by_chance=to_emitted)
    shown = (inside, back) if reading.is_certain else (raw[0] * unit, raw[1] * unit)
    return _Block(start, stop, inside.copy(), back.copy(), shown, evidence)


def _by_chance(reading: _Reading, walk: _Walk, inside: FloatMatrix, start: int, stop: int) -> tuple[ByChance, ByChance]:
    """Of closeness by chance: among a block's candidates, and of them to the emitted ones."""
    largest = reading.measured.largest
    if not reading.is_bare:
        return ByChance(largest, largest), ByChance(largest, largest)
    firsts = reading.measured.back(start, stop, np.arange(SCALE_FROM, dtype=np.intp)) if start else inside
    walk.near[start:stop] = own = neighbourhoods(firsts, start)
    emitted = walk.near[walk.emitted]
    return ByChance(largest, bare_bounds(own, own, largest)), ByChance(largest, bare_bounds(own, emitted, largest))


def _consume(reading: _Reading, block: _Block, walk: _Walk) -> Steps[None]:
    """Decide the representatives of the block's candidates, and add them to the walk."""
    asked = np.zeros((block.stop - block.start, block.stop), np.bool_)
    reach = -np.inf
    while True:
        heads = _heads(reading, block, walk.emitted)
        walk.representative[block.start : block.stop] = heads
        if reading.ask is None or not (yield from _forbid(reading.ask, block, walk, asked, reach)):
            break
        if len(walk.emitted) > MANY:
            yield
        reach = max(
            reading.cuts
        )  # a separated candidate joins the next one nearby: one round for each would take seconds
    _note(block, walk)
    each = np.arange(block.start, block.stop, dtype=np.intp)
    walk.emitted = np.concatenate((walk.emitted, each[heads == each]))


def _heads(reading: _Reading, block: _Block, emitted: Indices) -> Indices:
    """The representative of each candidate of the block (b,), as indices into the pool; itself if it is emitted."""
    each = np.arange(block.start, block.stop, dtype=np.intp)
    if reading.linkage is Linkage.LEADER:
        found = lead(block.inside, reading.cuts, block.back, slack=reading.measured.slack)
        return np.where(
            found < 0, emitted[-1 - np.minimum(found, -1)] if len(emitted) else each, each[np.maximum(found, 0)]
        )
    heads = each.copy()
    is_old, elders = _elders(block.back, reading.cuts[0] + reading.measured.slack)
    heads[is_old] = emitted[elders]
    fresh = each[~is_old]
    labels = cluster(
        block.inside[np.ix_(~is_old, ~is_old)], reading.cuts, reading.linkage, slack=reading.measured.slack
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


def _forbid(ask: Ask, block: _Block, walk: _Walk, asked: Mask, reach: float) -> Steps[bool]:
    """Ask about all pairs that share a cluster or could, within ``reach``, and set forbidden pairs apart; return whether there were any.

    ``asked``: (b, stop), pairs that were asked about before.
    """
    own = walk.representative[block.start : block.stop]
    met = own[:, None] == walk.representative[None, : block.stop]
    met[:, block.start :] |= block.inside <= reach
    if block.start:
        met[:, : block.start] |= (
            block.back[:, np.searchsorted(walk.emitted, walk.representative[: block.start])] <= reach
        )
    met &= ~asked
    met &= np.arange(block.start, block.stop)[:, None] > np.arange(block.stop)[None, :]
    second, first = np.nonzero(met)
    codes = (yield from ask(first, second + block.start)) if len(first) else np.empty(0, np.int8)
    asked |= met
    kept_apart = np.flatnonzero(codes)
    rows, others = second[kept_apart], first[kept_apart]
    stay, best = np.unique(rows, return_index=True)  # of several vetoes, that of the best-ranked partner
    walk.held[block.start + stay] = codes[kept_apart[best]]
    is_here = others >= block.start
    row, column = rows[is_here], others[is_here] - block.start
    block.inside[row, column] = block.inside[column, row] = np.inf
    block.back[rows[~is_here], np.searchsorted(walk.emitted, walk.representative[others[~is_here]])] = np.inf
    return bool(codes.any())


def _note(block: _Block, walk: _Walk) -> None:
    """Record why each candidate of the block shares a cluster with its representative."""
    each = np.arange(block.start, block.stop, dtype=np.intp)
    heads = walk.representative[each]
    rows = np.arange(len(each))
    is_here = heads >= block.start
    column = np.where(is_here, heads - block.start, np.searchsorted(walk.emitted, heads))
    links, similarities = np.zeros(len(each), np.int8), np.full(len(each), np.nan, np.float32)
    distance = np.zeros(len(each), np.float32)
    for part, which in enumerate((is_here, ~is_here)):
        at = rows[which], column[which]
        distance[which] = block.shown[part][at]
        if block.evidence is not None:
            links[which] = block.evidence[part].links[at]
            similarities[which] = block.evidence[part].similarities[at]
    links, similarities = linked(links, similarities, distance)
    stands = heads == each
    links[stands], similarities[stands] = 0, np.nan
    walk.links[each], walk.similarities[each] = links, similarities

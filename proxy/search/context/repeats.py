"""Demotes results that were shown before, by an earlier list of the same request or in an earlier turn of a conversation. They are placed
behind new results, and left out if there are enough new ones. The first results of a turn's own page keep a place at its end even if
earlier turns showed them: the best answer to a question stays on its page.

Results that were shown are recognized by point, by what their text says, and by cluster: a cluster with a shown point has nothing new. Between the lists of
a request, candidates are also compared by the policy's own evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from vecsieve.adapters.contract import Needs, Pool, Search, SearchCall

from ...runtime.loop import LongWork
from ...selection.geometry import Mask
from ...selection.grouping import Grouped, group
from ...selection.metric import metric_of
from ...selection.policy import Certain, Fixed, Order, Policy, Short, When
from ...selection.values import Fate, FloatMatrix, FloatVector, Indices, Selection, Steps
from ..candidates import Record, candidates_of, records_of
from ..policy import ResolvedPolicy
from ..pools.values import Selected

# The last shown results, with which later lists of a request are compared by evidence. All shown results are recognized by point and text.
COMPARED = 200
DIGEST_BYTES = 8  # bytes of a digest of a point or text: among a thousand, the chance of a collision is 10^-16


def first_pages(parse: Callable[[Needs], SearchCall], needs: Needs) -> SearchCall:
    """The call in which each first page is selected from its own pool: a page with offset 0 is not treated as part of one list. ``parse``: reads the
    client's request.
    """
    call = parse(needs)
    searches = tuple(
        replace(search, pages=False) if search.pages and not search.offset else search for search in call.searches
    )
    return replace(call, searches=searches)


# A share of the score difference between the last new result and the best result. A result that stays is closer to the best. Chosen on
# three labelled sets of other kinds than those in docs/policies.md: the smallest share with which conversations repeat 40 % less.
NEAR = 0.55
NONE: Indices = np.zeros(0, np.intp)


def renewed(selection: Selection, stale: Mask, top_k: int, policy: Policy, *, retained: Indices = NONE) -> Selection:
    """The selection with new results in front: the results that are not ``stale`` (n,), then the next representatives, then results that
    were shown before, then copies. Each group is in rank order, or in the diversifier's order if the answer is. Missing results count as
    missing new ones.

    ``retained`` (h,): shown candidates that keep their places.
    """
    old = np.isin(selection.labels, selection.labels[stale])
    if not old[selection.keep].any():
        return selection
    room = top_k - len(retained)
    kept = selection.keep[~old[selection.keep]]
    rows = np.arange(len(old), dtype=np.intp)
    leads = selection.representative == rows
    is_kept = np.zeros(len(old), np.bool_)
    is_kept[selection.keep] = True
    fresh = kept[leads[kept]]
    more = rows[leads & ~old & ~is_kept & (selection.fates == Fate.NOT_CHOSEN)]
    new = np.concatenate((fresh, more[: max(room - len(fresh), 0)]))[:room]
    others = np.setdiff1d(rows[leads & old], retained)[: room - len(new)]
    earlier = np.sort(np.concatenate((retained, others)))
    copies = (
        np.concatenate((kept[~leads[kept]], rows[is_kept & old & ~leads]))
        if policy.short is not Short.ALLOW
        else rows[:0]
    )
    rest = np.concatenate((earlier, np.sort(copies)))[: top_k - len(new)]
    keep = np.concatenate((new if policy.order is Order.MMR else np.sort(new), rest))
    fates = selection.fates.copy()
    fates[np.setdiff1d(selection.keep, keep)] = np.int8(Fate.EARLIER)
    fates[keep] = np.where(leads[keep], np.int8(Fate.KEPT), np.int8(Fate.FILLED))
    return replace(selection, keep=keep, fates=fates, acted=True, wanting=room - len(new))


def digest(*parts: bytes) -> bytes:
    """The digest of a point or a text. Parts are length-prefixed, so that no two lists of parts collide."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(b"%d:" % len(part))
        state.update(part)
    return state.digest()


def point_digests(collection: str, search: Search, pool: Pool) -> list[bytes | None]:
    """One digest per candidate; None when the adapter knows no ids."""
    where = collection.encode("utf-8", "surrogatepass")
    return [digest(b"point", where, search.partition, point_id) for point_id in pool.ids] or [None] * pool.size


def text_digest(record: Record) -> bytes | None:
    """The digest of what a text says; None without one, or where it is not read."""
    if record.text is None or record.text.cost() < 0:
        return None
    tokens = record.text.passages()[0].tokens
    return digest(b"text", "\n".join(tokens).encode("utf-8", "surrogatepass")) if tokens else None


@dataclass(slots=True)
class EarlierResults:
    """The results that the lists of a request have shown so far. ``digests``: of points and texts; ``rows`` and ``records``: of the last
    ones, compared by vectors of ``vector``.
    """

    digests: set[bytes] = field(default_factory=set)
    rows: list[tuple[str | None, FloatMatrix]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def add(self, pool: Pool, records: Sequence[Record], names: Sequence[bytes | None], keep: Indices) -> None:
        for row in keep.tolist():
            self.digests |= {mark for mark in (names[row], text_digest(records[row])) if mark is not None}
            self.rows.append((pool.compared_by, pool.vectors[row]))
            self.records.append(records[row])
        del self.rows[:-COMPARED], self.records[:-COMPARED]

    def vectors(self, like: Pool) -> FloatMatrix:
        """(s, d) the rows; NaN for those that cannot be compared with the pool's."""
        size = like.vectors.shape[1]
        vectors = np.full((len(self.rows), size), np.nan, np.float32)
        for place, (name, row) in enumerate(self.rows):
            if name == like.compared_by and len(row) == size:
                vectors[place] = row
        return vectors


async def renew(selected: Selected, work: LongWork) -> Selected:
    """The selections with new results in front, one list after another. Lists that are read by pages, or were not widened, are unchanged.
    Missing results count as missing new ones.
    """
    pools = selected.pools
    policy, call = pools.policy, pools.call
    earlier, new = EarlierResults(), list[Selection]()
    rows = zip(call.searches, pools.reply.pools, selected.selections, pools.planned.plan, strict=True)
    for search, pool, selection, planned in rows:
        records = records_of(pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
        names = point_digests(call.operation.collection, search, pool)
        chosen = selection
        if planned is not None and not search.pages:
            given, repeated = (_known(records, names, digests) for digests in (selected.given, earlier.digests))
            if policy.is_across and earlier.rows and pool.size:
                steps = _copies(earlier, search, pool, records, selection, policy)
                repeated |= await work.finished(steps, is_long=pool.size + len(earlier.rows) > COMPARED)
            retained = retained_results(
                selection,
                given,
                repeated,
                pool.scores,
                top_k=search.top_k,
                most=int(policy.session.keeps * search.top_k),
            )
            chosen = renewed(selection, given | repeated, search.top_k, policy.selection, retained=retained)
        if policy.is_across:
            earlier.add(pool, records, names, chosen.keep)
        new.append(chosen)
    return replace(selected, unbudgeted=tuple(new))


def retained_results(
    selection: Selection, given: Mask, repeated: Mask, scores: FloatVector, *, top_k: int, most: int
) -> Indices:
    """The results of a page, at most ``most``, that keep their places although an earlier turn was ``given`` their clusters (n,): their
    scores (n,) are close to the best score, compared with the last result that would be new in their place. Results that an earlier list of
    the request ``repeated`` (n,) and copies are excluded.
    """
    labels, keep = selection.labels, selection.keep
    old, again = (np.isin(labels, labels[mask]) for mask in (given, repeated))
    if not most or not old[keep].any():
        return NONE
    rows = np.arange(len(labels), dtype=np.intp)
    leads = selection.representative == rows
    new = rows[leads & ~old & ~again][:top_k]
    best, last = int(keep.min()), int(new[-1]) if len(new) == top_k else len(labels) - 1
    # If scores do not differ, ranks are used. Scores may rise or fall with rank: both differences have the same sign.
    has_scores = np.isfinite(scores).all() and scores[best] != scores[last]
    merit = scores if has_scores else -rows.astype(np.float64)
    near = (merit - merit[last]) / ((merit[best] - merit[last]) or 1.0) >= NEAR
    retained: Indices = keep[(near & leads & old & ~again)[keep]][:most]
    return retained


def _known(records: Sequence[Record], names: Sequence[bytes | None], digests: frozenset[bytes] | set[bytes]) -> Mask:
    if not digests:
        return np.zeros(len(records), np.bool_)
    pairs = zip(records, names, strict=True)
    return np.array([name in digests or text_digest(record) in digests for record, name in pairs], np.bool_)


def _copies(
    earlier: EarlierResults,
    search: Search,
    pool: Pool,
    records: Sequence[Record],
    selection: Selection,
    policy: ResolvedPolicy,
) -> Steps[Mask]:
    """(n,) which candidates of a pool are copies of shown results, by the evidence that finds copies within a list. The calibrated rule
    requires the certainty of the second rank for all ranks, because a wrong drop costs an answer at any rank.
    """
    count = len(earlier.rows)
    stacked = Pool(
        scores=np.concatenate((np.full(count, np.nan), pool.scores)),
        vectors=np.concatenate((earlier.vectors(pool), pool.vectors)),
        alone=tuple(count + row for row in pool.alone),
    )
    candidates = candidates_of(stacked, search, (*earlier.records, *records), fields=policy.fields)
    candidates = replace(candidates, metric=metric_of(search.query, pool.vectors, pool.scores))
    threshold = policy.selection.threshold
    if isinstance(threshold, Certain):
        threshold = Certain(first=threshold.first, last=threshold.first)
    scale = None if isinstance(threshold, Fixed) or not selection.median else selection.median
    whole = replace(policy.selection, when=When.ALWAYS, threshold=threshold)
    grouped: Grouped = yield from group(candidates, whole, scale)
    repeated: Mask = grouped.heads[count:] < count
    return repeated

"""Reads a pool's rows and records from memory, and stores pools that came with vectors. Also:
requests that repeat an earlier one, and how many candidates their answers depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from vecsieve.adapters.contract import (
    Needs,
    Operation,
    Pool,
    Reply,
    Search,
    SearchCall,
)

from ...selection.policy import Certain, Linkage, Policy, Strategy
from ...selection.reading.memo import Memo
from ...selection.single import counts_clusters_alone
from ...selection.values import FloatVector, Indices, Metric, Selection
from ...telemetry.labels import MemoryRecall
from ..candidates import Record
from ..collections.learned import Lru
from ..fetch import Attempt
from .points import FeatureMemory
from .shelves import (
    Asked,
    Decided,
    Enough,
    Key,
    Matrix,
    Points,
    Recalled,
    Remembered,
    Repeat,
)

UNNAMED = ""  # the unnamed vector of a collection


def lean_needs(memory: FeatureMemory, collection: str, needs: Needs) -> Needs:
    """The needs without what memory has: vectors, and payload values if versions prove them."""
    has_records = memory.is_versioned(collection) and not needs.payload_fields
    return replace(needs, vectors=False, values=not has_records)


class Read(NamedTuple):
    """What is compared of a ``pool``: its rows, a record of each payload, and what is known of all rows, as in Candidates."""

    pool: Pool
    records: Sequence[Record]
    metric: Metric | None = None
    squares: Matrix | None = None


def learnt(memory: FeatureMemory, attempt: Attempt, search: Search, pool: Pool, records: tuple[Record, ...]) -> Read:
    """Store a pool that came with vectors. The pool returned has the rows that a later search will recall."""
    named = _points(attempt, search, pool)
    if named is None or pool.unusable == pool.size:
        return Read(pool, records)
    key, points = named
    collection = attempt.call.operation.collection
    known = records if _proves_records(attempt, pool) else None
    counts = attempt.rounds == 1 and not attempt.is_repeated
    now = memory.learn(collection, key, points, pool.vectors, known, counts=counts)
    if attempt.rounds == 1 and len(attempt.call.searches) == 1:
        attempt.known_until = now.until
    return Read(replace(pool, vectors=now.rows), records, now.metric, now.squares)


def _proves_records(attempt: Attempt, pool: Pool) -> bool:
    """Whether a point's payload values are the same in every pool while its version is the same."""
    return bool(pool.versions) and not pool.is_cut and not attempt.policy.tenant_keys


def _has_fields(attempt: Attempt) -> bool:
    """Whether the lean reply has the payload values that the policy reads."""
    return bool(attempt.call.needs.payload_fields or attempt.call.needs.optional_fields)


def asked_of(attempt: Attempt, reply: Reply, rest: Callable[[Attempt, Key], Hashable | None]) -> Asked | None:
    """The key of the selection from a lean reply's only pool; None if the selection may depend on more: on payload values that are not
    remembered, on a page's offset, or on a text allowance that a batch shares. ``rest``: other dependencies; None: unknown.
    """
    if len(reply.pools) != 1 or attempt.plan[0] is None or attempt.call.searches[0].pages or _has_fields(attempt):
        return None
    pool, search = reply.pools[0], attempt.call.searches[0]
    key = _key(attempt, search, pool)
    if key is None or search.query is None or (other := rest(attempt, key)) is None:
        return None
    return Asked.of(key, pool, search.query, other)


def complete(memory: FeatureMemory, attempt: Attempt) -> None:
    """Recall the rows and records of a pool that was decided without them, if memory still has them."""
    if attempt.decided is None or attempt.known or attempt.reply is None:
        return
    (pool,), (search,) = attempt.reply.pools, attempt.call.searches
    named = _points(attempt, search, pool)
    if named is None:
        return
    with_records = bool(attempt.policy.fields.heads)
    found = memory.recall(attempt.call.operation.collection, *named, counts=False, with_records=with_records)
    if found is not None:
        attempt.reply = replace(attempt.reply, pools=(_with_rows(pool, named[0], found),))
        attempt.known = (Remembered(found.records, found),)


def recalled(memory: FeatureMemory, attempt: Attempt, reply: Reply) -> Reply | None:
    """The reply with the rows that memory has for it; None if memory lacks any.

    Sets ``attempt.known`` and ``attempt.known_until``.
    """
    attempt.recall, attempt.known_until = MemoryRecall.WHOLE, None
    pools: list[Pool] = []
    known: list[Remembered | None] = []
    for search, pool, planned in zip(attempt.call.searches, reply.pools, attempt.plan, strict=True):
        if planned is None or not pool.size:
            pools.append(pool)
            known.append(None)
            continue
        named = _points(attempt, search, pool)
        found = None if named is None else _recalled(memory, attempt, named)
        if found is None or named is None:
            attempt.recall = MemoryRecall.NONE
            return None
        pools.append(_with_rows(pool, named[0], found))
        known.append(Remembered(None if _has_fields(attempt) else found.records, found))
    attempt.known = tuple(known)
    attempt.known_until = min([each.found.until for each in known if each is not None], default=None)
    return replace(reply, pools=tuple(pools))


def _recalled(memory: FeatureMemory, attempt: Attempt, named: tuple[Key, Points]) -> Recalled | None:
    return memory.recall(
        attempt.call.operation.collection,
        *named,
        counts=not (attempt.rounds or attempt.is_repeated),
        with_records=bool(attempt.policy.fields.heads) and not _has_fields(attempt),
    )


def _with_rows(pool: Pool, key: Key, found: Recalled) -> Pool:
    return replace(pool, vectors=found.rows, unusable=0, compared_by=key.vector)


def _key(attempt: Attempt, search: Search, pool: Pool) -> Key | None:
    """The key of points that a pool may be compared with; None if memory cannot know it."""
    if search.query is None or not pool.size or len(pool.ids) != pool.size:
        return None
    return Key(search.partition, pool.compared_by or UNNAMED, len(search.query), attempt.policy.fields)


def _points(attempt: Attempt, search: Search, pool: Pool) -> tuple[Key, Points] | None:
    """The pool's points as memory identifies them; None if it cannot."""
    key = _key(attempt, search, pool)
    if key is None or search.query is None:
        return None
    names = pool.ids
    if pool.versions:
        names = tuple([b"%s@%s" % pair for pair in zip(pool.ids, pool.versions, strict=True)])
    return key, Points(names, search.query, pool.scores)


# If queries follow Zipf's law, most searches repeat an earlier one. Once the same request has found the same pool twice, the next one asks
# only for the candidates on which its answer depends: for a page without copies that is the client's own request.
REQUESTS = 8192
# Such a request is not parsed again. The bound is for parsed requests, each with its bytes: 300 with 384 numbers, 80 with 1,536.
PARSED_BYTES = 8 << 20
_NEVER = float("-inf")


class _Answered(NamedTuple):
    """``quiet_ended``: the collection's value at that time. ``until``: when the points become too old; minus infinity if they are new every
    time. ``enough``: as in Repeat, trusted until ``looked_until``. None with such a time: the first candidates differed from those of the
    whole pool, and are not tried again before then.
    """

    quiet_ended: float
    until: float
    enough: Enough | None = None
    looked_until: float = _NEVER


class _Parsed(NamedTuple):
    needs: Needs
    call: SearchCall


def _parsed_bytes(body: bytes, _: _Parsed) -> int:
    """The request, its array of numbers once as text and once as floats, and the plan."""
    return 3 * len(body) + 4096


class Repeats:
    """Requests that were answered before and whose points memory could recall."""

    __slots__ = ("_held", "_memory", "_parsed")

    def __init__(self, memory: FeatureMemory) -> None:
        self._memory = memory
        self._held = Lru[tuple[str, int], _Answered](REQUESTS)
        self._parsed = Memo[bytes, _Parsed](PARSED_BYTES, _parsed_bytes)

    def parsed(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall | None:
        """The request as it was parsed before; None if it was not."""
        had = self._parsed.get(body)
        return had.call if had is not None and had.needs == needs and had.call.operation == operation else None

    def keep(self, body: bytes, needs: Needs, call: SearchCall) -> None:
        """Keep a repeated request for ``parsed``. ``needs``: with which it was parsed."""
        self._parsed.keep(body, _Parsed(needs, call))

    def of(self, collection: str, body: bytes) -> Repeat:
        at, digest = self._memory.quiet_ended(collection), hash(body)
        had = self._held.get((collection, digest))
        if at is None or had is None or had.quiet_ended != at or had.until == _NEVER:
            return Repeat(collection, digest, is_known=False, is_old=False)
        is_old = self._memory.is_past(had.until)
        enough = None if is_old or self._memory.is_past(had.looked_until) else had.enough
        return Repeat(collection, digest, is_known=not is_old, is_old=is_old, enough=enough)

    def answered(
        self, repeat: Repeat, *, has_until: float | None, enough: Enough | None = None, is_missed: bool = False
    ) -> None:
        """Record an answer. ``has_until``: until when memory trusts its points; None: memory lacked them. ``enough``: as in Repeat, as this
        answer has shown. ``is_missed``: the first candidates alone differed from those of the whole pool.
        """
        at, key = self._memory.quiet_ended(repeat.collection), (repeat.collection, repeat.digest)
        if at is None:
            return
        had = self._held.get(key)
        if has_until is None:
            if repeat.is_known:
                self._held.hold(key, _Answered(at, _NEVER))
        elif had is None or had.quiet_ended < at or had.until != _NEVER:
            looked_until = _NEVER if had is None or self._memory.is_past(had.looked_until) else had.looked_until
            if is_missed:
                enough, looked_until = None, self._memory.believed_until()
            elif had is not None and had.enough is None and looked_until != _NEVER:
                enough = None  # the first candidates differed a while ago
            elif enough is None or enough is not repeat.enough:
                looked_until = _NEVER if enough is None else self._memory.believed_until()
            self._held.hold(key, _Answered(at, has_until, enough, looked_until))


def candidates_needed(selection: Selection, scores: FloatVector, policy: Policy) -> int | None:
    """How many of the first candidates a full page depends on; None if it depends on the whole pool. ``scores``: (n,) of the pool.

    Of candidates with equal scores all are needed or none: which of them a smaller limit returns is random.

    Which candidate leads a cluster does not depend on those behind it. So candidates behind the last result only affect the typical
    distance, which is reused for a while (``Repeats``).
    """
    is_by_rank = policy.threshold is None or isinstance(policy.threshold, Certain) or policy.linkage is Linkage.LEADER
    if (
        not (is_by_rank and policy.representative is Strategy.RANK and policy.diversifier is None)
        or not (policy.caps.per_cluster == 1 and counts_clusters_alone(policy.caps))
        or selection.wanting
        or selection.restrained
        or not len(selection.keep)
    ):
        return None
    needed = int(selection.keep.max()) + 1
    while needed < len(scores) and scores[needed] == scores[needed - 1]:
        needed += 1
    return needed if needed < len(scores) else None


def identified(pool: Pool, order: Sequence[int]) -> Pool:
    """The identities of a pool's candidates in this order."""
    versions = tuple([pool.versions[place] for place in order]) if pool.versions else ()
    return replace(
        pool, ids=tuple([pool.ids[place] for place in order]), versions=versions, scores=pool.scores[list(order)]
    )


def settled_order(pool: Pool, count: int) -> list[int]:
    """The first ``count`` candidates, those with equal scores ordered by id: databases order them differently for every limit."""
    scores, ids = pool.scores[:count].tolist(), pool.ids
    if len(ids) < count or len(set(scores)) == count:
        return list(range(count))
    order: list[int] = []
    for _, tied in groupby(range(count), scores.__getitem__):
        order += sorted(tied, key=ids.__getitem__)
    return order


def begins_with(whole: Pool, part: Pool) -> bool:
    """Whether the first candidates of ``whole`` are those of ``part``."""
    order = settled_order(whole, part.size)
    return part.size <= whole.size and [whole.ids[place] for place in order] == [
        part.ids[place] for place in settled_order(part, part.size)
    ]


def arranged(decided: Decided, order: Sequence[int] | Indices) -> Decided:
    """The same selection with candidate ``order[p]`` at place p; candidates not in ``order`` are dropped. The page keeps its order, and the
    figures stay those of the whole pool.
    """
    chosen, taken = decided.selection, np.asarray(order, np.intp)
    places = np.zeros(len(chosen.labels), np.intp)
    places[taken] = np.arange(len(taken))
    labels = chosen.labels[taken]
    selection = replace(
        chosen,
        keep=places[chosen.keep],
        labels=labels,
        representative=places[chosen.representative[taken]],
        fates=chosen.fates[taken],
        distinct=int(labels.max()) + 1,
        links=chosen.links[taken],
        similarities=chosen.similarities[taken],
        cuts=chosen.cuts[taken],
        also=np.where(chosen.also[taken] >= 0, places[chosen.also[taken]], -1),
    )
    return decided._replace(selection=selection, slots=decided.slots[taken])

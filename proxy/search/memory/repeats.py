"""Requests that repeat an earlier one, and how many candidates their answers depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from vecsieve.adapters.contract import Pool
from vecsieve.proxy.search.collections.learned import Lru
from vecsieve.proxy.search.memory.points import FeatureMemory
from vecsieve.proxy.search.memory.values import Decided
from vecsieve.proxy.selection.policy import Certain, Linkage, Policy, Strategy
from vecsieve.proxy.selection.text.evidence import counts_clusters_alone
from vecsieve.proxy.selection.values import FloatVector, Indices, Selection

# Where questions follow Zipf's law, most searches repeat an earlier one. Once the same question has found the same pool twice, the next
# one asks for the candidates alone that its answer depends on: for a page without copies that is the client's own request.
REQUESTS = 8192
_NEVER = float("-inf")


class Enough(NamedTuple):
    """How many of the first candidates an answer by this ``policy`` depended on."""

    candidates: int
    policy: Policy


class Repeat(NamedTuple):
    """A request by its bytes. ``is_known``: memory has its points. ``is_old``: memory had them, and they are too old by now.

    ``enough``: for its last answer; None where the whole pool is to be looked at.
    """

    collection: str
    digest: int
    is_known: bool
    is_old: bool
    enough: Enough | None = None


class _Answered(NamedTuple):
    """``quiet_ended``: of the collection, at that time. ``until``: when the points are too old, minus infinity where they are new ones each
    time. ``enough``: as in Repeat, believed until ``looked_until``. None with such a time: the first candidates were others than those of the
    whole pool, and are not tried again before.
    """

    quiet_ended: float
    until: float
    enough: Enough | None = None
    looked_until: float = _NEVER


class Repeats:
    """Requests that were answered before, and whose points memory could recall then."""

    __slots__ = ("_held", "_memory")

    def __init__(self, memory: FeatureMemory) -> None:
        self._memory = memory
        self._held = Lru[tuple[str, int], _Answered](REQUESTS)

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
        """Memory has its points, and believes them until then; None: it lacked them. ``enough``: as in Repeat, as this answer has shown.
        ``is_missed``: the first candidates alone were not those of the whole pool.
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
                enough = None  # it was missed a while ago
            elif enough is None or enough is not repeat.enough:
                looked_until = _NEVER if enough is None else self._memory.believed_until()
            self._held.hold(key, _Answered(at, has_until, enough, looked_until))


def candidates_needed(selection: Selection, scores: FloatVector, policy: Policy) -> int | None:
    """How many of the first candidates a full page depends on; None where it depends on all of the pool. ``scores``: (n,) of the pool.

    Of candidates with one score all are needed or none: which of them a smaller limit gives is chance.

    Who leads a cluster does not depend on those behind it. So those behind the last result matter for the typical distance alone, which
    is taken as it was for a while (``Repeats``).
    """
    is_by_rank = isinstance(policy.threshold, Certain) or policy.linkage is Linkage.LEADER
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
    """The candidates of a pool in this order, by what identifies them."""
    versions = tuple([pool.versions[place] for place in order]) if pool.versions else ()
    return replace(
        pool, ids=tuple([pool.ids[place] for place in order]), versions=versions, scores=pool.scores[list(order)]
    )


def settled_order(pool: Pool, count: int) -> list[int]:
    """The first ``count`` candidates, those of one score by their ids: databases order them anew for every limit."""
    scores, ids = pool.scores[:count].tolist(), pool.ids
    if len(ids) < count or len(set(scores)) == count:
        return list(range(count))
    order: list[int] = []
    for _, tied in groupby(range(count), scores.__getitem__):
        order += sorted(tied, key=ids.__getitem__)
    return order


def begins_with(whole: Pool, part: Pool) -> bool:
    """Whether the first candidates of the ``whole`` are those of the ``part``."""
    order = settled_order(whole, part.size)
    return part.size <= whole.size and [whole.ids[place] for place in order] == [
        part.ids[place] for place in settled_order(part, part.size)
    ]


def arranged(decided: Decided, order: Sequence[int] | Indices) -> Decided:
    """The same with candidate ``order[p]`` of it at place p; those that are not in ``order`` are left out. The page keeps its
    order, and the figures stay those of the whole pool.
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
        vetoes=chosen.vetoes[taken],
    )
    return decided._replace(selection=selection, slots=decided.slots[taken])

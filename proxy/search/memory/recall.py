"""What memory has of a search: its request without vectors, the reply completed with rows, and requests that repeat an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from vecsieve.adapters.contract import Needs, Operation, Pool, Reply, Search, SearchCall

from ...telemetry.labels import MemoryRecall
from ..collections.learned import Lru
from ..fetch import Attempt
from .points import FeatureMemory, Key, Points, Repeat, Rows

UNNAMED = ""  # the unnamed vector of a collection
REQUESTS = 8192
_NEVER = float("-inf")


class _Answered(NamedTuple):
    """``quiet_ended``: the collection's value at that time. ``until``: when the points become too old; minus infinity if memory lacked points of a
    request that it had answered before: they are new every time.
    """

    quiet_ended: float
    until: float


class Recall:
    """The feature memory, as searches use it. If queries follow Zipf's law, most searches repeat an earlier one, and memory has its points even
    where it lacks those of most other searches.
    """

    __slots__ = ("_memory", "_requests")

    def __init__(self, memory: FeatureMemory) -> None:
        self._memory = memory
        self._requests = Lru[tuple[str, int], _Answered](REQUESTS)

    def lean(
        self,
        operation: Operation,
        body: bytes,
        needs: Needs,
        read: Callable[[Needs], SearchCall],
        *,
        is_settled: bool = True,
    ) -> tuple[SearchCall | None, Repeat]:
        """The same call without vectors, if memory probably has them; else None. Raises UnsupportedError. ``is_settled``: whether the collection's
        texts are known; else its vectors show them.
        """
        repeat = Repeat(hash(body), is_known=False)
        had = self._answered(operation.collection, repeat)
        if had is not None and not self._memory.is_past(had.until):
            repeat = repeat._replace(is_known=True)
        if not is_settled or not (repeat.is_known or self._memory.is_promising(operation.collection)):
            return None, repeat
        lean = read(replace(needs, vectors=False))
        # For a search by anything but a dense vector, rows mean nothing in another pool.
        return (lean if all(each.query is not None for each in lean.searches) else None), repeat

    def recalled(self, attempt: Attempt, reply: Reply) -> Reply | None:
        """The reply with the rows that memory has for it; None if memory lacks any. Sets ``attempt.known``."""
        pools = list(reply.pools)
        known: list[Rows | None] = []
        collection, counts = attempt.call.operation.collection, not (attempt.rounds or attempt.is_repeated)
        rows = zip(attempt.call.searches, reply.pools, attempt.plan, strict=True)
        for place, (search, pool, planned) in enumerate(rows):
            found = None
            if planned is not None and pool.size:
                named = _named(search, pool)
                found = None if named is None else self._memory.recall(collection, *named, counts=counts)
                if found is None or named is None:
                    attempt.recall = MemoryRecall.NONE
                    self._hold(attempt, _NEVER if attempt.is_repeated else None)
                    return None
                pools[place] = replace(pool, vectors=found.rows, unusable=0, compared_by=named[0].vector)
            known.append(found)
        attempt.recall, attempt.known = MemoryRecall.WHOLE, tuple(known)
        self._hold(
            attempt, min([each.until for each in known if each is not None and each.until is not None], default=None)
        )
        return replace(reply, pools=tuple(pools))

    def learnt(self, attempt: Attempt, search: Search, pool: Pool) -> Rows | None:
        """Store a pool that came with vectors; its rows as a later search will recall them. None if it cannot be stored."""
        named = _named(search, pool)
        if named is None or pool.unusable == pool.size:
            return None
        counts = attempt.rounds == 1 and not attempt.is_repeated
        now = self._memory.learn(attempt.call.operation.collection, *named, pool.vectors, counts=counts)
        self._hold(attempt, now.until)
        return now

    def _hold(self, attempt: Attempt, until: float | None) -> None:
        """Note that memory has the points of a request until then; None if it has not. What it lacked once is not tried again."""
        repeat, operation = attempt.repeat, attempt.call.operation
        if repeat is None or until is None or attempt.rounds > 1 or len(attempt.call.searches) > 1:
            return
        at, had = self._memory.quiet_ended(operation.collection), self._answered(operation.collection, repeat)
        if at is not None and (had is None or had.until != _NEVER):
            self._requests.hold((operation.collection, repeat.digest), _Answered(at, until))

    def _answered(self, collection: str, repeat: Repeat) -> _Answered | None:
        """The entry of a request since the collection was forgotten."""
        had = self._requests.get((collection, repeat.digest))
        return had if had is not None and had.quiet_ended == self._memory.quiet_ended(collection) else None


def _named(search: Search, pool: Pool) -> tuple[Key, Points] | None:
    """The pool's points as memory identifies them; None if it cannot."""
    if search.query is None or not pool.size or len(pool.ids) != pool.size:
        return None
    names = pool.ids
    if pool.versions:
        names = tuple([b"%s@%s" % pair for pair in zip(pool.ids, pool.versions, strict=True)])
    key = Key(search.partition, pool.compared_by or UNNAMED, len(search.query))
    return key, Points(names, search.query, pool.scores, bool(pool.versions))

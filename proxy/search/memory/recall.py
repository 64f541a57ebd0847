"""What memory has of a search: its request without vectors, the reply completed with rows, and requests that repeat an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from vecsieve.adapters.contract import Needs, Operation, Pool, Reply, Search, SearchCall

from ..collections.learned import Lru
from ..pools.values import Planned
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
        return (lean if all(search.query is not None for search in lean.searches) else None), repeat

    def recalled(self, planned: Planned, reply: Reply, *, rounds: int) -> tuple[Reply, tuple[Rows | None, ...]] | None:
        """The reply with the rows that memory has for it, and these by search; None if memory lacks any. ``rounds``: how many there were before."""
        pools = list(reply.pools)
        known: list[Rows | None] = []
        is_repeated = planned.repeat is not None and planned.repeat.is_known
        collection, counts = planned.call.operation.collection, not (rounds or is_repeated)
        for place, (search, pool, size) in enumerate(
            zip(planned.call.searches, reply.pools, planned.plan, strict=True)
        ):
            rows = None
            if size is not None and pool.size:
                named = _named(search, pool)
                rows = None if named is None else self._memory.recall(collection, *named, counts=counts)
                if rows is None or named is None:
                    self._note(planned, _NEVER if is_repeated else None, rounds)
                    return None
                pools[place] = replace(pool, vectors=rows.rows, unusable=0, compared_by=named[0].vector)
            known.append(rows)
        until = min([rows.until for rows in known if rows is not None and rows.until is not None], default=None)
        self._note(planned, until, rounds)
        return replace(reply, pools=tuple(pools)), tuple(known)

    def learnt(self, planned: Planned, search: Search, pool: Pool, *, rounds: int) -> Rows | None:
        """Store a pool that came with vectors; its rows as a later search will recall them. None if it cannot be stored. ``rounds``: with this
        one.
        """
        named = _named(search, pool)
        if named is None or pool.unusable == pool.size:
            return None
        counts = rounds == 1 and not (planned.repeat is not None and planned.repeat.is_known)
        now = self._memory.learn(planned.call.operation.collection, *named, pool.vectors, counts=counts)
        self._note(planned, now.until, rounds)
        return now

    def _note(self, planned: Planned, until: float | None, rounds: int) -> None:
        """Note that memory has the points of a request until then; None if it has not. What it lacked once is not tried again."""
        repeat, operation = planned.repeat, planned.call.operation
        if repeat is None or until is None or rounds > 1 or len(planned.call.searches) > 1:
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

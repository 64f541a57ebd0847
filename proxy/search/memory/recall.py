"""What memory has of a search: its lean request, the reply completed from memory, the decision about a whole pool, and what the next such request
needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace

import numpy as np

from vecsieve.adapters.contract import Adapter, Needs, Operation, Reply, SearchCall

from ...selection.policy import Policy
from ...telemetry.labels import MemoryRecall
from ..fetch import Attempt, Fetch
from ..report import figures
from .lookups import (
    Repeats,
    arranged,
    asked_of,
    begins_with,
    candidates_needed,
    identified,
    lean_needs,
    recalled,
    settled_order,
)
from .points import FeatureMemory
from .shelves import Asked, Decided, Enough, Key, Repeat

Scaled = Callable[[Attempt, str | None, int], tuple[Policy, float | None]]
"""The policy of a collection, and the distance at which its threshold is evaluated."""
Fetched = Callable[[Attempt, Fetch, tuple[int, ...]], Awaitable[Reply]]
"""Fetches a reply with so many candidates."""


class Recall:
    """Memory, as the searches of one adapter use it."""

    __slots__ = ("_adapter", "_memory", "_repeats", "_scaled")

    def __init__(self, adapter: Adapter, memory: FeatureMemory, scaled: Scaled) -> None:
        self._adapter, self._memory, self._scaled = adapter, memory, scaled
        self._repeats = Repeats(memory)

    def lean(
        self,
        operation: Operation,
        body: bytes,
        needs: Needs,
        parse: Callable[[Needs], SearchCall],
        *,
        is_settled: bool = True,
    ) -> tuple[SearchCall | None, Repeat]:
        """The same call without what memory probably has; None if everything must be fetched. Raises UnsupportedError. ``is_settled``: whether the
        fields that it reads are known.
        """
        repeat = self._repeats.of(operation.collection, body)
        if repeat.is_old or not is_settled or not (repeat.is_known or self._memory.is_promising(operation.collection)):
            return None, repeat
        needs = lean_needs(self._memory, operation.collection, needs)
        lean = self._repeats.parsed(operation, body, needs) if repeat.is_known else None
        if lean is None:
            lean = parse(needs)
            if repeat.is_known:
                self._repeats.keep(body, needs, lean)
        # For a search by anything but a dense vector, rows mean nothing in another pool. Payload values that a client excludes are not
        # compared just because another client's search fetched them.
        may_recall = all(each.query is not None and (needs.values or not each.is_cut) for each in lean.searches)
        return (lean if may_recall else None), repeat

    async def fetched(
        self, attempt: Attempt, fetch: Fetch, sizes: tuple[int, ...], fetched: Fetched
    ) -> tuple[tuple[int, ...], Reply, Asked | None, Decided | None]:
        """The reply to a lean request, completed; how many candidates it has, and the remembered selection from it. ``sizes``: candidates of a lean
        request. ``fetched``: fetches a reply.
        """
        assert attempt.spare is not None  # noqa: S101 - a lean request has one
        reply = await fetched(attempt, fetch, sizes)
        asked, decided = self._decided(attempt, reply)
        if decided is None and attempt.enough is not None:
            part, attempt.enough = reply.pools[0], None
            reply = await fetched(attempt, fetch, sizes := attempt.first_sizes)
            attempt.is_missed = not begins_with(reply.pools[0], part)
            asked, decided = self._decided(attempt, reply)
        if decided is None:
            whole = recalled(self._memory, attempt, reply)
            if whole is None:
                attempt.call, attempt.spare, attempt.stock, attempt.known = attempt.spare(), None, None, ()
                asked, whole = None, await fetched(attempt, fetch, sizes)
            reply = whole
        return sizes, reply, asked, decided

    def _decided(self, attempt: Attempt, reply: Reply) -> tuple[Asked | None, Decided | None]:
        """The key of the selection from a lean reply, and the remembered selection with this key. It needs no rows and no payload values."""
        is_part = attempt.enough is not None
        order = settled_order(reply.pools[0], reply.pools[0].size) if is_part else []
        is_settled = order == list(range(len(order)))
        known = reply if is_settled else replace(reply, pools=(identified(reply.pools[0], order),))
        asked = asked_of(attempt, known, self._rest)
        if asked is None:
            return None, None
        counts = not (attempt.rounds or attempt.is_repeated)
        decided = self._memory.decided(attempt.call.operation.collection, asked, counts=counts, is_part=is_part)
        if decided is not None:
            attempt.recall, attempt.known_until = MemoryRecall.WHOLE, decided.until
            if not is_settled:
                decided = arranged(decided, np.argsort(order))
        return asked, decided

    def decide(self, attempt: Attempt) -> None:
        """Remember a selection that depends on its key only."""
        asked = attempt.asked
        known = attempt.known[0] if len(attempt.known) == 1 else None
        if asked is None or known is None or known.records is None or attempt.reply is None:
            return
        (search,), (pool,), (selection,) = attempt.call.searches, attempt.reply.pools, attempt.selections
        if asked.rest != self._rest(attempt, asked.key):
            return  # the scale changed while a lookup was in progress
        policy, found = attempt.policy.selection, known.found
        attempt.decided = Decided(selection, figures(search, pool, selection), policy, found.slots, found.until)
        self._memory.decide(attempt.call.operation.collection, asked, attempt.decided)

    def answered(self, attempt: Attempt, repeat: Repeat) -> None:
        """Learn from an answer what the next such request needs."""
        lacked = attempt.is_repeated and attempt.recall is MemoryRecall.NONE
        has_until = None if lacked else attempt.known_until
        self._repeats.answered(repeat, has_until=has_until, enough=self._enough(attempt), is_missed=attempt.is_missed)

    def _enough(self, attempt: Attempt) -> Enough | None:
        """How many candidates the next such request needs. Known once the same pool was found again, as ``attempt.known`` shows."""
        if attempt.enough is not None and attempt.repeat is not None:
            return attempt.repeat.enough
        asked, decided = attempt.asked, attempt.decided
        if asked is None or decided is None or attempt.known or attempt.rounds > 1:
            return None
        query = attempt.call.searches[0].query
        if query is None or attempt.reply is None:
            return None
        (pool,) = attempt.reply.pools
        needed = candidates_needed(decided.selection, pool.scores, decided.policy)
        if needed is None:
            return None
        order = settled_order(pool, needed)
        part = Asked.of(asked.key, identified(pool, order), query, asked.rest)
        self._memory.decide(attempt.call.operation.collection, part, arranged(decided, order), is_part=True)
        return Enough(needed, decided.policy)

    def _rest(self, attempt: Attempt, key: Key) -> Hashable | None:
        """What a selection depends on besides the pool; None if the policy is made for the collection only."""
        policy = attempt.policy.selection
        chosen, scale = self._scaled(attempt, key.vector, key.dimension)
        return (attempt.call.searches[0].top_k, id(policy), scale) if chosen is policy else None

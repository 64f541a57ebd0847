"""How many candidates a collection's pages need: begin with few, take more while pages want more, and fewer when they do not.

For backends that bill the bytes of their replies. One size up after each page that its first pool could not fill with
distinct results; one size down after 32 pages in a row that the smaller pool would have filled as well. What is learned is
one small number a collection: a wrong one costs a second request or some bytes, never a result.

For all backends: where pages keep wanting the grown pool, it is fetched at once, because two reads cost a client's rate limit
twice and one large read once. What is selected is what growing would have selected: the small pool is tried first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from vecsieve.adapters.contract import Operation, Search, SearchCall
from vecsieve.proxy.fetching import may_grow, next_size
from vecsieve.proxy.resolved import ResolvedPolicy
from vecsieve.proxy.search import Attempt, Plan, size_of
from vecsieve.proxy.selection.values import Selection

START = 2.0  # candidates per result: pages without copies need 1, and half a pool of copies is rare
GROWTH = 1.5  # 2, 3, 4.5, then the usual factor of 5: three hungry pages reach it
CALM = 32  # pages: one in thirty that wants more makes a second request cheaper than always fetching more
RECENT, OFTEN = (
    16,
    4,
)  # pages, and how many of them wanted more: one in four makes fetching ahead cheaper than a third read
ENTRIES = 1024  # collections remembered: about 200 kB


@dataclass(slots=True)
class _State:
    """``step``, ``calm``: of adaptive pools. ``wants``: of the last pages that are not paged, whether each wanted a grown pool.
    ``depth``, ``shallow``: how often paged ones had to grow, and how many in a row needed less.
    """

    step: int = 0
    calm: int = 0
    wants: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    depth: int = 0
    shallow: int = 0


class Appetite:
    """Of one process. At most ``entries`` collections; the one used longest ago begins anew."""

    __slots__ = ("_entries", "_held")

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._held: OrderedDict[tuple[str, str], _State] = OrderedDict()

    def factor(self, operation: Operation, policy: ResolvedPolicy) -> float | None:
        """Candidates per result for this collection's next search; None where the policy's own factor holds."""
        if not _applies(policy):
            return None
        state = self._held.get(_key(operation))
        return factor_at(0 if state is None else state.step, policy)

    def ahead(
        self, call: SearchCall, plan: Plan, policy: ResolvedPolicy, *, cap: int | None, is_spare: bool
    ) -> tuple[int, ...]:
        """How many candidates to fetch at once per search; () for as many as are planned. ``is_spare``: whether there is
        room in the budget for a second read, which then waits until it is wanted.
        """
        state = self._held.get(_key(call.operation))
        if state is None:
            return ()
        single = 0 if is_spare else int(sum(state.wants) >= OFTEN)
        sizes = tuple(
            0 if size is None else _after(search, size, policy, cap, steps=state.depth if search.pages else single)
            for search, size in zip(call.searches, plan, strict=True)
        )
        return () if sizes == tuple(size or 0 for size in plan) else sizes

    def wanted(self, attempt: Attempt) -> None:
        """Learn from an answered attempt how often its pool had to grow, or would have had to."""
        state = self._state(attempt.call.operation)
        if not any(search.pages for search in attempt.call.searches):
            state.wants.append(attempt.wanted > 0)
            return
        state.shallow = 0 if attempt.wanted >= state.depth else state.shallow + 1
        if state.shallow == CALM:
            state.depth, state.shallow = state.depth - 1, 0
        state.depth = max(state.depth, attempt.wanted)

    def saw(self, attempt: Attempt, *, cap: int | None) -> None:
        """Learn from an answered attempt. ``cap``: the one that its plan was made with."""
        if not _applies(attempt.policy):
            return
        rows = zip(attempt.call.searches, attempt.selections, attempt.plan, attempt.exhausted, strict=True)
        for search, selection, planned, exhausted in rows:
            if planned is not None and not search.pages:
                self._page(attempt, search, selection, cap=cap, exhausted=exhausted)

    def __len__(self) -> int:
        return len(self._held)

    def _page(
        self, attempt: Attempt, search: Search, selection: Selection, *, cap: int | None, exhausted: bool
    ) -> None:
        policy, state = attempt.policy, self._state(attempt.call.operation)
        state.step = min(state.step, _last_step(policy))
        if attempt.factor != factor_at(state.step, policy):
            return  # planned before others in flight moved the step: its word is heard already
        sizes = [_size(search, policy, cap, step) for step in range(_last_step(policy) + 1)]
        now = sizes[state.step]
        # Floor, cap and buckets make one size of several steps: such a step would change nothing for this search.
        if _wants_more(selection, now, exhausted=exhausted):
            state.step = next((step for step, size in enumerate(sizes) if size > now), state.step)
            state.calm = 0
        elif sizes[0] < now:
            less = max(step for step, size in enumerate(sizes) if size < now)
            state.calm = state.calm + 1 if _depth(selection) <= sizes[less] else 0
            if state.calm == CALM:
                state.step, state.calm = less, 0

    def _state(self, operation: Operation) -> _State:
        key = _key(operation)
        state = self._held.setdefault(key, _State())
        self._held.move_to_end(key)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)
        return state


def factor_at(step: int, policy: ResolvedPolicy) -> float:
    """Candidates per result on a step, 0 being the first: from 2, or less where the policy says less, to the policy's own."""
    return float(min(START * GROWTH**step, policy.fetch.factor))


def _after(search: Search, size: int, policy: ResolvedPolicy, cap: int | None, *, steps: int) -> int:
    """The pool after so many steps of growing."""
    for _ in range(steps if may_grow(search, policy) else 0):
        size = next_size(search, size, policy, cap)
    return size


def _last_step(policy: ResolvedPolicy) -> int:
    step = 0
    while factor_at(step, policy) < policy.fetch.factor:
        step += 1
    return step


def _applies(policy: ResolvedPolicy) -> bool:
    """Not where the client named a number; nor where a diversifier chooses from the whole pool: its page does not tell how
    much of the pool was enough.
    """
    return policy.fetch.adaptive and policy.fetch.exact is None and policy.selection.diversifier is None


def _size(search: Search, policy: ResolvedPolicy, cap: int | None, step: int) -> int:
    """The first pool on a step; the page itself where there is no room for more."""
    size = size_of(search, policy, cap, factor_at(step, policy))
    return search.top_k if size is None else size


def _wants_more(selection: Selection, size: int, *, exhausted: bool) -> bool:
    """Whether the first pool was too small, and a larger one would have held more."""
    return (selection.wanting > 0 and not exhausted) or _depth(selection) > size


def _depth(selection: Selection) -> int:
    """How many candidates from the top hold all results."""
    return int(selection.keep.max(initial=-1)) + 1


def _key(operation: Operation) -> tuple[str, str]:
    return operation.backend, operation.collection

"""How many candidates to ask for. Sizes come in steps, so that similar requests search the index identically.

Qdrant's beam is max(hnsw_ef, limit): limits of 50 and 51 may find different neighbours. With steps, a client that repeats a request with a
slightly different top_k, or reads pages, gets the same candidates.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vecsieve.adapters.contract import (
    UNBOUNDED,
    Bounds,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    Reply,
    Search,
    SearchCall,
)

from ..selection.paged import BLOCK
from ..selection.policy import Short
from ..selection.values import Selection
from ..telemetry.labels import CollapsedIn, FailOpen, MemoryRecall
from ..telemetry.tracing import Stopwatch
from .budgets import HeldReads
from .candidates import asked_for
from .collections.learned import Lru, key_of
from .collections.texts import NO_TEXT_NEEDS, TextNeeds
from .errors import RejectedReplyError
from .limits import Hold
from .memory.fetches import VectorFetches
from .memory.shelves import Asked, Decided, Remembered, Repeat
from .policy import ResolvedPolicy

# Ten per decade, powers of two where they fit. 24 and 50 are the sizes used in the measurements.
_SMALL = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80)
_DECADE = (100, 128, 160, 200, 256, 320, 400, 512, 640, 800)
_GROWTH = 4  # one step from too few to plenty; the cap bounds the second fetch as well
_PAGE_SHARE = 2  # a paged pool holds twice what the pages so far show: half may be duplicates before it must grow


def fetch_k(top_k: int, *, policy: ResolvedPolicy, cap: int | None, factor: float | None = None) -> int:
    """The first pool of an unpaged search; ``top_k`` when it may not be larger.

    ``cap``: the largest limit the backend accepts, None when unknown. ``factor``: replaces the policy's if smaller. A number that the
    client named is used unchanged.
    """
    fetch = policy.fetch
    wanted = fetch.exact
    if wanted is None:
        most = fetch.factor if factor is None else min(factor, fetch.factor)
        wanted = bucket(max(math.ceil(most * top_k), fetch.floor))
    return max(min(wanted, _ceiling(fetch.cap, cap)), top_k)


def grown_fetch_k(size: int, *, policy: ResolvedPolicy, cap: int | None) -> int:
    """The next pool after ``size`` was too small; ``size`` when it may not grow."""
    if policy.fetch.exact is not None:
        return size
    return max(min(bucket(_GROWTH * size), _ceiling(policy.fetch.cap, cap)), size)


def page_fetch_k(top_k: int, offset: int, *, policy: ResolvedPolicy, cap: int | None) -> int | None:
    """The first pool of a paged search; None when the page is deeper than may be fetched.

    Pools are whole blocks, because the deduplicated list is made of blocks: a deeper pool gives the same list. A number
    the client named is only a minimum here.
    """
    window = offset + top_k
    wanted = _blocks(max(_PAGE_SHARE * window, policy.fetch.exact or 0, 1))
    size = min(wanted, _block_ceiling(policy, cap))
    return size if size >= window else None


def grown_page_fetch_k(size: int, *, policy: ResolvedPolicy, cap: int | None) -> int:
    """The next paged pool after ``size``; ``size`` when it may not grow."""
    return max(min(_blocks(_GROWTH * size), _block_ceiling(policy, cap)), size)


def fitted(searches: Sequence[Search], planned: tuple[int | None, ...], room: int) -> tuple[int | None, ...] | None:
    """The plan reduced to at most ``room`` candidates; None if that is impossible. Only a single search is reduced, and only if more than
    its page is left.
    """
    if sum([size or 0 for size in planned]) <= room:
        return planned
    if len(searches) > 1:
        return None
    (search,) = searches
    size = room // BLOCK * BLOCK if search.pages else room
    return (size,) if size > search.offset + search.top_k else None


def enough_of(repeat: Repeat | None, call: SearchCall, planned: Plan, policy: ResolvedPolicy) -> int | None:
    """How many candidates to fetch instead of the plan, because the last answer to the same request depended on no more; None for the plan."""
    enough = None if repeat is None else repeat.enough
    if enough is None or enough.policy is not policy.selection or policy.tells_collapsed is not CollapsedIn.OFF:
        return None  # the answer also reports the copies behind
    (search,), (size,) = call.searches, planned
    return enough.candidates if size is not None and search.offset + search.top_k <= enough.candidates < size else None


def may_grow(search: Search, policy: ResolvedPolicy) -> bool:
    # A page beyond the first needs all representatives before it: without growth, pages would repeat results.
    return search.pages or policy.selection.short in {Short.GROW_THEN_FILL, Short.GROW_THEN_REPEAT}


def next_size(search: Search, size: int, policy: ResolvedPolicy, cap: int | None) -> int:
    """The pool after ``size``; ``size`` when it may not grow."""
    cap = least(cap, search.most)
    if search.pages:
        return grown_page_fetch_k(size, policy=policy, cap=cap)
    return grown_fetch_k(size, policy=policy, cap=cap)


def least(one: int | None, other: int | None) -> int | None:
    """The smaller of two caps; None means unknown."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def bucket(wanted: int) -> int:
    """The smallest step >= ``wanted`` (at least 1): …, 24, 32, 40, 50, 64, 80, 100, 128, …, 800, 1000, 1280, …"""
    for step in _SMALL:
        if step >= wanted:
            return step
    scale = 1
    while _DECADE[-1] * scale < wanted:
        scale *= 10
        if _DECADE[0] * scale >= wanted:
            return _DECADE[0] * scale
    return next(step * scale for step in _DECADE if step * scale >= wanted)


def _ceiling(own: int, backend: int | None) -> int:
    return own if backend is None else min(own, backend)


def _blocks(wanted: int) -> int:
    return -(-wanted // BLOCK) * BLOCK


def _block_ceiling(policy: ResolvedPolicy, cap: int | None) -> int:
    """Rounded down: candidates after the last whole block are used only when the backend has no more."""
    return _ceiling(policy.fetch.page_cap, cap) // BLOCK * BLOCK


Fetch = Callable[[bytes], Awaitable[bytes]]
"""Sends a widened request and returns the body of a 2xx answer; raises RejectedReplyError for everything else."""


Plan = tuple[int | None, ...]
"""The first pool's size for each search; None for a search that cannot be widened and is sent unchanged."""


class Overlap(NamedTuple):
    """Two results that are overlapping chunks, by their rows in the pool. ``share``: of the shorter one; 0.0 if they only touch."""

    first: int
    second: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The lists of a divided fusion. ``distinct``: for each list, the places of its representatives; ``is_long``: whether the replies were
    large.
    """

    replies: tuple[Reply, ...]
    distinct: tuple[Sequence[int], ...]
    is_long: bool

    @property
    def pools(self) -> list[Pool]:
        """The lists, in the order of the fusion."""
        return [pool for reply in self.replies for pool in reply.pools]


@dataclass(slots=True, kw_only=True)
class Attempt:
    """The state of one call's widened searches. Mutable, because fallbacks answer from what was fetched.

    ``collection``: the name by which its texts are learned; "" for none. ``factor``: replaces the policy's in the plan; None: the policy's.
    ``spare``: the same call with vectors, if ``call`` requests none
    because memory probably has them; else None. ``recall``: how much memory had. ``known``: per search, what memory has of
    its points, None if the reply has it; () for none. ``asked``: the key of the pool's selection in memory; ``decided``: the selection that
    memory has for it. ``lookups``: fetches vectors by id, None if not needed. ``candidate_bytes``: expected size of one candidate.
    ``reply_bytes``: size of the last reply. ``ahead``: candidates per search to fetch at once when growth is expected; () for the plan.
    ``enough``: candidates on which the last answer to the same request depended, fetched instead of the plan; None for the plan.
    ``is_missed``: those candidates have changed. ``stock``: the last reply, and ``stocked`` its sizes. ``wanted``: how often pages needed a
    larger pool. ``is_divided``: the replies were the lists of a fusion, so their size is not that of one search; ``lists``: these lists.
    ``renewed``: the selections with new results in front; () if that is not requested.

    ``reason``: why the answer is plain; None if it is not. ``received_bytes``: body bytes of all replies, refused ones included.
    ``is_declined``: a widened request was refused as a client error of unknown cause, perhaps its size. ``refusal``: a quota refusal that
    the transport calls a success. ``is_raced``: the original may be sent beside the widened request; ``is_reserved``: the budget holds a
    read for it; ``is_late``: the time for it has come; ``is_hedged``: it was sent. ``room``: for replies; None when nothing is sent.
    ``deadline``: of the last widened request and its lookups, on the process's clock; 0 before the first. ``repeat``: the request's entry
    in memory. ``known_until``: until when memory can recall all that was fetched; None if it cannot, or did not learn it. ``held``: reads
    that the budget reserves for what memory may lack. ``is_noted``: the answer itself lists the copies of its results. ``given``: digests
    of results of earlier turns of the session. ``overlapping``: per search, if overlaps are reported.
    """

    call: SearchCall
    collection: str = ""
    spare: Callable[[], SearchCall] | None = None
    recall: MemoryRecall | None = None
    repeat: Repeat | None = None
    known_until: float | None = None
    known: tuple[Remembered | None, ...] = ()
    asked: Asked | None = None
    decided: Decided | None = None
    lookups: VectorFetches | None = None
    policy: ResolvedPolicy
    plan: Plan
    watch: Stopwatch
    factor: float | None = None
    candidate_bytes: int = 0
    ahead: tuple[int, ...] = ()
    enough: int | None = None
    is_missed: bool = False
    stock: Reply | None = None
    stocked: tuple[int, ...] = ()
    wanted: int = 0
    sizes: tuple[int, ...] = ()
    reply: Reply | None = None
    selections: tuple[Selection, ...] = ()
    renewed: tuple[Selection, ...] = ()
    exhausted: tuple[bool, ...] = ()
    rounds: int = 0
    is_divided: bool = False
    lists: Lists | None = None
    fetched_bytes: int = 0
    reply_bytes: int = 0
    reason: FailOpen | None = None
    received_bytes: int = 0
    is_declined: bool = False
    refusal: bytes | None = None
    is_raced: bool = False
    is_reserved: bool = False
    is_late: bool = False
    is_hedged: bool = False
    deadline: float = 0.0
    held: HeldReads | None = None
    is_noted: bool = False
    overlapping: tuple[tuple[Overlap, ...], ...] = ()
    given: frozenset[bytes] = frozenset()
    room: Hold | None = None

    @property
    def first_sizes(self) -> tuple[int, ...]:
        """How many candidates the first request asks for in each search."""
        if self.enough is not None:
            return (self.enough,)
        # 0, not the page's end: a page at rank 100,000 would fetch everything before it, vectors included.
        return tuple([0 if planned is None else planned for planned in self.plan])

    @property
    def is_repeated(self) -> bool:
        return self.repeat is not None and self.repeat.is_known

    @property
    def shown(self) -> tuple[Selection, ...]:
        """The selections of the answer, before token budgets."""
        return self.renewed or self.selections

    def received(self, size: int) -> None:
        self.received_bytes += size
        if self.room is not None:
            self.room.came(size)

    def failed(self, error: Exception) -> None:
        """Record the reason of the first failure: later failures follow from it."""
        if self.reason is not None:
            return
        if isinstance(error, RejectedReplyError):
            self.reason = error.reason
        elif isinstance(error, MalformedReplyError):
            self.reason = FailOpen.MALFORMED
        else:
            self.reason = FailOpen.MEMORY if isinstance(error, MemoryError) else FailOpen.INTERNAL

    def release(self) -> None:
        """Release the reply bytes and the reads that were reserved."""
        if self.room is not None:
            self.room.release()
        if self.held is not None:
            self.held.release()

    @property
    def has_asked(self) -> bool:
        """Whether a widened request was sent."""
        return self.deadline > 0.0


def needs_of(
    policy: ResolvedPolicy,
    hint: str | None,
    *,
    known: object | None = None,
    bounds: Bounds = UNBOUNDED,
    texts: TextNeeds = NO_TEXT_NEEDS,
) -> Needs:
    """What the adapter must fetch for this policy. ``hint``: the vector by which earlier replies were compared. ``known``, ``bounds``:
    as in Needs. ``texts``: what is needed to find them.
    """
    must, may = asked_for(policy.tenant_keys, policy.fields)
    return Needs(
        vector_name=policy.vector,
        vector_hint=hint,
        lookups=policy.fetch.lookups,
        payload_fields=must,
        optional_fields=may,
        seen_fields=tuple([key for key in texts.seen if key in may]),
        whole=texts.whole,
        known=known,
        bounds=bounds,
    )


def plan(call: SearchCall, policy: ResolvedPolicy, cap: int | None, *, factor: float | None = None) -> Plan | None:
    """Candidates to fetch per search; None when no search of the call can be widened.

    ``cap``: the largest limit that the backend accepts for this collection. ``factor``: candidates per result for unpaged searches; None:
    the policy's.
    """
    sizes = tuple([size_of(search, policy, cap, factor) for search in call.searches])
    return None if sizes.count(None) == len(sizes) else sizes


def size_of(search: Search, policy: ResolvedPolicy, cap: int | None, factor: float | None) -> int | None:
    """The first pool of one search for ``plan``; None when it cannot be widened."""
    window = search.offset + search.top_k
    cap = least(cap, search.most)
    if search.pages:
        size = page_fetch_k(search.top_k, search.offset, policy=policy, cap=cap)
        return None if size is None or size < window else size
    size = fetch_k(search.top_k, policy=policy, cap=cap, factor=factor)
    return None if size is None or size <= window else size


START = 2.0  # candidates per result: pages without copies need 1, and half a pool of copies is rare
GROWTH = 1.5  # 2, 3, 4.5, then the usual factor of 5: reached after three pages that need more
CALM = 32  # pages: if one in thirty grows, a second request is cheaper than always fetching more
RECENT, OFTEN = (
    16,
    4,
)  # pages, and how many of them needed more: from one in four on, fetching ahead is cheaper than a third read
ENTRIES = 1024  # collections remembered: about 200 kB


@dataclass(slots=True)
class _State:
    """``step``, ``calm``: of adaptive pools. ``wants``: for each of the last unpaged searches, whether it needed a larger pool. ``depth``,
    ``shallow``: how often paged searches had to grow, and how many in a row needed less.
    """

    step: int = 0
    calm: int = 0
    wants: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    depth: int = 0
    shallow: int = 0


class AdaptiveFetch:
    """Learns per collection how many candidates pages need. At most ``entries`` collections.

    For backends that bill reply bytes (``factor``): one step up after each page that its pool could not fill, one step down after CALM
    pages that the smaller pool would have filled. For all backends (``ahead``): if pages keep growing, the larger pool is fetched at once,
    because two reads count twice against a rate limit. A wrong value costs a request or some bytes, never a result.
    """

    __slots__ = ("_held",)

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._held = Lru[Hashable, _State](entries)

    def factor(self, operation: Operation, policy: ResolvedPolicy) -> float | None:
        """Candidates per result for this collection's next search; None: the policy's own."""
        if not _applies(policy):
            return None
        state = self._held.get(_key(operation, policy))
        return factor_at(0 if state is None else state.step, policy)

    def ahead(
        self, call: SearchCall, plan: Plan, policy: ResolvedPolicy, *, cap: int | None, is_spare: bool
    ) -> tuple[int, ...]:
        """Candidates to fetch at once per search; () for the plan. ``is_spare``: whether the budget has room for a second read, which is
        then sent only when needed.
        """
        state = self._held.get(_key(call.operation, policy))
        if state is None:
            return ()
        single = 0 if is_spare else int(sum(state.wants) >= OFTEN)
        if not (single or state.depth):
            return ()
        sizes = tuple(
            0 if size is None else _after(search, size, policy, cap, steps=state.depth if search.pages else single)
            for search, size in zip(call.searches, plan, strict=True)
        )
        return () if sizes == tuple(size or 0 for size in plan) else sizes

    def learn_growth(self, attempt: Attempt) -> None:
        """Learn how often the pool grew or should have grown."""
        state = self._held.use(_key(attempt.call.operation, attempt.policy), _State)
        if not any(search.pages for search in attempt.call.searches):
            state.wants.append(attempt.wanted > 0)
            return
        state.shallow = 0 if attempt.wanted >= state.depth else state.shallow + 1
        if state.shallow == CALM:
            state.depth, state.shallow = state.depth - 1, 0
        state.depth = max(state.depth, attempt.wanted)

    def learn_sizes(self, attempt: Attempt, *, cap: int | None) -> None:
        """Learn how many candidates were enough. ``cap``: the one that the plan was made with."""
        if attempt.enough is not None or not _applies(attempt.policy):
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
        policy = attempt.policy
        state = self._held.use(_key(attempt.call.operation, policy), _State)
        state.step = min(state.step, _last_step(policy))
        if attempt.factor != factor_at(state.step, policy):
            return  # planned before other searches changed the step, which counted them already
        sizes = [_size(search, policy, cap, step) for step in range(_last_step(policy) + 1)]
        now = sizes[state.step]
        # Because of floor, cap and buckets, several steps have the same size: such a step would change nothing for this search.
        if _wants_more(selection, now, exhausted=exhausted):
            state.step = next((step for step, size in enumerate(sizes) if size > now), state.step)
            state.calm = 0
        elif sizes[0] < now:
            less = max(step for step, size in enumerate(sizes) if size < now)
            state.calm = state.calm + 1 if _depth(selection) <= sizes[less] else 0
            if state.calm == CALM:
                state.step, state.calm = less, 0


def _key(operation: Operation, policy: ResolvedPolicy) -> Hashable:
    """Searches that demote results need other pools than searches that do not."""
    return (*key_of(operation), policy.demotes)


def factor_at(step: int, policy: ResolvedPolicy) -> float:
    """Candidates per result at a step: from START, or the policy's if smaller, up to the policy's."""
    return float(min(START * GROWTH**step, policy.fetch.factor))


def _after(search: Search, size: int, policy: ResolvedPolicy, cap: int | None, *, steps: int) -> int:
    for _ in range(steps if may_grow(search, policy) else 0):
        size = next_size(search, size, policy, cap)
    return size


def _last_step(policy: ResolvedPolicy) -> int:
    step = 0
    while factor_at(step, policy) < policy.fetch.factor:
        step += 1
    return step


def _applies(policy: ResolvedPolicy) -> bool:
    """Not for a number that the client named, nor with a diversifier that chooses from the whole pool: its page does not show how much of
    the pool was needed.
    """
    return policy.fetch.adaptive and policy.fetch.exact is None and policy.selection.diversifier is None


def _size(search: Search, policy: ResolvedPolicy, cap: int | None, step: int) -> int:
    """The first pool at a step; the page itself if it cannot be widened."""
    size = size_of(search, policy, cap, factor_at(step, policy))
    return search.top_k if size is None else size


def _wants_more(selection: Selection, size: int, *, exhausted: bool) -> bool:
    """Whether the first pool was too small and a larger one would have had more."""
    return (selection.wanting > 0 and not exhausted) or _depth(selection) > size


def _depth(selection: Selection) -> int:
    """How many candidates from the top contain all results."""
    return int(selection.keep.max(initial=-1)) + 1

"""How many candidates to ask for. Sizes come in steps, so that neighbouring requests walk the index alike.

Qdrant's beam is max(hnsw_ef, limit): a limit of 50 and one of 51 may give different neighbours. Steps make the requests
that a client repeats with a slightly different top_k, or reads page by page, see the same candidates.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from vecsieve.adapters.contract import Needs, Operation, Reply, Search, SearchCall
from vecsieve.proxy.search.candidates import asked_for
from vecsieve.proxy.search.limits import Hold
from vecsieve.proxy.search.lookups import VectorFetches
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.paged import BLOCK
from vecsieve.proxy.selection.policy import Short
from vecsieve.proxy.selection.values import Selection
from vecsieve.proxy.telemetry.labels import FailOpen, MemoryLookup
from vecsieve.proxy.telemetry.tracing import Stopwatch

# Ten to the decade, powers of two where they fit: 24 and 50 are the sizes that the measurements are about.
_SMALL = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80)
_DECADE = (100, 128, 160, 200, 256, 320, 400, 512, 640, 800)
_GROWTH = 4  # one step from too few to plenty; the second fetch is bounded by the cap like the first
_PAGE_SHARE = 2  # a paged pool holds twice what the pages so far show: half may be duplicates before it must grow


def fetch_k(top_k: int, *, policy: ResolvedPolicy, cap: int | None, factor: float | None = None) -> int:
    """The first pool of a search that is not paged; ``top_k`` itself when nothing more may be asked for.

    ``cap``: the largest limit that the backend takes, when known. ``factor``: for now in place of the policy's, when it is
    smaller; None: the policy's. A number the client named is used as it is.
    """
    fetch = policy.fetch
    wanted = fetch.exact
    if wanted is None:
        most = fetch.factor if factor is None else min(factor, fetch.factor)
        wanted = bucket(max(math.ceil(most * top_k), fetch.floor))
    return max(min(wanted, _ceiling(fetch.cap, cap)), top_k)


def grown_fetch_k(size: int, *, policy: ResolvedPolicy, cap: int | None) -> int:
    """The next pool after one of ``size`` brought too few; ``size`` itself when it may not grow."""
    if policy.fetch.exact is not None:
        return size
    return max(min(bucket(_GROWTH * size), _ceiling(policy.fetch.cap, cap)), size)


def page_fetch_k(top_k: int, offset: int, *, policy: ResolvedPolicy, cap: int | None) -> int | None:
    """The first pool of a paged search, in whole blocks; None when the page lies deeper than may be fetched.

    Whole blocks, because the deduplicated list is made of them: a pool of another depth gives the same list.
    A number the client named is a least size here: the page's depth decides.
    """
    window = offset + top_k
    wanted = _blocks(max(_PAGE_SHARE * window, policy.fetch.exact or 0, 1))
    size = min(wanted, _block_ceiling(policy, cap))
    return size if size >= window else None


def grown_page_fetch_k(size: int, *, policy: ResolvedPolicy, cap: int | None) -> int:
    """The next paged pool after one of ``size``; ``size`` itself when it may not grow."""
    return max(min(_blocks(_GROWTH * size), _block_ceiling(policy, cap)), size)


def fitted(searches: Sequence[Search], planned: tuple[int | None, ...], room: int) -> tuple[int | None, ...] | None:
    """The plan that brings at most ``room`` candidates. A search alone is given fewer, as long as they are more than it shows;
    None where that is not so, and for a batch: who of it should get fewer is nobody's to say.
    """
    if sum(size or 0 for size in planned) <= room:
        return planned
    if len(searches) > 1:
        return None
    (search,) = searches
    size = room // BLOCK * BLOCK if search.pages else room
    return (size,) if size > search.offset + search.top_k else None


def may_grow(search: Search, policy: ResolvedPolicy) -> bool:
    """Whether a page that wants more gets a larger pool."""
    # A page beyond the first needs every representative before it: without growing, pages would repeat.
    return search.pages or policy.selection.short is Short.GROW_THEN_FILL


def next_size(search: Search, size: int, policy: ResolvedPolicy, cap: int | None) -> int:
    """The pool after one of ``size``; ``size`` itself where it may not grow."""
    cap = least(cap, search.most)
    if search.pages:
        return grown_page_fetch_k(size, policy=policy, cap=cap)
    return grown_fetch_k(size, policy=policy, cap=cap)


def least(one: int | None, other: int | None) -> int | None:
    """The smaller of two caps, of which none may be known."""
    known = [cap for cap in (one, other) if cap is not None]
    return min(known, default=None)


def bucket(wanted: int) -> int:
    """The smallest step that holds ``wanted`` (at least 1): …, 24, 32, 40, 50, 64, 80, 100, 128, …, 800, 1000, 1280, …"""
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
    """Rounded up to whole blocks."""
    return -(-wanted // BLOCK) * BLOCK


def _block_ceiling(policy: ResolvedPolicy, cap: int | None) -> int:
    """Rounded down: what lies behind the last whole block is read only when the backend has no more."""
    return _ceiling(policy.fetch.page_cap, cap) // BLOCK * BLOCK


# What one call has come to so far: its plan, its replies, its selections.


Fetch = Callable[[bytes], Awaitable[bytes]]
"""Sends a widened request and returns the body of a 2xx answer; raises RejectedReplyError for everything else."""


Plan = tuple[int | None, ...]
"""Per search the first pool's size; None for a search that cannot be widened and is sent as the client wrote it."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What one call has come to so far. Mutable on purpose: it is the memory of the failure ladder.

    ``factor``: what the plan was made with in place of the policy's own; None: with that. ``spare``: the same call with
    vectors, where ``call`` asks for none because memory probably has them. ``recall``: whether it had. ``lookups``: the
    second requests that bring vectors, None where there will be none. ``candidate_bytes``: what each is expected to take.
    ``reply_bytes``: the size of the last reply. ``ahead``: how many candidates are fetched at once per search, where growing is
    foreseen; () for the plan alone. ``stock``: that reply, which growing takes from, and ``stocked`` its sizes. ``wanted``:
    how often pages wanted a larger pool.

    What the failure ladder has met: ``reason``: why it is answered plainly, None while it is not. ``received_bytes``: body bytes of all
    answers to widened requests and lookups, refused ones as well. ``is_declined``: the database refused a widened request as the
    client's mistake, without a known reason: it may have been too large. ``refusal``: a reply for want of quota that the transport
    calls a success. ``is_raced``: the original may go out beside the widened request; ``is_reserved``: the budget keeps a read for
    that; ``is_late``: the moment for it came; ``is_hedged``: it went out. ``room``: for what arrives; None where nothing is sent.
    ``deadline``: until when, by the process's clock, the last widened request and its lookups must be answered; 0 before the first.
    """

    call: SearchCall
    spare: SearchCall | None = None
    recall: MemoryLookup | None = None
    lookups: VectorFetches | None = None
    policy: ResolvedPolicy
    plan: Plan
    watch: Stopwatch
    factor: float | None = None
    candidate_bytes: int = 0
    ahead: tuple[int, ...] = ()
    stock: Reply | None = None
    stocked: tuple[int, ...] = ()
    wanted: int = 0
    sizes: tuple[int, ...] = ()
    reply: Reply | None = None
    selections: tuple[Selection, ...] = ()
    exhausted: tuple[bool, ...] = ()
    rounds: int = 0
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
    room: Hold | None = None

    def received(self, size: int) -> None:
        """A body is here, whole."""
        self.received_bytes += size
        if self.room is not None:
            self.room.came(size)

    @property
    def has_asked(self) -> bool:
        """Whether a widened request has gone out."""
        return self.deadline > 0.0


def needs_of(policy: ResolvedPolicy, hint: str | None) -> Needs:
    """What the adapter must fetch for this policy. ``hint``: the vector that earlier replies were compared by."""
    must, may = asked_for(policy.tenant_keys, policy.fields)
    return Needs(
        vector_name=policy.vector,
        vector_hint=hint,
        lookups=policy.fetch.lookups,
        payload_fields=must,
        optional_fields=may,
    )


def plan(call: SearchCall, policy: ResolvedPolicy, cap: int | None, *, factor: float | None = None) -> Plan | None:
    """How many candidates to fetch per search, or None when no search of the call can be widened.

    ``cap``: the largest limit the backend is known to take for this collection. ``factor``: candidates per result that are
    enough for now, of searches that are not paged; None: as many as the policy says.
    """
    sizes = tuple(size_of(search, policy, cap, factor) for search in call.searches)
    return None if all(size is None for size in sizes) else sizes


def size_of(search: Search, policy: ResolvedPolicy, cap: int | None, factor: float | None) -> int | None:
    """The first pool of one search, as ``plan`` takes it; None when there is no room to widen it."""
    window = search.offset + search.top_k
    cap = least(cap, search.most)
    if search.pages:
        size = page_fetch_k(search.top_k, search.offset, policy=policy, cap=cap)
        return None if size is None or size < window else size
    size = fetch_k(search.top_k, policy=policy, cap=cap, factor=factor)
    return None if size is None or size <= window else size


# How many candidates a collection's pages need: begin with few, take more while pages want more, and fewer when they do not.
#
# For backends that bill the bytes of their replies. One size up after each page that its first pool could not fill with
# distinct results; one size down after 32 pages in a row that the smaller pool would have filled as well. What is learned is
# one small number a collection: a wrong one costs a second request or some bytes, never a result.
#
# For all backends: where pages keep wanting the grown pool, it is fetched at once, because two reads cost a client's rate limit
# twice and one large read once. What is selected is what growing would have selected: the small pool is tried first.

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


class AdaptiveFetch:
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

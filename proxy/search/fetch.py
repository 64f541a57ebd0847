"""How many candidates to ask for. Sizes come in steps, so that similar requests search the index identically.

Qdrant's beam is max(hnsw_ef, limit): limits of 50 and 51 may find different neighbours. With steps, a client that repeats a request with a
slightly different top_k, or reads pages, gets the same candidates.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from vecsieve.adapters.contract import (
    UNBOUNDED,
    Bounds,
    Needs,
    Operation,
    Search,
    SearchCall,
)

from ..selection.paged import BLOCK
from ..selection.policy import Overlap, Short
from ..telemetry.labels import Bypass
from .collections.learned import Lru
from .collections.texts import TextPlan
from .governor import Governor, Grant
from .policy import ResolvedPolicy
from .pools.values import Plan, Selected

# Ten per decade, powers of two where they fit. 24 and 50 are the sizes used in the measurements.
_SMALL = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80)
_DECADE = (100, 128, 160, 200, 256, 320, 400, 512, 640, 800)
_GROWTH = 4  # one step from too few to plenty; the cap bounds the second fetch as well
_PAGE_SHARE = 2  # a paged pool holds twice what the pages so far show: half may be duplicates before it must grow


def fetch_k(top_k: int, *, policy: ResolvedPolicy, cap: int | None) -> int:
    """The first pool of an unpaged search; ``top_k`` when it may not be larger.

    ``cap``: the largest limit the backend accepts, None when unknown. A number that the client named is used unchanged.
    """
    fetch = policy.fetch
    least = BLOCK if policy.selection.overlap is Overlap.EXCHANGE else 1  # within which a chunk is exchanged
    preferred = policy.exact_fetch or bucket(max(math.ceil(fetch.factor * top_k), fetch.floor, least))
    return max(min(preferred, _ceiling(fetch.cap, cap)), top_k)


def grown_fetch_k(size: int, *, policy: ResolvedPolicy, cap: int | None, needed: int | None = None) -> int:
    """The next pool after ``size`` was too small; ``size`` when it may not grow. ``needed``: how many candidates will do, if that is known."""
    if policy.exact_fetch is not None:
        return size
    return max(min(bucket(needed or _GROWTH * size), _ceiling(policy.fetch.cap, cap)), size)


def page_fetch_k(top_k: int, offset: int, *, policy: ResolvedPolicy, cap: int | None) -> int | None:
    """The first pool of a paged search; None when the page is deeper than may be fetched.

    Pools are whole blocks, because the deduplicated list is made of blocks: a deeper pool gives the same list. A number
    the client named is only a minimum here.
    """
    window = offset + top_k
    preferred = _blocks(max(_PAGE_SHARE * window, policy.exact_fetch or 0, 1))
    size = min(preferred, _block_ceiling(policy, cap))
    return size if size >= window else None


def grown_page_fetch_k(size: int, *, policy: ResolvedPolicy, cap: int | None, needed: int | None = None) -> int:
    """The next paged pool after ``size``; ``size`` when it may not grow. ``needed``: as for ``grown_fetch_k``."""
    return max(min(_blocks(needed or _GROWTH * size), _block_ceiling(policy, cap)), size)


def fitted(searches: Sequence[Search], planned: tuple[int | None, ...], room: int) -> tuple[int | None, ...] | None:
    """The plan reduced to at most ``room`` candidates; None if that is impossible. Only a single search is reduced, and only if more than
    its page is left.
    """
    if sum(filter(None, planned)) <= room:
        return planned
    if len(searches) > 1:
        return None
    (search,) = searches
    size = room // BLOCK * BLOCK if search.pages else room
    return (size,) if size > search.offset + search.top_k else None


def may_grow(search: Search, policy: ResolvedPolicy) -> bool:
    # A page beyond the first needs all representatives before it: without growth, pages would repeat results.
    return search.pages or policy.selection.short in {Short.GROW_THEN_FILL, Short.GROW_THEN_REPEAT}


def next_size(search: Search, size: int, policy: ResolvedPolicy, cap: int | None, *, needed: int | None = None) -> int:
    """The pool after ``size``; ``size`` when it may not grow. ``needed``: as for ``grown_fetch_k``."""
    if not may_grow(search, policy):
        return size
    grown = grown_page_fetch_k if search.pages else grown_fetch_k
    return grown(size, policy=policy, cap=cap if search.most is None else _ceiling(search.most, cap), needed=needed)


def bucket(least: int) -> int:
    """The smallest step >= ``least`` (at least 1): …, 24, 32, 40, 50, 64, 80, 100, 128, …, 800, 1000, 1280, …"""
    for step in _SMALL:
        if step >= least:
            return step
    scale = 1
    while _DECADE[-1] * scale < least:
        scale *= 10
        if _DECADE[0] * scale >= least:
            return _DECADE[0] * scale
    return next(step * scale for step in _DECADE if step * scale >= least)


def _ceiling(configured: int, backend: int | None) -> int:
    return configured if backend is None else min(configured, backend)


def _blocks(count: int) -> int:
    return -(-count // BLOCK) * BLOCK


def _block_ceiling(policy: ResolvedPolicy, cap: int | None) -> int:
    """Rounded down: candidates after the last whole block are used only when the backend has no more."""
    return _ceiling(policy.fetch.page_cap, cap) // BLOCK * BLOCK


def needs_of(
    policy: ResolvedPolicy,
    hint: str | None,
    *,
    known: object | None = None,
    bounds: Bounds = UNBOUNDED,
    texts: TextPlan | None = None,
    vectors: bool = True,
) -> Needs:
    """What the adapter must fetch for this policy. ``hint``: the vector by which earlier replies were compared. ``known``, ``bounds``:
    as in Needs. ``texts``: what is needed to find them. ``vectors``: whether any are.
    """
    keys, tenants = policy.keys, len(policy.tenant_keys)
    return Needs(
        vector_name=policy.vector,
        vector_hint=hint,
        vectors=vectors,
        query=vectors,
        lookups=policy.fetch.integrated == "fetch",
        payload_fields=policy.tenant_keys,
        optional_fields=keys[tenants:],
        seen_fields=() if texts is None else tuple(filter(keys.__contains__, texts.seen)),
        whole=texts is not None and texts.whole,
        known=known,
        bounds=bounds,
    )


def plan(call: SearchCall, policy: ResolvedPolicy, cap: int | None) -> Plan | None:
    """Candidates to fetch per search; None when no search of the call can be widened.

    ``cap``: the largest limit that the backend accepts for this collection.
    """
    sizes = tuple(map(partial(size_of, policy=policy, cap=cap), call.searches))
    return None if sizes.count(None) == len(sizes) else sizes


def size_of(search: Search, policy: ResolvedPolicy, cap: int | None) -> int | None:
    """The first pool of one search for ``plan``; None when it cannot be widened."""
    window = search.offset + search.top_k
    cap = cap if search.most is None else _ceiling(search.most, cap)
    if search.pages:
        size = page_fetch_k(search.top_k, search.offset, policy=policy, cap=cap)
        return None if size is None or size < window else size
    size = fetch_k(search.top_k, policy=policy, cap=cap)
    return None if size is None or size <= window else size


# Calls that are remembered per collection. A page that reaches deeper than all of them needs a second read: at most one call in 33, which the default
# budget of own reads (one in 10) allows.
RECENT = 32
# So many calls show how deep pages reach.
LEAST = 8
# A share of what pages took beyond their window is asked for on top: a quarter.
MARGIN = 4
ENTRIES = 1024  # collections remembered: about 3 MB


class Reach(NamedTuple):
    """How deep a page reached: ``window``, the place of its last result in the list of different ones; ``extra``, how many candidates more than that it
    took; ``is_deeper``, whether more than its plan.
    """

    window: int
    extra: int
    is_deeper: bool


class Depths:
    """Learns per collection how deep pages reach, so that the first request asks for what a page needs: two reads count twice against a rate limit,
    and the second one may have no budget. Where pages have no copies that is the client's own limit. At most ``entries`` collections.

    The last RECENT calls are remembered. A wrong value costs a request or some bytes, never a result: a page is chosen from the planned
    pool if that is enough, and from the deeper one as if the pool had grown to it. A pool smaller than planned is enough only if it decides the
    whole page (``ResolvedPolicy.is_by_rank``).
    """

    __slots__ = ("_entries",)

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries = Lru[Hashable, deque[Reach]](entries)

    def of(self, operation: Operation, policy: ResolvedPolicy, window: int) -> int:
        """How many candidates a page up to this place probably needs; 0 if that is not known.

        Copies of one text are as many for any page, copies of every text more for a longer one. So a shorter page may need as many
        candidates beyond its window as the deepest one did, and a longer page than all known ones more in proportion.
        """
        reached = self._entries.get((operation.collection, policy.demotes), ())
        if len(reached) < LEAST and not any(reach.is_deeper for reach in reached):
            return 0
        longest = max(reached)
        in_proportion = -(-longest.extra * window // longest.window) if window > longest.window else 0
        extra: int = max(in_proportion, *map(_extra, reached))
        return window + extra

    def sizes(
        self,
        call: SearchCall,
        policy: ResolvedPolicy,
        grant: Grant,
        governor: Governor,
        *,
        cap: int | None,
        number_bytes: int,
        is_settled: bool,
    ) -> tuple[Plan, tuple[int, ...]] | Bypass:
        """The sizes of the planned pools and of the first request's, as in ``Planned``, or why the search is not widened. What the call costs is noted in ``grant``. ``number_bytes``: of one number of
        a vector in a reply, 0 without vectors; ``is_settled``: texts alone decide.
        """
        longest = max([0 if search.query is None else len(search.query) for search in call.searches])
        grant.searches, grant.is_paged = len(call.searches), any(map(_PAGES, call.searches))
        in_flight = governor.bytes_in_flight
        grant.candidate_bytes = in_flight.candidate_bytes(call.operation, vector_bytes=longest * number_bytes or None)
        planned = plan(call, policy, cap)
        if planned is None:
            return Bypass.WINDOW_TOO_LARGE
        fitting = fitted(call.searches, planned, in_flight.reply_bytes // grant.candidate_bytes)
        if fitting is None:
            return Bypass.REPLY_TOO_LARGE
        room = governor.room(grant.candidate_bytes)
        return fitting, self.first(call, fitting, policy, cap=cap, room=room, is_by_texts=is_settled)

    def first(
        self,
        call: SearchCall,
        plan: Plan,
        policy: ResolvedPolicy,
        *,
        cap: int | None,
        room: int,
        is_by_texts: bool = False,
    ) -> tuple[int, ...]:
        """Candidates to request at once per search, at most ``room`` together; () for the plan. ``is_by_texts``: whether texts alone decide."""
        may_be_less = is_by_texts and policy.is_by_rank
        planned: list[int] = []
        sizes: list[int] = []
        for search, size in zip(call.searches, plan, strict=True):
            window = search.offset + search.top_k
            depth = self.of(call.operation, policy, window)
            first = size or 0
            if size is not None and depth > size:
                first = next_size(search, size, policy, cap, needed=depth)
            elif size is not None and depth and may_be_less and not search.pages:
                first = min(size, window if depth == window else bucket(depth + (depth - window) // MARGIN))
            planned.append(size or 0)
            sizes.append(first)
        if sum(sizes) > max(room, sum(planned)):
            fitting = fitted(call.searches, tuple(sizes), room)
            sizes = (
                planned
                if fitting is None
                else [max(one, other or 0) for one, other in zip(planned, fitting, strict=True)]
            )
        return () if sizes == planned else tuple(sizes)

    def learn(self, selected: Selected, *, cap: int | None) -> None:
        """Learn from an answered call, by its search that reached deepest. ``cap``: as for ``plan``."""
        deepest = max(_reaches(selected, cap), key=_extra)
        # Searches that demote results need other pools than searches that do not.
        key = (selected.pools.call.operation.collection, selected.pools.policy.demotes)
        if deepest.extra or selected.pools.is_by_texts or key in self._entries:
            self._entries.use(key, _recent).append(deepest)

    def __len__(self) -> int:
        return len(self._entries)


_extra = attrgetter("extra")
_PAGES = attrgetter("pages")


def _recent() -> deque[Reach]:
    return deque(maxlen=RECENT)


def _reaches(selected: Selected, cap: int | None) -> Iterator[Reach]:
    """How deep the pages of a call reached, search by search; the plan of a search that was sent unchanged is enough.

    Candidates after a full page need not have been judged, so a page's depth is the place of its last result.
    """
    pools = selected.pools
    is_by_rank = pools.is_by_texts and pools.policy.is_by_rank
    rows = zip(pools.call.searches, selected.unbudgeted, pools.planned.plan, pools.sizes, strict=True)
    for place, (search, selection, planned, size) in enumerate(rows):
        window = search.offset + search.top_k
        if selection.wanting and not pools.exhausted[place]:
            depth = next_size(search, size, pools.policy, cap)  # growing was withheld, or has come to its end
        elif selection.wanting:
            depth = pools.reply.pools[place].size + 1  # one as large as requested does not show that there is no more
        else:
            depth = max(selection.keep.tolist(), default=-1) + 1
        if planned is None:
            yield Reach(window, 0, is_deeper=False)
        elif max(size, depth) <= planned:
            yield Reach(window, max(depth - window, 0) if is_by_rank else 0, is_deeper=False)
        else:
            yield Reach(window, (depth if depth > planned else size) - window, is_deeper=True)

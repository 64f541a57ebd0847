"""How many candidates to ask for. Sizes come in steps, so that neighbouring requests walk the index alike.

Qdrant's beam is max(hnsw_ef, limit): a limit of 50 and one of 51 may give different neighbours. Steps make the requests
that a client repeats with a slightly different top_k, or reads page by page, see the same candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vecsieve.adapters.contract import Search
from vecsieve.proxy.resolved import ResolvedPolicy
from vecsieve.proxy.selection.paged import BLOCK
from vecsieve.proxy.selection.policy import Short

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

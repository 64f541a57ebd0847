"""Pages by what their results say. Where texts decide, a page depends on the values of its candidates, on the policy, and on which of these values the
policy takes for texts and tenants. Where vectors decide, it depends on their rows, scores and the query as well. So none can be stale.

A page is kept when it is made for the second time, or for a request that was answered before: of questions most are never repeated, and those
that are come often.
"""

from __future__ import annotations

from typing import NamedTuple

from vecsieve.adapters.contract import Pool, Search

from ...selection.policy import Policy
from ...selection.reading.memo import Memo
from ...selection.values import Metric, Selection
from ..collections.learned import Lru
from ..collections.statements import PoolStatements
from ..policy import Fields
from ..pools.values import PoolSet
from .points import Rows

# Some six hundred pages, at sixteen candidates of a kilobyte; three thousand of fifty candidates without texts.
PAGES_BYTES = 12 << 20
# Pages that were made once. A wrong entry keeps a page too early.
MADE_ONCE = 1 << 14


class _ByVectors(NamedTuple):
    rows: bytes
    scores: bytes
    query: bytes
    metric: Metric | None
    scale: float | None


class PageKey(NamedTuple):
    """``values``: of the payloads, read as ``fields`` and ``tenant_keys`` say. ``vectors``: None where texts decide."""

    top_k: int
    policy: Policy
    fields: Fields
    tenant_keys: tuple[str, ...]
    values: tuple[tuple[bytes | None, ...], ...]
    alone: tuple[int, ...]
    vectors: _ByVectors | None


def page_key(pools: PoolSet, search: Search, pool: Pool, rows: Rows | None, scale: float | None) -> PageKey | None:
    """On what a page depends; None for one that depends on more. Searches of a batch share a budget of texts. ``rows``: that memory has of the pool;
    ``scale``: of distances.
    """
    policy, by = pools.policy, None
    if search.pages or len(pools.planned.plan) > 1 or policy.demotes:
        return None
    if not pools.is_by_texts:
        if rows is None or search.query is None:
            return None
        by = _ByVectors(rows.identity, pool.scores.tobytes(), search.query.tobytes(), rows.metric, scale)
    elif not policy.is_by_rank:
        return None
    return PageKey(search.top_k, policy.selection, policy.fields, policy.tenant_keys, pool.fields, pool.alone, by)


class Page(NamedTuple):
    """``evidence``: of the payloads on which it depends beyond its key, as from ``PoolStatements``."""

    selection: Selection
    evidence: tuple[tuple[int, int], ...]


class Pages:
    """The pages that were made before."""

    __slots__ = ("_once", "_pages")

    def __init__(self) -> None:
        self._pages = Memo[PageKey, Page](PAGES_BYTES, _size)
        self._once = Lru[int, None](MADE_ONCE)

    def get(self, key: PageKey, pool: Pool) -> Selection | None:
        """The page of this key, if it is kept and the pool has the payloads on which it depends."""
        page = self._pages.get(key)
        if page is None or not page.evidence:
            return None if page is None else page.selection
        is_same = pool.payloads is not None and PoolStatements(pool.payloads, pool.size).confirms(page.evidence)
        return page.selection if is_same else None

    def made(self, key: PageKey, page: Page, *, is_repeated: bool = False) -> None:
        """A page was made. Nobody changes it from now on. ``is_repeated``: its request was answered before."""
        digest = hash(key)
        if is_repeated or digest in self._once:
            self._pages.keep(key, page)
        else:
            self._once.hold(digest, None)


def _size(key: PageKey, page: Page) -> int:
    """The values of the key, some 200 bytes a candidate for the objects around them, and the selection's arrays."""
    by = 0 if key.vectors is None else 200 + len(key.vectors.rows) + len(key.vectors.scores) + len(key.vectors.query)
    values = sum([200 + sum([0 if value is None else len(value) for value in row]) for row in key.values if row])
    return 1500 + by + values + 80 * len(page.selection.labels) + 120 * len(page.evidence)

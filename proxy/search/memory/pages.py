"""Pages by what their results say. Where texts decide, a page depends on the values of its candidates, on the policy, and on which of these values the
policy takes for texts and tenants; so none can be stale.

A page is kept when it is made for the second time: of questions most are never repeated, and those that are come often.
"""

from __future__ import annotations

from vecsieve.adapters.contract import Pool, Search

from ...selection.policy import Policy
from ...selection.reading.memo import Memo
from ...selection.values import Selection
from ..collections.learned import Lru
from ..fetch import Attempt
from ..policy import Fields

# Some six hundred pages, at sixteen candidates of a kilobyte.
PAGES_BYTES = 12 << 20
# Pages that were made once. A wrong entry keeps a page too early.
MADE_ONCE = 1 << 14

Values = tuple[tuple[bytes | None, ...], ...]
PageKey = tuple[int, Policy, Fields, tuple[str, ...], Values, tuple[int, ...]]


def page_key(attempt: Attempt, search: Search, pool: Pool) -> PageKey | None:
    """On what a page depends that texts decide; None for one that depends on more. Searches of a batch share a budget of texts."""
    if search.pages or len(attempt.plan) > 1 or not attempt.policy.is_by_rank:
        return None
    policy = attempt.policy
    return search.top_k, policy.selection, policy.fields, policy.tenant_keys, pool.fields, pool.alone


class Pages:
    """The pages that were made before."""

    __slots__ = ("_held", "_once")

    def __init__(self) -> None:
        self._held = Memo[PageKey, Selection](PAGES_BYTES, _size)
        self._once = Lru[int, None](MADE_ONCE)

    def get(self, key: PageKey) -> Selection | None:
        """The page of this key, if it is kept."""
        return self._held.get(key)

    def made(self, key: PageKey, page: Selection) -> None:
        """A page was made. Nobody changes it from now on."""
        digest = hash(key)
        if digest in self._once:
            self._held.keep(key, page)
        else:
            self._once.hold(digest, None)


def _size(key: PageKey, _: Selection) -> int:
    """The values of the key, and some 200 bytes a candidate for the objects around them."""
    return 1500 + sum([200 + sum([0 if value is None else len(value) for value in row]) for row in key[4]])

"""Searches that share one limit: each is judged by as many candidates as were wanted of it, however many came.

So a search in a batch chooses among what it would have chosen among alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vecsieve.adapters.contract import Pool, Reply


def as_asked(reply: Reply, sizes: Sequence[int]) -> Reply:
    """The reply with no more than ``sizes[i]`` candidates in pool i; 0 leaves a pool as it came."""
    if not any(0 < size < pool.size for pool, size in zip(reply.pools, sizes, strict=True)):
        return reply
    pools = (first(pool, size) if size else pool for pool, size in zip(reply.pools, sizes, strict=True))
    return replace(reply, pools=tuple(pools))


def first(pool: Pool, count: int) -> Pool:
    """The pool's first ``count`` candidates, at the ranks they have in it."""
    vectors = pool.vectors[:count]
    unusable = int(np.isnan(vectors).any(axis=1).sum()) if vectors.shape[1] else len(vectors)
    return replace(
        pool,
        scores=pool.scores[:count],
        vectors=vectors,
        fields=pool.fields[:count],
        ids=pool.ids[:count],
        unusable=unusable,
        alone=tuple(row for row in pool.alone if row < count),
    )

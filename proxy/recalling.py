"""Pools that came without vectors, completed from memory; pools that brought theirs, remembered."""

from __future__ import annotations

from dataclasses import replace

from vecsieve.adapters.contract import Pool, Reply, Search, SearchCall
from vecsieve.proxy.vector_memory import VectorMemory


def is_promising(memory: VectorMemory, call: SearchCall) -> bool:
    """Whether the call's pools can probably be selected from memory, so that their vectors need not be fetched."""
    if not memory.is_promising(call.operation.collection):
        return False
    # Of a search by anything else, the matrix is made for one pool: a sparse vector's columns mean nothing in another.
    return all(search.query is not None for search in call.searches)


def completed(memory: VectorMemory, call: SearchCall, reply: Reply) -> Reply | None:
    """The reply with a vector for every candidate as far as the call asked for none; None when memory lacks one."""
    pools = [_completed(memory, call, *row) for row in zip(call.searches, reply.pools, strict=True)]
    whole = tuple(pool for pool in pools if pool is not None)
    return replace(reply, pools=whole) if len(whole) == len(pools) else None


def _completed(memory: VectorMemory, call: SearchCall, search: Search, pool: Pool) -> Pool | None:
    collection = call.operation.collection
    if search.query is None or not pool.size or len(pool.ids) != pool.size:
        return pool
    dimension = len(search.query)
    if pool.unusable < pool.size:
        if pool.vectors.shape[1] == dimension:
            memory.remember(collection, search.partition, pool.ids, pool.vectors)
        return pool
    if call.needs.vectors:
        return pool
    vectors = memory.recall(collection, search.partition, pool.ids)
    if vectors is None or vectors.shape[1] != dimension:
        return None
    # The unnamed vector: what backends have whose vectors are remembered.
    return replace(pool, vectors=vectors, unusable=0, compared_by="")

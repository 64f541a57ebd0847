"""Pools by their payloads: dictionaries in, the raw JSON an adapter would hand over out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vecsieve.adapters.contract import Allowance, Pool, Search
from vecsieve.proxy.search.candidates import candidates_of, records_of
from vecsieve.proxy.search.policy import Fields, keys_of
from vecsieve.proxy.selection.values import Candidates

SEARCH = Search(top_k=2, offset=0, pages=False, query=np.ones(3, dtype=np.float32))
PATHS = ("text", "document", "source", "span_start", "span_end", "chunk_index", "updated", "citations")


def fields(*, chunk_size: int | None = None, chunk_overlap: int = 0, **paths: tuple[str, ...]) -> Fields:
    """Only these are looked at."""
    nothing: dict[str, tuple[str, ...]] = dict.fromkeys(PATHS, ())
    return Fields(**{**nothing, **paths}, chunk_size=chunk_size, chunk_overlap=chunk_overlap)


def raw_pool(rows: Sequence[tuple[bytes | None, ...]]) -> Pool:
    """A pool whose fields are these raw values."""
    n = len(rows)
    return Pool(
        scores=np.arange(n, dtype=np.float64),
        vectors=np.zeros((n, 3), dtype=np.float32),
        fields=tuple(rows),
    )


def from_pool(
    pool: Pool, search: Search, *, tenant_keys: tuple[str, ...], fields: Fields, allowance: Allowance | None = None
) -> Candidates:
    """The pool's candidates, read from the pool's own fields."""
    records = records_of(pool, tenant_keys=tenant_keys, fields=fields)
    return candidates_of(pool, search, records, fields=fields, allowance=allowance)


def candidates(
    payloads: Sequence[Mapping[str, Any]], looked_at: Fields, tenant_keys: tuple[str, ...] = ()
) -> Candidates:
    """What selection gets of candidates with these payloads."""
    keys = keys_of(tenant_keys, looked_at)
    rows = [
        tuple(json.dumps(payload[key]).encode() if key in payload else None for key in keys) for payload in payloads
    ]
    return from_pool(raw_pool(rows), SEARCH, tenant_keys=tenant_keys, fields=looked_at)

"""From an adapter's pool to what selection takes: tenants as numbers, texts as lengths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Pool, Search
from vecsieve.proxy.selection.values import Candidates


def from_pool(pool: Pool, search: Search, *, tenant_keys: int) -> Candidates:
    """The pool's candidates. The first ``tenant_keys`` payload fields name the tenant, the others may hold the text."""
    return Candidates(
        scores=pool.scores,
        vectors=pool.vectors,
        magnitude=pool.magnitude,
        query=search.query,
        tenants=_tenants(pool, tenant_keys) if tenant_keys else None,
        text_lengths=_text_lengths(pool, tenant_keys),
    )


def _tenants(pool: Pool, tenant_keys: int) -> npt.NDArray[np.int64]:
    """(n,) one number per tenant. A candidate that lacks a key shares a tenant with nobody.

    Values are compared as upstream's bytes: two spellings of one value keep candidates apart, which is the safe error.
    """
    numbers: dict[tuple[bytes | None, ...], int] = {}
    tenants = np.empty(pool.size, dtype=np.int64)
    for row, fields in enumerate(pool.fields):
        key = fields[:tenant_keys]
        tenants[row] = -1 - row if None in key else numbers.setdefault(key, len(numbers))
    return tenants


def _text_lengths(pool: Pool, tenant_keys: int) -> npt.NDArray[np.int64] | None:
    """(n,) characters of the first text field present, -1 where there is none; None when no text was fetched."""
    if not pool.fields or len(pool.fields[0]) <= tenant_keys:
        return None
    return np.array([_length(fields[tenant_keys:]) for fields in pool.fields], dtype=np.int64)


def _length(texts: tuple[bytes | None, ...]) -> int:
    for raw in texts:
        if raw is not None and raw.startswith(b'"'):
            try:
                return len(orjson.loads(raw))
            except orjson.JSONDecodeError:
                continue  # a lone surrogate: legal for the database, not for a strict reader; the next field may do
    return -1

"""From an adapter's pool to what selection takes: tenants as numbers, payload as texts, names, spans and moments.

Nothing here fails on what a payload holds: what cannot be read with certainty is unknown. What nobody in the pool has is
None as if it had not been asked for, so that selection need not look for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.allowance import Allowance
from vecsieve.adapters.contract import Pool, Search
from vecsieve.proxy.fields import Fields
from vecsieve.proxy.payload_columns import Columns
from vecsieve.proxy.payload_values import QUOTE, is_filled, name, position, string
from vecsieve.proxy.recency import moment, recency
from vecsieve.proxy.selection.metric import metric_of
from vecsieve.proxy.selection.text.bounds import LONGEST, POOL_COST
from vecsieve.proxy.selection.values import Candidates, Metadata

V = TypeVar("V")


# Bytes of texts that are decoded, as JSON: of one text, of a pool, of a call with all its searches. One that has more than
# 12 bytes a character (an escaped pair of surrogates) is too long in any case. What a pool may have is twice what selection
# reads of it (POOL_COST), since escapes are longer than what they stand for.
TEXT_BYTES = 12 * LONGEST + 2
POOL_BYTES = 2 * POOL_COST
CALL_BYTES = 4 * POOL_BYTES


def from_pool(
    pool: Pool, search: Search, *, tenant_keys: tuple[str, ...], fields: Fields, allowance: Allowance | None = None
) -> Candidates:
    """The pool's candidates. Its fields are those that ``asked_for`` names. ``allowance``: what other searches of the call
    left of CALL_BYTES; None for a search that is alone.
    """
    known = _metadata(pool, tenant_keys, fields, Allowance(CALL_BYTES) if allowance is None else allowance)
    return Candidates(
        scores=pool.scores,
        vectors=pool.vectors,
        metric=metric_of(search.query, pool.vectors, pool.scores),
        query=search.query,
        tenants=_tenants(pool, len(tenant_keys)) if tenant_keys or pool.alone else None,
        text_lengths=None if known.texts is None else _lengths(known.texts),
        metadata=known,
    )


def asked_for(tenant_keys: tuple[str, ...], fields: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The top-level payload keys that an adapter must fetch, and those that it may: together what a pool's fields are."""
    return tenant_keys, tuple(key for key in fields.top_level() if key not in tenant_keys)


def _tenants(pool: Pool, tenant_keys: int) -> npt.NDArray[np.int64]:
    """(n,) one number per tenant. A candidate that lacks a key, or stands alone, shares a tenant with nobody.

    Values are compared as upstream's bytes: two spellings of one value keep candidates apart, which is the safe error.
    """
    numbers: dict[tuple[bytes | None, ...], int] = {}
    tenants = np.zeros(pool.size, dtype=np.int64)
    for row, fields in enumerate(pool.fields):
        key = fields[:tenant_keys]
        tenants[row] = -1 - row if None in key else numbers.setdefault(key, len(numbers))
    for row in pool.alone:
        tenants[row] = -1 - row
    return tenants


def _lengths(texts: Sequence[str | None]) -> npt.NDArray[np.int64]:
    """(n,) characters, -1 where there is no text."""
    return np.array([-1 if text is None else len(text) for text in texts], dtype=np.int64)


def _metadata(pool: Pool, tenant_keys: tuple[str, ...], fields: Fields, allowance: Allowance) -> Metadata:
    if not pool.fields or not fields.top_level():
        return Metadata()
    must, may = asked_for(tenant_keys, fields)
    columns = Columns((*must, *may), pool.fields)
    moments = _firsts(columns, fields.updated, moment)
    return Metadata(
        texts=_texts(columns, fields.text, allowance),
        documents=_firsts(columns, fields.document, name),
        sections=_firsts(columns, fields.section, name),
        sources=_firsts(columns, fields.source, name),
        spans=_spans(columns, fields),
        recency=None if moments is None else recency(moments),
        citations=_citations(columns, fields.citations),
    )


def _firsts(columns: Columns, paths: tuple[str, ...], read: Callable[[bytes], V | None]) -> tuple[V | None, ...] | None:
    """Per candidate the first path's value that ``read`` makes something of; None where there is none at all."""
    found: list[V | None] = [None] * columns.size
    for column in columns.present(paths):
        for row, raw in enumerate(column):
            if raw is not None and found[row] is None:
                found[row] = read(raw)
    return None if found.count(None) == len(found) else tuple(found)


def _texts(columns: Columns, paths: tuple[str, ...], allowance: Allowance) -> tuple[str | None, ...] | None:
    """Per candidate the first path's text, in rank order as far as the ``allowance`` and the pool's own go.

    A text that is too long is unknown, not absent: another path's value does not take its place.
    """
    present, own = columns.present(paths), Allowance(POOL_BYTES)
    found: list[str | None] = [None] * columns.size
    for row in range(columns.size if present else 0):
        for column in present:
            raw = column[row]
            if raw is None or raw[:1] != QUOTE:
                continue
            if len(raw) > TEXT_BYTES or not (own.covers(len(raw)) and allowance.covers(len(raw))):
                break
            found[row] = string(raw, most_bytes=TEXT_BYTES)
            if found[row] is not None:
                break
    return None if found.count(None) == len(found) else tuple(found)


def _citations(columns: Columns, paths: tuple[str, ...]) -> npt.NDArray[np.int64] | None:
    """(n,) how many of the fields are filled."""
    if not paths:
        return None
    counts = np.zeros(columns.size, dtype=np.int64)
    for column in columns.present(paths):
        counts += [raw is not None and is_filled(raw) for raw in column]
    return counts


def _spans(columns: Columns, fields: Fields) -> npt.NDArray[np.float64] | None:
    """(n, 2) [start, end), NaN where unknown; None where all are.

    Tokens or characters where anybody has them, else chunk numbers: two units in one document would seem to overlap.
    """
    starts, ends = _firsts(columns, fields.span_start, position), _firsts(columns, fields.span_end, position)
    spans = None if starts is None or ends is None else _checked(_floats(starts), _floats(ends))
    if spans is not None:
        return spans
    indices = _firsts(columns, fields.chunk_index, position)
    if indices is None:
        return None
    step = 1 if fields.chunk_size is None else fields.chunk_size - fields.chunk_overlap
    first = _floats(indices) * step
    return _checked(first, first + (1 if fields.chunk_size is None else fields.chunk_size))


def _floats(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _checked(starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Spans with a length; None where there is none."""
    is_span = starts < ends
    spans = np.where(is_span[:, None], np.stack((starts, ends), axis=1), np.nan)
    return spans if bool(is_span.any()) else None

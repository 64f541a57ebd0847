"""From an adapter's pool to what selection takes: tenants as numbers, payload as texts, names, spans and moments.

Nothing here fails on what a payload holds: what cannot be read with certainty is unknown. What nobody in the pool has is
None as if it had not been asked for, so that selection need not look for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Allowance, Pool, Search
from vecsieve.adapters.wire.json import last_values
from vecsieve.proxy.search.policy import Fields
from vecsieve.proxy.selection.metric import metric_of
from vecsieve.proxy.selection.text.bounds import LONGEST, POOL_COST
from vecsieve.proxy.selection.values import Candidates, Metadata

# The values under a payload's keys and dotted paths, as upstream's raw JSON, column by column.
#
# Column by column because a policy looks at a dozen keys of which a collection has three: a column that nobody fills is
# told by one call, a cell that is empty costs nothing after that.

Column = tuple[bytes | None, ...]

# How much of one object, and of all the objects of a pool, is looked into, each level of each path anew: 2 ns a byte.
OBJECT_BYTES = 1 << 18
COLUMNS_BYTES = 1 << 22


class Columns:
    """The columns of one pool. ``rows``: per candidate its raw values, in the order of ``keys``."""

    __slots__ = ("_found", "_left_bytes", "size")

    def __init__(self, keys: Sequence[str], rows: Sequence[Sequence[bytes | None]]) -> None:
        self.size = len(rows)
        self._left_bytes = COLUMNS_BYTES
        columns = zip(*rows, strict=True) if rows else [()] * len(keys)
        self._found: dict[str, Column | None] = dict(zip(keys, map(_filled, columns), strict=True))

    def present(self, paths: Sequence[str]) -> list[Column]:
        """The columns of those paths under which anybody has a value, in the order of ``paths``. Null is no value."""
        columns = [self._column(path) for path in paths]
        return [column for column in columns if column is not None]

    def _column(self, path: str) -> Column | None:
        if path in self._found:
            return self._found[path]
        outer, dot, key = path.rpartition(".")
        above = self._column(outer) if dot else None
        column = None if above is None else _filled(tuple(self._member(raw, key) for raw in above))
        self._found[path] = column
        return column

    def _member(self, raw: bytes | None, key: str) -> bytes | None:
        """One member of an object; None for what is no object, lacks it, is too large, or cannot be read."""
        if raw is None or raw[:1] != b"{" or len(raw) > min(OBJECT_BYTES, self._left_bytes):
            return None
        self._left_bytes -= len(raw)
        return last_values(raw, (key,))[0]


def _filled(column: Column) -> Column | None:
    return column if any(raw is not None and raw != b"null" for raw in column) else None


# What one raw JSON value of a payload says, read strictly: whatever is odd says nothing, and nothing raises.
#
# Nor does what is too long: a name, a number or a date that fills pages is none, and a payload may hold megabytes of digits.

LAST_POSITION = 2.0**53
# Names, dates, releases: the longest path of Linux (PATH_MAX), the longest that browsers take of a URL is half of it.
STRING_BYTES = 4096
# The largest number a float holds has 309 digits, the smallest 324 behind the point and 17 that count.
NUMBER_BYTES = 400
QUOTE = b'"'
_NUMBER_STARTS = frozenset(b"-0123456789")
_WORDS = {b"true": "true", b"false": "false"}
_EMPTY = frozenset({b"null", b"false", b'""', b"[]", b"{}"})


def string(raw: bytes, *, most_bytes: int = STRING_BYTES) -> str | None:
    """A string that is not blank and, as JSON, has at most so many bytes."""
    if raw[:1] != QUOTE or len(raw) > most_bytes:
        return None
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # a lone surrogate: legal for the database, not for a strict reader
    return value if value and not value.isspace() else None


def name(raw: bytes) -> str | None:
    """What names a document, a section or a source: a string, or the JSON text of a number or a boolean.

    So 7 and "7" are one name: within a collection identifiers are of one kind, and where they are not they mean the same.
    """
    if raw[:1] == QUOTE:
        return string(raw)
    return raw.decode() if number(raw) is not None else _WORDS.get(raw)


def number(raw: bytes) -> float | None:
    """A finite number. A number in a string is none."""
    if not raw or raw[0] not in _NUMBER_STARTS or len(raw) > NUMBER_BYTES:
        return None
    try:
        value = float(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None
    return value if math.isfinite(value) else None


def position(raw: bytes) -> float | None:
    """A place in a document: a number from 0 that a float counts without gaps."""
    value = number(raw)
    return value if value is not None and 0.0 <= value <= LAST_POSITION else None


def is_filled(raw: bytes) -> bool:
    """Whether there is something: not null, false, blank or empty. A long string is something, whatever it says."""
    return raw not in _EMPTY and (raw[:1] != QUOTE or len(raw) > STRING_BYTES or string(raw) is not None)


# How new things are, from whatever a payload says of it: a number, a date, or a release.
#
# Each kind has an order of its own and no common scale with another: 2024 may be a year, a count of seconds is one, a
# release is neither. So a pool is compared in the kind of its best-ranked candidate that says anything, and the others are
# unknown.

# 3, 3.0.3, v2.1, 1.0rc2, 2.0.0-beta.1, 1.4.post2: what releases and Python packages are called; build names after + do
# not order releases (semver.org, 10). Digits are bounded as Python bounds them, with room.
_RELEASE = re.compile(
    r"v?(\d{1,20}(?:\.\d{1,20}){0,7})(?:[-._]?(dev|alpha|a|beta|b|rc|c|pre|preview|post)[-._]?(\d{0,20}))?(?:\+[\w.-]*)?",
    re.ASCII | re.IGNORECASE,
)
_FINAL = 0
_PHASES = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "rc": -1, "c": -1, "pre": -1, "preview": -1, "post": 1}

Release = tuple[tuple[int, ...], int, int]


class Kind(IntEnum):
    """In which order a moment stands."""

    NUMBER = 0
    DATE = 1
    RELEASE = 2


Moment = tuple[Kind, float | Release]


def recency(moments: Sequence[Moment | None]) -> npt.NDArray[np.float64] | None:
    """(n,) larger is newer, NaN where unknown; None where all are. Dates are seconds, releases the place in their order."""
    kind = next((moment[0] for moment in moments if moment is not None), None)
    if kind is None:
        return None
    values = [None if moment is None or moment[0] is not kind else moment[1] for moment in moments]
    places = {value: float(place) for place, value in enumerate(sorted({v for v in values if isinstance(v, tuple)}))}
    return np.array(
        [np.nan if value is None else places[value] if isinstance(value, tuple) else value for value in values]
    )


def moment(raw: bytes) -> Moment | None:
    """A JSON number; a string with an ISO 8601 date, without a zone in UTC; a string with a release. Else None."""
    value = number(raw)
    if value is not None:
        return Kind.NUMBER, value
    text = string(raw)
    if text is None:
        return None
    seconds = None if text.isdigit() else _seconds(text.strip())
    if seconds is not None:
        return Kind.DATE, seconds
    release = _release(text.strip())
    return None if release is None else (Kind.RELEASE, release)


def _seconds(text: str) -> float | None:
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _release(text: str) -> Release | None:
    """Comparable: trailing zeros do not count (1.0 is 1.0.0), a release candidate comes before its release."""
    match = _RELEASE.fullmatch(text)
    if match is None:
        return None
    parts = [int(part) for part in match[1].split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    phase = _FINAL if match[2] is None else _PHASES[match[2].lower()]
    return tuple(parts), phase, int(match[3] or 0)


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

"""Converts an adapter's pool to the input of selection: tenants, texts, names, spans and times from the payload.

No payload value causes an error: a value that cannot be read with certainty is unknown. A field that no candidate has is None, as if it had
not been requested.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Allowance, Pool, Search
from vecsieve.adapters.wire.json import last_values

from ..selection.metric import metric_of
from ..selection.reading.bounds import LONGEST, POOL_COST
from ..selection.reading.text import TEXTS, UNREAD, Text, kept_text
from ..selection.values import Candidates, Metadata, Metric
from .collections.paths import read_pool
from .collections.statements import PoolStatements
from .memory.points import Rows
from .policy import Fields, keys_of

Column = tuple[bytes | None, ...]

# Bytes parsed per object, and per pool, for each level of each path. Parsing takes 2 ns per byte.
OBJECT_BYTES = 1 << 18
COLUMNS_BYTES = 1 << 22


class Columns:
    """Payload values of one pool by key or dotted path, as raw JSON. ``rows``: each candidate's values, in the order of ``keys``.

    Stored by column: a policy reads a dozen keys, a collection has about three of them, and an empty column is detected once.
    """

    __slots__ = ("_columns", "_left_bytes", "size")

    def __init__(self, keys: Sequence[str], rows: Sequence[Sequence[bytes | None]]) -> None:
        self.size = len(rows)
        self._left_bytes = COLUMNS_BYTES
        columns = zip(*rows, strict=True) if rows else [()] * len(keys)
        self._columns: dict[str, Column | None] = dict(zip(keys, map(_filled, columns), strict=True))

    def present(self, paths: Sequence[str]) -> list[Column]:
        """The columns that have any value, in the order of ``paths``. Null counts as no value."""
        present: list[Column] = []
        for path in paths:
            column = self._columns[path] if path in self._columns else self._column(path)
            if column is not None:
                present.append(column)
        return present

    def _column(self, path: str) -> Column | None:
        outer, dot, key = path.rpartition(".")
        above = (self._columns[outer] if outer in self._columns else self._column(outer)) if dot else None
        column = None if above is None else _filled(tuple(self._member(raw, key) for raw in above))
        self._columns[path] = column
        return column

    def _member(self, raw: bytes | None, key: str) -> bytes | None:
        """One member of an object, or of an object that is spelled as a string; None if it is missing, unreadable or too large, or if
        ``raw`` is neither.
        """
        if raw is None or raw[:1] not in {b"{", QUOTE} or len(raw) > min(OBJECT_BYTES, self._left_bytes):
            return None
        self._left_bytes -= len(raw)
        inside = raw if raw[:1] == b"{" else spelled_object(raw)
        return None if inside is None else last_values(inside, (key,))[0]


def _filled(column: Column) -> Column | None:
    return column if column.count(None) + column.count(b"null") < len(column) else None


LAST_POSITION = 2.0**53
# Names, dates, releases. The longest path of Linux (PATH_MAX); the longest URL that browsers accept is half of it.
STRING_BYTES = 4096
# The largest float has 309 digits; the smallest has 324 after the point and 17 significant ones.
NUMBER_BYTES = 400
QUOTE = b'"'
_NUMBER_STARTS = frozenset(b"-0123456789")
_WORDS = {b"true": "true", b"false": "false"}
_EMPTY = frozenset({b"null", b"false", b'""', b"[]", b"{}"})


def spelled_object(raw: bytes) -> bytes | None:
    """The object that a JSON string spells; None if it spells none."""
    if not raw.startswith(b'"{'):
        return None
    try:
        value: str = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value.encode()


def string(raw: bytes, *, most_bytes: int = STRING_BYTES) -> str | None:
    """A non-blank string of at most ``most_bytes`` as JSON."""
    if raw[:1] != QUOTE or len(raw) > most_bytes:
        return None
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # a lone surrogate: legal for the database, not for a strict reader
    return value if value and not value.isspace() else None


def name(raw: bytes) -> str | None:
    """The name of a document, section or source: a string, or the JSON text of a number or boolean.

    7 and "7" are the same name: a collection uses one kind of identifier, and mixed kinds mean the same.
    """
    if raw[:1] == QUOTE:
        return string(raw)
    return raw.decode() if number(raw) is not None else _WORDS.get(raw)


def source(raw: bytes) -> str | None:
    """The name of a source. LangChain for JavaScript writes "blob" for every document that it loads from memory."""
    return None if raw == b'"blob"' else name(raw)


def number(raw: bytes) -> float | None:
    """A finite JSON number; a number in a string does not count."""
    if not raw or raw[0] not in _NUMBER_STARTS or len(raw) > NUMBER_BYTES:
        return None
    try:
        value = float(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None
    return value if math.isfinite(value) else None


def position(raw: bytes) -> float | None:
    """A position in a document: a number from 0 to 2^53."""
    value = number(raw)
    return value if value is not None and 0.0 <= value <= LAST_POSITION else None


def is_filled(raw: bytes) -> bool:
    """Whether the value is not null, false, blank or empty. A string above STRING_BYTES counts as filled unread."""
    return raw not in _EMPTY and (raw[:1] != QUOTE or len(raw) > STRING_BYTES or string(raw) is not None)


# 3, 3.0.3, v2.1, 1.0rc2, 2.0.0-beta.1, 1.4.post2: forms of release numbers, those of Python packages included. Build names after + do not
# order releases (semver.org, 10). The number of digits stays below Python's own limit.
_RELEASE = re.compile(
    r"v?(\d{1,20}(?:\.\d{1,20}){0,7})(?:[-._]?(dev|alpha|a|beta|b|rc|c|pre|preview|post)[-._]?(\d{0,20}))?(?:\+[\w.-]*)?",
    re.ASCII | re.IGNORECASE,
)
_FINAL = 0
_PHASES = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "rc": -1, "c": -1, "pre": -1, "preview": -1, "post": 1}

Release = tuple[tuple[int, ...], int, int]


class Kind(IntEnum):
    """The kinds of time. Values of different kinds are not comparable."""

    NUMBER = 0
    DATE = 1
    RELEASE = 2


Moment = tuple[Kind, float | Release]


def recency(moments: Sequence[Moment | None]) -> npt.NDArray[np.float64] | None:
    """(n,) larger is newer, NaN where unknown; None when all are unknown. Dates in seconds, releases as their rank.

    The pool is compared in the kind of its best-ranked candidate with a known time.
    """
    kind = next((moment[0] for moment in moments if moment is not None), None)
    if kind is None:
        return None
    values = [None if moment is None or moment[0] is not kind else moment[1] for moment in moments]
    places = {value: float(place) for place, value in enumerate(sorted({v for v in values if isinstance(v, tuple)}))}
    return np.array(
        [np.nan if value is None else places[value] if isinstance(value, tuple) else value for value in values]
    )


def moment(raw: bytes) -> Moment | None:
    """Read a JSON number, an ISO 8601 date (UTC without a zone) or a release number; None for anything else."""
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
    """A comparable release. Trailing zeros do not count (1.0 equals 1.0.0); a release candidate precedes its release."""
    match = _RELEASE.fullmatch(text)
    if match is None:
        return None
    parts = [int(part) for part in match[1].split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    phase = _FINAL if match[2] is None else _PHASES[match[2].lower()]
    return tuple(parts), phase, int(match[3] or 0)


V = TypeVar("V")


# Limits on decoded text, in bytes of JSON: per text, per pool, and per call with all its searches. A text with more than 12 bytes per
# character (an escaped surrogate pair) is always too long. The limit per pool is twice what selection reads (POOL_COST), because escapes
# are longer than the characters they encode.
TEXT_BYTES = 12 * LONGEST + 2
POOL_BYTES = 2 * POOL_COST
CALL_BYTES = 4 * POOL_BYTES


class Record(NamedTuple):
    """The payload values of one candidate that the policy reads; None where unknown.

    ``text_bytes``: bytes of the text as JSON, and of texts that were read before it. ``start``, ``end``: offsets in the document;
    ``chunk``: its number there. ``is_cut``: the allowance was used up before the text.
    """

    text: Text | None = None
    text_bytes: int = 0
    is_cut: bool = False
    document: str | None = None
    source: str | None = None
    start: float | None = None
    end: float | None = None
    chunk: float | None = None
    updated: Moment | None = None
    citations: int = 0
    tenant: tuple[bytes | None, ...] = ()


def candidates_of(
    pool: Pool,
    search: Search,
    records: Sequence[Record],
    *,
    fields: Fields,
    allowance: Allowance | None = None,
    rows: Rows | None = None,
) -> Candidates:
    """The candidates of a pool, with one record each. ``allowance``: bytes of CALL_BYTES that the call's other searches left; None for a
    single search. ``rows``: what memory knows of the pool's vectors.
    """
    known = _metadata(records, fields, Allowance(CALL_BYTES) if allowance is None else allowance)
    has_tenants, lengths = bool(records and records[0].tenant), None
    if known.texts is not None:  # (n,) characters, -1 without a text or with one that is not read
        sizes = [-1 if text is None or text is UNREAD else len(text.raw) for text in known.texts]
        lengths = np.array(sizes, dtype=np.int64)
    return Candidates(
        scores=pool.scores,
        vectors=pool.vectors,
        metric=Metric.COSINE
        if rows is not None and rows.metric is Metric.COSINE
        else metric_of(search.query, pool.vectors, pool.scores),
        query=search.query,
        tenants=_tenants(records, pool.alone) if has_tenants or pool.alone else None,
        text_lengths=lengths,
        metadata=known,
        squares=None if rows is None else rows.squares,
        statements=None if pool.payloads is None else PoolStatements(pool.payloads, pool.size, fields.ignored),
    )


def records_of(
    pool: Pool, *, tenant_keys: tuple[str, ...], fields: Fields, texts: tuple[str, ...] | None = None
) -> tuple[Record, ...]:
    """One record per candidate, from the pool's fields, which are in the order of ``keys_of``. ``texts``: which of the guesses are right;
    None: the pool alone decides.
    """
    keys = len(tenant_keys)
    if not pool.fields or not (keys or fields.heads):
        return (Record(tenant=(None,) * keys),) * pool.size
    names = keys_of(tenant_keys, fields)
    columns = Columns(names, pool.fields)
    if fields.guesses:
        texts = read_pool(pool, names).paths if texts is None else texts
        fields = replace(fields, text=(*fields.text, *texts), guesses=())
    if fields.are_texts and not keys:
        return tuple(map(Record, *_texts(columns, fields.text)))
    return tuple(
        map(
            Record._make,
            zip(
                *_texts(columns, fields.text),
                _firsts(columns, fields.document, name),
                _firsts(columns, fields.source, source),
                _firsts(columns, fields.span_start, position),
                _firsts(columns, fields.span_end, position),
                _firsts(columns, fields.chunk_index, position),
                _firsts(columns, fields.updated, moment),
                _citations(columns, fields.citations),
                [row[:keys] for row in pool.fields],
                strict=True,
            ),
        )
    )


def sources_of(pool: Pool, keys: Sequence[str], fields: Fields) -> list[bytes | None]:
    """The JSON of each candidate's source; None where it is unknown. ``keys``: of the pool's fields."""
    if not pool.fields:
        return [None] * pool.size
    return _firsts(Columns(keys, pool.fields), fields.source, lambda raw: None if source(raw) is None else raw)


def _tenants(records: Sequence[Record], alone: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """(n,) tenant numbers. A candidate without the key, or marked as standing alone, has a number of its own.

    Values are compared as raw bytes: two spellings of one value keep candidates apart, which is the safe error.
    """
    numbers: dict[tuple[bytes | None, ...], int] = {}
    tenants = np.zeros(len(records), dtype=np.int64)
    for row, record in enumerate(records):
        key = record.tenant
        tenants[row] = -1 - row if None in key else numbers.setdefault(key, len(numbers))
    for row in alone:
        tenants[row] = -1 - row
    return tenants


def _metadata(records: Sequence[Record], fields: Fields, allowance: Allowance) -> Metadata:
    if not records or not fields.heads:
        return Metadata()
    if fields.are_texts:
        known, sizes, *_ = zip(*records, strict=True)
        return Metadata(texts=_any(_afforded(known, sizes, allowance)))
    texts, spent, _, documents, sources, starts, ends, chunks, moments, citations, *_ = zip(*records, strict=True)
    return Metadata(
        texts=_any(_afforded(texts, spent, allowance)),
        documents=_any(documents),
        sources=_any(sources),
        spans=_spans(starts, ends, chunks, fields),
        recency=None if _any(moments) is None else recency(moments),
        citations=np.array(citations, np.int64) if fields.citations else None,
    )


def _any(values: tuple[V | None, ...]) -> tuple[V | None, ...] | None:
    """None when no candidate has a value."""
    return None if values.count(None) == len(values) else values


def _afforded(texts: tuple[Text | None, ...], spent: tuple[int, ...], allowance: Allowance) -> tuple[Text | None, ...]:
    """The texts in rank order until the allowance of the pool or the call is used up; later texts are unknown."""
    total = sum(spent)
    if total <= POOL_BYTES and total <= allowance.left_bytes:
        allowance.covers(total)
        return texts
    pool_allowance = Allowance(POOL_BYTES)
    return tuple(
        text if pool_allowance.covers(size) and allowance.covers(size) else UNREAD
        for text, size in zip(texts, spent, strict=True)
    )


def _firsts(columns: Columns, paths: tuple[str, ...], read: Callable[[bytes], V | None]) -> list[V | None]:
    """For each candidate, the first value along the paths that ``read`` accepts."""
    values: list[V | None] = [None] * columns.size
    for column in columns.present(paths):
        for row, raw in enumerate(column):
            if raw is not None and values[row] is None:
                values[row] = read(raw)
    return values


def _texts(columns: Columns, paths: tuple[str, ...]) -> tuple[list[Text | None], list[int], list[bool]]:
    """For each candidate: the text of the first path that has one, the bytes read for it, and whether the pool's allowance, which is spent
    in rank order, ended before it.

    A text that is too long is unknown; no other path's value replaces it.
    """
    present, pool_allowance = columns.present(paths), Allowance(POOL_BYTES)
    if len(present) == 1:
        sizes = [0 if raw is None or raw[:1] != QUOTE else len(raw) for raw in present[0]]
        if sum(sizes) <= POOL_BYTES and max(sizes) <= TEXT_BYTES:
            known = TEXTS.several(present[0])
            texts = [text or _text(raw) for text, raw in zip(known, present[0], strict=True)]
            return texts, sizes, [False] * len(sizes)
    readings: list[Text | None] = [None] * columns.size
    spent, is_cut = [0] * columns.size, [False] * columns.size
    for row in range(columns.size if present else 0):
        for column in present:
            raw = column[row]
            if raw is None or raw[:1] != QUOTE:
                continue
            if len(raw) > TEXT_BYTES:
                readings[row] = UNREAD
                break
            spent[row] += len(raw)
            if not pool_allowance.covers(len(raw)):
                is_cut[row], readings[row] = True, UNREAD
                break
            readings[row] = _text(raw)
            if readings[row] is not None:
                break
    return readings, spent, is_cut


def _text(raw: bytes | None) -> Text | None:
    known = None if raw is None else TEXTS.get(raw)
    if known is not None or raw is None:
        return known
    text = string(raw, most_bytes=TEXT_BYTES)
    return None if text is None else kept_text(raw, text)


def _citations(columns: Columns, paths: tuple[str, ...]) -> list[int]:
    """For each candidate, the number of filled fields."""
    counts = [0] * columns.size
    for column in columns.present(paths):
        for row, raw in enumerate(column):
            counts[row] += raw is not None and is_filled(raw)
    return counts


def _spans(
    starts: tuple[float | None, ...], ends: tuple[float | None, ...], chunks: tuple[float | None, ...], fields: Fields
) -> npt.NDArray[np.float64] | None:
    """(n, 2) [start, end), NaN where unknown; None when all are unknown.

    Offsets if any candidate has them, else chunk numbers: mixing the two units would show false overlaps.
    """
    if _any(starts) is not None:
        spans = _checked(_floats(starts), _floats(ends))
        if spans is not None:
            return spans
    if _any(chunks) is None:
        return None
    step = 1 if fields.chunk_size is None else fields.chunk_size - fields.chunk_overlap
    first = _floats(chunks) * step
    return _checked(first, first + (1 if fields.chunk_size is None else fields.chunk_size))


def _floats(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _checked(starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """The spans with start < end; None if there are none."""
    is_span = starts < ends
    spans = np.where(is_span[:, None], np.stack((starts, ends), axis=1), np.nan)
    return spans if bool(is_span.any()) else None

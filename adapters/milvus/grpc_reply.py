"""A SearchResults: where its rows stand, column by column.

The rows of all queries follow each other; ``topks`` says how many each has. Whatever may stand once per row and is not known
here is a ValueError: it would be cut wrongly, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vecsieve.adapters.milvus.dialect import check_status
from vecsieve.adapters.milvus.grpc_columns import Box, Column, Part, Strip, fixed, read_column, single, varints
from vecsieve.adapters.milvus.grpc_request import Document
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, fields, only, unsigned, varint

# SearchResults.
_STATUS, RESULTS = 1, 2

# SearchResultData. 9, 12 and 13 are about the whole search or each query of it; what else there is comes of groups,
# iterators, aggregations and highlights.
QUERIES, TOP_K, COLUMNS, SCORES, IDS, TOPKS, OUTPUT, _COUNTED, DISTANCES, _RECALLS, _PRIMARY = (
    1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13,
)  # fmt: skip
_KNOWN = frozenset({QUERIES, TOP_K, COLUMNS, SCORES, IDS, TOPKS, OUTPUT, _COUNTED, DISTANCES, _RECALLS, _PRIMARY})
NUMBERS, _TEXTS = 1, 2  # IDs
_ELEMENTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. ``results``: the field of its rows; ``fields``: what is in that. ``counts``: rows of each query.
    ``aligned``: scores and ids. ``columns``: by where each begins.
    """

    body: bytes
    results: Field
    fields: tuple[Field, ...]
    counts: tuple[int, ...]
    aligned: Mapping[int, Part]
    columns: Mapping[int, Column]

    @property
    def starts(self) -> tuple[int, ...]:
        """The first row of each query."""
        ends = np.cumsum(self.counts).tolist()
        return tuple(end - count for end, count in zip(ends, self.counts, strict=True))


def read_reply(request: Document, body: bytes) -> ReplyDocument:
    """Read a successful reply to a widened request. Raises ValueError."""
    outer = fields(body)
    check_status(body, only(outer, _STATUS, LENGTH))
    results = only(outer, RESULTS, LENGTH)
    if results is None:
        raise ValueError("no results")
    found = fields(body, results.span)
    _check_kinds(found)
    counts = _counts(body, found, request.queries)
    rows = sum(counts)
    columns = {field.start: read_column(body, field, rows) for field in found if field.number == COLUMNS}
    _check_columns(request, columns, rows)
    return ReplyDocument(
        body=body,
        results=results,
        fields=tuple(found),
        counts=counts,
        aligned=_aligned(body, found, rows),
        columns=columns,
    )


def _check_kinds(found: Sequence[Field]) -> None:
    if unknown := {field.number for field in found} - _KNOWN:
        raise ValueError(f"results have fields {sorted(unknown)}, which nobody here knows")
    only(found, TOP_K, VARINT)
    if any(field.number == OUTPUT and field.wire != LENGTH for field in found):
        raise ValueError("a name of an output field is no text")


def _counts(body: bytes, found: Sequence[Field], queries: int) -> tuple[int, ...]:
    """How many rows each query has."""
    said, field = only(found, QUERIES, VARINT), only(found, TOPKS, LENGTH)
    counts: list[int] = []
    at, end = (0, 0) if field is None else field.span
    while at < end:
        count, at = varint(body, at, end)
        counts.append(count)
    if len(counts) != queries or said is None or unsigned(body, said) != queries:
        raise ValueError(f"rows of {len(counts)} queries, wanted {queries}")
    if sum(counts) > len(body):
        raise ValueError(f"{sum(counts)} rows in {len(body)} bytes")
    return tuple(counts)


def _check_columns(request: Document, columns: Mapping[int, Column], rows: int) -> None:
    """What was added must have come as columns of its own, and then be all that is ours."""
    names = [column.name for column in columns.values()]
    if len(set(names)) < len(names) or sum(column.is_dynamic for column in columns.values()) > 1:
        raise ValueError("a field has two columns")
    if not rows:
        return
    chosen = request.chosen
    wanted = (*chosen.columns, *(chosen.listed if chosen.keys else ()))
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"no column for {len(missing)} of {len(wanted)} fields")


def _aligned(body: bytes, found: Sequence[Field], rows: int) -> dict[int, Part]:
    """Scores, distances and ids, by where they begin."""
    parts: dict[int, Part] = {}
    for number in (SCORES, DISTANCES):
        field = only(found, number, LENGTH)
        if field is not None and field.end > field.value:
            parts[field.start] = _sized(fixed(field, 4), rows)
    ids = only(found, IDS, LENGTH)
    if ids is not None:
        parts[ids.start] = _ids(body, ids, rows)
    if rows and (ids is None or only(found, SCORES, LENGTH) is None):
        raise ValueError(f"no ids or no scores for {rows} rows")
    return parts


def _ids(body: bytes, field: Field, rows: int) -> Box:
    found = fields(body, field.span)
    if len(found) != 1 or found[0].wire != LENGTH or found[0].number not in {NUMBERS, _TEXTS}:
        raise ValueError(f"ids at byte {field.start} are neither numbers nor texts")
    inner = fields(body, found[0].span)
    if found[0].number == _TEXTS:
        strip = single(inner, _ELEMENTS)
    else:
        packed = only(inner, _ELEMENTS, LENGTH)
        strip = None if packed is None else varints(body, packed)
    if strip is None and rows:
        raise ValueError(f"no ids for {rows} rows")
    return Box(field, (Box(found[0], () if strip is None else (_sized(strip, rows),)),))


def _sized(strip: Strip, rows: int) -> Strip:
    if strip.size != rows:
        raise ValueError(f"{strip.size} elements at byte {strip.start} for {rows} rows")
    return strip

"""A reply over gRPC: its rows, their pools, and the client's answer cut from it.

The rows of all queries follow each other; ``topks`` has the number of each. An unknown field that may have one element per row raises
ValueError, because it could not be cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.base import Keep
from vecsieve.adapters.contract import FIELD_BYTES, Allowance, MalformedReplyError, Needs, Pool
from vecsieve.adapters.milvus.calls import check_status
from vecsieve.adapters.milvus.grpc_columns import (
    Box,
    Column,
    Part,
    Strip,
    Values,
    column_values,
    fixed,
    integer,
    key_values,
    read_column,
    single,
    text_bytes,
    varints,
)
from vecsieve.adapters.milvus.grpc_request import Document
from vecsieve.adapters.milvus.search import as_matrix
from vecsieve.adapters.wire.protobuf import (
    LENGTH,
    VARINT,
    Field,
    encoded,
    fields,
    length_field,
    number_field,
    only,
    unsigned,
    varint,
)
from vecsieve.adapters.wire.vectors import without_vector

# SearchResults.
_STATUS, RESULTS = 1, 2

# SearchResultData. 9, 12 and 13 are about the whole search or each of its queries; unknown numbers belong to groups, iterators,
# aggregations and highlights.
QUERIES, TOP_K, COLUMNS, SCORES, IDS, TOPKS, OUTPUT, COUNTED, DISTANCES, RECALLS, _PRIMARY = (
    1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13,
)  # fmt: skip
_KNOWN = frozenset({QUERIES, TOP_K, COLUMNS, SCORES, IDS, TOPKS, OUTPUT, COUNTED, DISTANCES, RECALLS, _PRIMARY})
NUMBERS, _TEXTS = 1, 2  # IDs
_ELEMENTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. ``results``: the field of its rows; ``fields``: those in it. ``counts``: rows of each query. ``aligned``: scores and
    ids, ``columns``: the others, both by the offset of their field.
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
    """Raises ValueError, and DeclinedError."""
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
        raise ValueError(f"results have fields {sorted(unknown)}, which are unknown")
    only(found, TOP_K, VARINT)
    if any(field.number == OUTPUT and field.wire != LENGTH for field in found):
        raise ValueError("a name of an output field is no text")


def _counts(body: bytes, found: Sequence[Field], queries: int) -> tuple[int, ...]:
    """The number of rows of each query."""
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
    """Raises ValueError where an added field has no column, or a field has two."""
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
    """Scores, distances and ids, by the offset of their field."""
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


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: of query i the rows ``keep[i]`` in that order, without added columns."""
    parts = zip(reply.starts, keep, strict=True)
    rows = np.concatenate([start + kept.astype(np.intp) for start, kept in parts])
    counts = [len(kept) for kept in keep]
    inside = b"".join([_shown(request, reply, field, rows, counts) for field in reply.fields])
    body, results = reply.body, reply.results
    if inside == body[slice(*results.span)]:
        return body
    return body[: results.start] + length_field(RESULTS, inside) + body[results.end :]


def _shown(
    request: Document, reply: ReplyDocument, field: Field, rows: npt.NDArray[np.intp], counts: Sequence[int]
) -> bytes:
    """A field of the results in the client's answer."""
    body, chosen = reply.body, request.chosen
    if (aligned := reply.aligned.get(field.start)) is not None:
        return aligned.cut(body, rows)
    if field.number == COLUMNS:
        column = reply.columns[field.start]
        is_ours = column.name in chosen.added or (column.is_dynamic and bool(chosen.keys))
        return b"" if is_ours else column.box.cut(body, rows)
    if field.number == OUTPUT and body[slice(*field.span)] in [name.encode() for name in chosen.added]:
        return b""
    if field.number == TOPKS:
        return length_field(TOPKS, b"".join([encoded(count) for count in counts]))
    if field.number == TOP_K:
        top_k = _top_k(unsigned(body, field), request.top_k, reply.counts, counts)
        return number_field(TOP_K, top_k) if top_k else b""
    return body[field.start : field.end]


def _top_k(said: int, asked: int, came: Sequence[int], counts: Sequence[int]) -> int:
    """The server's value: Milvus counts the rows of its longest list, Lite repeats the requested number."""
    return max(counts) if said == max(came) else min(said, asked)


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    try:
        reply = read_reply(request, body)
        return _pools(request, needs, reply), reply
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def _pools(request: Document, needs: Needs, reply: ReplyDocument) -> tuple[Pool, ...]:
    rows = sum(reply.counts)
    body, columns = reply.body, reply.columns.values()
    scores, vectors, ids = _scores(reply, rows), vectors_of(body, columns, request.vector, rows), _spelled_ids(reply)
    values = [
        *[values_of(body, columns, name, rows) for name in needs.payload_fields],
        *[values_of(body, columns, name, rows, Allowance(FIELD_BYTES)) for name in needs.optional_fields],
    ]
    fielded = tuple(zip(*values, strict=True)) if values else ((),) * rows
    pools: list[Pool] = []
    for start, count in zip(reply.starts, reply.counts, strict=True):
        part = slice(start, start + count)
        unusable = without_vector(vectors[part])
        pools.append(
            Pool(
                scores=scores[part],
                vectors=vectors[part],
                fields=fielded[part],
                ids=ids[part],
                compared_by=request.vector if unusable < count or not needs.vectors else None,
                unusable=unusable,
            )
        )
    return tuple(pools)


def _scores(reply: ReplyDocument, rows: int) -> npt.NDArray[np.float64]:
    field = only(reply.fields, SCORES, LENGTH)
    if field is None:
        return np.zeros(rows, dtype=np.float64)
    return np.frombuffer(reply.body[slice(*field.span)], dtype="<f4").astype(np.float64)


def vectors_of(data: bytes, columns: Collection[Column], name: str, rows: int) -> npt.NDArray[np.float32]:
    """(rows, d) of a column; d is 0 without one of vectors."""
    column = next((each for each in columns if each.name == name), None)
    content = None if column is None else column.content
    if column is None or content is None or content.vector is None or content.values is None or not content.width:
        return np.full((rows, 0), np.nan, dtype=np.float32)
    edges = content.values.edges
    packed = data[int(edges[0]) : int(edges[-1])]
    return as_matrix(packed, content.vector, content.width, column.elements())


def _spelled_ids(reply: ReplyDocument) -> tuple[bytes, ...]:
    field = only(reply.fields, IDS, LENGTH)
    box = None if field is None else reply.aligned[field.start]
    if not isinstance(box, Box) or not isinstance(inner := box.parts[0], Box) or not inner.parts:
        return ()
    strip = inner.parts[0]
    assert isinstance(strip, Strip)  # noqa: S101 - _ids made it
    edges = strip.edges.tolist()
    elements = [reply.body[start:end] for start, end in pairwise(edges)]
    if inner.field.number == NUMBERS:
        return tuple(integer(element) for element in elements)
    return tuple(orjson.dumps(text_bytes(element).decode()) for element in elements)


def values_of(
    data: bytes, columns: Collection[Column], name: str, rows: int, allowance: Allowance | None = None
) -> Values:
    """The JSON of a field in each row; None where it is absent. ``allowance``: of an optional field. Raises ValueError."""
    for column in columns:
        if column.name == name and not column.is_dynamic:
            return column_values(data, column, allowance)
    dynamic = next((column for column in columns if column.is_dynamic), None)
    return [None] * rows if dynamic is None else key_values(column_values(data, dynamic, allowance), name)

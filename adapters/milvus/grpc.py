"""Milvus over gRPC: a reply's rows, their pools, the client's answer cut from it; a hybrid search as searches of its parts; the adapter.

Supported: Search and HybridSearch by dense vectors, servers 2.3 and later. Groups, iterators, ranges, sparse and binary vectors, texts and
searches by ids are passed through.

The rows of all queries follow each other; ``topks`` has the number of each. An unknown field that may have one element per row raises
ValueError, because it cannot be cut.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from ..base import GrpcAdapter, Keep, own
from ..contract import (
    FIELD_BYTES,
    Allowance,
    MalformedReplyError,
    Needs,
    Pool,
    Reply,
    Search,
    SearchCall,
    UnsupportedError,
)
from ..fusions import Divided, Ending, Fused, Part, Undivided, UndividedError
from ..wire.json import members, object_of, splice, whole
from ..wire.protobuf import (
    LENGTH,
    VARINT,
    Field,
    copied,
    encoded,
    fields,
    length_field,
    message_spans,
    number_field,
    only,
    unsigned,
    varint,
)
from ..wire.vectors import without_vector
from . import calls, grpc_request
from .calls import HYBRID_SEARCH, check_status
from .grpc_columns import (
    JSON,
    STRING,
    Box,
    Column,
    Source,
    Strip,
    Values,
    column_values,
    fixed,
    gathered,
    integer,
    key_values,
    read_column,
    single,
    text_bytes,
    varints,
)
from .grpc_columns import Part as ColumnPart
from .grpc_request import HYBRID_OUTPUT, OUTPUT, PARAMS, PARTITIONS, PARTS, RANKS, Document
from .search import OFFSET, UNROUNDED, as_matrix, fusion_of, number, read_description

# SearchResults.
_STATUS, RESULTS = 1, 2

# SearchResultData. 9, 12 and 13 are about the whole search or each of its queries; unknown numbers belong to groups, iterators,
# aggregations and highlights.
QUERIES, TOP_K, COLUMNS, SCORES, IDS, TOPKS, SHOWN, COUNTED, DISTANCES, RECALLS, _PRIMARY = (
    1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13,
)  # fmt: skip
_KNOWN = frozenset({QUERIES, TOP_K, COLUMNS, SCORES, IDS, TOPKS, SHOWN, COUNTED, DISTANCES, RECALLS, _PRIMARY})
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
    aligned: Mapping[int, ColumnPart]
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
    if any(field.number == SHOWN and field.wire != LENGTH for field in found):
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
    """Raises ValueError if an added field has no column, or a field has two."""
    names = [column.name for column in columns.values()]
    if len(set(names)) < len(names) or sum(column.is_dynamic for column in columns.values()) > 1:
        raise ValueError("a field has two columns")
    if not rows:
        return
    chosen = request.chosen
    wanted = (*chosen.columns, *(chosen.listed if chosen.keys else ()))
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"no column for {len(missing)} of {len(wanted)} fields")


def _aligned(body: bytes, found: Sequence[Field], rows: int) -> dict[int, ColumnPart]:
    """Scores, distances and ids, by the offset of their field."""
    parts: dict[int, ColumnPart] = {}
    for each in (SCORES, DISTANCES):
        field = only(found, each, LENGTH)
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
    if field.number == SHOWN and body[slice(*field.span)] in [name.encode() for name in chosen.added]:
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
                payloads=partial(_payloads, reply, start, count),
                ids=ids[part],
                compared_by=request.vector if unusable < count or not needs.vectors else None,
                unusable=unusable,
            )
        )
    return tuple(pools)


def _payloads(reply: ReplyDocument, start: int, count: int, most: int) -> tuple[bytes, ...]:
    """The texts and documents of a query's rows, with the keys of ``$meta`` as in the client's own output."""
    rows = range(start, start + min(count, most))
    pairs: list[list[tuple[bytes, bytes]]] = [[] for _ in rows]
    for column in reply.columns.values():
        if column.content.kind not in {STRING, JSON}:
            continue
        values = column_values(reply.body, column, Allowance(FIELD_BYTES))
        for found, raw in zip(pairs, values[start : start + len(rows)], strict=True):
            if raw is not None:
                found.extend(_members_of(raw) if column.is_dynamic else [(orjson.dumps(column.name), raw)])
    return tuple([object_of(found) for found in pairs])


def _members_of(raw: bytes) -> list[tuple[bytes, bytes]]:
    """The keys and values of an object, as JSON; none of anything else."""
    try:
        found = members(raw, whole(raw))
    except ValueError:
        return []
    return [(orjson.dumps(key), raw[slice(*member.span)]) for key, member in found.items()]


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
    """The JSON of a field in each row; None if absent. ``allowance``: of an optional field. Raises ValueError."""
    for column in columns:
        if column.name == name and not column.is_dynamic:
            return column_values(data, column, allowance)
    dynamic = next((column for column in columns if column.is_dynamic), None)
    return [None] * rows if dynamic is None else key_values(column_values(data, dynamic, allowance), name)


# A hybrid search as several searches: a part is ranked like a search with its parameters. Partitions, consistency and output fields are
# those of the whole request.

_ENDING = Ending(old="HybridSearch", new="Search")
# HybridSearchRequest -> SearchRequest: base, database, collection, partitions, timestamps, metadata, output, consistency, namespace.
_ROOT = {1: 1, 2: 2, 3: 3, PARTITIONS: PARTITIONS, 7: 10, 8: 11, 9: 13, HYBRID_OUTPUT: OUTPUT, 11: 14, 12: 15, 14: 20}
# Of a part: filter, queries, kind of the filter, parameters, number of queries, values of the filter.
_LEAF = frozenset({5, 6, 7, PARAMS, 12, 18})
_NAMESPACE = 20


def divided(call: SearchCall, body: bytes) -> Divided | None:
    if call.operation.name != HYBRID_SEARCH:
        return None
    try:
        return _divided(call, own(call.document, Document), body)
    except (ValueError, UnsupportedError):
        raise UndividedError(Undivided.MEMBER) from None


def _divided(call: SearchCall, request: Document, body: bytes) -> Divided:
    """Raises UndividedError, UnsupportedError or ValueError."""
    root = fields(body)
    pairs = grpc_request.read_pairs(body, [field for field in root if field.number == RANKS])
    said = pairs.values
    if number(said.get(OFFSET, "0")) or said.get("round_decimal", UNROUNDED) != UNROUNDED:
        raise UndividedError(Undivided.MEMBER)
    spans = message_spans(root, PARTS)
    if request.queries != 1 or len(spans) > call.needs.bounds.searches:
        raise UndividedError(Undivided.MANY)
    parts, metrics = [], []
    for span in spans:
        part, metric = _part(call, request, body, root, fields(body, span))
        parts.append(part)
        metrics.append(metric)
    fusion = fusion_of(
        said.get("strategy"),
        said.get("params", "").encode(),
        metrics=metrics,
        limit=number(said["limit"]),
        needs=call.needs,
    )
    return Divided(ending=_ENDING, parts=tuple(parts), fusion=fusion)


def _part(
    call: SearchCall, request: Document, body: bytes, root: list[Field], leaf: list[Field]
) -> tuple[Part, str | None]:
    """A part as a search, and its metric. Raises UndividedError, UnsupportedError or ValueError."""
    shared = copied(body, root, _ROOT, _ROOT)
    for theirs in (PARTITIONS, _NAMESPACE):  # servers differ in which counts they use
        own_values = _values(body, leaf, theirs)
        if own_values and own_values != _values(shared, fields(shared), theirs):
            raise UndividedError(Undivided.MEMBER)
    text = shared + copied(body, leaf, _LEAF)
    read = grpc_request.read_part(text, (0, len(text)))
    said = read.pairs.values
    from_first = {OFFSET: "0"} if read.inner is None else {OFFSET: "0", "params": read.inner}
    text = splice(text, [(field.start, field.end, new) for field, new in grpc_request.changed(read.pairs, from_first)])
    if said.get("round_decimal", UNROUNDED) != UNROUNDED:
        raise UndividedError(Undivided.MEMBER)
    is_compared = read.queries.is_comparable and said.get("anns_field") == request.vector
    query = read.queries.vectors()[0] if is_compared else None
    search = Search(top_k=read.page[0], offset=0, pages=False, query=query)
    document = Document(
        body=text, pairs=read.pairs, limit="topk", inner=None, output=OUTPUT, top_k=read.page[0], queries=1,
        vector=request.vector, chosen=request.chosen,
    )  # fmt: skip
    made = SearchCall(operation=call.operation, searches=(search,), needs=call.needs, document=document)
    return Part(text, made), said.get("metric_type")


def _values(data: bytes, found: Sequence[Field], number: int) -> list[bytes]:
    return [data[field.value : field.end] for field in found if field.number == number]


def _fields(
    divided: Divided, used: Mapping[int, ReplyDocument], rows: list[tuple[int, int]], scores: bytes
) -> dict[int, bytes]:
    """The fields of the results that do not belong to one list, without columns. Raises ValueError."""
    limit = divided.fusion.limit
    return {
        SCORES: length_field(SCORES, scores),
        DISTANCES: b"",
        RECALLS: b"",
        IDS: gathered({index: _ids_of(document) for index, document in used.items()}, rows),
        TOPKS: length_field(TOPKS, encoded(len(rows))),
        # Lite says the limit, others the length of the longest list.
        TOP_K: number_field(TOP_K, limit if divided.fusion.is_double else len(rows)),
        COUNTED: number_field(COUNTED, sum(_counted(document) for document in used.values())),
    }


def _fused_field(
    field: Field,
    shown: Mapping[int, bytes],
    model: ReplyDocument,
    used: Mapping[int, ReplyDocument],
    rows: list[tuple[int, int]],
) -> bytes:
    """Raises ValueError."""
    if field.number == COLUMNS:
        name = model.columns[field.start].name
        return gathered({index: _column(document, name) for index, document in used.items()}, rows)
    return shown.get(field.number, model.body[field.start : field.end])


def _ids_of(document: ReplyDocument) -> Source:
    (field,) = [field for field in document.fields if field.number == IDS]
    return document.body, document.aligned[field.start]


def _column(document: ReplyDocument, name: str) -> Source:
    (column,) = [column for column in document.columns.values() if column.name == name]
    return document.body, column.box


def _counted(document: ReplyDocument) -> int:
    return sum(unsigned(document.body, field) for field in document.fields if field.number == COUNTED)


class MilvusGrpc(GrpcAdapter[Document, ReplyDocument]):
    request_type, reply_type, messages = Document, ReplyDocument, grpc_request.MESSAGES
    classify = staticmethod(calls.classify_grpc)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(parse_reply)
    cut_reply = staticmethod(trim)
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(read_description)
    divided = staticmethod(divided)

    def fused(self, divided: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        documents = [own(reply.document, ReplyDocument) for reply in replies]
        if not ranked:
            return documents[0].body
        rows = [(index, row) for index, row, _ in ranked]
        used = {index: documents[index] for index in sorted({index for index, _ in rows})}
        model = documents[rows[0][0]]
        try:
            shown = _fields(divided, used, rows, struct.pack(f"<{len(ranked)}f", *(score for _, _, score in ranked)))
            inside = b"".join([_fused_field(field, shown, model, used, rows) for field in model.fields])
        except (ValueError, KeyError) as error:
            raise MalformedReplyError(f"lists of one search are not alike: {error}") from None
        body, results = model.body, model.results
        return body[: results.start] + length_field(RESULTS, inside) + body[results.end :]

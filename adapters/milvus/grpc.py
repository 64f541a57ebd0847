"""Milvus over gRPC: a hybrid search as searches of its parts, and their replies as one; the adapter.

Supported: Search and HybridSearch by dense vectors, servers 2.3 and later. Groups, iterators, ranges, sparse and binary vectors, texts
and searches by ids are passed through. A part is ranked as the search with its parameters is. Partitions, consistency and output fields
are those of the whole request.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from vecsieve.adapters.base import GrpcAdapter, own
from vecsieve.adapters.contract import MalformedReplyError, Reply, Search, SearchCall, UnsupportedError
from vecsieve.adapters.fusions import Divided, Ending, Fused, Part, Undivided, UndividedError
from vecsieve.adapters.milvus import calls, grpc_reply, grpc_request
from vecsieve.adapters.milvus.calls import HYBRID_SEARCH
from vecsieve.adapters.milvus.grpc_columns import Source, gathered
from vecsieve.adapters.milvus.grpc_reply import (
    COLUMNS,
    COUNTED,
    DISTANCES,
    IDS,
    RECALLS,
    RESULTS,
    SCORES,
    TOP_K,
    TOPKS,
    ReplyDocument,
    parse_reply,
)
from vecsieve.adapters.milvus.grpc_request import HYBRID_OUTPUT, OUTPUT, PARAMS, PARTITIONS, PARTS, RANKS, Document
from vecsieve.adapters.milvus.search import OFFSET, UNROUNDED, fusion_of, number, read_description
from vecsieve.adapters.wire.json import splice
from vecsieve.adapters.wire.protobuf import (
    Field,
    copied,
    encoded,
    fields,
    length_field,
    message_spans,
    number_field,
    unsigned,
)

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
    for theirs in (PARTITIONS, _NAMESPACE):  # servers differ in whose counts
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
    """The fields of the results that are not those of one list, columns aside. Raises ValueError."""
    limit = divided.fusion.limit
    return {
        SCORES: length_field(SCORES, scores),
        DISTANCES: b"",
        RECALLS: b"",
        IDS: gathered({index: _ids(document) for index, document in used.items()}, rows),
        TOPKS: length_field(TOPKS, encoded(len(rows))),
        # Lite says the limit, others the length of the longest list.
        TOP_K: number_field(TOP_K, limit if divided.fusion.is_double else len(rows)),
        COUNTED: number_field(COUNTED, sum(_counted(document) for document in used.values())),
    }


def _shown(
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


def _ids(document: ReplyDocument) -> Source:
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
    cut_reply = staticmethod(grpc_reply.trim)
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(read_description)
    divided = staticmethod(divided)

    def again(self, call: SearchCall, ids: Sequence[bytes]) -> bytes | None:
        return grpc_request.again(own(call.document, Document), ids, call.needs)

    def fused(self, divided: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        documents = [own(reply.document, ReplyDocument) for reply in replies]
        if not ranked:
            return documents[0].body
        rows = [(index, row) for index, row, _ in ranked]
        used = {index: documents[index] for index in sorted({index for index, _ in rows})}
        model = documents[rows[0][0]]
        try:
            shown = _fields(divided, used, rows, struct.pack(f"<{len(ranked)}f", *(score for _, _, score in ranked)))
            inside = b"".join([_shown(field, shown, model, used, rows) for field in model.fields])
        except (ValueError, KeyError) as error:
            raise MalformedReplyError(f"lists of one search are not alike: {error}") from None
        body, results = model.body, model.results
        return body[: results.start] + length_field(RESULTS, inside) + body[results.end :]

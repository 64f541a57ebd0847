"""Milvus over gRPC: a reply's rows, their pools, the client's answer cut from it; a hybrid search as searches of its parts; the adapter.

Supported: Search and HybridSearch by dense vectors, servers 2.3 and later. Groups, iterators, ranges, sparse and binary vectors, texts and
searches by ids are passed through.

The rows of all queries follow each other; ``topks`` has the number of each. An unknown field of the results may have one element per row: it
raises ValueError, because it cannot be cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson

from ..base import Keep, typed
from ..base_grpc import GrpcAdapter
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
from ..wire.json import members_of, object_of, whole
from ..wire.schema import has_unknown, members, parsed, serialized
from ..wire.vectors import without_vector
from . import calls, grpc_request
from .calls import HYBRID_SEARCH
from .grpc_columns import Column, Element, column_values, cut, gathered, read_columns, values_of, vectors_of
from .grpc_description import read_answer, read_description
from .grpc_request import Document
from .grpc_schema import COUNTED, proto
from .search import OFFSET, UNROUNDED, fusion_of, number, schema_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. ``rest``: its message without columns. ``counts``: rows of each query. ``scores``: packed; ``ids``: the name of their
    array, "" for none, and its elements. ``messages``: those of the columns, which are not changed.
    """

    body: bytes
    rest: bytes
    counts: tuple[int, ...]
    scores: bytes
    ids: tuple[str, Sequence[Element]]
    columns: tuple[Column, ...]
    messages: tuple[Any, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """The first row of each query."""
        ends = np.cumsum(self.counts).tolist()
        return tuple(end - count for end, count in zip(ends, self.counts, strict=True))


def _read(request: Document, body: bytes) -> ReplyDocument:
    """Raises ValueError, and DeclinedError."""
    message = read_answer(proto.Reply, body)
    results = message.results
    if not message.HasField("results") or has_unknown(results):
        raise ValueError("no results, or unknown fields in them")
    if not results.num_queries == len(results.topks) == request.queries:
        raise ValueError(f"rows of {len(results.topks)} queries, wanted {request.queries}")
    counts = tuple(results.topks)
    rows = sum(counts)
    if rows > len(body):
        raise ValueError(f"{rows} rows in {len(body)} bytes")
    scores, _ = (_packed(listed, rows) for listed in (results.scores, results.distances))
    ids = _ids(results.ids, rows)
    if rows and not (ids[0] and scores):
        raise ValueError(f"no ids or no scores for {rows} rows")
    messages = tuple(results.fields_data)
    columns = read_columns(messages, rows)
    _check_columns(request, columns, rows)
    del results.fields_data[:]
    rest = serialized(message)
    return ReplyDocument(
        body=body, rest=rest, counts=counts, scores=scores, ids=ids, columns=columns, messages=messages
    )


_FLOAT_BYTES = 4


def _packed(listed: Sequence[bytes], rows: int) -> bytes:
    """One float per row, or none. Raises ValueError."""
    packed = b"".join(listed)
    if len(listed) > 1 or (packed and len(packed) != rows * _FLOAT_BYTES):
        raise ValueError(f"{len(packed)} bytes of floats for {rows} rows")
    return packed


def _check_columns(request: Document, columns: Collection[Column], rows: int) -> None:
    """Raises ValueError if an added field has no column, or a field has two."""
    names = [column.name for column in columns]
    if len(set(names)) < len(names) or sum(column.is_dynamic for column in columns) > 1:
        raise ValueError("a field has two columns")
    if not rows:
        return
    chosen = request.chosen
    expected = (*chosen.columns, *(chosen.listed if chosen.keys else ()))
    if missing := [name for name in expected if name not in names]:
        raise ValueError(f"no column for {len(missing)} of {len(expected)} fields")


def _ids(message: Any, rows: int) -> tuple[str, Sequence[Element]]:
    arrays = message.ListFields()
    if len(arrays) > 1 or has_unknown(message) or any(has_unknown(array) for _, array in arrays):
        raise ValueError("ids are neither numbers nor texts")
    size = sum(len(array.data) for _, array in arrays)
    if size != (rows if arrays else 0):
        raise ValueError(f"{size} ids for {rows} rows")
    return (arrays[0][0].name, list(arrays[0][1].data)) if arrays else ("", ())


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: of query i the rows ``keep[i]`` in that order, without added columns."""
    parts = zip(reply.starts, keep, strict=True)
    rows = np.concatenate([start + kept.astype(np.intp) for start, kept in parts])
    counts, added = [len(kept) for kept in keep], request.chosen.added
    answer = parsed(proto.Reply, reply.rest)
    results, places = answer.results, rows.tolist()
    for listed in (results.scores, results.distances):
        packed = np.frombuffer(b"".join(listed), "<u4")
        listed[:] = [packed[rows].tobytes()] if len(packed) and len(rows) else []
    if reply.ids[0]:
        getattr(results.ids, reply.ids[0]).data[:] = [reply.ids[1][row] for row in places]
    for column, message in zip(reply.columns, reply.messages, strict=True):
        if column.name not in added and not (column.is_dynamic and request.chosen.keys):
            added_column = results.fields_data.add()
            added_column.CopyFrom(message)
            cut(added_column, column, places)
    names = [name.encode() for name in added]
    results.output_fields[:] = [name for name in results.output_fields if name not in names]
    results.topks[:] = counts
    if top_k := _top_k(results.top_k, request.top_k, reply.counts, counts):
        results.top_k = top_k
    else:
        results.ClearField("top_k")
    return serialized(answer)


def _top_k(stated: int, requested: int, came: Sequence[int], counts: Sequence[int]) -> int:
    """The server's value: Milvus counts the rows of its longest list, Lite repeats the requested number."""
    return max(counts) if stated == max(came) else min(stated, requested)


def read_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Raises ValueError, and DeclinedError."""
    reply = _read(request, body)
    return _pools(request, needs, reply), reply


def _pools(request: Document, needs: Needs, reply: ReplyDocument) -> tuple[Pool, ...]:
    rows = sum(reply.counts)
    columns, ids, schema = reply.columns, _spelled_ids(reply), schema_of(needs)
    fields = [column for column in columns if schema is None or column.name != schema.primary]
    scores = np.frombuffer(reply.scores, dtype="<f4").astype(np.float64)
    vectors = vectors_of(columns, request.vector, rows)
    values = [
        *[values_of(columns, name, rows) for name in needs.payload_fields],
        *[values_of(columns, name, rows, Allowance(FIELD_BYTES)) for name in needs.optional_fields],
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
                payloads=partial(_payloads, fields, start),
                ids=ids[part],
                compared_by=request.vector if unusable < count or not needs.vectors else None,
                unusable=unusable,
            )
        )
    return tuple(pools)


def _payloads(fields: Sequence[Column], start: int, rows: Sequence[int]) -> tuple[bytes, ...]:
    """The values of a query's rows, with the keys of ``$meta`` as in the client's own output."""
    pairs: list[list[tuple[bytes, bytes]]] = [[] for _ in rows]
    for column in fields:
        try:
            values = column_values(column, Allowance(FIELD_BYTES))
        except ValueError:  # a text that is no UTF-8
            continue
        for entries, row in zip(pairs, rows, strict=True):
            raw = values[start + row]
            if raw is not None:
                entries.extend(_pairs_of(raw) if column.is_dynamic else [(orjson.dumps(column.name), raw)])
    return tuple([object_of(entries) for entries in pairs])


def _pairs_of(raw: bytes) -> list[tuple[bytes, bytes]]:
    """The keys and values of an object, as JSON; none of anything else."""
    try:
        object_members = members_of(raw, whole(raw))
    except ValueError:
        return []
    return [(orjson.dumps(key), raw[slice(*member.span)]) for key, member in object_members.items()]


def _spelled_ids(reply: ReplyDocument) -> tuple[bytes, ...]:
    return tuple(
        [
            orjson.dumps(point_id.decode()) if isinstance(point_id, bytes) else b"%d" % point_id
            for point_id in reply.ids[1]
        ]
    )


# A hybrid search as several searches: a part is ranked like a search with its parameters. Partitions, consistency and output fields are
# those of the whole request. Both messages call these fields alike.

_ENDING = Ending(old="HybridSearch", new="Search")
_ROOT = frozenset(field.name for field in proto.HybridSearch.DESCRIPTOR.fields) - {"requests", "rank_params"}
_LEAF = ("dsl", "placeholder_group", "dsl_type", "search_params", "nq", "expr_template_values")


def divided(call: SearchCall, body: bytes) -> Divided | None:
    if call.operation.name != HYBRID_SEARCH:
        return None
    try:
        return _divided(call, typed(call.document, Document), parsed(proto.HybridSearch, body))
    except (ValueError, UnsupportedError):
        raise UndividedError(Undivided.MEMBER) from None


def _divided(call: SearchCall, request: Document, root: Any) -> Divided:
    parameters = grpc_request.pairs_of(root.rank_params)
    if number(parameters.get(OFFSET, "0")) or parameters.get("round_decimal", UNROUNDED) != UNROUNDED:
        raise UndividedError(Undivided.MEMBER)
    if request.queries != 1 or len(root.requests) > call.needs.bounds.searches:
        raise UndividedError(Undivided.MANY)
    parts, metrics = zip(*[_part(call, request, root, leaf) for leaf in root.requests], strict=True)
    fusion = fusion_of(
        parameters.get("strategy"),
        parameters.get("params", "").encode(),
        metrics=metrics,
        limit=number(parameters["limit"]),
        needs=call.needs,
    )
    return Divided(ending=_ENDING, parts=parts, fusion=fusion)


def _part(call: SearchCall, request: Document, root: Any, leaf: Any) -> tuple[Part, str | None]:
    """A part as a search, and its metric. Raises UndividedError, UnsupportedError or ValueError."""
    for name in ("partition_names", "namespace"):  # servers differ in which counts they use
        theirs = getattr(leaf, name)
        if theirs and theirs != getattr(root, name):
            raise UndividedError(Undivided.MEMBER)
    message = proto.Search(**members(root, _ROOT), **members(leaf, _LEAF))
    read = grpc_request.read_part(message)
    if read.pairs.get("round_decimal", UNROUNDED) != UNROUNDED:
        raise UndividedError(Undivided.MEMBER)
    grpc_request.put(
        message.search_params, {OFFSET: "0"} if read.inner is None else {OFFSET: "0", "params": read.inner}
    )
    is_compared = read.queries.is_comparable and read.pairs.get("anns_field") == request.vector
    query = read.queries.vectors()[0] if is_compared else None
    search = Search(top_k=read.page[0], offset=0, pages=False, query=query)
    text = serialized(message)
    document = Document(body=text, top_k=read.page[0], queries=1, vector=request.vector, chosen=request.chosen)
    made = SearchCall(operation=call.operation, searches=(search,), needs=call.needs, document=document)
    return Part(text, made), read.pairs.get("metric_type")


class MilvusGrpc(GrpcAdapter[Document, ReplyDocument]):
    request_type, reply_type, messages = Document, ReplyDocument, COUNTED
    classify = staticmethod(calls.classify_grpc)
    read_request = staticmethod(grpc_request.read_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(read_reply)
    cut_reply = staticmethod(trim)
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(read_description)
    divided = staticmethod(divided)

    def fused(self, divided: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        documents = [typed(reply.document, ReplyDocument) for reply in replies]
        if not ranked:
            return documents[0].body
        rows = [(index, row) for index, row, _ in ranked]
        used = {index: documents[index] for index in sorted({index for index, _ in rows})}
        answers = {index: parsed(proto.Reply, document.rest) for index, document in used.items()}
        answer = answers[rows[0][0]]
        try:
            _fuse(answer.results, {index: reply.results for index, reply in answers.items()}, used, rows)
        except (ValueError, KeyError) as error:
            raise MalformedReplyError(f"lists of one search are not alike: {error}") from None
        answer.results.scores[:] = [np.array([score for _, _, score in ranked], "<f4").tobytes()]
        if answer.results.HasField("top_k"):
            # Lite says the limit, others the length of the longest list.
            answer.results.top_k = divided.fusion.limit if divided.fusion.is_double else len(rows)
        return serialized(answer)


def _fuse(
    results: Any, lists: Mapping[int, Any], used: Mapping[int, ReplyDocument], rows: Sequence[tuple[int, int]]
) -> None:
    """Rows of several replies in place of those of one, but for the scores. ``lists``: their results. Raises ValueError, KeyError."""
    if results.HasField("all_search_count"):
        results.all_search_count = sum(results.all_search_count for results in lists.values())
    (name,) = {document.ids[0] for document in used.values()}
    getattr(results.ids, name).data[:] = [used[index].ids[1][row] for index, row in rows]
    places = {
        index: {column.name: at for at, column in enumerate(document.columns)} for index, document in used.items()
    }
    for column in used[rows[0][0]].columns:
        theirs = {index: named[column.name] for index, named in places.items()}
        messages = {index: used[index].messages[place] for index, place in theirs.items()}
        columns = {index: used[index].columns[place] for index, place in theirs.items()}
        results.fields_data.append(gathered(messages, columns, rows))
    results.topks[:] = [len(rows)]
    for of_one_list in ("distances", "recalls"):
        results.ClearField(of_one_list)

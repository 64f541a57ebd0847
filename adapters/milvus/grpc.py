"""Milvus over gRPC: the adapter, composed of the files beside it.

Spoken: Search and HybridSearch by dense vectors, servers 2.3 and later. Messages are walked and cut, never decoded and encoded
again. Groups, iterators, ranges, sparse and binary vectors, texts and searches by ids are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import (
    FIELD_BYTES,
    Allowance,
    Bounds,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    Question,
    Reply,
    RequestHead,
    SearchCall,
)
from vecsieve.adapters.milvus import calls, grpc_request
from vecsieve.adapters.milvus.grpc_columns import Box, Strip, Values, column_values, integer, key_values, text_bytes
from vecsieve.adapters.milvus.grpc_reply import (
    COLUMNS,
    IDS,
    NUMBERS,
    OUTPUT,
    RESULTS,
    SCORES,
    TOP_K,
    TOPKS,
    ReplyDocument,
    read_reply,
)
from vecsieve.adapters.milvus.grpc_request import Document
from vecsieve.adapters.milvus.schema import Schema, read_description
from vecsieve.adapters.milvus.search import Chosen, as_matrix
from vecsieve.adapters.wire import protobuf_requests
from vecsieve.adapters.wire.protobuf import LENGTH, Field, encoded, length_field, number_field, only, unsigned
from vecsieve.adapters.wire.vectors import without_vector

# The client's answer, cut from a Milvus reply: kept rows are upstream's own bytes, columns that were added are gone.


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: of query i the rows ``keep[i]`` in that order, without what the request added."""
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
    """A field of the results as the client is to see it."""
    body, chosen = reply.body, request.chosen
    if (aligned := reply.aligned.get(field.start)) is not None:
        return aligned.cut(body, rows)
    if field.number == COLUMNS:
        column = reply.columns[field.start]
        is_ours = column.name in chosen.added or (column.is_dynamic and bool(chosen.keys))
        return b"" if is_ours else column.box.cut(body, rows)
    if field.number == OUTPUT and _is_added(body, field, chosen):
        return b""
    if field.number == TOPKS:
        return length_field(TOPKS, b"".join([encoded(count) for count in counts]))
    if field.number == TOP_K:
        top_k = _top_k(unsigned(body, field), request.top_k, reply.counts, counts)
        return number_field(TOP_K, top_k) if top_k else b""
    return body[field.start : field.end]


def _is_added(body: bytes, field: Field, chosen: Chosen) -> bool:
    return body[slice(*field.span)] in [name.encode() for name in chosen.added]


def _top_k(said: int, asked: int, came: Sequence[int], counts: Sequence[int]) -> int:
    """What the server would have said: Milvus counts the rows of its longest list, Lite repeats what it was asked for."""
    return max(counts) if said == max(came) else min(said, asked)


# The pools of a Milvus reply: scores, vectors, fields and identifiers of the candidates of each query.


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read a reply. Raises MalformedReplyError, nothing else."""
    try:
        reply = read_reply(request, body)
        return _pools(request, needs, reply), reply
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def _pools(request: Document, needs: Needs, reply: ReplyDocument) -> tuple[Pool, ...]:
    rows = sum(reply.counts)
    scores, vectors, ids = _scores(reply, rows), _vectors(request, reply, rows), _spelled_ids(reply)
    values = [
        *[_values(reply, name, rows, None) for name in needs.payload_fields],
        *[_values(reply, name, rows, Allowance(FIELD_BYTES)) for name in needs.optional_fields],
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
                compared_by=request.vector if unusable < count else None,
                unusable=unusable,
            )
        )
    return tuple(pools)


def _scores(reply: ReplyDocument, rows: int) -> npt.NDArray[np.float64]:
    field = only(reply.fields, SCORES, LENGTH)
    if field is None:
        return np.zeros(rows, dtype=np.float64)
    return np.frombuffer(reply.body[slice(*field.span)], dtype="<f4").astype(np.float64)


def _vectors(request: Document, reply: ReplyDocument, rows: int) -> npt.NDArray[np.float32]:
    """(rows, d); d is 0 where no column has them."""
    column = next((each for each in reply.columns.values() if each.name == request.vector), None)
    if column is None or column.vector is None or column.values is None or not column.width:
        return np.full((rows, 0), np.nan, dtype=np.float32)
    edges = column.values.edges
    packed = reply.body[int(edges[0]) : int(edges[-1])]
    return as_matrix(packed, column.vector, column.width, column.elements())


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


def _values(reply: ReplyDocument, name: str, rows: int, allowance: Allowance | None) -> Values:
    """The JSON of a field in each row; None where it has none. ``allowance``: for a field that is optional."""
    for column in reply.columns.values():
        if column.name == name and not column.is_dynamic:
            return column_values(reply.body, column, allowance)
    dynamic = next((column for column in reply.columns.values() if column.is_dynamic), None)
    return [None] * rows if dynamic is None else key_values(column_values(reply.body, dynamic, allowance), name)


class MilvusGrpc:
    """The six verbs, over single messages, and the two of the first step. Holds nothing."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return calls.classify_grpc(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the fields of a message. Raises UnsupportedError where there are too many, nothing else."""
        protobuf_requests.check_size(body, operation.name, grpc_request.MESSAGES, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        return grpc_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's message, asking for the largest of ``fetch_k`` from rank 0 with the fields that are compared."""
        return grpc_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        pools, document = parse_reply(_request(call), call.needs, body)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept rows are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return trim(_request(call), reply.document, keep)

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What describes the collection of a search. Total."""
        return calls.question(body)

    def told(self, body: bytes) -> Schema:
        """Read a description. Raises MalformedReplyError, nothing else."""
        return read_description(body)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document

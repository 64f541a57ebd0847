"""Milvus over gRPC: the pools of a reply; the adapter.

Supported: Search and HybridSearch by dense vectors, servers 2.3 and later. Groups, iterators, ranges, sparse and binary vectors, texts
and searches by ids are passed through.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.base import GrpcAdapter, own
from vecsieve.adapters.contract import FIELD_BYTES, Allowance, MalformedReplyError, Needs, Pool, SearchCall
from vecsieve.adapters.milvus import calls, grpc_fusion, grpc_reply, grpc_request
from vecsieve.adapters.milvus.grpc_columns import (
    Box,
    Column,
    Strip,
    Values,
    column_values,
    integer,
    key_values,
    text_bytes,
)
from vecsieve.adapters.milvus.grpc_reply import IDS, NUMBERS, SCORES, ReplyDocument, read_reply
from vecsieve.adapters.milvus.grpc_request import Document
from vecsieve.adapters.milvus.schema import read_description
from vecsieve.adapters.milvus.search import as_matrix
from vecsieve.adapters.wire.protobuf import LENGTH, only
from vecsieve.adapters.wire.vectors import without_vector


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


class MilvusGrpc(GrpcAdapter[Document, ReplyDocument]):
    """Functions of this package."""

    request_type, reply_type, messages = Document, ReplyDocument, grpc_request.MESSAGES
    classify = staticmethod(calls.classify_grpc)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(parse_reply)
    cut_reply = staticmethod(grpc_reply.trim)
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(read_description)
    divided = staticmethod(grpc_fusion.divided)
    fused = staticmethod(grpc_fusion.fused)

    def again(self, call: SearchCall, ids: Sequence[bytes]) -> bytes | None:
        """As in the contract."""
        return grpc_request.again(own(call.document, Document), ids, call.needs)

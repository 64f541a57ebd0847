"""The pools of a Milvus reply: scores, vectors, fields and identifiers of the candidates of each query."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.allowance import FIELD_BYTES, Allowance
from vecsieve.adapters.contract import Malformed, Needs, Pool
from vecsieve.adapters.milvus_grpc_aligned import Box, Strip
from vecsieve.adapters.milvus_grpc_reply import IDS, NUMBERS, SCORES, ReplyDocument, read_reply
from vecsieve.adapters.milvus_grpc_request import Document
from vecsieve.adapters.milvus_grpc_values import Values, column_values, integer, key_values, text_bytes
from vecsieve.adapters.milvus_vectors import as_matrix
from vecsieve.adapters.proto_wire import LENGTH, only
from vecsieve.adapters.usable import without_vector


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read a reply. Raises Malformed, nothing else."""
    try:
        reply = read_reply(request, body)
        return _pools(request, needs, reply), reply
    except ValueError as error:
        raise Malformed(str(error)) from None


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

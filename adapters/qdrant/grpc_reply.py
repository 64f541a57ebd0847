"""Reads a reply over gRPC: its lists, their points and vectors, and their pools; the client's answer is cut from it.

A point is parsed to be read. What is answered are the opaque bytes of its message, without what was added to the request. The parser
merges what is set twice, as all readers of protobuf do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ..contract import Needs, Pool
from ..wire.json_vectors import stack
from ..wire.protobuf import REPLY_FIELDS, check_count
from ..wire.schema import is_mistyped, parsed
from ..wire.values import RequestedKeys
from ..wire.vectors import Matrix, SparseRow, matrix, row, union_matrix, without_vector
from .grpc_request import Document, Plan
from .grpc_schema import COUNTED, VALUES, proto
from .ranking import Kind, Shape, best


def parsed_reply(kind: Any, body: bytes, *, root: str = "list") -> Any:
    """A reply, or a list of a batch, of that type. Raises ValueError."""
    check_count(body, root, COUNTED)
    message = parsed(kind, body)
    if is_mistyped(message):
        raise ValueError("results of another shape")
    return message


def points_of(body: bytes) -> Sequence[Any]:
    """The points of a list. Raises ValueError."""
    points: Sequence[Any] = parsed_reply(proto.List, body).result
    if len(points) > REPLY_FIELDS:
        raise ValueError(f"{len(points)} points")
    return list(points)


def id_json(identity: Any) -> bytes:
    """As over REST, a number or a quoted UUID. Raises ValueError."""
    if identity.HasField("num"):
        return b"%d" % identity.num
    if identity.HasField("uuid"):
        return orjson.dumps(identity.uuid.decode())
    raise ValueError("an id is neither a number nor a UUID")


def scores_of(points: Iterable[Any]) -> npt.NDArray[np.float64]:
    """(n,), zero where protobuf omits it."""
    return np.array([point.score for point in points], np.float64)


def _version(point: Any) -> bytes:
    """As over REST, with the shard key's message."""
    shard_key = point.shard_key
    return b"%d %s" % (point.version, shard_key) if shard_key else b"%d" % point.version


def fields_of(points: Iterable[Any], needs: Needs) -> tuple[tuple[tuple[bytes | None, ...], ...], bool]:
    """Per point the JSON of each wanted payload key, None where absent, and whether some were left out for their size. Raises ValueError
    for a required key without a JSON form.
    """
    requested = RequestedKeys(needs.payload_fields, needs.optional_fields)
    return tuple([VALUES.chosen(point.payload, requested) for point in points]), requested.is_cut


# Servers up to 1.16 write a vector as numbers beside a list of indices (sparse) or a count of rows (multivector), since 1.17 as a message
# of its kind. Whether names are shown differs between the points of a reply.


def vector_of(vectors: Any, name: str) -> Any | None:
    """A point's vector of that name, "" being the unnamed one."""
    if vectors.HasField("vector"):
        return None if name else vectors.vector
    return vectors.vectors.vectors.get(name)


def named(vectors: Any) -> dict[str, Any]:
    """A point's vectors by name. Raises ValueError, also for a name that is no UTF-8."""
    if vectors.HasField("vector"):
        if vectors.HasField("vectors"):
            raise ValueError("vectors are both one and named ones")
        return {"": vectors.vector}
    return dict(vectors.vectors.vectors)


def kind_of(vector: Any) -> tuple[Kind, Any]:
    """The kind of a vector, and the message with its numbers."""
    if vector.HasField("dense"):
        return Kind.DENSE, vector.dense
    if vector.HasField("sparse"):
        return Kind.SPARSE, vector.sparse
    if vector.HasField("multi_dense"):
        return Kind.MULTI, vector.multi_dense
    if vector.HasField("indices"):
        return Kind.SPARSE, vector
    return Kind.MULTI if vector.HasField("vectors_count") else Kind.DENSE, vector


def dense(vector: Any) -> bytes:
    """The packed floats of a vector; b"" of any that is not dense."""
    kind, message = kind_of(vector)
    return b"".join(message.data) if kind is Kind.DENSE else b""


def sparse(vector: Any) -> tuple[Sequence[int], Matrix]:
    """The indices and the values of a sparse vector."""
    if vector.HasField("sparse"):
        return vector.sparse.indices, np.array(vector.sparse.values, np.float32)
    return vector.indices.data, row(b"".join(vector.data))


def find_best(points: Iterable[Mapping[str, Any]], prefers: str) -> str | None:
    """The name to compare by, when all vectors were fetched."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, vector in point.items():
            if name not in first:
                first[name] = Shape(kind_of(vector)[0], len(dense(vector)))
    return best(first, prefers)


def compare(vectors: Sequence[Any | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32, NaN rows for None and for unusable vectors. The first vector's kind decides for the pool; multivectors are not
    compared.
    """
    kind = next((kind_of(vector)[0] for vector in vectors if vector is not None), Kind.DENSE)
    if kind is Kind.DENSE:
        return matrix([None if vector is None else dense(vector) for vector in vectors])
    if kind is Kind.SPARSE:
        return union_matrix([None if vector is None else _sparse_row(vector) for vector in vectors])
    return stack([None] * len(vectors))


def _sparse_row(vector: Any) -> SparseRow | None:
    """None where there are no indices, or another number of values; for a vector of another kind as well."""
    if kind_of(vector)[0] is not Kind.SPARSE:
        return None
    indices, values = sparse(vector)
    if not indices or len(indices) != len(values):
        return None
    return np.array(indices, np.int64), values


def read_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], bytes]:
    pools = [_pool(plan, points, needs) for plan, points in zip(request.plans, lists(request, body), strict=True)]
    return tuple(pools), body


def lists(request: Document, body: bytes) -> list[bytes]:
    """The list of each plan. Raises ValueError."""
    if request.items is None:
        return [body]
    results = parsed_reply(proto.Reply, body, root="batch").result
    if len(results) != request.items:
        raise ValueError(f"{len(results)} results, wanted {request.items}")
    return [results[plan.index] for plan in request.plans]


def _pool(plan: Plan, body: bytes, needs: Needs) -> Pool:
    points = points_of(body)
    name, vectors = _compared(plan, points)
    values, is_cut = fields_of(points, needs)
    return Pool(
        scores=scores_of(points),
        vectors=vectors,
        fields=values,
        payloads=lambda rows: _payloads(body, rows),
        is_cut=is_cut or plan.payload.is_cut,
        ids=tuple([id_json(point.id) for point in points]),
        versions=tuple([_version(point) for point in points]),
        vector_name=name if plan.name is None else None,
        compared_by=name,
        unusable=without_vector(vectors),
    )


def _payloads(body: bytes, rows: Sequence[int]) -> tuple[bytes | None, ...]:
    """Whole payloads, their keys in the order of the reply, which a parsed map does not keep."""
    points = parsed(proto.Reply, body).result
    return VALUES.readable(proto.Payload, [points[row] for row in rows], attrgetter("payload"))


def _compared(plan: Plan, points: Sequence[Any]) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare by, and (n, d) the vectors. Raises ValueError."""
    name = plan.name
    if name is None:
        name = find_best([named(parsed(proto.Vectors, point.vectors)) for point in points], plan.prefers)
    if name is None or not (plan.fetches or plan.selection):
        return name, np.empty((len(points), 0), np.float32)
    return name, vectors_of(points, name)


def vectors_of(points: Iterable[Any], name: str) -> npt.NDArray[np.float32]:
    """The points' vectors of that name, as `compare` has them. Raises ValueError."""
    return compare([vector_of(parsed(proto.Vectors, point.vectors), name) for point in points])

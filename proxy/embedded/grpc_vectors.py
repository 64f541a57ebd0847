"""Vectors: messages as JSON values, and the engine's vectors put into messages in the encoding of one server or another."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.proto_wire import length_field
from vecsieve.proxy.embedded.errors import Refusal, not_served
from vecsieve.proxy.embedded.fields import Json

_VALUES = 1
"""`data` or `values`: the numbers of a vector stand in field 1 of every message that has some."""


class Encoding(StrEnum):
    """How a vector goes out."""

    ONEOF = "oneof"
    """Servers since 1.17: `dense`, `sparse` or `multi_dense`."""
    DATA = "data"
    """Servers up to 1.16: the numbers in a row in `data`, beside them `indices` or `vectors_count`."""


def read_vectors(vectors: Any) -> Json:
    """A Vectors: one unnamed vector, or an object of named ones."""
    kind = vectors.WhichOneof("vectors_options")
    if kind is None:
        raise Refusal(400, "Expected some vectors")
    if kind == "vector":
        return read_vector(vectors.vector)
    named = vectors.vectors.vectors
    return {name: read_vector(named[name]) for name in named}


def read_vector(vector: Any) -> Json:
    """A Vector in any of its spellings, old and new."""
    match vector.WhichOneof("vector"):
        case None:
            return _read_data(vector)
        case "dense":
            return vector.dense.data[:]
        case "sparse":
            return sparse(vector.sparse.indices, vector.sparse.values)
        case "multi_dense":
            return [row.data[:] for row in vector.multi_dense.vectors]
    raise not_served("inference; send vectors")


def sparse(indices: Any, values: Any) -> dict[str, Json]:
    """A sparse vector in JSON, from two repeated fields."""
    return {"indices": indices[:], "values": values[:]}


def write_vectors(target: Any, value: Json, encoding: Encoding) -> None:
    """Fill a VectorsOutput with what `replies.shown_vector` made: a bare vector, or an object of named ones, even empty."""
    if not isinstance(value, dict):
        _write_vector(target.vector, value, encoding)
        return
    target.vectors.SetInParent()
    for name, vector in value.items():
        _write_vector(target.vectors.vectors[name], vector, encoding)


def _read_data(vector: Any) -> Json:
    if vector.HasField("indices"):
        return sparse(vector.indices.data, vector.data)
    if not vector.HasField("vectors_count"):
        return vector.data[:]
    count, numbers = vector.vectors_count, vector.data[:]
    if count == 0 or len(numbers) % count:
        raise Refusal(400, f"{len(numbers)} numbers cannot be {count} vectors of one length")
    width = len(numbers) // count
    return [numbers[start : start + width] for start in range(0, len(numbers), width)]


def _write_vector(target: Any, value: Json, encoding: Encoding) -> None:
    is_new = encoding is Encoding.ONEOF
    if isinstance(value, dict):
        holder = target.sparse if is_new else target
        holder.MergeFromString(_packed(value["values"]))
        (target.sparse.indices if is_new else target.indices.data).extend(value["indices"])
        return
    rows = np.asarray(value)
    if rows.ndim == 1:
        (target.dense if is_new else target).MergeFromString(_packed(rows))
    elif is_new:
        for row in rows:
            target.multi_dense.vectors.add().MergeFromString(_packed(row))
    else:
        target.MergeFromString(_packed(rows))
        target.vectors_count = len(rows)


def _packed(numbers: npt.NDArray[np.float32]) -> bytes:
    """The field as it stands on the wire: merging it costs a copy, where appending 1,536 floats costs a call each."""
    return length_field(_VALUES, np.ascontiguousarray(numbers, dtype="<f4").tobytes())

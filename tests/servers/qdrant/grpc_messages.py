"""The one door to the official client's messages and to its conversions between them and the REST models.

Both are loaded on first use: `serve` starts without the client.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from servers.embedded.fields import Json, RefusalError, not_served

from vecsieve.adapters.wire.protobuf import length_field

_CLAUSES = frozenset({"must", "should", "must_not"})


def messages() -> Any:
    """The message classes. `Any`, because they are generated: this file is where their types end."""
    return importlib.import_module("qdrant_client.grpc")


def rest_models() -> Any:
    """The classes of the REST interface's values."""
    return importlib.import_module("qdrant_client.http.models")


def to_rest() -> Any:
    """Conversions from messages to REST models. They raise ValueError for a message that lacks what it must have."""
    return importlib.import_module("qdrant_client.conversions.conversion").GrpcToRest


def to_grpc() -> Any:
    """Conversions from REST models to messages."""
    return importlib.import_module("qdrant_client.conversions.conversion").RestToGrpc


def decoded(name: str, raw: bytes) -> Any:
    """The message of that class. Raises ValueError for bytes that are none."""
    error = importlib.import_module("google.protobuf.message").DecodeError
    try:
        return getattr(messages(), name).FromString(raw)
    except error:
        raise ValueError(f"failed to decode Protobuf message: {name}") from None


def as_json(model: Any) -> Json:
    """A REST model, or lists and dicts of them, as the JSON a client would send."""
    return _pruned(TypeAdapter(Any).dump_python(model, mode="json", by_alias=True, exclude_none=True))


def _pruned(value: Json) -> Json:
    """Without the clauses that hold no condition.

    The conversions make an empty clause of an absent one. qdrant-edge-py 0.9.0 tells them apart: inside a nested
    condition an empty `should` matches nothing.
    """
    if isinstance(value, dict):
        return {name: _pruned(item) for name, item in value.items() if item != [] or name not in _CLAUSES}
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return [_pruned(item) for item in value]
    return value


# Ids and payloads: messages as JSON values, and JSON values put into messages.

_SIGNED = range(-(2**63), 2**63)
_JSON_NULL = 0  # the one member of NullValue


def read_id(point: Any) -> int | str:
    """A PointId; the core checks the form of a UUID."""
    kind = point.WhichOneof("point_id_options")
    if kind is None:
        raise RefusalError(400, "No ID options provided")
    identifier: int | str = getattr(point, kind)
    return identifier


def read_payload(values: Mapping[str, Any]) -> dict[str, Json]:
    """A map of Value. Raises the server's refusal of a number JSON does not have."""
    return {name: read_value(values[name]) for name in values}


def read_value(value: Any) -> Json:
    """A Value; one that says nothing is null."""
    kind = value.WhichOneof("kind")
    if kind in {None, "null_value"}:
        return None
    if kind == "struct_value":
        return read_payload(value.struct_value.fields)
    if kind == "list_value":
        return [read_value(item) for item in value.list_value.values]
    content = getattr(value, kind)
    if isinstance(content, float) and not math.isfinite(content):
        raise RefusalError(400, "cannot convert to json number")
    return content


def write_id(target: Any, identifier: int | str) -> None:
    """Fill a PointId."""
    if isinstance(identifier, int):
        target.num = identifier
    else:
        target.uuid = identifier


def write_payload(target: Any, payload: Mapping[str, Json]) -> None:
    """Fill a map of Value."""
    for name, value in payload.items():
        write_value(target[name], value)


def write_value(target: Any, value: Json) -> None:
    """Fill a Value. As in the server, a whole number past 64 signed bits becomes a double."""
    match value:
        case None:
            target.null_value = _JSON_NULL
        case bool():
            target.bool_value = value
        case int() if value in _SIGNED:
            target.integer_value = value
        case int() | float():
            target.double_value = value
        case str():
            target.string_value = value
        case list():
            target.list_value.SetInParent()  # an empty list is a list, not nothing
            for item in value:
                write_value(target.list_value.values.add(), item)
        case dict():
            target.struct_value.SetInParent()
            write_payload(target.struct_value.fields, value)


# Vectors: messages as JSON values, and the engine's vectors put into messages in the encoding of one server or another.

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
        raise RefusalError(400, "Expected some vectors")
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
    """Fill a VectorsOutput with what `replies.vector_json` made: a bare vector, or an object of named ones, even empty."""
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
        raise RefusalError(400, f"{len(numbers)} numbers cannot be {count} vectors of one length")
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


# Points and what is said about them: the core's JSON values put into reply messages.
#
# Each function fills the reply of one shape: `(reply, value, encoding)`.

Writer = Callable[[Any, Json, Encoding], None]


def ranked(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: ScoredPoint; the value is a bare list, or `{"points"}`."""
    for point in value["points"] if isinstance(value, dict) else value:
        _write_scored(reply.result.add(), point, encoding)


def ranked_batch(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: BatchResult."""
    for answer in value:
        ranked(reply.result.add(), answer, encoding)


def groups(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: GroupsResult, there even without groups."""
    reply.result.SetInParent()
    for group in value["groups"]:
        target = reply.result.groups.add()
        _write_group_id(target.id, group["id"])
        for point in group["hits"]:
            _write_scored(target.hits.add(), point, encoding)
        if "lookup" in group:
            _write_record(target.lookup, group["lookup"], encoding)


def records(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: RetrievedPoint."""
    for point in value:
        _write_record(reply.result.add(), point, encoding)


def scroll(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result` and where the next page starts."""
    records(reply, value["points"], encoding)
    if value["next_page_offset"] is not None:
        write_id(reply.next_page_offset, value["next_page_offset"])


def count(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: CountResult."""
    reply.result.count = value["count"]


def facet(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`hits`: FacetHit."""
    kinds = {bool: "bool_value", int: "integer_value", str: "string_value"}
    for hit in value["hits"]:
        target = reply.hits.add(count=hit["count"])
        setattr(target.value, kinds[type(hit["value"])], hit["value"])


def pairs(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: SearchMatrixPairs, there even without pairs."""
    reply.result.SetInParent()
    for pair in value["pairs"]:
        target = reply.result.pairs.add(score=pair["score"])
        write_id(target.a, pair["a"])
        write_id(target.b, pair["b"])


def offsets(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: SearchMatrixOffsets, there even without points."""
    reply.result.SetInParent()
    for name in ("offsets_row", "offsets_col", "scores"):
        getattr(reply.result, name).extend(value[name])
    for identifier in value["ids"]:
        write_id(reply.result.ids.add(), identifier)


def written(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: UpdateResult."""
    _write_update(reply.result, value)


def written_batch(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: UpdateResult, one for each operation."""
    for update in value:
        _write_update(reply.result.add(), update)


def _write_update(target: Any, value: Json) -> None:
    statuses = messages().UpdateStatus
    target.operation_id = value["operation_id"]
    target.status = statuses.Completed if value["status"] == "completed" else statuses.Acknowledged


def _write_scored(target: Any, point: Json, encoding: Encoding) -> None:
    target.version = point["version"]
    target.score = point["score"]
    _write_record(target, point, encoding)


def _write_record(target: Any, point: Json, encoding: Encoding) -> None:
    write_id(target.id, point["id"])
    write_payload(target.payload, point.get("payload", {}))
    if "vector" in point:
        write_vectors(target.vectors, point["vector"], encoding)
    order = point.get("order_value")
    if order is not None:
        setattr(target.order_value, "int" if isinstance(order, int) else "float", order)


def _write_group_id(target: Any, value: int | str) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif value < 0:
        target.integer_value = value
    else:
        target.unsigned_value = value

"""Writes to points, as messages: what they say in the JSON of the REST interface."""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.errors import Refusal
from vecsieve.proxy.embedded.fields import Json
from vecsieve.proxy.embedded.grpc_messages import said, to_rest
from vecsieve.proxy.embedded.grpc_requests import call, read_shared
from vecsieve.proxy.embedded.grpc_values import read_id, read_payload
from vecsieve.proxy.embedded.grpc_vectors import read_vectors

# FieldType by number, as the payload schema calls it.
_FIELD_TYPES = ("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid")


def upsert(message: Any) -> Call:
    """UpsertPoints."""
    return call(message, _upsert(message))


def delete(message: Any) -> Call:
    """DeletePoints."""
    return call(message, _delete(message))


def payload(message: Any) -> Call:
    """SetPayloadPoints, which sets or overwrites."""
    return call(message, _payload(message))


def delete_payload(message: Any) -> Call:
    """DeletePayloadPoints."""
    return call(message, _delete_payload(message))


def clear_payload(message: Any) -> Call:
    """ClearPayloadPoints."""
    return call(message, _delete(message))


def update_vectors(message: Any) -> Call:
    """UpdatePointVectors."""
    return call(message, _update_vectors(message))


def delete_vectors(message: Any) -> Call:
    """DeletePointVectors."""
    return call(message, _delete_vectors(message))


def batch(message: Any) -> Call:
    """UpdateBatchPoints."""
    return call(message, {"operations": [_operation(operation) for operation in message.operations]})


def create_index(message: Any) -> Call:
    """CreateFieldIndexCollection. Parameters say the type as well; where both are given, they win."""
    body: dict[str, Json] = {"field_name": message.field_name}
    if message.HasField("field_index_params"):
        body["field_schema"] = said(to_rest().convert_payload_schema_params(message.field_index_params))
    elif message.HasField("field_type"):
        if not 0 <= message.field_type < len(_FIELD_TYPES):
            raise Refusal(400, "cannot convert field_type")
        body["field_schema"] = _FIELD_TYPES[message.field_type]
    return call(message, body)


def delete_index(message: Any) -> Call:
    """DeleteFieldIndexCollection."""
    return call(message, None, field=message.field_name)


def create_vector(message: Any) -> Call:
    """CreateVectorNameRequest."""
    convert = to_rest()
    match message.WhichOneof("vector_config"):
        case "dense_config":
            given, kind = message.dense_config, "dense"
            body = {"size": given.size, "distance": said(convert.convert_distance(given.distance))}
            if given.HasField("multivector_config"):
                body["multivector_config"] = said(convert.convert_multivector_config(given.multivector_config))
        case "sparse_config":
            given, kind, body = message.sparse_config, "sparse", {}
            if given.HasField("modifier"):
                body["modifier"] = said(convert.convert_modifier(given.modifier))
        case _:
            raise Refusal(400, "vector_config is required (dense_config or sparse_config)")
    if given.HasField("datatype"):
        body["datatype"] = said(convert.convert_datatype(given.datatype))
    return call(message, {kind: body}, vector=message.vector_name)


def delete_vector(message: Any) -> Call:
    """DeleteVectorNameRequest."""
    return call(message, None, vector=message.vector_name)


def _upsert(message: Any) -> dict[str, Json]:
    return read_shared(message) | {"points": [_point(point) for point in message.points]}


def _delete(message: Any) -> dict[str, Json]:
    return read_shared(message) | _selected(message, "points")


def _payload(message: Any) -> dict[str, Json]:
    return read_shared(message) | _selected(message) | {"payload": read_payload(message.payload)}


def _delete_payload(message: Any) -> dict[str, Json]:
    return read_shared(message) | _selected(message) | {"keys": message.keys[:]}


def _update_vectors(message: Any) -> dict[str, Json]:
    points = [{"id": read_id(point.id), "vector": read_vectors(point.vectors)} for point in message.points]
    return read_shared(message) | {"points": points}


def _delete_vectors(message: Any) -> dict[str, Json]:
    return read_shared(message) | _selected(message) | {"vector": message.vectors.names[:]}


def _operation(operation: Any) -> dict[str, Json]:
    kind = operation.WhichOneof("operation")
    if kind is None:
        raise Refusal(400, "Operation is missing")
    name, read = _OPERATIONS[kind]
    return {name: read(getattr(operation, kind))}


def _selected(message: Any, field: str = "points_selector") -> dict[str, Json]:
    if not message.HasField(field):
        raise Refusal(400, "PointsSelector is missing")
    return _selector(getattr(message, field))


def _selector(selector: Any) -> dict[str, Json]:
    match selector.WhichOneof("points_selector_one_of"):
        case "points":
            return {"points": [read_id(point) for point in selector.points.ids]}
        case "filter":
            return {"filter": said(to_rest().convert_filter(selector.filter))}
    raise Refusal(400, "Malformed PointsSelector type")


def _point(point: Any) -> dict[str, Json]:
    return {
        "id": read_id(point.id),
        "vector": read_vectors(point.vectors),
        "payload": read_payload(point.payload),
    }


# Operation of a batch: its name in JSON and how its message is read. The deprecated ones are a bare selector.
_OPERATIONS = {
    "upsert": ("upsert", _upsert),
    "delete_deprecated": ("delete", _selector),
    "set_payload": ("set_payload", _payload),
    "overwrite_payload": ("overwrite_payload", _payload),
    "delete_payload": ("delete_payload", _delete_payload),
    "clear_payload_deprecated": ("clear_payload", _selector),
    "update_vectors": ("update_vectors", _update_vectors),
    "delete_vectors": ("delete_vectors", _delete_vectors),
    "delete_points": ("delete", _delete),
    "clear_payload": ("clear_payload", _delete),
}

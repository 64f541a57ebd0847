"""Reads, as messages: what they say in the JSON of the REST interface, which is what the core's verbs take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from servers.embedded.collections import Call
from servers.embedded.fields import Json, RefusalError, bad_value
from servers.qdrant.grpc_messages import (
    Encoding,
    as_json,
    read_id,
    read_payload,
    read_vector,
    read_vectors,
    rest_models,
    sparse,
    to_grpc,
    to_rest,
)

Reader = Callable[[Any], Json]


def _converted(name: str) -> Reader:
    return lambda value: as_json(getattr(to_rest(), name)(value))


def _per_item(name: str) -> Reader:
    return lambda values: [as_json(getattr(to_rest(), name)(value)) for value in values]


def _itself(value: Any) -> Json:
    return value


# Field of a message: its name in JSON and how its value is read. `collection_name` is in the path, `wait` and `timeout` in
# the query; consistency and ordering mean nothing to one process.
_FIELDS: dict[str, tuple[str, Reader]] = {
    "exact": ("exact", _itself),
    "filter": ("filter", _converted("convert_filter")),
    "group_by": ("group_by", _itself),
    "group_size": ("group_size", _itself),
    "key": ("key", _itself),
    "limit": ("limit", _itself),
    "lookup_from": ("lookup_from", _converted("convert_lookup_location")),
    "offset": ("offset", lambda value: value if isinstance(value, int) else read_id(value)),
    "order_by": ("order_by", _converted("convert_order_by")),
    "sample": ("sample", _itself),
    "params": ("params", _converted("convert_search_params")),
    "prefetch": ("prefetch", _per_item("convert_prefetch_query")),
    "query": ("query", _converted("convert_query")),
    "score_threshold": ("score_threshold", _itself),
    "shard_key_selector": ("shard_key", _converted("convert_shard_key_selector")),
    "strategy": ("strategy", _converted("convert_recommend_strategy")),
    "update_filter": ("update_filter", _converted("convert_filter")),
    "update_mode": ("update_mode", _converted("convert_update_mode")),
    "using": ("using", _itself),
    "with_lookup": ("with_lookup", _converted("convert_with_lookup")),
    "with_payload": ("with_payload", _converted("convert_with_payload_interface")),
    "with_vectors": ("with_vector", _converted("convert_with_vectors_selector")),
}


def read_shared(message: Any) -> dict[str, Json]:
    """The fields that are set and mean the same in every message that has them."""
    known = ((_FIELDS[field.name], value) for field, value in message.ListFields() if field.name in _FIELDS)
    return {name: read(value) for (name, read), value in known}


def call(message: Any, body: Json, **path: str) -> Call:
    """The Call of a message about one collection. Raises the refusal of a timeout of no seconds."""
    fields = message.DESCRIPTOR.fields_by_name
    if "timeout" in fields and message.HasField("timeout") and message.timeout == 0:
        raise bad_value("timeout", "value 0 invalid, must be 1 or larger")
    query = {"wait": "true"} if "wait" in fields and message.wait else {}
    return Call({"collection": message.collection_name, **path}, query, body)


def plain(message: Any) -> Call:
    """Query, groups of it, scroll, count, facet: nothing but shared fields."""
    return call(message, read_shared(message))


def get(message: Any) -> Call:
    """GetPoints."""
    return call(message, read_shared(message) | {"ids": [read_id(point) for point in message.ids]})


def query_batch(message: Any) -> Call:
    """QueryBatchPoints."""
    return _batch(message, message.query_points, read_shared)


def search(message: Any) -> Call:
    """SearchPoints."""
    return call(message, _search(message))


def search_batch(message: Any) -> Call:
    """SearchBatchPoints."""
    return _batch(message, message.search_points, _search)


def search_groups(message: Any) -> Call:
    """SearchPointGroups."""
    return call(message, _search(message) | {"group_size": message.group_size})


def recommend(message: Any) -> Call:
    """RecommendPoints."""
    return call(message, _recommend(message))


def recommend_batch(message: Any) -> Call:
    """RecommendBatchPoints."""
    return _batch(message, message.recommend_points, _recommend)


def recommend_groups(message: Any) -> Call:
    """RecommendPointGroups."""
    return call(message, _recommend(message) | {"group_size": message.group_size})


def discover(message: Any) -> Call:
    """DiscoverPoints."""
    return call(message, _discover(message))


def discover_batch(message: Any) -> Call:
    """DiscoverBatchPoints."""
    return _batch(message, message.discover_points, _discover)


def _batch(message: Any, parts: Sequence[Any], read: Callable[[Any], Json]) -> Call:
    return call(message, {"searches": [read(part) for part in parts]})


def _search(message: Any) -> dict[str, Json]:
    vector: Json = message.vector[:]
    if message.HasField("sparse_indices"):
        vector = {"name": message.vector_name, "vector": sparse(message.sparse_indices.data, message.vector)}
    elif message.HasField("vector_name"):
        vector = {"name": message.vector_name, "vector": vector}
    return _legacy(message) | {"vector": vector}


def _recommend(message: Any) -> dict[str, Json]:
    examples = {
        side: [
            *(read_id(point) for point in getattr(message, side)),
            *(read_vector(vector) for vector in getattr(message, f"{side}_vectors")),
        ]
        for side in ("positive", "negative")
    }
    return _legacy(message) | examples


def _discover(message: Any) -> dict[str, Json]:
    target = {"target": _example(message.target.single)} if message.HasField("target") else {}
    context = [{"positive": _example(pair.positive), "negative": _example(pair.negative)} for pair in message.context]
    return _legacy(message) | target | {"context": context}


def _legacy(message: Any) -> dict[str, Json]:
    # The limit of the older messages has no presence: left out, it is 0, and refused for that.
    return read_shared(message) | {"limit": message.limit}


def _example(example: Any) -> Json:
    match example.WhichOneof("example"):
        case "id":
            return read_id(example.id)
        case "vector":
            return read_vector(example.vector)
    raise RefusalError(400, "Vector example is malformed")


# Collections and aliases: their messages in the JSON of the REST interface, and the core's values in reply messages.

# Field of CreateCollection: its name in JSON, and the conversion of its value.
_CREATED = {
    "vectors_config": ("vectors", "convert_vectors_config"),
    "sparse_vectors_config": ("sparse_vectors", "convert_sparse_vector_config"),
    "hnsw_config": ("hnsw_config", "convert_hnsw_config_diff"),
    "optimizers_config": ("optimizers_config", "convert_optimizers_config_diff"),
    "quantization_config": ("quantization_config", "convert_quantization_config"),
    "strict_mode_config": ("strict_mode_config", "convert_strict_mode_config"),
    "sharding_method": ("sharding_method", "convert_sharding_method"),
}


def named(message: Any) -> Call:
    """A request that only names a collection."""
    return Call({"collection": message.collection_name})


def nothing(_message: Any) -> Call:
    """A request that says nothing."""
    return Call()


def create(message: Any) -> Call:
    """CreateCollection."""
    present = ((_CREATED[field.name], value) for field, value in message.ListFields() if field.name in _CREATED)
    body: dict[str, Json] = {name: as_json(getattr(to_rest(), convert)(value)) for (name, convert), value in present}
    if message.HasField("on_disk_payload"):
        body["on_disk_payload"] = message.on_disk_payload
    if message.metadata:
        body["metadata"] = read_payload(message.metadata)
    return Call({"collection": message.collection_name}, body=body)


def change(message: Any) -> Call:
    """UpdateCollection."""
    return Call({"collection": message.collection_name}, body=as_json(to_rest().convert_update_collection(message)))


def change_aliases(message: Any) -> Call:
    """ChangeAliases."""
    actions = [as_json(to_rest().convert_alias_operations(action)) for action in message.actions]
    return Call(body={"actions": actions})


def done(reply: Any, value: Json, _encoding: Encoding) -> None:
    """CollectionOperationResponse, of True or False."""
    reply.result = value


def exists(reply: Any, value: Json, _encoding: Encoding) -> None:
    """CollectionExistsResponse."""
    reply.result.exists = value["exists"]


def listing(reply: Any, value: Json, _encoding: Encoding) -> None:
    """ListCollectionsResponse."""
    for collection in value["collections"]:
        reply.collections.add(name=collection["name"])


def aliases(reply: Any, value: Json, _encoding: Encoding) -> None:
    """ListAliasesResponse."""
    for alias in value["aliases"]:
        reply.aliases.add(**alias)


def info(reply: Any, value: Json, _encoding: Encoding) -> None:
    """GetCollectionInfoResponse."""
    model = rest_models().CollectionInfo.model_validate(value)
    reply.result.CopyFrom(to_grpc().convert_collection_info(model))


# Writes to points, as messages: what they say in the JSON of the REST interface.

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
        body["field_schema"] = as_json(to_rest().convert_payload_schema_params(message.field_index_params))
    elif message.HasField("field_type"):
        if not 0 <= message.field_type < len(_FIELD_TYPES):
            raise RefusalError(400, "cannot convert field_type")
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
            body = {"size": given.size, "distance": as_json(convert.convert_distance(given.distance))}
            if given.HasField("multivector_config"):
                body["multivector_config"] = as_json(convert.convert_multivector_config(given.multivector_config))
        case "sparse_config":
            given, kind, body = message.sparse_config, "sparse", {}
            if given.HasField("modifier"):
                body["modifier"] = as_json(convert.convert_modifier(given.modifier))
        case _:
            raise RefusalError(400, "vector_config is required (dense_config or sparse_config)")
    if given.HasField("datatype"):
        body["datatype"] = as_json(convert.convert_datatype(given.datatype))
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
        raise RefusalError(400, "Operation is missing")
    name, read = _OPERATIONS[kind]
    return {name: read(getattr(operation, kind))}


def _selected(message: Any, field: str = "points_selector") -> dict[str, Json]:
    if not message.HasField(field):
        raise RefusalError(400, "PointsSelector is missing")
    return _selector(getattr(message, field))


def _selector(selector: Any) -> dict[str, Json]:
    match selector.WhichOneof("points_selector_one_of"):
        case "points":
            return {"points": [read_id(point) for point in selector.points.ids]}
        case "filter":
            return {"filter": as_json(to_rest().convert_filter(selector.filter))}
    raise RefusalError(400, "Malformed PointsSelector type")


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

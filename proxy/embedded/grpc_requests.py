"""Reads, as messages: what they say in the JSON of the REST interface, which is what the core's verbs take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.errors import Refusal, bad_value
from vecsieve.proxy.embedded.fields import Json
from vecsieve.proxy.embedded.grpc_messages import said, to_rest
from vecsieve.proxy.embedded.grpc_values import read_id
from vecsieve.proxy.embedded.grpc_vectors import read_vector, sparse

Reader = Callable[[Any], Json]


def _converted(name: str) -> Reader:
    return lambda value: said(getattr(to_rest(), name)(value))


def _each(name: str) -> Reader:
    return lambda values: [said(getattr(to_rest(), name)(value)) for value in values]


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
    "prefetch": ("prefetch", _each("convert_prefetch_query")),
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
    raise Refusal(400, "Vector example is malformed")

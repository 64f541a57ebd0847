"""Collections and aliases: their messages in the JSON of the REST interface, and the core's values in reply messages."""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.fields import Json
from vecsieve.proxy.embedded.grpc_messages import rest_models, said, to_grpc, to_rest
from vecsieve.proxy.embedded.grpc_values import read_payload
from vecsieve.proxy.embedded.grpc_vectors import Encoding

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
    body: dict[str, Json] = {name: said(getattr(to_rest(), convert)(value)) for (name, convert), value in present}
    if message.HasField("on_disk_payload"):
        body["on_disk_payload"] = message.on_disk_payload
    if message.metadata:
        body["metadata"] = read_payload(message.metadata)
    return Call({"collection": message.collection_name}, body=body)


def change(message: Any) -> Call:
    """UpdateCollection."""
    return Call({"collection": message.collection_name}, body=said(to_rest().convert_update_collection(message)))


def change_aliases(message: Any) -> Call:
    """ChangeAliases."""
    actions = [said(to_rest().convert_alias_operations(action)) for action in message.actions]
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

"""Collections and aliases in messages."""

from __future__ import annotations

from typing import Any

from servers.qdrant import catalogue, grpc_requests
from servers.qdrant.grpc_messages import Encoding, messages

from support.embedded_core import full_core

COSINE = 1


def filled(name: str, write: Any, value: Any) -> Any:
    reply = getattr(messages(), name)()
    write(reply, value, Encoding.ONEOF)
    return reply


def test_a_collection_is_made_from_what_the_message_sets() -> None:
    params = {"size": 3, "distance": COSINE}
    message = messages().CreateCollection(
        collection_name="c",
        vectors_config={"params_map": {"map": {"v": params}}},
        sparse_vectors_config={"map": {"sp": {}}},
        hnsw_config={"m": 0},
        on_disk_payload=False,
        strict_mode_config={"enabled": True, "max_query_limit": 7},
        timeout=5,
    )
    message.metadata["a"].list_value.values.add().bool_value = True
    call = grpc_requests.create(message)
    assert call.path == {"collection": "c"}
    assert call.body == {
        "vectors": {"v": {"size": 3, "distance": "Cosine"}},
        "sparse_vectors": {"sp": {}},
        "hnsw_config": {"m": 0},
        "on_disk_payload": False,
        "strict_mode_config": {"enabled": True, "max_query_limit": 7},
        "metadata": {"a": [True]},
    }
    assert grpc_requests.create(messages().CreateCollection(collection_name="c")).body == {}


def test_a_single_vector_is_not_named() -> None:
    message = messages().CreateCollection(vectors_config={"params": {"size": 3, "distance": COSINE}})
    assert grpc_requests.create(message).body == {"vectors": {"size": 3, "distance": "Cosine"}}


def test_a_change_says_only_what_changes() -> None:
    message = messages().UpdateCollection(collection_name="c", optimizers_config={"indexing_threshold": 0})
    assert grpc_requests.change(message).body == {"optimizers_config": {"indexing_threshold": 0}}


def test_alias_operations_keep_their_order() -> None:
    actions = [
        {"create_alias": {"collection_name": "c", "alias_name": "a"}},
        {"rename_alias": {"old_alias_name": "a", "new_alias_name": "b"}},
        {"delete_alias": {"alias_name": "b"}},
    ]
    assert grpc_requests.change_aliases(messages().ChangeAliases(actions=actions)).body == {"actions": actions}


def test_small_answers_say_what_the_core_said() -> None:
    assert filled("CollectionOperationResponse", grpc_requests.done, True).result is True
    assert filled("CollectionExistsResponse", grpc_requests.exists, {"exists": True}).result.exists is True
    listed = filled("ListCollectionsResponse", grpc_requests.listing, {"collections": [{"name": "b"}, {"name": "a"}]})
    assert [collection.name for collection in listed.collections] == ["b", "a"]
    pair = {"alias_name": "a", "collection_name": "c"}
    aliases = filled("ListAliasesResponse", grpc_requests.aliases, {"aliases": [pair]}).aliases
    assert [(alias.alias_name, alias.collection_name) for alias in aliases] == [("a", "c")]


def test_the_info_of_a_collection_without_vectors_fits_its_message() -> None:
    with full_core() as running:
        running.call(catalogue.create, {})
        reply = filled("GetCollectionInfoResponse", grpc_requests.info, running.call(catalogue.info)).result
    assert reply.status == messages().CollectionStatus.Green
    assert (reply.points_count, reply.segments_count > 0, reply.optimizer_status.ok) == (0, True, True)
    assert reply.config.hnsw_config.ef_construct == 100

"""Reads, as messages, in the words of the REST interface."""

from __future__ import annotations

from typing import Any

import pytest
from servers.qdrant import catalogue, grpc_requests
from servers.qdrant import grpc_requests as requests
from servers.qdrant.grpc_messages import Encoding, messages

from support.embedded_core import full_core
from vecsieve.proxy.demo.embedded.fields import RefusalError

VECTOR = {"data": [1.0, 0.5]}


def made(name: str, **fields: Any) -> Any:
    return getattr(messages(), name)(collection_name="c", **fields)


def test_a_query_says_what_the_message_says_and_nothing_more() -> None:
    full = made(
        "QueryPoints",
        query={"nearest": {"dense": VECTOR}},
        using="v",
        limit=5,
        offset=0,
        score_threshold=0.5,
        filter={"must": [{"has_vector": {"has_vector": "v"}}]},
        params={"hnsw_ef": 9, "exact": False},
        with_vectors={"include": {"names": ["v"]}},
        with_payload={"enable": False},
        lookup_from={"collection_name": "o", "vector_name": "w"},
        prefetch=[{"query": {"nearest": {"id": {"num": 3}}}, "limit": 2}],
        read_consistency={"factor": 1},
        timeout=3,
    )
    call = requests.plain(full)
    assert (call.path, call.query) == ({"collection": "c"}, {})
    assert call.body == {
        "query": {"nearest": [1.0, 0.5]},
        "using": "v",
        "limit": 5,
        "offset": 0,
        "score_threshold": 0.5,
        "filter": {"must": [{"has_vector": "v"}]},
        "params": {"hnsw_ef": 9, "exact": False},
        "with_vector": ["v"],
        "with_payload": False,
        "lookup_from": {"collection": "o", "vector": "w"},
        "prefetch": [{"query": {"nearest": 3}, "limit": 2}],
    }
    assert requests.plain(made("QueryPoints")).body == {}


def test_a_selector_of_no_names_is_a_selector() -> None:
    assert requests.plain(made("QueryPoints", with_vectors={"include": {}})).body == {"with_vector": []}


@pytest.mark.parametrize("name", ["QueryPoints", "SearchPoints", "ScrollPoints", "UpsertPoints"])
def test_a_timeout_of_no_seconds_is_refused(name: str) -> None:
    with pytest.raises(RefusalError, match="timeout: value 0 invalid") as caught:
        requests.call(made(name, timeout=0), {})
    assert caught.value.status == 422


def test_a_search_names_its_vector_only_when_the_message_does() -> None:
    assert requests.search(made("SearchPoints", vector=[1, 2], limit=3)).body == {"vector": [1.0, 2.0], "limit": 3}
    named = requests.search(made("SearchPoints", vector=[1], vector_name="v", limit=3)).body
    assert named == {"vector": {"name": "v", "vector": [1.0]}, "limit": 3}
    thin = requests.search(made("SearchPoints", vector=[1], sparse_indices={"data": [8]}, vector_name="s", limit=3))
    assert thin.body == {"vector": {"name": "s", "vector": {"indices": [8], "values": [1.0]}}, "limit": 3}


@pytest.mark.parametrize("read", [requests.search, requests.recommend, requests.discover])
def test_a_limit_left_out_of_the_older_messages_is_zero(read: Any) -> None:
    name = {"search": "SearchPoints", "recommend": "RecommendPoints", "discover": "DiscoverPoints"}[read.__name__]
    assert read(made(name)).body["limit"] == 0


def test_a_recommendation_takes_ids_and_vectors() -> None:
    message = made(
        "RecommendPoints",
        positive=[{"num": 1}],
        positive_vectors=[{"data": [0.5]}],
        negative=[{"uuid": "u"}],
        strategy=1,
        limit=3,
    )
    assert requests.recommend(message).body == {
        "positive": [1, [0.5]],
        "negative": ["u"],
        "strategy": "best_score",
        "limit": 3,
    }


def test_a_discovery_has_a_target_or_a_context() -> None:
    pair = {"positive": {"id": {"num": 1}}, "negative": {"vector": {"data": [0.5]}}}
    message = made("DiscoverPoints", target={"single": {"id": {"num": 7}}}, context=[pair], limit=3)
    assert requests.discover(message).body == {
        "target": 7,
        "context": [{"positive": 1, "negative": [0.5]}],
        "limit": 3,
    }
    assert requests.discover(made("DiscoverPoints", limit=3)).body == {"context": [], "limit": 3}
    with pytest.raises(RefusalError, match="Vector example is malformed"):
        requests.discover(made("DiscoverPoints", target={}))


def test_groups_carry_their_two_counts() -> None:
    message = made("SearchPointGroups", vector=[1], limit=3, group_by="g", with_lookup={"collection": "o"})
    assert requests.search_groups(message).body == {
        "vector": [1.0],
        "limit": 3,
        "group_size": 0,
        "group_by": "g",
        "with_lookup": {"collection": "o"},
    }
    queried = requests.plain(made("QueryPointGroups", group_by="g", group_size=2, limit=4))
    assert queried.body == {"group_by": "g", "group_size": 2, "limit": 4}
    recommended = requests.recommend_groups(made("RecommendPointGroups", positive=[{"num": 1}], group_size=2))
    assert recommended.body == {"positive": [1], "negative": [], "limit": 0, "group_size": 2}


def test_a_batch_keeps_the_order_of_its_searches() -> None:
    queries = [made("QueryPoints", limit=number) for number in (3, 1, 2)]
    call = requests.query_batch(made("QueryBatchPoints", query_points=queries))
    assert call.body == {"searches": [{"limit": 3}, {"limit": 1}, {"limit": 2}]}
    searches = [made("SearchPoints", vector=[n], limit=n) for n in (2, 1)]
    assert requests.search_batch(made("SearchBatchPoints", search_points=searches)).body == {
        "searches": [{"vector": [2.0], "limit": 2}, {"vector": [1.0], "limit": 1}]
    }


def test_records_are_asked_for_by_id() -> None:
    call = requests.get(made("GetPoints", ids=[{"num": 2}, {"uuid": "u"}], with_payload={"enable": True}))
    assert call.body == {"ids": [2, "u"], "with_payload": True}


def test_a_page_starts_at_an_id_and_a_ranking_at_a_place() -> None:
    assert requests.plain(made("ScrollPoints", offset={"uuid": "u"}, limit=2)).body == {"offset": "u", "limit": 2}
    assert requests.plain(made("QueryPoints", offset=4)).body == {"offset": 4}


def test_a_shard_key_reaches_the_core_that_refuses_it() -> None:
    body = requests.plain(made("CountPoints", shard_key_selector={"shard_keys": [{"keyword": "k"}]})).body
    assert body["shard_key"]


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

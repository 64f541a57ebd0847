"""The official clients in front of servers that know nothing, and every call of theirs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import closing

import chromadb
from chromadb.api.types import Include
from pinecone import Pinecone
from pymilvus import AnnSearchRequest, Function, FunctionType, MilvusClient, RRFRanker
from pymilvus.grpc_gen import milvus_pb2, schema_pb2
from qdrant_client import QdrantClient, models

from calls.exercise import Calls, Requests, requests
from calls.servers import over_grpc, over_http
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import DescribesCollections

VECTOR = [1.0, 0.0]
_POINT = models.PointStruct(id=1, vector=VECTOR)
_NEAREST = models.Prefetch(query=VECTOR, limit=20)
# Methods that need a REST call where the client otherwise uses gRPC, which has none for them.
_REST_ONLY = {
    "cluster_status",
    "cluster_telemetry",
    "create_shard_snapshot",
    "delete_shard_snapshot",
    "get_optimizations",
    "list_shard_snapshots",
    "recover_current_peer",
    "recover_shard_snapshot",
    "recover_snapshot",
    "remove_peer",
}
QDRANT = Calls(
    arguments={
        "change_aliases_operations": [],
        "cluster_operation": models.CreateShardingKeyOperation(
            create_sharding_key=models.CreateShardingKey(shard_key="k")
        ),
        "collection_name": "c",
        "field_name": "f",
        "group_by": "f",
        "ids": [1],
        "key": "f",
        "keys": ["f"],
        "location": "http://127.0.0.1/s",
        "payload": {"f": 1},
        "peer_id": 1,
        "points": [1],
        "points_selector": [1],
        "requests": [models.QueryRequest(query=VECTOR, limit=10), models.QueryRequest(query=VECTOR, limit=5)],
        "shard_id": 0,
        "shard_key": "k",
        "snapshot_name": "s",
        "update_operations": [models.UpsertOperation(upsert=models.PointsList(points=[_POINT]))],
        "vector_name": "v",
        "vector_name_config": models.VectorParams(size=2, distance=models.Distance.COSINE),
        "vectors": ["v"],
    },
    more={
        "query_points": {"query": VECTOR},
        "query_points_groups": {"query": VECTOR},
        "update_vectors": {"points": [models.PointVectors(id=1, vector=VECTOR)]},
        "upload_collection": {"vectors": [VECTOR], "ids": [1]},
        "upload_points": {"points": [_POINT]},
        "upsert": {"points": [_POINT]},
    },
    cases={
        "a point's id": ("query_points", {"query": 1}),
        "RecommendQuery": (
            "query_points",
            {"query": models.RecommendQuery(recommend=models.RecommendInput(positive=[1]))},
        ),
        "DiscoverQuery": (
            "query_points",
            {
                "query": models.DiscoverQuery(
                    discover=models.DiscoverInput(target=1, context=[models.ContextPair(positive=1, negative=2)])
                )
            },
        ),
        "ContextQuery": (
            "query_points",
            {"query": models.ContextQuery(context=[models.ContextPair(positive=1, negative=2)])},
        ),
        "prefetch, FusionQuery": (
            "query_points",
            {"prefetch": [_NEAREST, _NEAREST], "query": models.FusionQuery(fusion=models.Fusion.RRF)},
        ),
        "prefetch, FormulaQuery": (
            "query_points",
            {"prefetch": [_NEAREST], "query": models.FormulaQuery(formula="$score")},
        ),
        # Open WebUI's search.
        "prefetch with a filter only": (
            "query_points",
            {
                "query": VECTOR,
                "prefetch": models.Prefetch(
                    filter=models.Filter(
                        must=[models.FieldCondition(key="tenant_id", match=models.MatchValue(value="a"))]
                    ),
                    limit=999_999_999,
                ),
            },
        ),
        "NearestQuery with mmr": (
            "query_points",
            {"query": models.NearestQuery(nearest=VECTOR, mmr=models.Mmr(diversity=0.5))},
        ),
        "OrderByQuery": ("query_points", {"query": models.OrderByQuery(order_by="f")}),
        "SampleQuery": ("query_points", {"query": models.SampleQuery(sample=models.Sample.RANDOM)}),
        "no query": ("query_points", {}),
        "limit=1": ("query_points", {"query": VECTOR, "limit": 1}),
        "offset=10": ("query_points", {"query": VECTOR, "offset": 10}),
        "with_payload=False": ("query_points", {"query": VECTOR, "with_payload": False}),
        "with_payload exclude": (
            "query_points",
            {"query": VECTOR, "with_payload": models.PayloadSelectorExclude(exclude=["f"])},
        ),
    },
    local=frozenset(
        {
            "close",
            "get_embedding_size",
            "list_image_models",
            "list_late_interaction_multimodal_models",
            "list_late_interaction_text_models",
            "list_sparse_models",
            "list_text_models",
            "migrate",
        }
    ),
)


def qdrant_rest() -> Requests:
    with (
        over_http(lambda *_: {"result": True, "status": "ok", "time": 0.0}) as server,
        closing(QdrantClient(url=f"http://127.0.0.1:{server.port}", check_compatibility=False)) as client,
    ):
        return requests(server, client, QDRANT)


def qdrant_grpc() -> Requests:
    with (
        over_grpc({}) as server,
        closing(
            QdrantClient(host="127.0.0.1", grpc_port=server.port, prefer_grpc=True, check_compatibility=False)
        ) as client,
    ):
        calls = Calls(
            arguments=QDRANT.arguments,
            more=QDRANT.more,
            cases=QDRANT.cases,
            local=QDRANT.local | _REST_ONLY,
        )
        return requests(server, client, calls)


_RECORDS = {"query": {"inputs": {"text": "t"}, "top_k": 10}}


PINECONE = Calls(
    arguments={
        "filter": {"f": 1},
        "id": "1",
        "ids": ["1"],
        "metric": "cosine",
        "name": "n",
        "namespace": "n",
        "namespaces": ["a", "b"],
        "records": [{"_id": "1", "text": "t"}],
        "top_k": 10,
        "uri": "s3://bucket",
        "vectors": [("1", VECTOR)],
    },
    more={
        "delete": {"ids": ["1"]},
        "delete_namespace": {"name": "n"},
        "describe_namespace": {"name": "n"},
        "query": {"vector": VECTOR},
        "query_namespaces": {"vector": VECTOR, "top_k": 10},
        "search": _RECORDS,
        "search_records": _RECORDS,
        "update": {"id": "1", "values": VECTOR},
    },
    cases={
        "id": ("query", {"id": "1"}),
        "sparse_vector": (
            "query",
            {"vector": VECTOR, "sparse_vector": {"indices": [1], "values": [0.5]}},
        ),
        "include_values": ("query", {"vector": VECTOR, "include_values": True, "include_metadata": True}),
        "top_k=1": ("query", {"vector": VECTOR, "top_k": 1}),
        "rerank": (
            "search",
            {**_RECORDS, "rerank": {"model": "bge-reranker-v2-m3", "rank_fields": ["text"], "top_n": 3}},
        ),
    },
    local=frozenset({"close"}),
    # Cuts a table into the requests of `upsert`; it needs pandas.
    administration=frozenset({"upsert_from_dataframe"}),
)


def pinecone_rest() -> Requests:
    with (
        over_http(lambda *_: {}) as server,
        closing(Pinecone(api_key="k").Index(host=f"http://127.0.0.1:{server.port}")) as client,
    ):
        return requests(server, client, PINECONE)


_COLLECTION: Mapping[str, object] = {
    "id": str(uuid.UUID(int=1)),
    "name": "c",
    "tenant": "default_tenant",
    "database": "default_database",
    "configuration_json": {},
    "metadata": None,
    "dimension": 2,
    "log_position": 0,
    "version": 0,
}
_INCLUDE: Include = ["embeddings", "documents"]


def _chroma(_: str, path: str) -> object:
    if path.endswith("/auth/identity"):
        return {"user_id": "u", "tenant": "default_tenant", "databases": ["default_database"]}
    if path.endswith("/pre-flight-checks"):
        return {"max_batch_size": 100}
    if "/collections" in path:
        return _COLLECTION
    return {"name": "default_tenant", "id": _COLLECTION["id"], "tenant": "default_tenant"}


_EMBEDDINGS = {"embeddings": [VECTOR]}
CHROMA: Mapping[str, Calls] = {
    "client": Calls(
        arguments={"name": "c", "id": uuid.UUID(int=1), "database": "default_database", "tenant": "default_tenant"},
        more={name: {"embedding_function": None} for name in ("create_collection", "get_or_create_collection")},
        local=frozenset(
            {"clear_system_cache", "close", "from_system", "get_chroma_cloud_api_key_from_clients", "get_settings"}
        ),
    ),
    "collection": Calls(
        arguments={"ids": ["1"], "name": "n", "new_name": "n", "output_collection": "o"},
        more={
            **dict.fromkeys(("add", "update", "upsert"), _EMBEDDINGS),
            "delete": {"ids": ["1"]},
            "get": {"ids": ["1"]},
            "modify": {"name": "n"},
            "query": {"query_embeddings": [VECTOR]},
            "search": {"searches": chromadb.Search(limit=10)},
        },
        cases={
            "several query_embeddings": ("query", {"query_embeddings": [VECTOR, VECTOR]}),
            "n_results=1": ("query", {"query_embeddings": [VECTOR], "n_results": 1}),
            "include embeddings": ("query", {"query_embeddings": [VECTOR], "include": _INCLUDE}),
        },
        local=frozenset({"get_model"}),
        administration=frozenset({"attach_function"}),  # only Chroma Cloud has functions
    ),
}


def chroma_rest() -> Requests:
    """Those of the client and those of a collection."""
    with over_http(_chroma) as server:
        client = chromadb.HttpClient(host="127.0.0.1", port=server.port)
        collection = client.create_collection("c", embedding_function=None)
        named: dict[str, object] = {"client": client, "collection": collection}
        return {
            f"{name}.{call}": sent
            for name, calls in CHROMA.items()
            for call, sent in requests(server, named[name], calls).items()
        }


_SERVICE = "/milvus.proto.milvus.MilvusService/"
_SCHEMA = schema_pb2.CollectionSchema(
    name="c",
    fields=[
        schema_pb2.FieldSchema(fieldID=100, name="id", is_primary_key=True, data_type=schema_pb2.Int64),
        schema_pb2.FieldSchema(
            fieldID=101,
            name="v",
            data_type=schema_pb2.FloatVector,
            type_params=[{"key": "dim", "value": "2"}],
        ),
    ],
)
# Collections, indexes, users, snapshots, and their like: not called here, because of the whole service only searches are classified (test_calls).
_MILVUS_ADMINISTRATION = frozenset(
    [
        "add_collection_field",
        "add_collection_function",
        "add_collection_struct_field",
        "add_file_resource",
        "add_function_field",
        "add_privileges_to_group",
        "alter_alias",
        "alter_collection_field",
        "alter_collection_function",
        "alter_collection_properties",
        "alter_database_properties",
        "alter_index_properties",
        "alter_role",
        "compact",
        "create_alias",
        "create_collection",
        "create_database",
        "create_index",
        "create_partition",
        "create_privilege_group",
        "create_resource_group",
        "create_role",
        "create_snapshot",
        "create_user",
        "describe_alias",
        "describe_collection",
        "describe_database",
        "describe_index",
        "describe_replica",
        "describe_resource_group",
        "describe_role",
        "describe_snapshot",
        "describe_user",
        "drop_alias",
        "drop_collection",
        "drop_collection_field",
        "drop_collection_function",
        "drop_collection_properties",
        "drop_database",
        "drop_database_properties",
        "drop_function_field",
        "drop_index",
        "drop_index_properties",
        "drop_partition",
        "drop_privilege_group",
        "drop_resource_group",
        "drop_role",
        "drop_snapshot",
        "drop_user",
        "dump_messages",
        "flush",
        "flush_all",
        "get_collection_stats",
        "get_compaction_plans",
        "get_compaction_state",
        "get_flush_all_state",
        "get_load_state",
        "get_partition_stats",
        "get_refresh_external_collection_progress",
        "get_replicate_configuration",
        "get_replicate_info",
        "get_restore_snapshot_state",
        "get_server_version",
        "grant_privilege",
        "grant_privilege_v2",
        "grant_role",
        "has_collection",
        "has_partition",
        "list_aliases",
        "list_collections",
        "list_compaction_tasks",
        "list_databases",
        "list_file_resources",
        "list_indexes",
        "list_loaded_segments",
        "list_partitions",
        "list_persistent_segments",
        "list_privilege_groups",
        "list_refresh_external_collection_jobs",
        "list_resource_groups",
        "list_restore_snapshot_jobs",
        "list_roles",
        "list_segments",
        "list_snapshots",
        "list_users",
        "load_collection",
        "load_partitions",
        "optimize",
        "pin_snapshot_data",
        "refresh_external_collection",
        "refresh_load",
        "release_collection",
        "release_partitions",
        "remove_file_resource",
        "remove_privileges_from_group",
        "rename_collection",
        "restore_snapshot",
        "revoke_privilege",
        "revoke_privilege_v2",
        "revoke_role",
        "run_analyzer",
        "transfer_replica",
        "truncate_collection",
        "unpin_snapshot_data",
        "update_password",
        "update_replicate_configuration",
        "update_resource_groups",
        "update_user",
    ]
)
_ROW = {"id": 1, "v": VECTOR}
_ANN = {"data": [VECTOR], "anns_field": "v"}


_REQS = [AnnSearchRequest(**_ANN, param={}, limit=10), AnnSearchRequest(**_ANN, param={}, limit=10)]
_DECAY = Function("r", FunctionType.RERANK, ["f"], params={"reranker": "decay"})
MILVUS = Calls(
    arguments={"collection_name": "c", "data": [_ROW], "ids": [1], "reqs": _REQS, "ranker": RRFRanker()},
    more={
        "delete": {"ids": [1]},
        "query": {"filter": "id > 0"},
        "query_iterator": {"filter": "id > 0"},
        "search": _ANN,
        "search_iterator": {**_ANN, "batch_size": 10, "limit": 100},
    },
    cases={
        "several data": ("search", {"data": [VECTOR, VECTOR], "anns_field": "v"}),
        "limit=1": ("search", {**_ANN, "limit": 1}),
        "offset=10": ("search", {**_ANN, "search_params": {"offset": 10}}),
        "group_by_field": ("search", {**_ANN, "group_by_field": "f"}),
        "radius": ("search", {**_ANN, "search_params": {"params": {"radius": 0.5}}}),
        "ranker=Function": ("search", {**_ANN, "ranker": _DECAY}),
    },
    local=frozenset(
        {
            "close",
            "create_field_schema",
            "create_schema",
            "create_struct_field_schema",
            "get_server_type",
            "prepare_index_params",
            "session",
            "use_database",
            "using_database",
        }
    ),
    administration=_MILVUS_ADMINISTRATION,
)

_DESCRIBED = milvus_pb2.DescribeCollectionResponse(
    schema=_SCHEMA, collection_name="c", collectionID=1
).SerializeToString()


def milvus_grpc() -> Requests:
    with (
        over_grpc({f"{_SERVICE}DescribeCollection": _DESCRIBED}) as server,
        closing(MilvusClient(uri=f"http://127.0.0.1:{server.port}")) as client,
    ):
        return requests(server, client, MILVUS)


def milvus_methods() -> set[str]:
    """The paths of all calls that a server of Milvus has."""
    return {_SERVICE + method.name for method in milvus_pb2.DESCRIPTOR.services_by_name["MilvusService"].methods}


def milvus_known() -> object:
    """The collection as the adapter reads it."""
    transport = BACKENDS["milvus"].grpc
    assert transport is not None
    adapter = transport.adapter()
    assert isinstance(adapter, DescribesCollections)
    return adapter.parse_description(_DESCRIBED)

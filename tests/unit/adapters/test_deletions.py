"""Which points a request deletes, or changes in part, on every transport of every database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from qdrant_client import grpc as qdrant
from servers.pinecone.grpc_messages import message_type as pinecone

from support.backends.transports import operation_of
from support.backends.writes import COLLECTION, ID, MILVUS, OPENSEARCH
from support.milvus import messages as milvus
from support.weaviate.messages import message_type as weaviate
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import RequestHead
from vecsieve.adapters.writes import Deletion

CHROMA = f"/api/v2/tenants/t/databases/d/collections/{COLLECTION}"
UUID = "00000000-0000-0000-0000-0000000000AB"
ENTITIES = "/v2/vectordb/entities/delete"
IN_1_2 = (b"1", b"2")
KNOWN = {"milvus": MILVUS, "opensearch": OPENSEARCH}  # Elasticsearch's is unknown
SCRIPT = {"script": {"source": "ctx.op = 'delete'"}}


def deleted(backend: str, method: str, path: str, body: Any = None) -> list[Deletion] | None:
    """By a request over REST. ``body``: None for none that is read, bytes as they are."""
    deletes = BACKENDS[backend].rest.deletes
    assert deletes is not None
    head = RequestHead(method=method, path=path, content_type="application/json", host="docs-1.svc.pinecone.io")
    request = deletes.classify(head)
    raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    return None if request is None else list(deletes.of(request, raw, KNOWN.get(backend)))


def points(backend: str, method: str, path: str, body: Any, **expected: Any) -> Any:
    return pytest.param(backend, method, path, body, expected, id=f"{backend} {method} {path} {body}"[:90])


REST = [
    points("qdrant", "POST", "/collections/c/points/delete", {"points": [1, UUID]}, collection="c", ids=(b"1", f'"{UUID.lower()}"'.encode())),
    points("qdrant", "POST", "//collections/c//points/delete/", {"points": [1, 2], "shard_key": "é"}, collection="c", ids=IN_1_2, partition='"é"'.encode()),
    points("qdrant", "POST", "/collections/c/points/delete", {"filter": {}}, collection="c", is_certain=False),
    points("qdrant", "POST", "/collections/c/points/batch", {"operations": [{"upsert": {"points": []}}, {"delete": {"points": [1, 2]}}]}, collection="c", ids=IN_1_2),
    points("qdrant", "POST", "/collections/c/points/batch", {"operations": [{"delete": {"filter": {}}}]}, collection="c", is_certain=False),
    points("qdrant", "DELETE", "/collections/c", b"", collection="c"),
    points("qdrant", "POST", "/collections/c/shards/delete", {"shard_key": 7}, collection="c", partition=b"7"),
    points("qdrant", "PUT", "/collections/c/snapshots/recover", {"location": "x"}, collection="c", is_certain=False),
    points("qdrant", "POST", "/collections/c/points/delete", b"{", collection="c", is_certain=False),
    points("qdrant", "POST", "/collections/c/points/delete", None, collection="c", is_certain=False),
    points("chroma", "POST", f"{CHROMA}/delete", {"ids": ["a"]}, collection=f"t/d/{COLLECTION}", ids=(b'"a"',)),
    points("chroma", "POST", f"{CHROMA}/delete", {"ids": ["a"], "where": {"n": 1}}, collection=f"t/d/{COLLECTION}", ids=(b'"a"',), is_certain=False),
    points("chroma", "POST", f"{CHROMA}/delete", {"ids": None, "where": {"n": 1}}, collection=f"t/d/{COLLECTION}", is_certain=False),
    points("milvus", "POST", ENTITIES, {"collectionName": "c", "filter": "id in [1, 2]"}, collection="default/c", ids=IN_1_2),
    points("milvus", "POST", ENTITIES, {"dbName": "x", "collectionName": "c", "partitionName": "p", "filter": "id == 1"}, collection="x/c", ids=(b"1",), partition=b'"p"'),
    points("milvus", "POST", ENTITIES, {"collectionName": "c", "filter": "id in ['1']"}, collection="default/c", ids=(b'"1"',)),
    points("milvus", "POST", ENTITIES, {"collectionName": "c", "filter": "n in [1, 2]"}, collection="default/c", is_certain=False),
    points("milvus", "POST", ENTITIES, {"collectionName": "c", "filter": "id in [1, 2] or n > 3"}, collection="default/c", is_certain=False),
    points("milvus", "POST", ENTITIES, {"collectionName": "c", "filter": "id in [1, 2.5]"}, collection="default/c", is_certain=False),
    points("milvus", "POST", "/v1/vector/delete", {"collectionName": "c", "id": [1, "2"]}, collection="default/c", ids=(b"1", b'"2"', b"2")),
    points("milvus", "POST", "/v2/vectordb/collections/drop", {"collectionName": "c"}, collection="default/c"),
    points("milvus", "POST", "/v2/vectordb/partitions/drop", {"collectionName": "c", "partitionName": "p"}, collection="default/c", partition=b'"p"'),
    points("milvus", "POST", "/v2/vectordb/collections/rename", {"collectionName": "c", "newCollectionName": "d"}, collection="default/c", is_certain=False),
    points("milvus", "POST", ENTITIES, None, collection=None, is_certain=False),
    points("opensearch", "DELETE", "/alias/_doc/a%2Fb", b"", collection="docs", ids=(b'"a/b"',)),
    points("opensearch", "POST", "/alias/_bulk", b'{"index":{"_id":"b"}}\n{}\n{"delete":{"_id":1}}\n', collection="docs", ids=(b'"1"',)),
    points("opensearch", "POST", "/_bulk", b'{"delete":{"_index":"alias","_id":"a"}}\n', collection="docs", ids=(b'"a"',)),
    points("opensearch", "POST", "/_bulk", b'{"index":{"_index":"x","_id":"b"}}\n{}\n{"delete":{"_index":"y","_id":"a"}}\n', ids=(b'"a"',), is_certain=False),
    points("opensearch", "POST", "/alias/_bulk", b'{"delete":{"_id":"a","routing":"r"}}\n', collection="docs", ids=(b'"a"',), is_certain=False),
    points("opensearch", "POST", "/alias/_bulk", b'{"update":{"_id":"a"}}\n{"script":"ctx.op=\'delete\'"}\n', collection="docs", ids=(b'"a"',), is_certain=False),
    points("opensearch", "POST", "/alias/_bulk", None, is_certain=False),
    points("opensearch", "POST", "/alias/_delete_by_query", {"query": {}}, collection="docs", is_certain=False),
    points("opensearch", "POST", "/alias/_update_by_query", SCRIPT, collection="docs", is_certain=False),
    points("opensearch", "POST", "/alias/_update/a", SCRIPT, collection="docs", ids=(b'"a"',), is_certain=False),
    points("opensearch", "DELETE", "/docs", b"", collection="docs"),
    points("opensearch", "POST", "/_aliases", {"actions": [{"remove_index": {"index": "docs"}}]}, collection="docs", is_certain=False),
    points("opensearch", "POST", "/_snapshot/r/s/_restore", b"", collection="docs", is_certain=False),
    points("elasticsearch", "DELETE", "/alias/_doc/a", b"", ids=(b'"a"',), is_certain=False),
    points("elasticsearch", "DELETE", "/docs", b"", collection="docs"),
    points("elasticsearch", "DELETE", "/doc*", b"", is_certain=False),
    points("elasticsearch", "DELETE", "/_data_stream/logs", b"", is_certain=False),
    points("weaviate", "DELETE", f"/v1/objects/docs/{ID.upper()}", b"", collection="Docs", ids=(f'"{ID}"'.encode(),)),
    points("weaviate", "DELETE", f"/v1/objects/{ID}", b"", collection=None, ids=(f'"{ID}"'.encode(),)),
    points("weaviate", "DELETE", "/v1/batch/objects", {"match": {"class": "docs", "where": {}}}, collection="Docs", is_certain=False),
    points("weaviate", "DELETE", "/v1/schema/Docs", b"", collection="Docs"),
    points("weaviate", "DELETE", "/v1/schema/Docs/tenants", ["a"], collection="Docs", partition=b'"a"'),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "method", "path", "body", "expected"), REST)
def test_what_a_request_over_rest_deletes(
    backend: str, method: str, path: str, body: Any, expected: dict[str, Any]
) -> None:
    assert deleted(backend, method, path, body) == [Deletion(**{"collection": None, **expected})]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"ids": ["a"], "namespace": "n"}, {"ids": (b'"a"',)}),
        ({"deleteAll": True, "namespace": "n"}, {}),
        ({"filter": {"n": 1}, "namespace": "n"}, {"is_certain": False}),
        ({"deleteAll": True, "filter": {"n": 1}, "namespace": "n"}, {"is_certain": False}),
    ],
)
def test_what_a_request_of_pinecone_deletes(body: Any, expected: Any) -> None:
    assert deleted("pinecone", "POST", "//vectors/delete", body) == [
        Deletion(collection="docs-1", partition=b'"n"', **expected)
    ]


def test_the_namespace_without_a_name_has_two() -> None:
    deletions = deleted("pinecone", "POST", "/vectors/delete", {"ids": ["a"]})
    assert deletions is not None
    assert {one.partition for one in deletions} == {b'""', b'"__default__"'}
    assert deleted("pinecone", "DELETE", "/namespaces/a%20b", b"") == [
        Deletion(collection="docs-1", partition=b'"a b"')
    ]


@pytest.mark.parametrize(
    ("backend", "method", "path"),
    [
        ("qdrant", "POST", "/collections/c/points"),
        ("qdrant", "DELETE", "/collections/c/index/x"),
        ("chroma", "POST", f"{CHROMA}/get"),
        ("milvus", "POST", "/v2/vectordb/entities/query"),
        ("opensearch", "POST", "/docs/_doc/a"),
        ("opensearch", "DELETE", "/_search/scroll"),
        ("elasticsearch", "DELETE", "/_pit"),
        ("weaviate", "GET", f"/v1/objects/Docs/{ID}"),
        ("pinecone", "GET", "/vectors/fetch"),
        ("qdrant", "GET", "/collections/c/points/payload"),
        ("weaviate", "POST", f"/v1/objects/Docs/{ID}/references/x"),
    ],
)
def test_other_requests_delete_nothing(backend: str, method: str, path: str) -> None:
    assert deleted(backend, method, path, b"") is None


def test_a_dry_run_deletes_nothing() -> None:
    assert deleted("weaviate", "DELETE", "/v1/batch/objects", {"match": {"class": "Docs"}, "dryRun": True}) == []
    assert (
        deleted("opensearch", "POST", "/docs/_bulk", b'{"update":{"_id":"a"}}\n{"script":"ctx._source.n+=1"}\n') == []
    )
    assert deleted("opensearch", "POST", "/_aliases", {"actions": [{"add": {"index": "docs", "alias": "a"}}]}) == []
    message = weaviate("BatchDeleteRequest")(collection="Docs", dry_run=True)
    assert called("weaviate", "/weaviate.v1.Weaviate/BatchDelete", message) == []


def called(backend: str, path: str, message: Any) -> list[Deletion]:
    transport = BACKENDS[backend].grpc
    assert transport is not None
    assert transport.deletes is not None
    raw = message if isinstance(message, bytes) else message.SerializeToString()
    request = operation_of(
        transport.deletes, RequestHead(method="POST", path=path, message=raw, host="docs-1.svc.pinecone.io")
    )
    return list(transport.deletes.of(request, raw, MILVUS if backend == "milvus" else None))


SELECTED = qdrant.PointsSelector(points=qdrant.PointsIdsList(ids=[qdrant.PointId(num=1), qdrant.PointId(num=2)]))
MATCHING = qdrant.PointsSelector(filter=qdrant.Filter())
KEYED = qdrant.ShardKeySelector(shard_keys=[qdrant.ShardKey(keyword="k")])
UPDATE = qdrant.PointsUpdateOperation
SERVICE = "/milvus.proto.milvus.MilvusService"
GRPC = [
    ("qdrant", "/qdrant.Points/Delete", qdrant.DeletePoints(collection_name="c", points=SELECTED), {"ids": IN_1_2}),
    ("qdrant", "/qdrant.Points/Delete", qdrant.DeletePoints(collection_name="c", points=MATCHING), {"is_certain": False}),
    ("qdrant", "/qdrant.Points/Delete", qdrant.DeletePoints(collection_name="c", points=SELECTED, shard_key_selector=KEYED), {"ids": IN_1_2, "partition": b'"k"'}),
    ("qdrant", "/qdrant.Points/UpdateBatch", qdrant.UpdateBatchPoints(collection_name="c", operations=[UPDATE(delete_deprecated=SELECTED)]), {"ids": IN_1_2}),
    ("qdrant", "/qdrant.Points/UpdateBatch", qdrant.UpdateBatchPoints(collection_name="c", operations=[UPDATE(delete_points=UPDATE.DeletePoints(points=MATCHING))]), {"is_certain": False}),
    ("qdrant", "/qdrant.Collections/Delete", qdrant.DeleteCollection(collection_name="c"), {}),
    ("qdrant", "/qdrant.Collections/DeleteShardKey", qdrant.DeleteShardKeyRequest(collection_name="c", request=qdrant.DeleteShardKey(shard_key=qdrant.ShardKey(number=7))), {"partition": b"7"}),
    ("milvus", f"{SERVICE}/Delete", milvus.message_type("DeleteRequest")(collection_name="c", expr="id in [1, 2]"), {"collection": "default/c", "ids": IN_1_2}),
    ("milvus", f"{SERVICE}/Delete", milvus.message_type("DeleteRequest")(collection_name="c", expr="n > 2", partition_name="p"), {"collection": "default/c", "is_certain": False, "partition": b'"p"'}),
    ("milvus", f"{SERVICE}/Delete", milvus.message_type("DeleteRequest")(collection_name="c", expr="id == 1", partition_name="_default"), {"collection": "default/c", "ids": (b"1",)}),
    ("milvus", f"{SERVICE}/DropCollection", milvus.message_type("DeleteRequest")(collection_name="c"), {"collection": "default/c"}),
    ("milvus", f"{SERVICE}/DropPartition", milvus.message_type("DeleteRequest")(collection_name="c", partition_name="p"), {"collection": "default/c", "partition": b'"p"'}),
    ("pinecone", "/VectorService/Delete", pinecone("DeleteRequest")(ids=["1"], namespace="n"), {"collection": "docs-1", "partition": b'"n"', "ids": (b'"1"',)}),
    ("pinecone", "/VectorService/Delete", pinecone("DeleteRequest")(delete_all=True, namespace="n"), {"collection": "docs-1", "partition": b'"n"'}),
    ("pinecone", "/VectorService/Delete", pinecone("DeleteRequest")(delete_all=True, filter={"fields": {"n": {"number_value": 1}}}, namespace="n"), {"collection": "docs-1", "partition": b'"n"', "is_certain": False}),
    ("pinecone", "/VectorService/Delete", pinecone("DeleteRequest")(filter={}, namespace="n"), {"collection": "docs-1", "partition": b'"n"', "is_certain": False}),
    ("pinecone", "/VectorService/DeleteNamespace", pinecone("DeleteNamespaceRequest")(namespace="n"), {"collection": "docs-1", "partition": b'"n"'}),
    ("weaviate", "/weaviate.v1.Weaviate/BatchDelete", weaviate("BatchDeleteRequest")(collection="docs", tenant="t"), {"collection": "Docs", "partition": b'"t"', "is_certain": False}),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "path", "message", "expected"), GRPC)
def test_what_a_call_deletes(backend: str, path: str, message: Any, expected: dict[str, Any]) -> None:
    assert called(backend, path, message) == [Deletion(**{"collection": "c", **expected})]


POINTS = "/collections/c/points"
BATCH = {
    "operations": [
        {"upsert": {"points": [{"id": 9}]}},
        {"set_payload": {"payload": {}, "points": [1, 2]}},
        {"update_vectors": {"points": [{"id": 1, "vector": [0.5]}, {"id": 2, "vector": []}]}},
    ]
}
CHANGES = [
    points("qdrant", "POST", f"{POINTS}/payload", {"payload": {}, "points": [1, 2]}, collection="c", ids=IN_1_2),
    points("qdrant", "POST", f"{POINTS}/payload", {"payload": {}, "filter": {}}, collection="c", is_certain=False),
    points("qdrant", "PUT", f"{POINTS}/payload", {"payload": {}, "points": [1, 2], "shard_key": "k"}, collection="c", ids=IN_1_2, partition=b'"k"'),
    points("qdrant", "POST", f"{POINTS}/payload/delete", {"keys": ["a"], "points": [1, 2]}, collection="c", ids=IN_1_2),
    points("qdrant", "POST", f"{POINTS}/payload/clear", {"points": [1, UUID]}, collection="c", ids=(b"1", f'"{UUID.lower()}"'.encode())),
    points("qdrant", "PUT", f"{POINTS}/vectors", {"points": [{"id": 1, "vector": [0.5]}, {"vector": {"a": [1]}, "id": 2}]}, collection="c", ids=IN_1_2),
    points("qdrant", "POST", f"{POINTS}/vectors/delete", {"points": [1, 2], "vector": ["a"]}, collection="c", ids=IN_1_2),
    points("qdrant", "PUT", f"{POINTS}/vectors", b"{", collection="c", is_certain=False),
    points("qdrant", "PUT", f"{POINTS}/vectors", None, collection="c", is_certain=False),
    points("weaviate", "PATCH", f"/v1/objects/docs/{ID.upper()}", {"properties": {}}, collection="Docs", ids=(f'"{ID}"'.encode(),)),
    points("weaviate", "PUT", f"/v1/objects/{ID}", {"properties": {}}, collection=None, ids=(f'"{ID}"'.encode(),)),
    points("pinecone", "POST", "/vectors/update", {"id": "1", "namespace": "n"}, collection="docs-1", ids=(b'"1"',), partition=b'"n"'),
    points("pinecone", "POST", "/vectors/update", {"filter": {}, "namespace": "n"}, collection="docs-1", is_certain=False, partition=b'"n"'),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "method", "path", "body", "expected"), CHANGES)
def test_what_a_request_over_rest_changes(
    backend: str, method: str, path: str, body: Any, expected: dict[str, Any]
) -> None:
    assert deleted(backend, method, path, body) == [Deletion(**expected, is_change=True)]


def test_a_list_of_updates_changes_what_it_names() -> None:
    one = Deletion(collection="c", ids=IN_1_2, is_change=True)
    assert deleted("qdrant", "POST", f"{POINTS}/batch", BATCH) == [one, one], "the gate itself notes upserts"
    mixed = {"operations": [*BATCH["operations"][1:2], {"delete": {"points": [1, 2]}}]}
    assert deleted("qdrant", "POST", f"{POINTS}/batch", mixed) == [one, Deletion(collection="c", ids=IN_1_2)]


NUMBERS = [qdrant.PointId(num=1), qdrant.PointId(num=2)]
VECTORS = [
    qdrant.PointVectors(id=number, vectors=qdrant.Vectors(vector=qdrant.Vector(data=[0.5]))) for number in NUMBERS
]
CHANGING = [
    ("qdrant", "/qdrant.Points/SetPayload", qdrant.SetPayloadPoints(collection_name="c", points_selector=SELECTED), {"ids": IN_1_2}),
    ("qdrant", "/qdrant.Points/OverwritePayload", qdrant.SetPayloadPoints(collection_name="c", points_selector=MATCHING), {"is_certain": False}),
    ("qdrant", "/qdrant.Points/DeletePayload", qdrant.DeletePayloadPoints(collection_name="c", points_selector=SELECTED, shard_key_selector=KEYED), {"ids": IN_1_2, "partition": b'"k"'}),
    ("qdrant", "/qdrant.Points/ClearPayload", qdrant.ClearPayloadPoints(collection_name="c", points=SELECTED, shard_key_selector=KEYED), {"ids": IN_1_2, "partition": b'"k"'}),
    ("qdrant", "/qdrant.Points/UpdateVectors", qdrant.UpdatePointVectors(collection_name="c", points=VECTORS, shard_key_selector=KEYED), {"ids": IN_1_2, "partition": b'"k"'}),
    ("qdrant", "/qdrant.Points/DeleteVectors", qdrant.DeletePointVectors(collection_name="c", points_selector=SELECTED, shard_key_selector=KEYED), {"ids": IN_1_2, "partition": b'"k"'}),
    ("pinecone", "/VectorService/Update", pinecone("UpdateRequest")(id="1", namespace="n"), {"collection": "docs-1", "partition": b'"n"', "ids": (b'"1"',)}),
    *[
        ("qdrant", "/qdrant.Points/UpdateBatch", qdrant.UpdateBatchPoints(collection_name="c", operations=[operation]), {"ids": IN_1_2, "partition": b'"k"'})
        for operation in (
            UPDATE(upsert=UPDATE.PointStructList(points=[qdrant.PointStruct(id=number) for number in NUMBERS], shard_key_selector=KEYED)),
            UPDATE(set_payload=UPDATE.SetPayload(points_selector=SELECTED, shard_key_selector=KEYED)),
            UPDATE(overwrite_payload=UPDATE.OverwritePayload(points_selector=SELECTED, shard_key_selector=KEYED)),
            UPDATE(delete_payload=UPDATE.DeletePayload(points_selector=SELECTED, shard_key_selector=KEYED)),
            UPDATE(clear_payload=UPDATE.ClearPayload(points=SELECTED, shard_key_selector=KEYED)),
            UPDATE(update_vectors=UPDATE.UpdateVectors(points=VECTORS, shard_key_selector=KEYED)),
            UPDATE(delete_vectors=UPDATE.DeleteVectors(points_selector=SELECTED, shard_key_selector=KEYED)),
        )
    ],
    ("qdrant", "/qdrant.Points/UpdateBatch", qdrant.UpdateBatchPoints(collection_name="c", operations=[UPDATE(clear_payload_deprecated=SELECTED)]), {"ids": IN_1_2}),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "path", "message", "expected"), CHANGING)
def test_what_a_call_changes(backend: str, path: str, message: Any, expected: dict[str, Any]) -> None:
    assert called(backend, path, message) == [Deletion(**{"collection": "c", **expected}, is_change=True)]

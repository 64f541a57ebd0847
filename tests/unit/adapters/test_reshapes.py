"""Which requests may change what is stored or what a collection is like, for every backend and both transports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import GRPC, REST
from vecsieve.adapters.contract import RequestHead

ANY = "any"
NAMED = b"\x0a\x04docs"  # field 1
MILVUS_NAMED = b"\x12\x02db\x1a\x04docs"  # fields 2 and 3
MILVUS = "/milvus.proto.milvus.MilvusService/"
IN_CHROMA = "/api/v2/tenants/t/databases/d"
ID = "01234567-89ab-cdef-0123-456789abcdef"


def over_rest(backend: str, line: str, *, host: str = "") -> str | None:
    """The collection, ANY, or None where nothing changes unseen. ``line``: method and path."""
    method, path = line.split(" ")
    reshaped = REST[backend].reshaped
    assert reshaped is not None
    touched = reshaped(RequestHead(method=method, path=path, host=host))
    return None if touched is None else touched.collection or ANY


def over_grpc(backend: str, path: str, message: bytes = b"", *, database: str = "") -> str | None:
    reshaped = GRPC[backend].reshaped
    assert reshaped is not None
    touched = reshaped(RequestHead(method="POST", path=path, message=message, database=database))
    return None if touched is None else touched.collection or ANY


@pytest.mark.parametrize(
    ("backend", "line", "collection"),
    [
        ("qdrant", "PUT /collections/docs", "docs"),
        ("qdrant", "DELETE /collections/docs", "docs"),
        ("qdrant", "PATCH //collections/docs/", "docs"),
        ("qdrant", "PUT /collections/a%20b", "a b"),
        ("qdrant", "PUT /collections/%ff", ANY),
        ("qdrant", "PUT /collections/docs/vectors/new", ANY),
        ("qdrant", "PUT /collections/docs/snapshots/recover", ANY),
        ("qdrant", "POST /collections/docs/snapshots/upload", ANY),
        ("qdrant", "PUT /collections/docs/shards/0/snapshots/recover", ANY),
        ("qdrant", "POST //collections/docs/shards/0/snapshots/upload/", ANY),
        ("qdrant", "POST /collections/docs/shards/0/snapshot/partial/recover_from", ANY),
        ("qdrant", "POST /collections/docs/shards/0/cleanup", ANY),
        ("qdrant", "PUT /collections/docs/shards", ANY),
        ("qdrant", "POST /collections/docs/shards/delete", ANY),
        ("qdrant", "POST /collections/docs/cluster", ANY),
        ("qdrant", "POST /collections/docs/from-a-later-version", ANY),
        ("qdrant", "PUT /collections/docs/points/from-a-later-version", ANY),
        ("qdrant", "POST /collections/docs/points/../snapshots/recover", ANY),
        ("qdrant", "POST /collections/aliases", ANY),
        ("qdrant", "PUT /snapshots/recover", ANY),
        ("qdrant", "DELETE /cluster/peer/7", ANY),
        ("qdrant", "POST /locks", ANY),
        ("qdrant", "POST /", ANY),
        ("qdrant", "GET /collections/docs", None),
        ("qdrant", "GET /collections", None),
        ("qdrant", "PUT /collections/docs/points", None),
        ("qdrant", "POST /collections/docs/points/query", None),
        ("qdrant", "POST /collections/docs/points/delete", None),
        ("qdrant", "POST /collections/docs/points", None),
        ("qdrant", "POST //collections/docs/points/scroll/", None),
        ("qdrant", "POST /collections/docs/points/search/matrix/pairs", None),
        ("qdrant", "PUT /collections/docs/points/vectors", None),
        ("qdrant", "POST /collections/docs/points/payload/clear", None),
        ("qdrant", "PUT /collections/docs/index", None),
        ("qdrant", "DELETE /collections/docs/index/key", None),
        ("qdrant", "POST /collections/docs/facet", None),
        ("qdrant", "POST /collections/docs/snapshots", None),
        ("qdrant", "DELETE /collections/docs/snapshots/one.snapshot", None),
        ("qdrant", "POST /collections/docs/shards/0/snapshots", None),
        ("qdrant", "GET /collections/docs/shards/0/snapshots/one.snapshot", None),
        ("qdrant", "OPTIONS *", None),
        ("milvus", "POST /v1/vector/collections/create", ANY),
        ("milvus", "POST /v1/vector/collections/drop", ANY),
        ("milvus", "POST /v2/vectordb/collections/create", ANY),
        ("milvus", "POST /v2/vectordb/collections/rename", ANY),
        ("milvus", "POST /v2/vectordb/collections/fields/add", ANY),
        ("milvus", "POST /v2/vectordb/aliases/alter", ANY),
        ("milvus", "POST /v2/vectordb/indexes/create", ANY),
        ("milvus", "POST /v2/vectordb/databases/drop", ANY),
        ("milvus", "POST /v2/vectordb/partitions/drop", ANY),
        ("milvus", "POST /v2/vectordb/collections/release", ANY),
        ("milvus", "POST /v2/vectordb/collections/compact", ANY),
        ("milvus", "POST /v2/vectordb/jobs/import/create", ANY),
        ("milvus", "POST /v2/vectordb/entities/from-a-later-version", ANY),
        ("milvus", "GET /v1/vector/collections/describe", None),
        ("milvus", "POST /v2/vectordb/collections/describe", None),
        ("milvus", "POST /v2/vectordb/collections/list", None),
        ("milvus", "POST /v2/vectordb/entities/search", None),
        ("milvus", "POST /v2/vectordb/entities/insert", None),
        ("milvus", "POST /v2/vectordb/entities/hybrid_search", None),
        ("milvus", "POST /v1/vector/search", None),
        ("milvus", "POST /v2/vectordb/collections/load", None),
        ("milvus", "POST /v2/vectordb/collections/get_load_state", None),
        ("milvus", "POST /v2/vectordb/jobs/import/get_progress", None),
        ("milvus", "POST /v2/vectordb/partitions/create", None),
        ("weaviate", "POST /v1/schema", ANY),
        ("weaviate", "PUT /v1/schema/Article", ANY),
        ("weaviate", "DELETE /v1/schema/Article", ANY),
        ("weaviate", "POST /v1/schema/Article/properties", ANY),
        ("weaviate", "POST /v1/schema/Article/vectors", ANY),
        ("weaviate", "PUT /v1/aliases/Paper", ANY),
        ("weaviate", "POST /v1/backups/s3/one/restore", ANY),
        ("weaviate", "DELETE /v1/schema/Article/tenants", ANY),
        ("weaviate", "PUT /v1/schema/Article/shards/one", ANY),
        ("weaviate", "POST /v1/classifications", ANY),
        ("weaviate", "POST /v1/replication/replicate", ANY),
        ("weaviate", "POST /v2/from-a-later-version", ANY),
        ("weaviate", "GET /v1/schema", None),
        ("weaviate", "POST /v1/schema/Article/tenants", None),
        ("weaviate", "PUT /v1/schema/Article/tenants", None),
        ("weaviate", "POST /v1/backups/s3", None),
        ("weaviate", "PATCH /v1/objects/Article/7", None),
        ("weaviate", "DELETE /v1/batch/objects", None),
        ("weaviate", "POST /v1/objects", None),
        ("weaviate", "POST /v1/graphql", None),
        ("chroma", f"POST {IN_CHROMA}/collections", ANY),
        ("chroma", f"POST {IN_CHROMA}/collections/{ID}/fork", ANY),
        ("chroma", f"DELETE {IN_CHROMA}/collections/docs", ANY),
        ("chroma", f"PUT {IN_CHROMA}/collections/{ID}", ANY),
        ("chroma", f"DELETE {IN_CHROMA}", ANY),
        ("chroma", "POST /api/v2/reset", ANY),
        ("chroma", "POST /api/v1/collections", ANY),
        ("chroma", f"POST {IN_CHROMA}/collections/{ID}/from-a-later-version", ANY),
        ("chroma", "POST /api/v2/tenants", ANY),
        ("chroma", f"GET {IN_CHROMA}/collections", None),
        ("chroma", f"POST {IN_CHROMA}/collections/{ID}/search", None),
        ("chroma", f"POST /api/v1/collections/{ID}/get", None),
        ("chroma", f"POST {IN_CHROMA}/collections/{ID}/query", None),
        ("chroma", f"POST {IN_CHROMA}/collections/{ID}/add", None),
        ("chroma", f"POST {IN_CHROMA}/collections/{ID}/upsert", None),
    ],
)
def test_requests_over_rest(backend: str, line: str, collection: str | None) -> None:
    assert over_rest(backend, line) == collection


@pytest.mark.parametrize(
    ("backend", "path", "message", "collection"),
    [
        ("qdrant", "/qdrant.Collections/Create", NAMED, "docs"),
        ("qdrant", "/qdrant.Collections/Delete", NAMED, "docs"),
        ("qdrant", "/qdrant.Collections/Update", NAMED, "docs"),
        ("qdrant", "/qdrant.Collections/FromALaterVersion", NAMED, ANY),
        ("qdrant", "/qdrant.Collections/UpdateCollectionClusterSetup", NAMED, ANY),
        ("qdrant", "/qdrant.Collections/DeleteShardKey", NAMED, ANY),
        ("qdrant", "/qdrant.Snapshots/FromALaterVersion", NAMED, ANY),
        ("qdrant", "/qdrant.Points/FromALaterVersion", NAMED, ANY),
        ("qdrant", "/qdrant.Collections/Create", b"", ANY),
        ("qdrant", "/qdrant.Collections/Create", b"\xff\xff", ANY),
        ("qdrant", "/qdrant.Collections/UpdateAliases", NAMED, ANY),
        ("qdrant", "/qdrant.Points/CreateVectorName", NAMED, ANY),
        ("qdrant", "/qdrant.Collections/Get", NAMED, None),
        ("qdrant", "/qdrant.Collections/List", b"", None),
        ("qdrant", "/qdrant.Collections/CollectionExists", NAMED, None),
        ("qdrant", "/qdrant.Points/Upsert", NAMED, None),
        ("qdrant", "/qdrant.Points/Query", NAMED, None),
        ("qdrant", "/qdrant.Qdrant/HealthCheck", b"", None),
        ("qdrant", "/qdrant.Snapshots/Create", NAMED, None),
        ("qdrant", "/grpc.health.v1.Health/Watch", b"", None),
        ("qdrant", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", b"", None),
        ("milvus", MILVUS + "CreateCollection", MILVUS_NAMED, "db/docs"),
        ("milvus", MILVUS + "DropCollection", MILVUS_NAMED[4:], "default/docs"),
        ("milvus", MILVUS + "AddCollectionField", MILVUS_NAMED, "db/docs"),
        ("milvus", MILVUS + "DropIndex", MILVUS_NAMED, "db/docs"),
        ("milvus", MILVUS + "CreateCollection", b"", ANY),
        ("milvus", MILVUS + "CreateCollection", b"\xff", ANY),
        ("milvus", MILVUS + "RenameCollection", MILVUS_NAMED, ANY),
        ("milvus", MILVUS + "AlterAlias", MILVUS_NAMED, ANY),
        ("milvus", MILVUS + "DropDatabase", b"", ANY),
        ("milvus", MILVUS + "DropPartition", MILVUS_NAMED, "db/docs"),
        ("milvus", MILVUS + "ReleasePartitions", MILVUS_NAMED, "db/docs"),
        ("milvus", MILVUS + "Import", MILVUS_NAMED, ANY),
        ("milvus", MILVUS + "ManualCompaction", MILVUS_NAMED, ANY),
        ("milvus", MILVUS + "RestoreSnapshot", MILVUS_NAMED, ANY),
        ("milvus", MILVUS + "FromALaterVersion", MILVUS_NAMED, ANY),
        ("milvus", MILVUS + "DescribeCollection", MILVUS_NAMED, None),
        ("milvus", MILVUS + "Insert", MILVUS_NAMED, None),
        ("milvus", MILVUS + "Search", MILVUS_NAMED, None),
        ("milvus", MILVUS + "LoadCollection", MILVUS_NAMED, None),
        ("milvus", MILVUS + "Flush", MILVUS_NAMED, None),
        ("milvus", MILVUS + "HybridSearch", MILVUS_NAMED, None),
        ("milvus", MILVUS + "Connect", b"", None),
        ("milvus", MILVUS + "GetLoadState", b"", None),
        ("weaviate", "/weaviate.v1.Weaviate/Search", b"", None),
        ("weaviate", "/weaviate.v1.Weaviate/BatchObjects", b"", None),
        ("weaviate", "/weaviate.v1.Weaviate/BatchStream", b"", None),
        ("weaviate", "/grpc.health.v1.Health/Check", b"", None),
        ("weaviate", "/weaviate.v1.Weaviate/FromALaterVersion", b"", ANY),
    ],
)
def test_calls_over_grpc(backend: str, path: str, message: bytes, collection: str | None) -> None:
    assert over_grpc(backend, path, message) == collection


def test_milvus_takes_the_database_from_the_metadata_where_the_message_names_none() -> None:
    assert over_grpc("milvus", MILVUS + "DropCollection", MILVUS_NAMED[4:], database="own") == "own/docs"


@pytest.mark.parametrize(
    ("line", "host", "collection"),
    [
        ("POST /indexes", "", ANY),
        ("DELETE //indexes/docs", "", ANY),
        ("PATCH /indexes/docs", "", ANY),
        ("POST /backups/b/create-index", "", ANY),
        ("POST /from-a-later-version", "", ANY),
        ("POST /bulk/imports", "docs-abc.svc.pinecone.io", "docs-abc"),
        ("DELETE /namespaces/n", "docs-abc.svc.pinecone.io", "docs-abc"),
        ("POST /vectors/from-a-later-version", "docs-abc.svc.pinecone.io", "docs-abc"),
        ("POST /records/namespaces/../../bulk/search", "docs-abc.svc.pinecone.io", "docs-abc"),
        ("GET /indexes", "", None),
        ("POST /embed", "", None),
        ("POST /vectors/upsert", "docs-abc.svc.pinecone.io", None),
        ("POST //query", "docs-abc.svc.pinecone.io", None),
        ("POST /query", "docs-abc.svc.pinecone.io", None),
        ("POST /records/namespaces//search", "docs-abc.svc.pinecone.io", None),
        ("POST /records/namespaces/a%2Fb/c/upsert", "docs-abc.svc.pinecone.io", None),
        ("POST /assistant/chat/docs", "", None),
    ],
)
def test_pinecone_over_rest(line: str, host: str, collection: str | None) -> None:
    assert over_rest("pinecone", line, host=host) == collection


@pytest.mark.parametrize(
    ("path", "collection"),
    [
        ("/VectorService/Query", None),
        ("/VectorService/Upsert", None),
        ("/VectorService/DeleteNamespace", "docs-abc"),
        ("/VectorService/FromALaterVersion", "docs-abc"),
    ],
)
def test_pinecone_over_grpc(path: str, collection: str | None) -> None:
    reshaped = GRPC["pinecone"].reshaped
    assert reshaped is not None
    touched = reshaped(RequestHead(method="POST", path=path, host="docs-abc.svc.pinecone.io"))
    assert (None if touched is None else touched.collection) == collection


@pytest.mark.parametrize(
    ("backend", "path"), [(name, path) for name, item in GRPC.items() for path in sorted(item.unary)]
)
def test_no_search_makes_its_collection_forgotten_over_grpc(backend: str, path: str) -> None:
    head = RequestHead(method="POST", path=path, message=NAMED, host="docs-abc.svc.pinecone.io")
    is_search = GRPC[backend].adapter().classify(head) is not None
    assert not is_search or over_grpc(backend, path, NAMED) is None


@given(
    st.sampled_from(sorted(REST)),
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.text(max_size=60).map(lambda text: "/" + text),
    st.binary(max_size=40),
)
def test_whatever_comes_is_told_without_an_error(backend: str, method: str, path: str, message: bytes) -> None:
    """For any method, path and message: an answer, never an exception; and what only reads, by GET or as a search, changes nothing."""
    head = RequestHead(method=method, path=path, message=message)
    over_http, over_grpc = REST[backend].reshaped, GRPC[backend].reshaped if backend in GRPC else None
    assert over_http is not None, "every backend can tell"
    assert method != "GET" or over_http(head) is None
    assert (REST[backend].adapter().classify(head) is None) or over_http(head) is None, "a search only reads"
    if over_grpc is not None:
        over_grpc(head)

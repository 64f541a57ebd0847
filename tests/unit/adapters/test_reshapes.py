"""Which requests may change what a collection is like, for every backend and both transports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.transports import GRPC, REST
from vecsieve.adapters.contract import RequestHead

ANY = "any"
NAMED = b"\x0a\x04docs"  # field 1
MILVUS_NAMED = b"\x12\x02db\x1a\x04docs"  # fields 2 and 3
MILVUS = "/milvus.proto.milvus.MilvusService/"


def over_rest(backend: str, line: str, *, host: str = "") -> str | None:
    """The collection, ANY, or None where nothing is given another shape. ``line``: method and path."""
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
    ("line", "collection"),
    [
        ("PUT /collections/docs", "docs"),
        ("DELETE /collections/docs", "docs"),
        ("PATCH //collections/docs/", "docs"),
        ("PUT /collections/a%20b", "a b"),
        ("PUT /collections/%ff", ANY),
        ("PUT /collections/docs/vectors/new", "docs"),
        ("PUT /collections/docs/snapshots/recover", "docs"),
        ("POST /collections/docs/snapshots/upload", "docs"),
        ("POST /collections/docs/from-a-later-version", "docs"),
        ("POST /collections/aliases", ANY),
        ("PUT /snapshots/recover", ANY),
        ("GET /collections/docs", None),
        ("GET /collections", None),
        ("PUT /collections/docs/points", None),
        ("POST /collections/docs/points/query", None),
        ("POST /collections/docs/points/delete", None),
        ("PUT /collections/docs/index", None),
        ("POST /collections/docs/facet", None),
        ("POST /locks", None),
        ("POST /", None),
        ("OPTIONS *", None),
    ],
)
def test_qdrant_over_rest(line: str, collection: str | None) -> None:
    assert over_rest("qdrant", line) == collection


@pytest.mark.parametrize(
    ("path", "message", "collection"),
    [
        ("/qdrant.Collections/Create", NAMED, "docs"),
        ("/qdrant.Collections/Delete", NAMED, "docs"),
        ("/qdrant.Collections/Update", NAMED, "docs"),
        ("/qdrant.Collections/FromALaterVersion", NAMED, "docs"),
        ("/qdrant.Collections/Create", b"", ANY),
        ("/qdrant.Collections/Create", b"\xff\xff", ANY),
        ("/qdrant.Collections/UpdateAliases", NAMED, ANY),
        ("/qdrant.Points/CreateVectorName", NAMED, "docs"),
        ("/qdrant.Collections/Get", NAMED, None),
        ("/qdrant.Collections/List", b"", None),
        ("/qdrant.Collections/CollectionExists", NAMED, None),
        ("/qdrant.Points/Upsert", NAMED, None),
        ("/qdrant.Points/Query", NAMED, None),
        ("/qdrant.Qdrant/HealthCheck", b"", None),
    ],
)
def test_qdrant_over_grpc(path: str, message: bytes, collection: str | None) -> None:
    assert over_grpc("qdrant", path, message) == collection


@pytest.mark.parametrize(
    ("line", "collection"),
    [
        ("POST /v1/vector/collections/create", ANY),
        ("POST /v1/vector/collections/drop", ANY),
        ("POST /v2/vectordb/collections/create", ANY),
        ("POST /v2/vectordb/collections/rename", ANY),
        ("POST /v2/vectordb/collections/fields/add", ANY),
        ("POST /v2/vectordb/aliases/alter", ANY),
        ("POST /v2/vectordb/indexes/create", ANY),
        ("POST /v2/vectordb/databases/drop", ANY),
        ("GET /v1/vector/collections/describe", None),
        ("POST /v2/vectordb/collections/describe", None),
        ("POST /v2/vectordb/collections/list", None),
        ("POST /v2/vectordb/entities/search", None),
        ("POST /v2/vectordb/entities/insert", None),
    ],
)
def test_milvus_over_rest(line: str, collection: str | None) -> None:
    assert over_rest("milvus", line) == collection


@pytest.mark.parametrize(
    ("name", "message", "collection"),
    [
        ("CreateCollection", MILVUS_NAMED, "db/docs"),
        ("DropCollection", MILVUS_NAMED[4:], "default/docs"),
        ("AddCollectionField", MILVUS_NAMED, "db/docs"),
        ("DropIndex", MILVUS_NAMED, "db/docs"),
        ("CreateCollection", b"", ANY),
        ("CreateCollection", b"\xff", ANY),
        ("RenameCollection", MILVUS_NAMED, ANY),
        ("AlterAlias", MILVUS_NAMED, ANY),
        ("DropDatabase", b"", ANY),
        ("DescribeCollection", MILVUS_NAMED, None),
        ("Insert", MILVUS_NAMED, None),
        ("Search", MILVUS_NAMED, None),
        ("LoadCollection", MILVUS_NAMED, None),
    ],
)
def test_milvus_over_grpc(name: str, message: bytes, collection: str | None) -> None:
    assert over_grpc("milvus", MILVUS + name, message) == collection


def test_milvus_takes_the_database_from_the_metadata_where_the_message_names_none() -> None:
    assert over_grpc("milvus", MILVUS + "DropCollection", MILVUS_NAMED[4:], database="own") == "own/docs"


@pytest.mark.parametrize(
    ("line", "collection"),
    [
        ("POST /v1/schema", ANY),
        ("PUT /v1/schema/Article", ANY),
        ("DELETE /v1/schema/Article", ANY),
        ("POST /v1/schema/Article/properties", ANY),
        ("POST /v1/schema/Article/vectors", ANY),
        ("PUT /v1/aliases/Paper", ANY),
        ("POST /v1/backups/s3/one/restore", ANY),
        ("GET /v1/schema", None),
        ("POST /v1/schema/Article/tenants", None),
        ("PUT /v1/schema/Article/shards/one", None),
        ("POST /v1/objects", None),
        ("POST /v1/graphql", None),
    ],
)
def test_weaviate_over_rest(line: str, collection: str | None) -> None:
    assert over_rest("weaviate", line) == collection


IN_CHROMA = "/api/v2/tenants/t/databases/d"
ID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("line", "collection"),
    [
        (f"POST {IN_CHROMA}/collections", ANY),
        (f"POST {IN_CHROMA}/collections/{ID}/fork", ANY),
        (f"DELETE {IN_CHROMA}/collections/docs", ANY),
        (f"PUT {IN_CHROMA}/collections/{ID}", ANY),
        (f"DELETE {IN_CHROMA}", ANY),
        ("POST /api/v2/reset", ANY),
        ("POST /api/v1/collections", ANY),
        (f"GET {IN_CHROMA}/collections", None),
        (f"POST {IN_CHROMA}/collections/{ID}/query", None),
        (f"POST {IN_CHROMA}/collections/{ID}/add", None),
        (f"POST {IN_CHROMA}/collections/{ID}/upsert", None),
    ],
)
def test_chroma_over_rest(line: str, collection: str | None) -> None:
    assert over_rest("chroma", line) == collection


@pytest.mark.parametrize(
    ("line", "host", "collection"),
    [
        ("POST /indexes", "", ANY),
        ("DELETE //indexes/docs", "", ANY),
        ("PATCH /indexes/docs", "", ANY),
        ("POST /backups/b/create-index", "", ANY),
        ("GET /indexes", "", None),
        ("POST /embed", "", None),
        ("POST /vectors/upsert", "docs-abc.svc.pinecone.io", None),
        ("POST /query", "docs-abc.svc.pinecone.io", None),
    ],
)
def test_pinecone_over_rest(line: str, host: str, collection: str | None) -> None:
    assert over_rest("pinecone", line, host=host) == collection


@given(
    st.sampled_from(sorted(REST)),
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.text(max_size=60).map(lambda text: "/" + text),
    st.binary(max_size=40),
)
def test_whatever_comes_is_told_without_an_error(backend: str, method: str, path: str, message: bytes) -> None:
    """For any method, path and message: an answer, never an exception; and what only reads by GET gives nothing another shape."""
    head = RequestHead(method=method, path=path, message=message)
    over_http, over_grpc = REST[backend].reshaped, GRPC[backend].reshaped if backend in GRPC else None
    assert over_http is not None, "every backend can tell"
    assert method != "GET" or over_http(head) is None
    if over_grpc is not None:
        over_grpc(head)

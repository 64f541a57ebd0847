"""One write of each kind that the write gate reads, what must be known before it, and the answer to the query for its neighbours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from qdrant_client import grpc as qdrant
from servers.pinecone.grpc_messages import message_type as pinecone

from support.milvus import messages as milvus
from support.weaviate import messages as weaviate
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.milvus.fields import FIRST_VECTOR, INT64, FieldType
from vecsieve.adapters.milvus.search import Schema as MilvusSchema
from vecsieve.adapters.opensearch.schema import Schema as OpenSearchSchema
from vecsieve.adapters.weaviate.calls import Schema as WeaviateSchema
from vecsieve.adapters.writes import NewPoints, WriteAdapter

MILVUS = MilvusSchema(
    vectors=frozenset({"vec"}),
    scalars=frozenset({"id"}),
    is_dynamic=True,
    primary="id",
    fields={"id": FieldType(kind=INT64), "vec": FieldType(kind=FIRST_VECTOR + 1)},
)
OPENSEARCH = OpenSearchSchema(
    index="docs", vectors={"vec": True}, kinds={"text": "text"}, has_notes=True, is_restorable=True
)
WEAVIATE = WeaviateSchema(name="Docs", types={"text": "text", "_vecsieve": "text"}, distances={"": "cosine"})
ID = "00000000-0000-0000-0000-00000000000a"
OF_SEARCH = {"timed_out": False, "_shards": {"successful": 1, "failed": 0}, "status": 200}
TEXT = "it has all the same words"
SCORE = 0.9921875  # exact in 32 bits
COLLECTION = "00000000-0000-0000-0000-00000000000c"

NOTHING = NewPoints(ids=(), vectors=np.empty((0, 0), np.float32), vector_name="", keys=(), fields=(), document=None)


@dataclass(frozen=True, slots=True)
class Sample:
    """``body``: a write of one point, or of that point several times. ``answer``: one neighbour of it."""

    name: str
    adapter: WriteAdapter
    head: RequestHead
    write: Operation
    body: bytes
    answer: bytes
    known: object | None


def _plain(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _rest() -> Mapping[str, tuple[str, str, bytes, bytes, object | None]]:
    """By backend: method, path, write, answer, and what is known."""
    long = [0.5, *[0.125] * 20]
    point = {"id": 1, "vector": long, "payload": {"text": TEXT}}
    hit = {"id": 2, "version": 1, "score": SCORE, "payload": {"text": TEXT}, "vector": long}
    near = {"text": TEXT, "_additional": {"id": ID.replace("a", "b"), "distance": 1 - SCORE, "vector": long}}
    one = {"class": "Docs", "id": ID, "vector": long, "properties": {"text": TEXT}}
    batch = b"%s\n%s\n" % (_plain({"index": {"_id": "a"}}), _plain({"text": TEXT, "vec": long}))
    neighbour = {"_index": "docs", "_id": "b", "_score": (1 + SCORE) / 2, "_source": {"text": TEXT, "vec": long}}
    search_engine = (
        "POST",
        "/docs/_bulk",
        batch,
        _plain({"responses": [{**OF_SEARCH, "hits": {"hits": [neighbour]}}]}),
        OPENSEARCH,
    )
    return {
        "qdrant": ("PUT", "/collections/c/points", _plain({"points": [point]}), _plain({"result": [{"points": [hit]}]}), None),
        "pinecone": (
            "POST", "/vectors/upsert", _plain({"vectors": [{"id": "a", "values": long, "metadata": {"text": TEXT}}]}),
            _plain({"matches": [{"id": "b", "score": SCORE, "values": long, "metadata": {"text": TEXT}}]}), None,
        ),
        "chroma": (
            "POST", f"/api/v2/tenants/t/databases/d/collections/{COLLECTION}/upsert",
            _plain({"ids": ["a"], "embeddings": [long], "metadatas": [{"n": 1}], "documents": [TEXT]}),
            _plain({"ids": [["b"]], "distances": [[1 - SCORE]], "metadatas": [[{}]], "documents": [[TEXT]], "embeddings": [[long]]}),
            None,
        ),
        "milvus": (
            "POST", "/v2/vectordb/entities/upsert", _plain({"collectionName": "c", "data": [{"id": 1, "vec": long, "text": TEXT}]}),
            _plain({"code": 0, "topks": [1], "data": [{"id": "2", "distance": SCORE, "text": TEXT, "vec": long}]}), MILVUS,
        ),
        "weaviate": ("POST", "/v1/batch/objects", _plain({"objects": [one]}), _plain({"data": {"Get": {"a0": [near]}}}), WEAVIATE),
        "opensearch": search_engine,
        "elasticsearch": search_engine,
    }  # fmt: skip


def _times(body: bytes, count: int) -> bytes:
    """A write over REST whose lists have their only element several times, or whose lines come several times."""
    if body.endswith(b"\n"):
        return body * count
    members = json.loads(body)
    return _plain({name: value * count if isinstance(value, list) else value for name, value in members.items()})


def _grpc(count: int) -> Mapping[str, tuple[str, Any, Any, object | None]]:
    """By backend: path, write of ``count`` points, answer, and what is known."""
    text = {"text": qdrant.Value(string_value=TEXT)}
    vectors = qdrant.Vectors(vector=qdrant.Vector(dense=qdrant.DenseVector(data=[1, 0.5])))
    point = qdrant.PointStruct(id=qdrant.PointId(num=1), vectors=vectors, payload=text)
    hit = qdrant.ScoredPoint(id=qdrant.PointId(num=2), score=SCORE, payload=text)
    columns = [
        {"field_name": "id", "type": 5, "scalars": {"long_data": {"data": [1] * count}}},
        {"field_name": "vec", "type": 101, "vectors": {"dim": 2, "float_vector": {"data": [1, 0.5] * count}}},
        {
            "field_name": "$meta",
            "type": 23,
            "is_dynamic": True,
            "scalars": {"json_data": {"data": [_plain({"text": TEXT})] * count}},
        },
    ]
    results = {
        "num_queries": 1,
        "topks": [1],
        "scores": [SCORE],
        "ids": {"int_id": {"data": [2]}},
        "fields_data": columns[1:],
    }
    one = {"uuid": ID, "collection": "Docs", "vector_bytes": weaviate.packed([1, 0.5])}
    return {
        "qdrant": (
            "/qdrant.Points/Upsert", qdrant.UpsertPoints(collection_name="c", points=[point] * count),
            qdrant.QueryBatchResponse(result=[qdrant.BatchResult(result=[hit])]), None,
        ),
        "pinecone": (
            "/VectorService/Upsert",
            pinecone("UpsertRequest")(vectors=[{"id": "a", "values": [1, 0.5], "metadata": {"text": TEXT}}] * count),
            pinecone("QueryResponse")(matches=[{"id": "b", "score": SCORE, "values": [1, 2], "metadata": {"text": TEXT}}]), None,
        ),
        "milvus": (
            "/milvus.proto.milvus.MilvusService/Insert",
            milvus.message_type("WriteRequest")(collection_name="c", num_rows=count, fields_data=columns),
            milvus.message_type("SearchResults")(results=results), MILVUS,
        ),
        "weaviate": (
            "/weaviate.v1.Weaviate/BatchObjects",
            weaviate.message_type("BatchObjectsRequest")(
                objects=[{**one, "properties": {"non_ref_properties": {"text": TEXT}}}] * count
            ), b"", WEAVIATE,
        ),
    }  # fmt: skip


@cache
def samples(count: int = 1) -> tuple[Sample, ...]:
    """Of each transport that reads writes, with ``count`` times the same point."""
    made: list[Sample] = []
    rest = _rest()
    for name, backend in BACKENDS.items():
        if backend.rest.writes is not None:
            method, path, body, answer, known = rest[name]
            head = RequestHead(method=method, path=path, content_type="application/json", host="docs.example")
            made.append(_sample(f"{name} REST", backend.rest.writes(), head, _times(body, count), answer, known))
        if backend.grpc is not None and backend.grpc.writes is not None:
            path, write, reply, known = _grpc(count)[name]
            message = write.SerializeToString()
            head = RequestHead(method="POST", path=path, message=message, host="docs.example")
            # Its reads go over REST.
            reply_body = rest[name][3] if backend.grpc.asks_over_rest else reply.SerializeToString()
            made.append(_sample(f"{name} gRPC", backend.grpc.writes(), head, message, reply_body, known))
    return tuple(made)


def _sample(
    name: str, adapter: WriteAdapter, head: RequestHead, body: bytes, answer: bytes, known: object | None
) -> Sample:
    write = adapter.classify(head)
    assert write is not None, name
    return Sample(name, adapter, head, write, body, answer, known)

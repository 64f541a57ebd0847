"""Over REST and gRPC: a note stands where a framework reads metadata, and nothing else of the payload changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from qdrant_client import grpc
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from servers.pinecone.grpc_messages import message_type

from support.backends.transports import operation_of
from support.pinecone.messages import query, read
from vecsieve.adapters.contract import Needs, RequestHead
from vecsieve.adapters.pinecone.grpc import PineconeGrpc
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.qdrant.rest import QdrantRest

NOTE = {"collapsed_ids": [7], "collapsed_sources": ["b.pdf"]}


CALLED: Mapping[str, tuple[Callable[[], Any], str, bytes]] = {
    "rest": (QdrantRest, "/collections/c/points/query", b'{"query":[1.0],"limit":2,"with_payload":true}'),
    "grpc": (
        QdrantGrpc,
        "/qdrant.Points/Query",
        grpc.QueryPoints(
            collection_name="c",
            query=grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0]))),
            limit=2,
            with_payload=grpc.WithPayloadSelector(enable=True),
        ).SerializeToString(),
    ),
}
both = pytest.mark.parametrize("transport", CALLED)


def noted(transport: str, payload: Any) -> Any:
    """What the payload of Qdrant's only result is after the note."""
    kind, path, body = CALLED[transport]
    adapter = kind()
    operation = operation_of(adapter, RequestHead(method="POST", path=path))
    call = adapter.parse_request(operation, body, Needs())
    answer = adapter.trim(call, adapter.parse_reply(call, reply(transport, payload)), [np.array([0], np.intp)])
    annotated = adapter.noted(call, answer, [[json.dumps(NOTE).encode()]])
    if transport == "grpc":
        return GrpcToRest.convert_payload(grpc.QueryResponse.FromString(annotated).result[0].payload)
    return json.loads(annotated)["result"]["points"][0]["payload"]


def reply(transport: str, payload: Any) -> bytes:
    if transport == "rest":
        point = f'{{"id":1,"version":0,"score":0.5,"payload":{json.dumps(payload)},"vector":[1.0]}}'
        return f'{{"result":{{"points":[{point}]}},"status":"ok","time":0.1}}'.encode()
    vectors = grpc.VectorsOutput(vector=grpc.VectorOutput(dense=grpc.DenseVector(data=[1.0])))
    stored = RestToGrpc.convert_payload(payload)
    hit = grpc.ScoredPoint(id=grpc.PointId(num=1), score=0.5, payload=stored, vectors=vectors)
    return grpc.QueryResponse(result=[hit], time=0.1).SerializeToString()


def node(**members: Any) -> str:
    return json.dumps({"text": 'a "text" \u00e4 \U0001f600', **members})


@both
@pytest.mark.parametrize("key", ["metadata", "meta"])
@pytest.mark.parametrize("inner", [{}, {"source": "a.pdf", "page": 1}])
def test_an_object_of_metadata_has_the_note(transport: str, key: str, inner: dict[str, Any]) -> None:
    payload = {"text": "t", key: inner, "z": [1]}
    assert noted(transport, payload) == payload | {key: inner | {"_vecsieve": NOTE}}


@both
@pytest.mark.parametrize("inner", [{}, {"file_name": "a.pdf", "\u00e4": "\u20ac"}])
def test_the_node_of_llamaindex_has_it_in_its_own_metadata(transport: str, inner: dict[str, Any]) -> None:
    payload = {"_node_content": node(metadata=inner), "file_name": "a.pdf"}
    expected = {"_node_content": json.loads(node(metadata=inner | {"_vecsieve": NOTE})), "file_name": "a.pdf"}
    result = noted(transport, payload)
    assert result | {"_node_content": json.loads(result["_node_content"])} == expected


@both
@pytest.mark.parametrize(
    "content",
    [
        "no json",
        "{",
        "[]",
        "{}",
        node(),
        node(metadata=None),
        node(metadata=[1]),
        '{"metadata":{},"metadata":{"a":1}}',
        "[" * 5000,
        7,
        None,
        {"metadata": {}},
    ],
)
def test_a_node_that_is_none_is_left_alone_and_the_payload_has_the_note(transport: str, content: object) -> None:
    payload = {"_node_content": content, "metadata": "no object"}
    assert noted(transport, payload) == payload | {"_vecsieve": NOTE}


@both
@pytest.mark.parametrize("holder", ["", "metadata"])
def test_a_note_that_is_there_stays(transport: str, holder: str) -> None:
    there = {"_vecsieve": {"duplicate_of": 3}}
    payload: dict[str, Any] = {holder: there} if holder else there
    assert noted(transport, payload) == payload


def test_over_grpc_an_empty_payload_is_none() -> None:
    empty: dict[str, Any] = {}
    assert noted("grpc", empty) == empty


def test_a_node_with_half_a_surrogate_pair_is_left_alone() -> None:
    payload = {"_node_content": '{"metadata":{"text":"\ud800"}}'}
    assert noted("rest", payload) == payload | {"_vecsieve": NOTE}


def noted_by_pinecone(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    adapter = PineconeGrpc()
    operation = operation_of(adapter, RequestHead(method="POST", path="/VectorService/Query"))
    call = adapter.parse_request(operation, query(vector=[1.0], top_k=2, include_metadata=True), Needs())
    match = message_type("ScoredVector")(id="1", score=0.5, values=[1.0])
    if metadata is not None:
        match.metadata.update(metadata)
    body = message_type("QueryResponse")(matches=[match], namespace="n").SerializeToString()
    answer = adapter.trim(call, adapter.parse_reply(call, body), [np.array([0], np.intp)])
    response = read("QueryResponse", adapter.noted(call, answer, [[json.dumps(NOTE).encode()]]))
    (result,) = response.matches
    assert (result.id, result.score, response.namespace) == ("1", 0.5, "n")
    return json_format.MessageToDict(result.metadata) if result.HasField("metadata") else None


@pytest.mark.parametrize("metadata", [{"text": "t", "source": "a.pdf", "page": 1.0}, {"tags": ["a", "b"]}])
def test_pinecone_has_it_as_a_string_because_metadata_is_flat(metadata: dict[str, Any]) -> None:
    result = noted_by_pinecone(metadata)
    assert result is not None
    assert json.loads(result.pop("_vecsieve")) == NOTE
    assert result == metadata


def test_pinecone_keeps_a_note_that_is_there_and_adds_none_without_metadata() -> None:
    assert noted_by_pinecone({"_vecsieve": "{}"}) == {"_vecsieve": "{}"}
    assert noted_by_pinecone(None) is None

from __future__ import annotations

import numpy as np
from qdrant_client import grpc

from support.backends.transports import GRPC
from vecsieve.adapters.contract import Adapter, Needs, Operation, RequestHead
from vecsieve.adapters.qdrant.calls import QdrantGrpcDialect
from vecsieve.adapters.qdrant.grpc import QdrantGrpc

ADAPTER: Adapter = QdrantGrpc()


def test_the_adapter_and_its_dialect_are_found_by_the_backends_name() -> None:
    assert isinstance(GRPC["qdrant"].adapter(), QdrantGrpc)
    assert isinstance(GRPC["qdrant"].dialect(), QdrantGrpcDialect)


def test_one_search_from_the_clients_message_to_its_answer() -> None:
    query = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 0.0])))
    message = grpc.QueryPoints(collection_name="docs", query=query, limit=2, using="d").SerializeToString()
    operation = ADAPTER.classify(RequestHead(method="POST", path="/qdrant.Points/Query", message=message))
    assert operation == Operation(backend="qdrant", name="query", collection="docs")
    call = ADAPTER.parse_request(operation, message, Needs())

    wide = grpc.QueryPoints.FromString(ADAPTER.widen(call, [24]))
    assert wide.limit == 24
    assert list(wide.with_vectors.include.names) == ["d"]

    stored = grpc.NamedVectorsOutput(vectors={"d": grpc.VectorOutput(dense=grpc.DenseVector(data=[1.0, 0.0]))})
    points = [
        grpc.ScoredPoint(id=grpc.PointId(num=number), score=1.0, vectors=grpc.VectorsOutput(vectors=stored))
        for number in range(3)
    ]
    reply = ADAPTER.parse_reply(call, grpc.QueryResponse(result=points, time=0.5).SerializeToString())
    assert reply.pools[0].vectors.tolist() == [[1.0, 0.0]] * 3

    answer = grpc.QueryResponse.FromString(ADAPTER.trim(call, reply, [np.array([0, 2])]))
    assert [point.id.num for point in answer.result] == [0, 2]
    assert not any(point.HasField("vectors") for point in answer.result)
    assert answer.time == 0.5

"""Upserts over gRPC, against protobuf's own library: what is read of them, the query for neighbours, messages with notes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import grpc as pb

from support.backends.transports import reason_of
from vecsieve.adapters.contract import MalformedReplyError, Operation, Reason, RequestHead
from vecsieve.adapters.qdrant.grpc_write import QdrantGrpcWrites
from vecsieve.adapters.writes import Inquiry, NewPoints, WriteNeeds

WRITES = QdrantGrpcWrites()
UPSERT = Operation(backend="qdrant", name="upsert", collection="docs")
UUID = "550e8400-e29b-41d4-a716-446655440000"
NOTE = b'{"duplicate_of":7,"similarity":0.9931,"tier":"exact"}'


def needs(*keys: str, vector_name: str | None = None, most: int = 100) -> WriteNeeds:
    return WriteNeeds(vector_name=vector_name, keys=keys or ("text",), most=most)


def bare(*numbers: float, old: bool = False) -> Any:
    vector = pb.Vector(data=numbers) if old else pb.Vector(dense=pb.DenseVector(data=numbers))
    return pb.Vectors(vector=vector)


def named(**each: Any) -> Any:
    return pb.Vectors(vectors=pb.NamedVectors(vectors=each))


def struct(identifier: int | str = 1, vectors: Any = None, **payload: str) -> Any:
    own = pb.PointId(num=identifier) if isinstance(identifier, int) else pb.PointId(uuid=identifier)
    values = {key: pb.Value(string_value=value) for key, value in payload.items()}
    return pb.PointStruct(id=own, vectors=bare(1.0, 0.5) if vectors is None else vectors, payload=values)


def written(*points: Any, **more: Any) -> bytes:
    message: bytes = pb.UpsertPoints(collection_name="docs", points=points, **more).SerializeToString()
    return message


def parsed(message: bytes, wanted: WriteNeeds | None = None) -> NewPoints:
    return WRITES.parse(UPSERT, message, wanted or needs())


@pytest.mark.parametrize(
    ("method", "expected"), [("Points/Upsert", "docs"), ("Points/Delete", None), ("Points/UpdateBatch", None)]
)
def test_an_upsert_is_told_by_its_method_and_its_message(method: str, expected: str | None) -> None:
    operation = WRITES.classify(RequestHead(method="POST", path=f"/qdrant.{method}", message=written(struct())))
    assert (None if operation is None else operation.collection) == expected


def test_of_several_dense_vectors_the_policys_is_compared() -> None:
    dense = pb.Vector(dense=pb.DenseVector(data=[0, 1]))
    sparse = pb.Vector(sparse=pb.SparseVector(values=[1], indices=[2]))
    message = written(struct(1, named(a=dense, b=dense, s=sparse)), struct(2, named(a=dense)))
    points = parsed(message, needs(vector_name="b"))
    assert points.vector_name == "b"
    assert np.isnan(points.vectors).all(axis=1).tolist() == [False, True]
    assert reason_of(parsed, message) is Reason.AMBIGUOUS_FIELD
    assert parsed(written(struct(1, named(a=dense, s=sparse)))).vector_name == "a"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x0a", Reason.UNSUPPORTED_FIELD),
        (written(), Reason.NOTHING_TO_DO),
        (written(pb.PointStruct(id=pb.PointId(num=1))), Reason.AMBIGUOUS_FIELD),
        (written(pb.PointStruct(vectors=bare(1, 2))), Reason.AMBIGUOUS_FIELD),
        (written(struct("no uuid")), Reason.UNSUPPORTED_FIELD),
        (written(struct(), update_filter=pb.Filter()), Reason.UNSUPPORTED_FIELD),
        (written(struct(), update_mode=1), Reason.UNSUPPORTED_FIELD),
        (written(struct(1, pb.Vectors(vector=pb.Vector(document=pb.Document(text="a"))))), Reason.NOTHING_TO_DO),
        (written(*[struct(n) for n in range(101)]), Reason.TOO_MANY_PARTS),
        (written(struct()) + b"\xfa\x01\x00", Reason.UNSUPPORTED_FIELD),
        (written(struct()) + b"\x0a\x01d", Reason.AMBIGUOUS_FIELD),
        (written() + b"\x1a\x0c\x0a\x0a\x08\x01\x12\x06no uui", Reason.AMBIGUOUS_FIELD),
    ],
)
def test_what_is_not_read_with_certainty_passes_through(message: bytes, reason: Reason) -> None:
    assert reason_of(parsed, message) is reason


def test_neighbours_are_one_batch_query() -> None:
    eu = pb.ShardKeySelector(shard_keys=[pb.ShardKey(keyword="eu")])
    message = written(struct(1, named(v=pb.Vector(dense=pb.DenseVector(data=[0.5, 1])))), shard_key_selector=eu)
    tenant = (("tenant", b'"acme"'), ("n", b"-3"), ("b", b"true"))
    inquiry = Inquiry(which=(0,), tenants=(tenant,), count=3, vectors=True, least=0.75)
    (question,) = WRITES.ask(UPSERT, parsed(message), inquiry)
    assert question.target == "/qdrant.Points/QueryBatch"
    match = [pb.Match(keyword="acme"), pb.Match(integer=-3), pb.Match(boolean=True)]
    keys = [pb.FieldCondition(key=key, match=each) for (key, _), each in zip(tenant, match, strict=True)]
    assert pb.QueryBatchPoints.FromString(question.body) == pb.QueryBatchPoints(
        collection_name="docs",
        query_points=[
            pb.QueryPoints(
                collection_name="docs",
                query=pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[0.5, 1]))),
                using="v",
                filter=pb.Filter(must=[pb.Condition(field=key) for key in keys]),
                params=pb.SearchParams(quantization=pb.QuantizationSearchParams(rescore=True)),
                score_threshold=0.75,
                limit=3,
                with_vectors=pb.WithVectorsSelector(include=pb.VectorsSelector(names=["v"])),
                with_payload=pb.WithPayloadSelector(include=pb.PayloadIncludeSelector(fields=["text"])),
                shard_key_selector=eu,
            )
        ],
    )


def test_neighbours_are_read_with_ids_scores_vectors_and_fields() -> None:
    def hit(identifier: int, score: float, *numbers: float) -> Any:
        vectors = pb.VectorsOutput(vector=pb.VectorOutput(dense=pb.DenseVector(data=numbers)))
        payload = {"text": pb.Value(string_value="a")}
        return pb.ScoredPoint(id=pb.PointId(num=identifier), score=score, payload=payload, vectors=vectors)

    lists = [pb.BatchResult(result=[hit(5, 0.5, 1, 2)]), pb.BatchResult(), pb.BatchResult(result=[hit(6, 0.25, 3, 4)])]
    body = pb.QueryBatchResponse(result=lists).SerializeToString()
    points = parsed(written(*[struct(n) for n in range(3)]))
    inquiry = Inquiry(which=(0, 1, 2), tenants=((), (), ()), count=3, vectors=True)
    near = WRITES.neighbours(points, inquiry, [body])
    assert (near.of.tolist(), near.ids, near.scores.tolist()) == ([0, 2], (b"5", b"6"), [0.5, 0.25])
    assert near.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert near.fields == ((b'"a"',), (b'"a"',))
    for damaged in (body[:-3], b"", body + body):
        with pytest.raises(MalformedReplyError):
            WRITES.neighbours(points, inquiry, [damaged])


@pytest.mark.parametrize(
    ("distance", "name", "expected"), [(1, "", True), (3, "", False), (1, "v", True), (2, "v", False)]
)
def test_the_description_tells_whether_scores_are_similarities(distance: Any, name: str, expected: bool) -> None:
    params = pb.VectorParams(size=2, distance=distance)
    config = (
        pb.VectorsConfig(params_map=pb.VectorParamsMap(map={"v": params})) if name else pb.VectorsConfig(params=params)
    )
    info = pb.CollectionInfo(config=pb.CollectionConfig(params=pb.CollectionParams(vectors_config=config)))
    body = pb.GetCollectionInfoResponse(result=info).SerializeToString()
    assert WRITES.is_cosine(body, name) is expected
    assert not WRITES.is_cosine(body, "other")


def test_a_note_is_the_only_change() -> None:
    message = written(struct(1), struct(2, text="a"), wait=True)
    changed = pb.UpsertPoints.FromString(WRITES.annotated(parsed(message), {1: NOTE}))
    note = changed.points[1].payload.pop("_vecsieve").struct_value.fields
    assert (note["duplicate_of"].integer_value, note["tier"].string_value) == (7, "exact")
    assert note["similarity"].double_value == 0.9931
    assert changed == pb.UpsertPoints.FromString(message)


@pytest.mark.parametrize("identifier", [f'"{UUID}"', str(2**63)])
def test_an_id_that_is_no_signed_integer_is_text(identifier: str) -> None:
    note = NOTE.replace(b"7", identifier.encode(), 1)
    changed = pb.UpsertPoints.FromString(WRITES.annotated(parsed(written(struct(1))), {0: note}))
    fields = changed.points[0].payload["_vecsieve"].struct_value.fields
    assert fields["duplicate_of"].string_value == identifier.strip('"')

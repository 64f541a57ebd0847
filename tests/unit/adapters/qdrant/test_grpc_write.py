"""Upserts over gRPC, against protobuf's own library: points left out, read whole, put in place of others; stored ones removed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc as pb
from qdrant_client.conversions.conversion import payload_to_grpc

from support.backends.transports import reason_of
from support.backends.writes import NOTHING
from vecsieve.adapters.contract import MalformedReplyError, Operation, Reason, RequestHead, UnsupportedError
from vecsieve.adapters.qdrant.grpc_schema import VALUES, proto
from vecsieve.adapters.qdrant.grpc_write import QdrantGrpcWrites, _condition, vectors_fields, vectors_json
from vecsieve.adapters.writes import Inquiry, MergesPoints, NewPoints, WriteNeeds

WRITES = QdrantGrpcWrites()
UPSERT = Operation(backend="qdrant", name="upsert", collection="docs")
UUID = "550e8400-e29b-41d4-a716-446655440000"


def dense_struct(identifier: int | str, *numbers: float, **payload: Any) -> Any:
    settings = pb.PointId(num=identifier) if isinstance(identifier, int) else pb.PointId(uuid=identifier)
    values = {key: pb.Value(string_value=value) for key, value in payload.items()}
    return pb.PointStruct(id=settings, vectors=pb.Vectors(vector=pb.Vector(data=numbers)), payload=values)


def upsert(*points: Any, **more: Any) -> Any:
    return pb.UpsertPoints(collection_name="docs", points=points, **more)


def parsed_message(message: Any) -> NewPoints:
    return WRITES.parse(UPSERT, message.SerializeToString(), WriteNeeds(vector_name=None, keys=("text",), most=100))


def keyed(*keys: int | str) -> Any:
    made = [pb.ShardKey(number=key) if isinstance(key, int) else pb.ShardKey(keyword=key) for key in keys]
    return pb.ShardKeySelector(shard_keys=made)


ONE, TWO, THREE = dense_struct(1, 1.5, 2, text="a"), dense_struct(UUID, 3, 4), dense_struct(3, 5, 6)


def test_all_verbs_of_merging_are_there() -> None:
    assert isinstance(WRITES, MergesPoints)


def test_a_point_whose_vector_the_database_makes_is_not_left_out() -> None:
    document = pb.Vector(document=pb.Document(text="a", model="m"))
    vectors = pb.Vectors(vectors=pb.NamedVectors(vectors={"a": pb.Vector(data=[1, 2]), "b": document}))
    other = pb.PointStruct(id=pb.PointId(num=2), vectors=vectors)
    try:
        points = parsed_message(upsert(other))
    except UnsupportedError:
        return  # it is not even read
    with pytest.raises(UnsupportedError):
        WRITES.point(points, 0)


@pytest.mark.parametrize(("keys", "expected"), [((), b""), ((7,), b"7"), (("eu",), b'"eu"'), (("a", 2), b'["a",2]')])
def test_the_partition_is_the_shard_key_as_over_rest(keys: tuple[int | str, ...], expected: bytes) -> None:
    more = {"shard_key_selector": keyed(*keys)} if keys else {}
    assert WRITES.partition(parsed_message(upsert(ONE, **more))) == expected


@pytest.mark.parametrize("whole", [False, True])
def test_points_are_asked_for_by_id_whole_or_not(whole: bool) -> None:
    points = parsed_message(upsert(ONE, shard_key_selector=keyed("eu")))
    (question,) = WRITES.ask_stored(UPSERT, points, [b"1", f'"{UUID}"'.encode()], whole=whole)
    assert question.target == "/qdrant.Points/Get"
    request = pb.GetPoints.FromString(question.body)
    assert [(point_id.num, point_id.uuid) for point_id in request.ids] == [(1, ""), (0, UUID)]
    assert (request.with_payload.enable, request.with_vectors.enable) == (whole, whole)
    assert (request.collection_name, request.shard_key_selector) == ("docs", keyed("eu"))


def test_stored_points_are_read_as_an_upsert_takes_them() -> None:
    vectors = pb.VectorsOutput(vector=pb.VectorOutput(dense=pb.DenseVector(data=[1, 2])))
    first = pb.RetrievedPoint(id=pb.PointId(num=7), payload={"n": pb.Value(integer_value=3)}, vectors=vectors)
    body = pb.GetResponse(result=[first, pb.RetrievedPoint(id=pb.PointId(uuid=UUID))], time=0.1).SerializeToString()
    assert {key: json.loads(value) for key, value in WRITES.stored(NOTHING, body).items()} == {
        b"7": {"id": 7, "vector": [1.0, 2.0], "payload": {"n": 3}},
        f'"{UUID}"'.encode(): {"id": UUID, "vector": {}, "payload": {}},
    }
    for damaged in (b"\x0a", body[:20], b"\x0a\x02\x0a\x00"):
        with pytest.raises(MalformedReplyError):
            WRITES.stored(NOTHING, damaged)


def test_a_point_in_place_of_another_keeps_its_id() -> None:
    points = parsed_message(upsert(ONE, TWO, THREE))
    other = json.dumps({"id": UUID, "vector": [9, 9], "payload": {"text": "b"}}).encode()
    assert pb.UpsertPoints.FromString(WRITES.merged(UPSERT, points, {0}, {1: other})) == upsert(
        dense_struct(UUID, 9, 9, text="b"), THREE
    )


@pytest.mark.parametrize("waits", [False, True])
def test_a_write_of_which_nothing_is_left_is_answered_without_an_operations_number(waits: bool) -> None:
    points = parsed_message(upsert(ONE, wait=waits))
    answer = WRITES.acknowledged(UPSERT, points, "")
    made = pb.PointsOperationResponse.FromString(answer.body)
    assert (answer.status, WRITES.waits(points, "")) == (0, waits)
    assert made.result.status == (pb.UpdateStatus.Completed if waits else pb.UpdateStatus.Acknowledged)
    assert not made.result.HasField("operation_id")


def test_a_removal_names_the_id_and_what_the_payload_had() -> None:
    victims = {
        b"7": b'{"id":7,"vector":[1],"payload":{"text":"a","n":3,"x":1.5}}',
        f'"{UUID}"'.encode(): b'{"payload":{}}',
    }
    (question,) = WRITES.ask_removed(UPSERT, parsed_message(upsert(ONE, shard_key_selector=keyed("eu"))), victims)
    request = pb.DeletePoints.FromString(question.body)
    assert question.target == "/qdrant.Points/Delete"
    assert (request.collection_name, request.wait, request.shard_key_selector) == ("docs", True, keyed("eu"))
    first, second = request.points.filter.should
    assert [entry.num for entry in first.filter.must[0].has_id.has_id] == [7]
    assert [(entry.field.key, entry.field.match) for entry in first.filter.must[1:]] == [
        ("text", pb.Match(keyword="a")),
        ("n", pb.Match(integer=3)),
    ]
    assert [entry.uuid for entry in second.filter.must[0].has_id.has_id] == [UUID]
    assert len(second.filter.must) == 1


@pytest.mark.parametrize(("body", "shows"), [(b"\x10\x01", True), (b"\x10\x00", False), (b"", False), (b"\xff", False)])
def test_a_write_that_is_not_read_shows_only_if_it_waits(body: bytes, shows: bool) -> None:
    assert QdrantGrpcWrites().shows_unread("", body, None) is shows


# Upserts over gRPC, against protobuf's own library: what is read of them, the query for neighbours, messages with notes.

NOTE = b'{"duplicate_of":7,"similarity":0.9931,"tier":"exact"}'


def needs(*keys: str, vector_name: str | None = None) -> WriteNeeds:
    return WriteNeeds(vector_name=vector_name, keys=keys or ("text",), most=100)


def bare(*numbers: float) -> Any:
    vector = pb.Vector(dense=pb.DenseVector(data=numbers))
    return pb.Vectors(vector=vector)


def named(**vectors: Any) -> Any:
    return pb.Vectors(vectors=pb.NamedVectors(vectors=vectors))


def struct(identifier: int | str = 1, vectors: Any = None, **payload: str) -> Any:
    point_id = pb.PointId(num=identifier) if isinstance(identifier, int) else pb.PointId(uuid=identifier)
    values = {key: pb.Value(string_value=value) for key, value in payload.items()}
    return pb.PointStruct(id=point_id, vectors=bare(1.0, 0.5) if vectors is None else vectors, payload=values)


def written(*points: Any, **more: Any) -> bytes:
    message: bytes = pb.UpsertPoints(collection_name="docs", points=points, **more).SerializeToString()
    return message


def parsed(message: bytes, requirements: WriteNeeds | None = None) -> NewPoints:
    return WRITES.parse(UPSERT, message, requirements or needs())


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
    keys = [pb.FieldCondition(key=key, match=value) for (key, _), value in zip(tenant, match, strict=True)]
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


# A point's message as JSON and back, against protobuf's own library.

FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)
DENSE = st.lists(FLOAT, min_size=1, max_size=4)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def vectors_message(vectors: object) -> bytes:
    return bytes(proto.Vectors(**vectors_fields(vectors)).SerializeToString())


def listed(vectors: Any) -> Any:
    return json.loads(vectors_json(proto.Vectors.FromString(vectors.SerializeToString())))


@given(DENSE)
def test_a_dense_vector_survives_both_ways(numbers: list[float]) -> None:
    """Each float of 32 bits is the same float after JSON, in the old form and in the new one."""
    for vector in (pb.Vector(data=numbers), pb.Vector(dense=pb.DenseVector(data=numbers))):
        result = listed(pb.Vectors(vector=vector))
        assert np.array(result, np.float32).tobytes() == np.array(numbers, np.float32).tobytes()
    assert list(pb.Vectors.FromString(vectors_message(result)).vector.data) == numbers


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        (pb.Vector(data=[1, 2], indices=pb.SparseIndices(data=[7, 900])), {"indices": [7, 900], "values": [1.0, 2.0]}),
        (
            pb.Vector(sparse=pb.SparseVector(values=[1, 2], indices=[7, 900])),
            {"indices": [7, 900], "values": [1.0, 2.0]},
        ),
        (pb.Vector(data=[1, 2, 3, 4], vectors_count=2), [[1.0, 2.0], [3.0, 4.0]]),
        (
            pb.Vector(
                multi_dense=pb.MultiDenseVector(vectors=[pb.DenseVector(data=[1, 2]), pb.DenseVector(data=[3, 4])])
            ),
            [[1.0, 2.0], [3.0, 4.0]],
        ),
    ],
)
def test_every_kind_of_vector_is_shown_as_over_rest(vector: Any, expected: object) -> None:
    assert listed(pb.Vectors(vector=vector)) == expected
    named = pb.Vectors(vectors=pb.NamedVectors(vectors={"a": vector, "b": pb.Vector(data=[5])}))
    assert listed(named) == {"a": expected, "b": [5.0]}
    again = pb.Vectors.FromString(vectors_message({"a": expected, "b": [5.0]}))
    assert listed(again) == {"a": expected, "b": [5.0]}
    assert listed(pb.Vectors.FromString(vectors_message(expected))) == expected


@pytest.mark.parametrize(
    "vector", [pb.Vector(document=pb.Document(text="a", model="m")), pb.Vector(data=[float("nan")])]
)
def test_what_has_no_exact_form_is_refused(vector: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any
        listed(pb.Vectors(vector=vector))


@given(st.dictionaries(st.text(), VALUE, max_size=4))
def test_a_payload_survives_both_ways(payload: dict[str, Any]) -> None:
    """JSON of a payload is the payload, and the message made of it is the one that the official client makes."""
    message = pb.PointStruct(payload=payload_to_grpc(payload)).SerializeToString()
    content = json.loads(VALUES.object_json(proto.Written.FromString(message).payload))
    assert repr(content) == repr({key: content[key] for key in content})
    assert content == payload
    made = proto.Written(payload=[VALUES.entry(key, value) for key, value in payload.items()]).SerializeToString()
    assert pb.PointStruct.FromString(made) == pb.PointStruct.FromString(message)


@pytest.mark.parametrize(
    ("value", "match"), [("größe", {"keyword": "größe"}), (-7, {"integer": -7}), (True, {"boolean": True})]
)
def test_a_condition_names_the_key_and_the_value(value: object, match: dict[str, Any]) -> None:
    (condition,) = pb.Filter.FromString(proto.Where(must=[_condition("k", value)]).SerializeToString()).must
    assert condition == pb.Condition(field=pb.FieldCondition(key="k", match=pb.Match(**match)))

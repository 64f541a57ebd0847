"""Upserts over gRPC, against protobuf's own library: points left out, read whole, put in place of others; stored ones removed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from qdrant_client import grpc as pb

from support.backends.writes import NOTHING
from vecsieve.adapters.contract import MalformedReplyError, Operation, UnsupportedError
from vecsieve.adapters.qdrant.grpc_write import QdrantGrpcWrites
from vecsieve.adapters.writes import MergesPoints, NewPoints, WriteNeeds

WRITES = QdrantGrpcWrites()
UPSERT = Operation(backend="qdrant", name="upsert", collection="docs")
UUID = "550e8400-e29b-41d4-a716-446655440000"


def struct(identifier: int | str, *numbers: float, **payload: Any) -> Any:
    own = pb.PointId(num=identifier) if isinstance(identifier, int) else pb.PointId(uuid=identifier)
    values = {key: pb.Value(string_value=value) for key, value in payload.items()}
    return pb.PointStruct(id=own, vectors=pb.Vectors(vector=pb.Vector(data=numbers)), payload=values)


def upsert(*points: Any, **more: Any) -> Any:
    return pb.UpsertPoints(collection_name="docs", points=points, **more)


def parsed(message: Any) -> NewPoints:
    return WRITES.parse(UPSERT, message.SerializeToString(), WriteNeeds(vector_name=None, keys=("text",), most=100))


def keyed(*keys: int | str) -> Any:
    made = [pb.ShardKey(number=key) if isinstance(key, int) else pb.ShardKey(keyword=key) for key in keys]
    return pb.ShardKeySelector(shard_keys=made)


ONE, TWO, THREE = struct(1, 1.5, 2, text="a"), struct(UUID, 3, 4), struct(3, 5, 6)


def test_all_verbs_of_merging_are_there() -> None:
    assert isinstance(WRITES, MergesPoints)


def test_a_point_whose_vector_the_database_makes_is_not_left_out() -> None:
    document = pb.Vector(document=pb.Document(text="a", model="m"))
    vectors = pb.Vectors(vectors=pb.NamedVectors(vectors={"a": pb.Vector(data=[1, 2]), "b": document}))
    other = pb.PointStruct(id=pb.PointId(num=2), vectors=vectors)
    try:
        points = parsed(upsert(other))
    except UnsupportedError:
        return  # it is not even read
    with pytest.raises(UnsupportedError):
        WRITES.point(points, 0)


@pytest.mark.parametrize(("keys", "expected"), [((), b""), ((7,), b"7"), (("eu",), b'"eu"'), (("a", 2), b'["a",2]')])
def test_the_partition_is_the_shard_key_as_over_rest(keys: tuple[int | str, ...], expected: bytes) -> None:
    more = {"shard_key_selector": keyed(*keys)} if keys else {}
    assert WRITES.partition(parsed(upsert(ONE, **more))) == expected


@pytest.mark.parametrize("whole", [False, True])
def test_points_are_asked_for_by_id_whole_or_not(whole: bool) -> None:
    points = parsed(upsert(ONE, shard_key_selector=keyed("eu")))
    (question,) = WRITES.ask_stored(UPSERT, points, [b"1", f'"{UUID}"'.encode()], whole=whole)
    assert question.target == "/qdrant.Points/Get"
    request = pb.GetPoints.FromString(question.body)
    assert [(each.num, each.uuid) for each in request.ids] == [(1, ""), (0, UUID)]
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
    points = parsed(upsert(ONE, TWO, THREE))
    other = json.dumps({"id": UUID, "vector": [9, 9], "payload": {"text": "b"}}).encode()
    assert pb.UpsertPoints.FromString(WRITES.merged(UPSERT, points, {0}, {1: other})) == upsert(
        struct(UUID, 9, 9, text="b"), THREE
    )


@pytest.mark.parametrize("waits", [False, True])
def test_a_write_of_which_nothing_is_left_is_answered_without_an_operations_number(waits: bool) -> None:
    points = parsed(upsert(ONE, wait=waits))
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
    (question,) = WRITES.ask_removed(UPSERT, parsed(upsert(ONE, shard_key_selector=keyed("eu"))), victims)
    request = pb.DeletePoints.FromString(question.body)
    assert question.target == "/qdrant.Points/Delete"
    assert (request.collection_name, request.wait, request.shard_key_selector) == ("docs", True, keyed("eu"))
    first, second = request.points.filter.should
    assert [each.num for each in first.filter.must[0].has_id.has_id] == [7]
    assert [(each.field.key, each.field.match) for each in first.filter.must[1:]] == [
        ("text", pb.Match(keyword="a")),
        ("n", pb.Match(integer=3)),
    ]
    assert [each.uuid for each in second.filter.must[0].has_id.has_id] == [UUID]
    assert len(second.filter.must) == 1


@pytest.mark.parametrize(("body", "shows"), [(b"\x10\x01", True), (b"\x10\x00", False), (b"", False), (b"\xff", False)])
def test_a_write_that_is_not_read_shows_only_if_it_waits(body: bytes, shows: bool) -> None:
    assert QdrantGrpcWrites().shows_unread("", body, None) is shows

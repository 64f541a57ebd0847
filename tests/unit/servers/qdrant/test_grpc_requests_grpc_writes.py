"""Writes, as messages, in the words of the REST interface."""

from __future__ import annotations

from typing import Any

import pytest
from servers.qdrant import grpc_requests as writes
from servers.qdrant.grpc_messages import messages

from vecsieve.proxy.demo.embedded.fields import RefusalError

IDS = {"points": {"ids": [{"num": 1}, {"num": 2}]}}
FILTER = {"filter": {"must": [{"has_vector": {"has_vector": "v"}}]}}
FILTERED = {"filter": {"must": [{"has_vector": "v"}]}}


def made(name: str, **fields: Any) -> Any:
    return getattr(messages(), name)(collection_name="c", **fields)


def point(number: int) -> Any:
    return messages().PointStruct(id={"num": number}, vectors={"vector": {"data": [0.5]}})


def test_an_upsert_says_its_points_its_condition_and_whether_to_wait() -> None:
    message = made("UpsertPoints", points=[point(1)], wait=True, update_mode=1, update_filter=FILTER["filter"])
    message.points[0].payload["n"].integer_value = 3
    call = writes.upsert(message)
    assert call.query == {"wait": "true"}
    assert call.body == {
        "points": [{"id": 1, "vector": [0.5], "payload": {"n": 3}}],
        "update_mode": "insert_only",
        "update_filter": FILTERED["filter"],
    }
    assert writes.upsert(made("UpsertPoints", wait=False)).query == {}


def test_a_point_without_vectors_is_refused() -> None:
    with pytest.raises(RefusalError, match="Expected some vectors"):
        writes.upsert(made("UpsertPoints", points=[messages().PointStruct(id={"num": 1})]))


@pytest.mark.parametrize(("selector", "expected"), [(IDS, {"points": [1, 2]}), (FILTER, FILTERED)])
def test_points_are_named_or_filtered(selector: dict[str, Any], expected: dict[str, Any]) -> None:
    assert writes.delete(made("DeletePoints", points=selector)).body == expected
    assert writes.clear_payload(made("ClearPayloadPoints", points=selector)).body == expected
    keys = writes.delete_payload(made("DeletePayloadPoints", points_selector=selector, keys=["a"]))
    assert keys.body == {**expected, "keys": ["a"]}
    names = writes.delete_vectors(made("DeletePointVectors", points_selector=selector, vectors={"names": ["v"]}))
    assert names.body == {**expected, "vector": ["v"]}
    said = writes.payload(made("SetPayloadPoints", points_selector=selector, key="k"))
    assert said.body == {**expected, "payload": {}, "key": "k"}


def test_a_write_to_no_points_in_particular_is_refused() -> None:
    with pytest.raises(RefusalError, match="PointsSelector is missing"):
        writes.delete(made("DeletePoints"))
    with pytest.raises(RefusalError, match="PointsSelector is missing"):
        writes.payload(made("SetPayloadPoints"))
    with pytest.raises(RefusalError, match="Malformed PointsSelector"):
        writes.delete(made("DeletePoints", points={}))


def test_vectors_are_replaced_point_by_point() -> None:
    points = [{"id": {"num": 1}, "vectors": {"vectors": {"vectors": {"v": {"dense": {"data": [2]}}}}}}]
    body = writes.update_vectors(made("UpdatePointVectors", points=points)).body
    assert body == {"points": [{"id": 1, "vector": {"v": [2.0]}}]}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"upsert": {"points": [{"id": {"num": 1}, "vectors": {"vector": {"data": [1]}}}]}}, "upsert"),
        ({"delete_deprecated": IDS}, "delete"),
        ({"delete_points": {"points": IDS}}, "delete"),
        ({"clear_payload_deprecated": IDS}, "clear_payload"),
        ({"clear_payload": {"points": IDS}}, "clear_payload"),
        ({"set_payload": {"points_selector": IDS}}, "set_payload"),
        ({"overwrite_payload": {"points_selector": IDS}}, "overwrite_payload"),
        ({"delete_payload": {"points_selector": IDS, "keys": ["k"]}}, "delete_payload"),
        ({"update_vectors": {"points": []}}, "update_vectors"),
        ({"delete_vectors": {"points_selector": IDS, "vectors": {"names": ["v"]}}}, "delete_vectors"),
    ],
)
def test_every_operation_of_a_batch_has_its_name(operation: dict[str, Any], expected: str) -> None:
    (said,) = writes.batch(made("UpdateBatchPoints", operations=[operation])).body["operations"]
    assert list(said) == [expected]
    if IDS in operation.values() or "points_selector" in next(iter(operation.values())):
        assert said[expected]["points"] == [1, 2]


def test_an_operation_of_no_kind_is_refused() -> None:
    with pytest.raises(RefusalError, match="Operation is missing"):
        writes.batch(made("UpdateBatchPoints", operations=[{}]))


def test_an_index_has_a_type_or_parameters_that_say_it() -> None:
    def schema(**fields: Any) -> Any:
        return writes.create_index(made("CreateFieldIndexCollection", field_name="f", **fields)).body

    assert schema() == {"field_name": "f"}
    kinds = ["keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid"]
    assert [schema(field_type=number)["field_schema"] for number in range(8)] == kinds
    params = {"integer_index_params": {"lookup": True, "range": False}}
    expected = {"type": "integer", "lookup": True, "range": False}
    assert schema(field_type=0, field_index_params=params)["field_schema"] == expected
    with pytest.raises(RefusalError, match="field_type"):
        schema(field_type=99)
    dropped = writes.delete_index(made("DeleteFieldIndexCollection", field_name="a.b", wait=True))
    assert (dropped.path, dropped.query) == ({"collection": "c", "field": "a.b"}, {"wait": "true"})

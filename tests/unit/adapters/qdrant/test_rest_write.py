"""Upserts over REST: points left out of them, read whole, put in place of others; stored ones removed."""

from __future__ import annotations

import json

import pytest

from support.backends.writes import NOTHING
from vecsieve.adapters.contract import MalformedReplyError, Operation
from vecsieve.adapters.qdrant import calls
from vecsieve.adapters.qdrant.rest_write import MOST_COMPARED, QdrantRestWrites, compared
from vecsieve.adapters.writes import NewPoints, WriteNeeds

WRITES = QdrantRestWrites()
UPSERT = Operation(backend="qdrant", name=calls.UPSERT, collection="docs")
UPDATES = Operation(backend="qdrant", name=calls.UPDATES, collection="docs")
UUID = "550e8400-e29b-41d4-a716-446655440000"


def parsed(body: bytes, write: Operation = UPSERT) -> NewPoints:
    return WRITES.parse(write, body, WriteNeeds(vector_name=None, keys=("text",), most=100))


TWO = parsed(b'{"points":[{"id":1,"vector":[1.50,0]},{"id":"%s","vector":[0,1]}],"shard_key":5}' % UUID.encode())


@pytest.mark.parametrize("whole", [False, True])
def test_points_are_asked_for_by_id_whole_or_not(whole: bool) -> None:
    (question,) = WRITES.ask_stored(UPSERT, TWO, [b"1", f'"{UUID}"'.encode()], whole=whole)
    assert (question.method, question.target) == ("POST", "/collections/docs/points")
    assert json.loads(question.body) == {
        "ids": [1, UUID],
        "with_payload": whole,
        "with_vector": whole,
        "shard_key": 5,
    }


def test_stored_points_are_read_as_an_upsert_takes_them() -> None:
    body = b'{"result":[{"id":7,"payload":{"a":1.50},"vector":[1.0,2],"shard_key":"eu"},{"id":"%s"}]}' % UUID.encode()
    assert WRITES.stored(NOTHING, body) == {
        b"7": b'{"id":7,"vector":[1.0,2],"payload":{"a":1.50}}',
        f'"{UUID}"'.encode(): b'{"id":"%s","vector":{},"payload":null}' % UUID.encode(),
    }
    for damaged in (b"", b"{}", b'{"result":[{}]}', b'{"result":null}'):
        with pytest.raises(MalformedReplyError):
            WRITES.stored(NOTHING, damaged)


@pytest.mark.parametrize(
    ("query", "waits"), [("", False), ("?wait=true", True), ("?ordering=weak&wait=true", True), ("?wait=false", False)]
)
def test_a_write_of_which_nothing_is_left_is_answered_without_an_operations_number(query: str, waits: bool) -> None:
    answer = WRITES.acknowledged(UPSERT, TWO, query)
    assert WRITES.waits(TWO, query) == waits
    assert (answer.status, answer.content_type) == (200, "application/json")
    result = {"operation_id": None, "status": "completed" if waits else "acknowledged"}
    assert json.loads(answer.body) == {"result": result, "status": "ok", "time": 0.0}
    assert json.loads(WRITES.acknowledged(UPDATES, TWO, query).body)["result"] == [result]


def test_a_point_in_place_of_another_changes_nothing_else() -> None:
    body = b'{"points":[{"id":1,"vector":[1.50,2]},{"id":2,"vector":[3,4]},{"id":3,"vector":[5,6]}],"shard_key":"eu"}'
    other = b'{"id":2,"vector":[9,9],"payload":{"n":1.50}}'
    expected = b'{"points":[%s,{"id":3,"vector":[5,6]}],"shard_key":"eu"}' % other
    assert WRITES.merged(UPSERT, parsed(body), {0}, {1: other}) == expected
    updates = b'{"operations":[{"upsert":%s}]}'
    points = parsed(updates % body, UPDATES)
    assert WRITES.merged(UPDATES, points, {0}, {1: other}) == updates % expected


def test_columns_become_a_list_where_a_point_is_replaced() -> None:
    points = parsed(b'{"batch":{"ids":[1,2],"vectors":[[1.50,2],[3,4]],"payloads":[{"a":1.0},null]}}')
    other = b'{"id":2,"vector":[9,9],"payload":{}}'
    expected = b'{"points":[{"id":1,"vector":[1.50,2],"payload":{"a":1.0}},%s]}' % other
    assert WRITES.merged(UPSERT, points, set(), {1: other}) == expected


def test_a_removal_names_the_id_and_what_the_payload_had() -> None:
    point = json.dumps(
        {"id": 7, "vector": [1], "payload": {"text": "a", "n": 3, "is": True, "x": 1.5, "l": [1], "a.b": 1}}
    )
    (question,) = WRITES.ask_removed(UPSERT, TWO, {b"7": point.encode(), b"8": b'{"id":8,"vector":[1],"payload":null}'})
    assert question.target == "/collections/docs/points/delete?wait=true"
    same = [{"key": key, "match": {"value": value}} for key, value in {"text": "a", "n": 3, "is": True}.items()]
    assert json.loads(question.body) == {
        "filter": {"should": [{"must": [{"has_id": [7]}, *same]}, {"must": [{"has_id": [8]}]}]},
        "shard_key": 5,
    }


def test_a_large_payload_is_compared_in_part() -> None:
    payload = {f"k{n}": n for n in range(50)} | {"big": 2**70}
    assert len(compared(json.dumps({"payload": payload}).encode())) == MOST_COMPARED
    assert compared(json.dumps({"payload": {"big": 2**70, "ü": 1}}).encode()) == {}

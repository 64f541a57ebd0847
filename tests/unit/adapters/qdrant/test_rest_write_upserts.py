"""Upserts over REST: what is read of them, the query for their neighbours, and the client's bytes with notes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of, reason_of
from vecsieve.adapters.contract import MalformedReplyError, Operation, Reason, RequestHead
from vecsieve.adapters.qdrant import calls
from vecsieve.adapters.qdrant.rest_write import QdrantRestWrites
from vecsieve.adapters.writes import Inquiry, NewPoints, WriteNeeds

WRITES = QdrantRestWrites()
UPSERT = Operation(backend="qdrant", name=calls.UPSERT, collection="docs")
UPDATES = Operation(backend="qdrant", name=calls.UPDATES, collection="docs")
UUID = "550e8400-e29b-41d4-a716-446655440000"


def needs(*keys: str, vector_name: str | None = None, most: int = 100) -> WriteNeeds:
    return WriteNeeds(vector_name=vector_name, keys=keys or ("text",), most=most)


def parsed(body: object, requirements: WriteNeeds | None = None, write: Operation = UPSERT) -> NewPoints:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return WRITES.parse(write, raw, requirements or needs())


def point(identifier: object = 1, **other: object) -> dict[str, object]:
    return {"id": identifier, "vector": [1.0, 0.5], **other}


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("PUT", "/collections/docs/points", "upsert"),
        ("PUT", "//collections/docs/points/", "upsert"),
        ("POST", "/collections/docs/points/batch", "updates"),
        ("POST", "/collections/docs/points", None),
        ("PUT", "/collections/docs/points/payload", None),
        ("PUT", "/collections/docs/points/vectors", None),
        ("POST", "/collections/docs/points/delete", None),
        ("PUT", "/collections/docs", None),
        ("PUT", "/collections/docs/index", None),
        ("PUT", "/x/docs/points", None),
        ("PUT", "collections/docs/points", None),
        ("PUT", "/collections/%ff/points", None),
    ],
)
def test_an_upsert_is_told_by_method_and_path(method: str, path: str, name: str | None) -> None:
    operation = WRITES.classify(RequestHead(method=method, path=path, content_type="application/json"))
    assert (None if operation is None else operation.name) == name


def test_a_collection_is_decoded_and_asked_for_encoded() -> None:
    write = operation_of(WRITES, RequestHead(method="PUT", path="/collections/a%20b%2Fc/points"))
    assert write.collection == "a b/c"
    assert WRITES.ask_metric(write, b"").target == "/collections/a%20b%2Fc"


def test_a_batch_of_columns_is_read_the_same() -> None:
    body = {"batch": {"ids": [7, 8], "vectors": [[1, 0], [0, 1]], "payloads": [{"text": "a"}, None]}}
    points = parsed(body)
    assert points.ids == (b"7", b"8")
    assert points.vectors.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert points.fields == ((b'"a"',), (None,))


def test_columns_of_named_vectors_are_read_by_name() -> None:
    body = {"batch": {"ids": [7, 8], "vectors": {"b": [[1, 0], [0, 1]], "s": [{"indices": [1], "values": [1]}] * 2}}}
    points = parsed(body)
    assert points.vector_name == "b"
    assert points.vectors.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_of_several_dense_vectors_the_policys_is_compared() -> None:
    body = {"points": [{"id": 1, "vector": {"a": [1, 0], "b": [0, 1, 0]}}, {"id": 2, "vector": {"a": [1, 1]}}]}
    points = parsed(body, needs(vector_name="b"))
    assert points.vectors[0].tolist() == [0.0, 1.0, 0.0]
    assert np.isnan(points.vectors[1]).all()
    assert reason_of(parsed, body) is Reason.AMBIGUOUS_FIELD
    assert reason_of(parsed, body, needs(vector_name="c")) is Reason.NOTHING_TO_DO


def test_an_upsert_alone_in_a_list_of_updates_is_read() -> None:
    body = {"operations": [{"upsert": {"points": [point(3)]}}]}
    assert parsed(body, write=UPDATES).ids == (b"3",)


@pytest.mark.parametrize(
    ("body", "write", "reason"),
    [
        (b"not json", UPSERT, Reason.NOT_JSON),
        (b"[]", UPSERT, Reason.NOT_JSON),
        (b"{", UPSERT, Reason.NOT_JSON),
        ({}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"points": [], "batch": {}}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"points": []}, UPSERT, Reason.NOTHING_TO_DO),
        ({"points": [point()], "never_heard_of": 1}, UPSERT, Reason.UNSUPPORTED_FIELD),
        ({"points": [point()], "update_filter": {"must": []}}, UPSERT, Reason.UNSUPPORTED_FIELD),
        ({"points": [point()], "update_mode": "insert_only"}, UPSERT, Reason.UNSUPPORTED_FIELD),
        ({"points": [point(new=1)]}, UPSERT, Reason.UNSUPPORTED_FIELD),
        ({"points": [{"id": 1}]}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"points": [point(-1)]}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"points": [point(1.5)]}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"points": [point("no uuid")]}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"points": [{"id": 1, "vector": {"text": "inferred", "model": "m"}}]}, UPSERT, Reason.NOTHING_TO_DO),
        ({"points": [{"id": 1, "vector": [[1, 2], [3, 4]]}]}, UPSERT, Reason.NOTHING_TO_DO),
        ({"points": [{"id": 1, "vector": {"s": {"indices": [1], "values": [2]}}}]}, UPSERT, Reason.NOTHING_TO_DO),
        ({"batch": {"ids": [1, 2], "vectors": [[1, 2]]}}, UPSERT, Reason.NOT_JSON),
        ({"batch": {"ids": [1], "vectors": [[1, 2]], "payloads": [{}, {}]}}, UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"batch": {"ids": [1], "vectors": [[1, 2]], "payloads": None}}, UPSERT, Reason.UNSUPPORTED_FIELD),
        (b'{"points":[{"id":1,"id":2,"vector":[1,2]}]}', UPSERT, Reason.AMBIGUOUS_FIELD),
        ({"operations": [{"upsert": {"points": [point()]}}] * 2}, UPDATES, Reason.UNSUPPORTED_FIELD),
        ({"operations": [{"delete": {"points": [1]}}]}, UPDATES, Reason.UNSUPPORTED_FIELD),
        ({"operations": []}, UPDATES, Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_read_with_certainty_passes_through(body: object, write: Operation, reason: Reason) -> None:
    assert reason_of(parsed, body, write=write) is reason


def test_a_write_of_too_many_points_is_not_read() -> None:
    assert reason_of(parsed, {"points": [point(n) for n in range(4)]}, needs(most=3)) is Reason.TOO_MANY_PARTS


def test_a_key_that_must_be_quoted_in_a_path_is_not_asked_for() -> None:
    assert reason_of(parsed, {"points": [point()]}, needs("a b")) is Reason.PAYLOAD_SELECTOR


def inquiry(*which: int, vectors: bool = False, tenant: bytes | None = None) -> Inquiry:
    tenants = ((("tenant", tenant),) if tenant is not None else (),) * len(which)
    return Inquiry(which=which, tenants=tenants, count=3, vectors=vectors)


def test_neighbours_are_one_batch_query() -> None:
    points = parsed(b'{"points":[{"id":1,"vector":[0.10,1e0]},{"id":2,"vector":[2,3]}]}')
    (question,) = WRITES.ask(UPSERT, points, inquiry(0, 1))
    assert (question.method, question.target) == ("POST", "/collections/docs/points/query/batch")
    assert b'"query":[0.1,1.0],' in question.body
    assert json.loads(question.body)["searches"][1] == {
        "query": [2, 3],
        "limit": 3,
        "with_payload": ["text"],
        "with_vector": False,
        "params": {"quantization": {"rescore": True}},
    }


def test_a_query_has_the_tenant_the_vectors_name_and_the_shard_key() -> None:
    points = parsed({"points": [{"id": 1, "vector": {"v": [1, 0]}}], "shard_key": "eu"})
    search = json.loads(WRITES.ask(UPSERT, points, inquiry(0, vectors=True, tenant=b'"acme"'))[0].body)["searches"][0]
    assert search["filter"] == {"must": [{"key": "tenant", "match": {"value": "acme"}}]}
    assert (search["using"], search["with_vector"], search["shard_key"]) == ("v", ["v"], "eu")


def test_neighbours_below_the_least_score_are_not_asked_for() -> None:
    points = parsed({"points": [point(1), point(2)]})
    bounded = replace(inquiry(0, 1), least=0.7499)
    searches = json.loads(WRITES.ask(UPSERT, points, bounded)[0].body)["searches"]
    assert [search["score_threshold"] for search in searches] == [0.7499, 0.7499]


def reply(*lists: list[dict[str, object]]) -> bytes:
    return json.dumps({"result": [{"points": hits} for hits in lists], "status": "ok", "time": 0}).encode()


def test_neighbours_are_read_with_ids_scores_vectors_and_fields() -> None:
    points = parsed({"points": [point(1), point(2)]})
    body = reply(
        [{"id": 5, "version": 1, "score": 0.9, "payload": {"text": "a"}, "vector": [1, 2]}],
        [{"id": UUID, "score": 0.8, "vector": {"": [3, 4]}}, {"id": 6, "score": 0.7}],
    )
    near = WRITES.neighbours(points, inquiry(0, 1, vectors=True), [body])
    assert near.of.tolist() == [0, 1, 1]
    assert near.ids == (b"5", f'"{UUID}"'.encode(), b"6")
    assert near.scores.tolist() == [0.9, 0.8, 0.7]
    assert near.vectors[:2].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert np.isnan(near.vectors[2]).all()
    assert near.fields == ((b'"a"',), (None,), (None,))


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"result":[]}', b'{"result":[{"points":[{"id":1}]}]}', b'{"result":"x"}', reply([], [])],
)
def test_a_reply_that_is_none_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        WRITES.neighbours(parsed({"points": [point()]}), inquiry(0), [body])


@pytest.mark.parametrize(
    ("vectors", "name", "expected"),
    [
        ({"size": 2, "distance": "Cosine"}, "", True),
        ({"size": 2, "distance": "Dot"}, "", False),
        ({"a": {"size": 2, "distance": "Cosine"}, "b": {"size": 2, "distance": "Euclid"}}, "a", True),
        ({"a": {"size": 2, "distance": "Cosine"}, "b": {"size": 2, "distance": "Euclid"}}, "b", False),
        ({"a": {"size": 2, "distance": "Cosine"}}, "", False),
    ],
)
def test_the_description_tells_whether_scores_are_similarities(vectors: object, name: str, expected: bool) -> None:
    body = json.dumps({"result": {"config": {"params": {"vectors": vectors}}}}).encode()
    assert WRITES.is_cosine(body, name) is expected


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"result":null}', b'{"result":{"config":[]}}', b"\xff"])
def test_a_description_that_does_not_tell_is_no_cosine(body: bytes) -> None:
    assert not WRITES.is_cosine(body, "")


NOTE = b'{"duplicate_of":1}'
ANNOTATION = {"duplicate_of": 1}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b',"payload":{"a": 1.0 }', b',"payload":{"a": 1.0 ,"_vecsieve":%s}' % NOTE),
        (b',"payload":{}', b',"payload":{"_vecsieve":%s}' % NOTE),
        (b',"payload":null', b',"payload":{"_vecsieve":%s}' % NOTE),
        (b"", b',"payload":{"_vecsieve":%s}' % NOTE),
        (b',"payload":{"_vecsieve":{"x":1},"b":2}', b',"payload":{"_vecsieve":%s,"b":2}' % NOTE),
    ],
)
def test_a_note_is_the_only_change(payload: bytes, expected: bytes) -> None:
    body = b' {"points" : [{"id":1,"vector":[1.50,2]},{"id":2,"vector":[1,2]%s}]}\n'
    assert WRITES.annotated(parsed(body % payload), {1: NOTE}) == body % expected


def test_columns_without_payloads_get_a_column() -> None:
    body = b'{"batch":{"ids":[1,2],"vectors":[[1,2],[3,4]]}}'
    expected = b'{"batch":{"ids":[1,2],"vectors":[[1,2],[3,4]],"payloads":[null,{"_vecsieve":%s}]}}' % NOTE
    assert WRITES.annotated(parsed(body), {1: NOTE}) == expected


def test_many_ids_in_a_column_are_read_one_by_one() -> None:
    body = {"batch": {"ids": list(range(1, 60)), "vectors": [[0.123456789] * 12] * 59}}
    for separators in ((",", ":"), (", ", ": ")):
        assert parsed(json.dumps(body, separators=separators).encode()).ids == tuple(b"%d" % n for n in range(1, 60))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({0}, b' {"points" : [{"id":2,"vector":[3,4]} , {"id":3,"vector":[5,6]}],"shard_key":"eu"}'),
        ({1}, b' {"points" : [{"id":1,"vector":[1.50,2]} , {"id":3,"vector":[5,6]}],"shard_key":"eu"}'),
        ({2}, b' {"points" : [{"id":1,"vector":[1.50,2]}, {"id":2,"vector":[3,4]}],"shard_key":"eu"}'),
        ({0, 1}, b' {"points" : [{"id":3,"vector":[5,6]}],"shard_key":"eu"}'),
    ],
)
def test_a_write_without_some_points_is_the_clients_in_all_other_bytes(rows: set[int], expected: bytes) -> None:
    body = b' {"points" : [{"id":1,"vector":[1.50,2]}, {"id":2,"vector":[3,4]} , {"id":3,"vector":[5,6]}],"shard_key":"eu"}'
    points = parsed(body)
    assert WRITES.without(points, rows) == expected
    assert WRITES.point(points, 0) == b'{"id":1,"vector":[1.50,2]}'
    assert WRITES.partition(points) == b'"eu"'


def test_columns_are_cut_and_their_points_put_together() -> None:
    body = b'{"batch":{"ids":[1,2,3],"vectors":{"v":[[1.0,0],[0,1],[1,1]],"s":[{},{},{}]},"payloads":[{"a":1.50},null,{}]}}'
    points = parsed(body)
    expected = b'{"batch":{"ids":[2,3],"vectors":{"v":[[0,1],[1,1]],"s":[{},{}]},"payloads":[null,{}]}}'
    assert WRITES.without(points, {0}) == expected
    assert WRITES.point(points, 0) == b'{"id":1,"vector":{"v":[1.0,0],"s":{}},"payload":{"a":1.50}}'
    bare = parsed(b'{"batch":{"ids":[1,2],"vectors":[[1.0,0],[0,1]]}}')
    assert WRITES.point(bare, 1) == b'{"id":2,"vector":[0,1],"payload":null}'


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_PAYLOAD = st.none() | st.dictionaries(st.text().filter(lambda key: key != "_vecsieve"), _JSON, max_size=4)


@st.composite
def _upserts(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 5))
    width = draw(st.sampled_from([2, 40]))
    vectors = [draw(st.lists(st.floats(-9, 9, width=32), min_size=width, max_size=width)) for _ in range(size)]
    payloads = [draw(_PAYLOAD) for _ in range(size)]
    if draw(st.booleans()):
        batch: dict[str, Any] = {"ids": list(range(size)), "vectors": vectors}
        return {"batch": {**batch, **({"payloads": payloads} if draw(st.booleans()) else {})}}
    rows = [{"id": row, "vector": vectors[row]} for row in range(size)]
    return {
        "points": [
            {**row, **({} if payload is None else {"payload": payload})}
            for row, payload in zip(rows, payloads, strict=True)
        ]
    }


@given(_upserts(), st.sets(st.integers(0, 4)), st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_whatever_the_payloads_hold_notes_are_all_that_is_added(
    body: dict[str, Any], noted: set[int], ascii_only: bool, separators: tuple[str, str]
) -> None:
    """A write with notes is the write, but for the notes; without any it is the same bytes."""
    raw = json.dumps(body, ensure_ascii=ascii_only, separators=separators).encode(errors="surrogatepass")
    points = parsed(raw)
    assert WRITES.annotated(points, {}) == raw
    notes = {row: NOTE for row in noted if row < len(points.ids)}
    changed = json.loads(WRITES.annotated(points, notes))
    rows = changed.get("points") or []
    payloads = [row.get("payload") for row in rows] if rows else changed["batch"].get("payloads")
    for row in notes:
        assert payloads[row].pop("_vecsieve") == ANNOTATION
    assert emptied(changed) == emptied(body)


def emptied(body: dict[str, Any]) -> dict[str, Any]:
    """Without the difference between no payload and an empty one."""
    if "points" in body:
        return {"points": [{**row, "payload": row.get("payload") or {}} for row in body["points"]]}
    batch = body["batch"]
    return {
        "batch": {**batch, "payloads": [payload or {} for payload in batch.get("payloads") or [{}] * len(batch["ids"])]}
    }

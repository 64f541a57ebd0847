"""Upserts of vectors over REST: what is read of them, the queries for their neighbours, and the client's bytes with notes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.backends.transports import operation_of, reason_of
from support.backends.writes import NOTHING
from vecsieve.adapters.contract import MalformedReplyError, Reason, RequestHead
from vecsieve.adapters.pinecone.rest_write import PineconeRestWrites
from vecsieve.adapters.writes import Inquiry, LeavesPointsOut, MergesPoints, NewPoints, WriteAdapter, WriteNeeds

WRITES: WriteAdapter = PineconeRestWrites()
HEAD = RequestHead(
    method="POST", path="/vectors/upsert", content_type="application/json", host="docs-1.svc.pinecone.io"
)
NOTE = b'{"duplicate_of":"a","similarity":0.9931,"tier":"exact"}'


def parsed(body: object, *, most: int = 9) -> NewPoints:
    write = operation_of(WRITES, HEAD)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return WRITES.parse(write, raw, WriteNeeds(vector_name=None, keys=("text",), most=most))


def row(identifier: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": identifier, "values": [1, 0.5], **more}


@pytest.mark.parametrize(
    ("method", "path", "is_read"),
    [("POST", "/vectors/upsert", True), ("POST", "//vectors/upsert", True), ("GET", "/vectors/upsert", False)]
    + [
        ("POST", path, False)
        for path in ("/vectors/update", "/records/namespaces/n/upsert", "/query", "/vectors/delete")
    ],
)
def test_an_upsert_is_told_by_method_and_path(method: str, path: str, is_read: bool) -> None:
    operation = WRITES.classify(RequestHead(method=method, path=path, content_type="application/json", host=HEAD.host))
    assert (operation is not None and operation.collection == "docs-1") == is_read


def test_vectors_are_read_with_ids_and_wanted_keys() -> None:
    points = parsed({"vectors": [row("ü", metadata={"text": "größe"}), row("b"), {"id": "s", "sparseValues": {}}]})
    assert [json.loads(identifier) for identifier in points.ids] == ["ü", "b", "s"]
    assert points.vectors[:2].tolist() == [[1.0, 0.5]] * 2
    assert [None if field is None else json.loads(field) for (field,) in points.fields] == ["größe", None, None]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"vectors": [row(new=1)]}, Reason.UNSUPPORTED_FIELD),
        ({"vectors": [row()], "new": 1}, Reason.UNSUPPORTED_FIELD),
        ({"vectors": [{"id": "a", "sparseValues": {}}]}, Reason.NOTHING_TO_DO),
        ({"vectors": [row()] * 10}, Reason.TOO_MANY_PARTS),
        (b"{", Reason.NOT_JSON),
    ],
)
def test_what_is_not_read(body: object, reason: Reason) -> None:
    assert reason_of(parsed, body) is reason


def test_each_vector_has_a_query_of_its_own() -> None:
    points = parsed(b'{"vectors":[{"id":"a","values":[1.50,2]},{"id":"b","values":[3,4]}],"namespace":"n"}')
    tenants = ((("t", b'"x"'),), (("t", b'"y"'), ("u", b"1")))
    inquiry = Inquiry(which=(0, 1), tenants=tenants, count=5, vectors=False)
    write = operation_of(WRITES, HEAD)
    one, other = WRITES.ask(write, points, inquiry)
    assert (one.method, one.target) == ("POST", "/query")
    assert json.loads(one.body) == {
        "vector": [1.5, 2],
        "topK": 5,
        "includeMetadata": True,
        "includeValues": False,
        "namespace": "n",
        "filter": {"t": {"$eq": "x"}},
    }
    assert json.loads(other.body)["filter"] == {"$and": [{"t": {"$eq": "y"}}, {"u": {"$eq": 1}}]}
    replies = [
        b'{"matches":[{"id":"x","score":0.5,"metadata":{"text":"t"}},{"id":"y","score":0.25}],"namespace":"n"}',
        b'{"matches":[]}',
    ]
    near = WRITES.neighbours(points, inquiry, replies)
    assert (near.of.tolist(), near.ids, near.scores.tolist()) == ([0, 0], (b'"x"', b'"y"'), [0.5, 0.25])
    assert near.fields == ((b'"t"',), (None,))
    with pytest.raises(MalformedReplyError):
        WRITES.neighbours(points, inquiry, [b"{}", b'{"matches":[]}'])


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (b"", b',"metadata":{%s}'),
        (b',"metadata":null', b',"metadata":{%s}'),
        (b',"metadata":{}', b',"metadata":{%s}'),
        (b',"metadata":{"a" : 1.50}', b',"metadata":{"a" : 1.50,%s}'),
        (b',"metadata":{"_vecsieve":"old"}', b',"metadata":{%s}'),
    ],
)
def test_a_note_is_the_only_change(metadata: bytes, expected: bytes) -> None:
    body = b' {"vectors" : [{"id":"a","values":[1.50,2]},{"id":"b","values":[1,2]%s}]}\n'
    member = b'"_vecsieve":' + json.dumps(NOTE.decode()).encode()
    assert WRITES.annotated(parsed(body % metadata), {1: NOTE}) == body % (expected % member)


@pytest.mark.parametrize(
    ("body", "expected"), [(b'{"metric":"cosine"}', True), (b'{"metric":"dotproduct"}', False), (b"", False)]
)
def test_the_metric_is_that_of_the_statistics(body: bytes, expected: bool) -> None:
    assert WRITES.is_cosine(body, "") == expected


def leaving() -> LeavesPointsOut:
    assert isinstance(WRITES, LeavesPointsOut)
    return WRITES


def test_which_vectors_are_stored_is_asked_by_their_ids_in_urls_of_a_bounded_length() -> None:
    write = operation_of(WRITES, HEAD)
    points = parsed({"vectors": [row()], "namespace": "n&m"})
    ids = [json.dumps(f"ü/{n}").encode() for n in range(230)] + [json.dumps("x" * 4000).encode()] * 2
    questions = leaving().ask_stored(write, points, ids, whole=False)
    targets = [urlsplit(question.target) for question in questions]
    assert {(question.method, target.path) for question, target in zip(questions, targets, strict=True)} == {
        ("GET", "/vectors/fetch")
    }
    queries = [parse_qs(target.query) for target in targets]
    assert [one for query in queries for one in query["ids"]] == [json.loads(identifier) for identifier in ids]
    assert all(query["namespace"] == ["n&m"] and len(query["ids"]) <= 100 for query in queries)
    assert all(len(target.query) < 5000 for target in targets)


def test_a_namespace_that_is_not_named_is_the_empty_one() -> None:
    assert leaving().partition(parsed({"vectors": [row()]})) == b'""'
    assert leaving().partition(parsed({"vectors": [row()], "namespace": "n"})) == b'"n"'


def test_vectors_in_the_answer_are_stored() -> None:
    vector = '{"id":"ü","values":[0.10]}'.encode()
    answer = '{"vectors":{"ü":%s},"namespace":""}'.encode() % vector
    assert leaving().stored(NOTHING, answer) == {'"ü"'.encode(): vector}
    assert leaving().stored(NOTHING, b'{"vectors":{}}') == {}


def merging() -> MergesPoints:
    assert isinstance(WRITES, MergesPoints)
    return WRITES


def test_stored_vectors_are_deleted_by_their_ids_in_the_writes_namespace() -> None:
    write = operation_of(WRITES, HEAD)
    victims = {json.dumps(f"ü{n}").encode(): b"{}" for n in range(1001)}
    questions = merging().ask_removed(write, parsed({"vectors": [row()], "namespace": "n"}), victims)
    assert {(question.method, question.target) for question in questions} == {("POST", "/vectors/delete")}
    requests = [json.loads(question.body) for question in questions]
    assert [(len(request["ids"]), request["namespace"]) for request in requests] == [(1000, "n"), (1, "n")]
    assert [one for request in requests for one in request["ids"]] == [json.loads(victim) for victim in victims]
    (bare,) = merging().ask_removed(write, parsed({"vectors": [row()]}), {b'"a"': b"{}"})
    assert json.loads(bare.body) == {"ids": ["a"]}
    assert merging().waits(NOTHING, "")

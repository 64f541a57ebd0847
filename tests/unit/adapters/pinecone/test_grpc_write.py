"""Upserts over gRPC, against protobuf's own library: what is read of them, the queries for neighbours, messages with notes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from servers.pinecone.grpc_messages import message_type

from support.backends.transports import operation_of, reason_of
from support.backends.writes import NOTHING
from support.pinecone.messages import SPARSE, UNKNOWN, read
from vecsieve.adapters.contract import MalformedReplyError, Reason, RequestHead, UnsupportedError
from vecsieve.adapters.pinecone.grpc_write import PineconeGrpcWrites
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.writes import Inquiry, NewPoints, WriteNeeds

WRITES = PineconeGrpcWrites()
PATH = "/VectorService/Upsert"
HOST = "docs-1.svc.pinecone.io"
NOTE = b'{"duplicate_of":"a","similarity":0.9931,"tier":"exact"}'


def row(identifier: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": identifier, "values": [1, 0.5], **more}


def written(*rows: dict[str, Any], **more: Any) -> bytes:
    return bytes(message_type("UpsertRequest")(vectors=rows, **more).SerializeToString())


def parsed(message: bytes, *, most: int = 9, vector_name: str | None = None) -> NewPoints:
    write = operation_of(WRITES, RequestHead(method="POST", path=PATH, host=HOST, message=message))
    return WRITES.parse(write, message, WriteNeeds(vector_name=vector_name, keys=("text",), most=most))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (written(row()) + UNKNOWN, Reason.UNSUPPORTED_FIELD),
        (length_field(1, written() + UNKNOWN), Reason.UNSUPPORTED_FIELD),
        (written(row(), namespace="a") + written(namespace="b"), Reason.AMBIGUOUS_FIELD),
        (written({"id": "a", "sparse_values": SPARSE}), Reason.NOTHING_TO_DO),
        (written(), Reason.NOTHING_TO_DO),
        (written(*[row()] * 10), Reason.TOO_MANY_PARTS),
        (b"\x0a", Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_read(message: bytes, reason: Reason) -> None:
    assert reason_of(parsed, message) is reason


def test_each_vector_has_a_query_of_its_own() -> None:
    message = written(row("a", values=[1.5, 2]), row("b", values=[3, 4]), row("c", values=[5, 6]), namespace="größe")
    points = parsed(message)
    tenants = ((("t", b'"x"'),), (("t", b"true"), ("u", b"-7")), ())
    inquiry = Inquiry(which=(0, 1, 2), tenants=tenants, count=5, vectors=False)
    write = operation_of(WRITES, RequestHead(method="POST", path=PATH, host=HOST))
    questions = WRITES.ask(write, points, inquiry)
    assert {question.target for question in questions} == {"/VectorService/Query"}
    made = message_type("QueryRequest")
    shared = {"top_k": 5, "include_metadata": True, "namespace": "größe"}
    both = {"$and": [{"t": {"$eq": True}}, {"u": {"$eq": -7.0}}]}
    assert [read("QueryRequest", question.body) for question in questions] == [
        made(vector=[1.5, 2], filter={"t": {"$eq": "x"}}, **shared),
        made(vector=[3, 4], filter=both, **shared),
        made(vector=[5, 6], **shared),
    ]
    single = Inquiry(which=(2,), tenants=((),), count=2, vectors=True)
    (question,) = WRITES.ask(write, parsed(written(row(), row(), row())), single)
    assert read("QueryRequest", question.body) == made(
        vector=[1, 0.5], top_k=2, include_metadata=True, include_values=True
    )


def test_neighbours_are_read_with_ids_scores_vectors_and_wanted_keys() -> None:
    points = parsed(written(row("a"), row("b")))
    inquiry = Inquiry(which=(0, 1), tenants=((), ()), count=2, vectors=True)
    hits = [
        {"id": "x", "score": 0.5, "values": [1, 2], "metadata": {"text": "t"}},
        {"id": "y", "score": 0.25, "values": [3, 4]},
    ]
    reply = message_type("QueryResponse")(matches=hits, namespace="n", usage={"read_units": 5}).SerializeToString()
    near = WRITES.neighbours(points, inquiry, [b"", reply])
    assert (near.of.tolist(), near.ids, near.scores.tolist()) == ([1, 1], (b'"x"', b'"y"'), [0.5, 0.25])
    assert near.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert near.fields == ((b'"t"',), (None,))
    with pytest.raises(MalformedReplyError):
        WRITES.neighbours(points, inquiry, [b"", reply[:-3]])


@pytest.mark.parametrize("metadata", [None, {}, {"a": 1.5, "text": "t"}, {"_vecsieve": "old", "b": True}])
def test_a_note_is_the_only_change(metadata: dict[str, Any] | None) -> None:
    message = written(row("a"), row("b", **({} if metadata is None else {"metadata": metadata})), namespace="n")
    changed = read("UpsertRequest", WRITES.annotated(parsed(message), {1: NOTE}))
    assert changed.vectors[1].metadata["_vecsieve"] == NOTE.decode()
    expected = read("UpsertRequest", message)
    expected.vectors[1].metadata["_vecsieve"] = NOTE.decode()
    assert changed == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (message_type("DescribeIndexStatsResponse")(metric="cosine", dimension=2).SerializeToString(), True),
        (message_type("DescribeIndexStatsResponse")(metric="dotproduct").SerializeToString(), False),
        (b"", False),
        (b"\x2a", False),
    ],
)
def test_the_metric_is_that_of_the_statistics(body: bytes, expected: bool) -> None:
    assert WRITES.is_cosine(body, "") is expected


def test_a_vector_that_json_cannot_hold_is_not_left_out() -> None:
    points = parsed(written(row("a"), row("b", values=[float("nan"), 1])))
    assert WRITES.point(points, 0) == b'{"id":"a","values":[1.0,0.5]}'
    with pytest.raises(UnsupportedError):
        WRITES.point(points, 1)


def test_which_vectors_are_stored_is_asked_by_their_ids_a_hundred_at_a_time() -> None:
    message = written(row(), namespace="n")
    write = operation_of(WRITES, RequestHead(method="POST", path=PATH, host=HOST, message=message))
    ids = [json.dumps(f"ü{n}").encode() for n in range(130)]
    questions = WRITES.ask_stored(write, parsed(message), ids, whole=False)
    requests = [read("FetchRequest", question.body) for question in questions]
    assert [(len(request.ids), request.namespace) for request in requests] == [(100, "n"), (30, "n")]
    assert [one for request in requests for one in request.ids] == [json.loads(identifier) for identifier in ids]
    answer = message_type("FetchResponse")(vectors={"ü7": {"id": "ü7", "values": [1]}}, namespace="n")
    stored = WRITES.stored(NOTHING, answer.SerializeToString())
    assert stored == {'"ü7"'.encode(): '{"id":"ü7","values":[1.0]}'.encode()}


def test_a_write_of_which_nothing_is_left_stored_none() -> None:
    message = written(row())
    write = operation_of(WRITES, RequestHead(method="POST", path=PATH, host=HOST, message=message))
    answer = WRITES.acknowledged(write, parsed(message), "")
    assert (answer.status, read("UpsertResponse", answer.body).upserted_count) == (0, 0)


FULL = {"text": "ü", "n": 0.1, "is": True, "tags": ["x", "y"], "none": None, "own": {"m": [1.0]}}


def test_a_vector_is_read_whole_as_the_client_wrote_it() -> None:
    vector = row("ü", sparse_values=SPARSE, metadata=FULL)
    message = written(vector)
    answer = message_type("FetchResponse")(vectors={"ü": vector}).SerializeToString()
    assert WRITES.stored(NOTHING, answer) == {'"ü"'.encode(): WRITES.point(parsed(message), 0)}


@pytest.mark.parametrize("metadata", [b',"metadata":{}', b',"metadata":null', b""])
def test_a_merged_vector_may_have_no_metadata(metadata: bytes) -> None:
    message = written(row())
    write = operation_of(WRITES, RequestHead(method="POST", path=PATH, host=HOST, message=message))
    point = b'{"id":"a","values":[2]%s}' % metadata
    upsert = read("UpsertRequest", WRITES.merged(write, parsed(message), (), {0: point}))
    assert [(vector.id, list(vector.values), dict(vector.metadata)) for vector in upsert.vectors] == [("a", [2.0], {})]


def test_stored_vectors_are_deleted_by_their_ids_in_the_writes_namespace() -> None:
    message = written(row(), namespace="n")
    write = operation_of(WRITES, RequestHead(method="POST", path=PATH, host=HOST, message=message))
    victims = {json.dumps(f"ü{n}").encode(): b"{}" for n in range(1001)}
    questions = WRITES.ask_removed(write, parsed(message), victims)
    assert {question.target for question in questions} == {"/VectorService/Delete"}
    requests = [read("DeleteRequest", question.body) for question in questions]
    assert [(len(request.ids), request.namespace, request.delete_all) for request in requests] == [
        (1000, "n", False),
        (1, "n", False),
    ]
    assert [one for request in requests for one in request.ids] == [json.loads(victim) for victim in victims]
    assert WRITES.waits(NOTHING, "")

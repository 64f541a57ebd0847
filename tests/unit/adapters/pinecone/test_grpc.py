"""The adapter as a whole, and the recorded calls of every client that speaks gRPC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from servers.pinecone.grpc_messages import message_type
from servers.pinecone.grpc_service import METHODS, SERVICE

from support.backends.transports import reason_of
from support.grpc.captures import NEEDS_CALLS, CapturedCall, captured_calls
from support.pinecone.messages import SPARSE, UNKNOWN, query, read
from vecsieve.adapters.contract import (
    Needs,
    Operation,
    Pool,
    Reason,
    RequestHead,
    Search,
)
from vecsieve.adapters.pinecone import grpc, rest_request
from vecsieve.adapters.pinecone.grpc import UNARY, Document, PineconeGrpc, read_reply, read_request, trim, widen

ADAPTER = PineconeGrpc()
QUERY = "/VectorService/Query"
HOST = "idx-abc123.svc.aped-4627-b74a.pinecone.io"
RECORDED = captured_calls("pinecone")
SEARCHES = [call for call in RECORDED if call.path == QUERY]


def named(path: str) -> Operation | None:
    return ADAPTER.classify(RequestHead(method="POST", path=path, host=HOST))


@pytest.mark.parametrize(
    "path", ["/VectorService/Fetch", "/VectorService/query", "/query", "VectorService/Query", QUERY + "/", "", "/"]
)
def test_nothing_else_is_ours(path: str) -> None:
    assert named(path) is None


def test_every_method_of_the_service_takes_one_message_and_gives_one() -> None:
    assert {f"/{SERVICE}/{name}" for name in METHODS} == UNARY


@NEEDS_CALLS
@pytest.mark.parametrize("call", SEARCHES, ids=lambda call: call.label)
def test_a_recorded_search_is_read_and_widening_adds_the_two_declared_fields(call: CapturedCall) -> None:
    operation = named(call.path)
    assert operation is not None
    parsed = ADAPTER.parse_request(operation, call.message, Needs(optional_fields=("text",)))
    request = message_type("QueryRequest").FromString(call.message)
    (search,) = parsed.searches
    assert search.top_k == request.top_k == 3
    assert (search.query is not None) is bool(request.vector)
    assert search.partition == (b'"ns1"' if request.namespace else b"")
    values = b"" if request.include_values else b"\x20\x01"
    assert ADAPTER.widen(parsed, [40]) == call.message + b"\x10\x28" + values
    assert ADAPTER.widen(parsed, [0]) == call.message


OPERATION = Operation(backend="pinecone", name="query", collection="c")
TEXT = Needs(optional_fields=("text", "größe"))


def scored(id: str, score: float = 0.5, **fields: Any) -> Any:  # noqa: A002 - the field's own name
    metadata = fields.pop("metadata", None)
    made = message_type("ScoredVector")(id=id, score=score, **fields)
    if metadata is not None:
        made.metadata.update(metadata)
    return made


def document_of(**fields: Any) -> Document:
    return grpc.read_request(OPERATION, query(**{"top_k": 3, "vector": [1.0, 0.0], **fields}), Needs())[1]


def reply(*records: Any, **fields: Any) -> bytes:
    return bytes(message_type("QueryResponse")(matches=records, **fields).SerializeToString())


def pool_of(body: bytes, request: Document | None = None, needs: Needs | None = None) -> Pool:
    return read_reply(request or document_of(), needs or Needs(), body)[0]


def cut(body: bytes, keep: list[int], request: Document) -> bytes:
    return trim(request, read_reply(request, Needs(), body)[1], [np.array(keep, dtype=np.intp)])


def test_scores_vectors_ids_and_fields_are_those_of_the_matches() -> None:
    body = reply(
        scored("a", 0.25, values=[1, 0], metadata={"text": "x", "größe": 3, "other": True}),
        scored("é<", 0, values=[0.5, -1], metadata={"größe": ["a", 'b"']}),
        scored("c", -1, values=[0, 1]),
    )
    pool = pool_of(body, needs=TEXT)
    assert pool.scores.tolist() == [0.25, 0, -1]
    assert pool.vectors.dtype == np.float32
    assert pool.vectors.tolist() == [[1, 0], [0.5, -1], [0, 1]]
    assert pool.fields == ((b'"x"', b"3"), (None, b'["a","b\\""]'), (None, None))
    assert pool.ids == (b'"a"', '"é<"'.encode(), b'"c"')
    assert (pool.unusable, pool.compared_by, pool.alone) == (0, "", ())


def test_required_fields_stand_before_optional_ones() -> None:
    needs = Needs(payload_fields=("b",), optional_fields=("a",))
    assert pool_of(reply(scored("x", values=[1], metadata={"a": 1, "b": 2.5})), needs=needs).fields == ((b"2.5", b"1"),)


def test_a_match_without_a_usable_vector_is_a_row_of_nan() -> None:
    body = reply(
        scored("a", values=[1, 0]), scored("b"), scored("c", values=[1]), scored("d", values=[float("inf"), 0])
    )
    pool = pool_of(body)
    assert np.isnan(pool.vectors).any(axis=1).tolist() == [False, True, True, True]
    assert pool.unusable == 3


def test_a_reply_without_vectors_has_none_to_compare() -> None:
    pool = pool_of(reply(scored("a"), scored("b")))
    assert (pool.vectors.shape, pool.unusable, pool.compared_by) == ((2, 0), 2, None)
    assert pool_of(b"").size == 0


def test_sparse_vectors_are_compared_where_there_are_no_dense_ones() -> None:
    body = reply(
        scored("a", sparse_values={"indices": [1, 9], "values": [1, 2]}),
        scored("b", sparse_values={"indices": [9, 4_000_000_000], "values": [3, 4]}),
        scored("c", sparse_values={"indices": [1], "values": [1, 2]}),
        scored("d"),
    )
    pool = pool_of(body)
    assert pool.vectors[:2].tolist() == [[1, 2, 0], [0, 3, 4]]
    assert pool.unusable == 2
    assert pool_of(reply(scored("a", values=[1], sparse_values={"indices": [1], "values": [1]}))).vectors.shape == (
        1,
        1,
    )


def test_the_record_that_was_searched_by_stands_alone() -> None:
    body = reply(scored("b", values=[1]), scored("a", values=[1]))
    assert pool_of(body, document_of(vector=[], id="a")).alone == (1,)
    assert pool_of(body).alone == ()


def test_values_that_nobody_asked_for_are_taken_out() -> None:
    body = reply(
        scored("a", values=[1, 0], metadata={"t": 1}),
        scored("b", values=[1, 0], sparse_values={"indices": [1], "values": [1]}),
    )
    assert cut(body, [1, 0], document_of()) == reply(scored("b"), scored("a", metadata={"t": 1}))
    document = document_of(include_values=True)
    assert read("QueryResponse", cut(body, [1], document)).matches == read("QueryResponse", body).matches[1:]


def test_matches_that_do_not_stand_together_keep_their_places() -> None:
    one, two = reply(scored("a", values=[1])), reply(scored("b", values=[2]))
    body = one + reply(namespace="ns") + two
    document = document_of(include_values=True)
    assert cut(body, [0, 1], document) == body
    assert cut(body, [1], document) == two + reply(namespace="ns")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x12", "Error parsing"),
        (b"\x10\x01", "another wire type"),
        (b"\x12\x00", "no id"),
        (b"\x12\x02\x0a\x00", "no id"),
        (b"\x12\x03\x0a\x01\xff", "utf-8"),
        (b"\x12\x06\x0a\x01a\x0a\x01b", "set twice"),
        (b"\x12\x0b\x0a\x01a\x1a\x00\x1a\x04abcd", "set twice"),
        (b"\x12\x05\x0a\x01a\x10\x01", "another wire type"),
        (b"\x12\x08\x0a\x01a\x1d\x00\x00\x80\x3f", "another wire type"),
        (b"\x12\x07\x0a\x01a\x1a\x02ab", "no whole floats"),
        (b"\x12\x07\x0a\x01a\x2a\x02\x08\xff", "Error parsing"),
    ],
)
def test_what_cannot_be_read_with_certainty_is_malformed(body: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pool_of(body)


def test_metadata_that_cannot_be_read_are_left_out_of_the_payloads() -> None:
    pool = pool_of(b"\x12\x06\x0a\x01a\x22\x01\xff" + reply(scored("b", metadata={"n": 1})))
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == (None, b'{"n":1}')


WITH_VALUES = b"\x20\x01"  # include_values


def parsed(body: bytes, needs: Needs | None = None) -> tuple[Search, Document]:
    return read_request(OPERATION, body, needs or Needs())


def test_what_a_search_asks_for() -> None:
    search, document = parsed(query(top_k=10, vector=[0.25, -1], namespace="größe"))
    assert (search.top_k, search.offset, search.pages) == (10, 0, False)
    assert search.query is not None
    assert search.query.dtype == np.float32
    assert search.query.tolist() == [0.25, -1]
    assert search.partition == '"größe"'.encode()
    assert (document.emptied, document.self_id) == (True, "")
    assert not parsed(query(top_k=10, vector=[1], include_values=True))[1].emptied
    assert parsed(query(top_k=10, vector=[1]))[0].partition == b""


QUERIES: list[dict[str, Any]] = [{"values": [1.0]}]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x10", Reason.UNSUPPORTED_FIELD),
        (b"\xff", Reason.UNSUPPORTED_FIELD),
        (query(vector=[1]), Reason.AMBIGUOUS_FIELD),
        (query(vector=[1]) + b"\x10\x00", Reason.AMBIGUOUS_FIELD),
        (query(vector=[1], top_k=10) + b"\x10\x0a", Reason.AMBIGUOUS_FIELD),
        (query(vector=[1]) + b"\x12\x01\x0a", Reason.UNSUPPORTED_FIELD),
        (query(vector=[1]) + b"\x10\x8a\x80\x80\x80\x10", Reason.AMBIGUOUS_FIELD),
        (query(vector=[1], id="a", top_k=10), Reason.AMBIGUOUS_FIELD),
        (query(top_k=10) + b"\x42\x01\xff", Reason.AMBIGUOUS_FIELD),
        (query(top_k=10, id="a") + b"\x0a\x01\xff", Reason.AMBIGUOUS_FIELD),
        (query(top_k=10, id="a") + b"\x42\x01a", Reason.AMBIGUOUS_FIELD),
        (query(top_k=10) + b"\x3a\x03abc", Reason.AMBIGUOUS_FIELD),
        (query(top_k=1, vector=[1]), Reason.SINGLE_RESULT),
        (query(top_k=10), Reason.ORDERING_CHOSEN),
        (b"\x10\x0a\x3a\x00\x42\x00", Reason.ORDERING_CHOSEN),
        (query(top_k=10, vector=[1], queries=QUERIES), Reason.UNSUPPORTED_FIELD),
        (query(top_k=10, vector=[1]) + UNKNOWN, Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_understood_goes_through(body: bytes, reason: Reason) -> None:
    assert reason_of(parsed, body) is reason


def test_required_fields_are_in_the_metadata_or_nowhere() -> None:
    needs = Needs(payload_fields=("tenant",), optional_fields=("text",))
    assert reason_of(parsed, query(top_k=3, vector=[1]), needs) is Reason.PAYLOAD_SELECTOR
    body = query(top_k=3, vector=[1], include_metadata=True)
    assert widen(parsed(body, needs)[1], [9]) == body + b"\x10\x09" + WITH_VALUES


def test_no_more_is_asked_for_than_the_client_lets_the_index_look_at_and_a_reply_can_hold() -> None:
    assert parsed(query(top_k=10, vector=[1], max_candidates=20))[0].most == 20
    assert parsed(query(top_k=10, vector=[1], max_candidates=100_000))[0].most == rest_request.most_matches(numbers=1)
    assert parsed(query(top_k=10, vector=[0.5] * 1536))[0].most == rest_request.most_matches(numbers=1536)
    unknown = rest_request.most_matches(numbers=rest_request.UNKNOWN_NUMBERS)
    assert parsed(query(top_k=10, id="a"))[0].most == unknown
    assert parsed(query(top_k=10, sparse_vector=SPARSE))[0].most == rest_request.most_matches(is_sparse=True)

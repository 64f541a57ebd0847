"""The adapter as a whole, and the recorded calls of every client that speaks gRPC."""

from __future__ import annotations

import pytest
from servers.pinecone.grpc_messages import message_type
from servers.pinecone.grpc_service import METHODS, SERVICE

from support.grpc.captures import NEEDS_CALLS, CapturedCall, captured_calls
from vecsieve.adapters.contract import Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.pinecone.grpc import UNARY, PineconeGrpc

ADAPTER = PineconeGrpc()
QUERY = "/VectorService/Query"
HOST = "idx-abc123.svc.aped-4627-b74a.pinecone.io"
RECORDED = captured_calls("pinecone")
SEARCHES = [call for call in RECORDED if call.path == QUERY]


def named(path: str, host: str = HOST) -> Operation | None:
    return ADAPTER.classify(RequestHead(method="POST", path=path, host=host))


@pytest.mark.parametrize(
    "path", ["/VectorService/Fetch", "/VectorService/query", "/query", "VectorService/Query", QUERY + "/", "", "/"]
)
def test_nothing_else_is_ours(path: str) -> None:
    assert named(path) is None


def test_every_method_of_the_service_takes_one_message_and_gives_one() -> None:
    assert {f"/{SERVICE}/{name}" for name in METHODS} == UNARY


def test_a_document_of_another_adapter_is_refused() -> None:
    operation = Operation(backend="other", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(), needs=Needs(), document=None)
    with pytest.raises(TypeError):
        ADAPTER.widen(call, [])
    with pytest.raises(TypeError):
        ADAPTER.trim(call, Reply(pools=(), document=None), [])


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

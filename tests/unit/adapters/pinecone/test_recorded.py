"""The recorded requests of every client."""

from __future__ import annotations

import re

import pytest

from support.exchanges.captures import NEEDS_CAPTURES, Captured, captured
from vecsieve.adapters.contract import Needs, Operation, RequestHead
from vecsieve.adapters.pinecone.rest import PineconeRest

RECORDED = captured("pinecone")
ADAPTER = PineconeRest()
TEXT = Needs(optional_fields=("text", "chunk_text"))
HOST = "idx-abc123.svc.aped-4627-b74a.pinecone.io"


def named(request: Captured) -> Operation | None:
    head = RequestHead(method=request.method, path=request.path, content_type=request.content_type, host=HOST)
    return ADAPTER.classify(head)


@NEEDS_CAPTURES
def test_every_recorded_search_is_recognised_and_nothing_else_is() -> None:
    ours = {request.label for request in RECORDED if named(request) is not None}
    looks = {
        request.label for request in RECORDED if re.search(r"/(query(_|$)|search|documents_search)", request.label)
    }
    assert len(RECORDED) > 150
    assert {label.rsplit("/", 1)[1] for label in ours} >= {"query_min", "query_id", "query_sparse", "documents_search"}
    assert {request.path for request in RECORDED if request.label in looks - ours} <= {"/VectorService/Query"}
    assert all(re.search(r"/query$|/search$", request.path) for request in RECORDED if request.label in ours)


@NEEDS_CAPTURES
@pytest.mark.parametrize(
    "request_", [request for request in RECORDED if named(request) is not None], ids=lambda request: request.label
)
def test_a_recorded_search_is_read_and_widening_changes_only_what_it_must(request_: Captured) -> None:
    operation = named(request_)
    assert operation is not None
    assert operation.collection == "idx-abc123"
    call = ADAPTER.parse_request(operation, request_.body, TEXT)
    wide = ADAPTER.widen(call, [40])
    assert undone(wide, operation.name, call.searches[0].top_k) == undone(request_.body, operation.name, None)
    assert ADAPTER.widen(call, [0]) == request_.body


def undone(body: bytes, name: str, top_k: int | None) -> bytes:
    """A request without what widening may change: of a widened one, with the client's number put back."""
    if top_k is not None:
        body = re.sub(rb'("(?:topK|top_k|top_n)": ?)40\b', rb"\g<1>%d" % top_k, body, count=1)
    if name == "query":
        return re.sub(rb'"includeValues": ?(?:true|false)(?:, ?)?', b"", body)
    return body.replace(b',"chunk_text"', b"").replace(b',"_values"]', b"]")

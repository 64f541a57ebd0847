"""Whole conversations written by hand from the wire format, and the recorded requests of every client.

A folder of tests/golden/pinecone holds one: the client's request, what goes upstream, upstream's answer, what the client
gets; ``case.json`` has the path, the count asked for, the matches kept and what selection needs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.exchanges.captures import NEEDS_CAPTURES, Captured, captured
from vecsieve.adapters.contract import Needs, Operation, RequestHead
from vecsieve.adapters.pinecone.rest import PineconeRest

CASES = sorted((Path(__file__).parents[3] / "golden" / "pinecone").iterdir())
RECORDED = captured("pinecone")
ADAPTER = PineconeRest()
TEXT = Needs(optional_fields=("text", "chunk_text"))
HOST = "idx-abc123.svc.aped-4627-b74a.pinecone.io"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_conversation_goes_as_written(case: Path) -> None:
    told = json.loads((case / "case.json").read_bytes())
    wanted: dict[str, list[str]] = told.get("needs", {})
    needs = Needs(
        payload_fields=tuple(wanted.get("payload_fields", ())), optional_fields=tuple(wanted.get("optional_fields", ()))
    )
    operation = ADAPTER.classify(RequestHead(method="POST", path=told["path"], content_type="application/json"))
    assert operation is not None
    call = ADAPTER.parse_request(operation, (case / "request.json").read_bytes(), needs)
    assert ADAPTER.widen(call, told["fetch_k"]) == (case / "widened.json").read_bytes()
    reply = ADAPTER.parse_reply(call, (case / "upstream.json").read_bytes())
    keep = [np.array(kept, dtype=np.intp) for kept in told["keep"]]
    assert ADAPTER.trim(call, reply, keep) == (case / "trimmed.json").read_bytes()


def test_there_are_conversations() -> None:
    assert len(CASES) >= 12


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

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.pinecone.messages import SPARSE, UNKNOWN, query
from vecsieve.adapters.contract import Needs, Operation, Reason, Search, UnsupportedError
from vecsieve.adapters.pinecone import rest_request
from vecsieve.adapters.pinecone.grpc import Document, read_request, widen

OPERATION = Operation(backend="pinecone", name="query", collection="c")
ASKING = b"\x20\x01"  # include_values


def parsed(body: bytes, needs: Needs | None = None) -> tuple[Search, Document]:
    return read_request(OPERATION, body, needs or Needs())


def refusal(body: bytes, needs: Needs | None = None) -> Reason:
    with pytest.raises(UnsupportedError) as verdict:
        parsed(body, needs)
    return verdict.value.reason


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
    assert refusal(body) is reason


def test_required_fields_are_in_the_metadata_or_nowhere() -> None:
    needs = Needs(payload_fields=("tenant",), optional_fields=("text",))
    assert refusal(query(top_k=3, vector=[1]), needs) is Reason.PAYLOAD_SELECTOR
    body = query(top_k=3, vector=[1], include_metadata=True)
    assert widen(parsed(body, needs)[1], [9]) == body + b"\x10\x09" + ASKING


def test_no_more_is_asked_for_than_the_client_lets_the_index_look_at_and_a_reply_can_hold() -> None:
    assert parsed(query(top_k=10, vector=[1], max_candidates=20))[0].most == 20
    assert parsed(query(top_k=10, vector=[1], max_candidates=100_000))[0].most == rest_request.most_matches(numbers=1)
    assert parsed(query(top_k=10, vector=[0.5] * 1536))[0].most == rest_request.most_matches(numbers=1536)
    unknown = rest_request.most_matches(numbers=rest_request.UNKNOWN_NUMBERS)
    assert parsed(query(top_k=10, id="a"))[0].most == unknown
    assert parsed(query(top_k=10, sparse_vector=SPARSE))[0].most == rest_request.most_matches(is_sparse=True)

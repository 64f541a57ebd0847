from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.pinecone.messages import SPARSE, UNKNOWN, query, read
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


def test_the_number_and_the_values_are_asked_for_behind_the_clients_own_bytes() -> None:
    body = query(top_k=3, vector=[1, 2], namespace="ns", filter={"a": 1}, scan_factor=2.5)
    assert widen(parsed(body)[1], [50]) == body + b"\x10\x32" + ASKING
    assert widen(parsed(body)[1], [300]) == body + b"\x10\xac\x02" + ASKING
    # Off, spelled out: the last one counts all the same.
    off = body + b"\x20\x00"
    assert read("QueryRequest", widen(parsed(off)[1], [50])).include_values is True


def test_what_the_client_asks_for_already_is_not_asked_for_again() -> None:
    body = query(top_k=3, id="a", include_values=True)
    assert widen(parsed(body)[1], [50]) == body + b"\x10\x32"
    assert widen(parsed(body)[1], [3]) == body
    assert widen(parsed(query(top_k=3, id="a"))[1], [0]) == query(top_k=3, id="a")


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


def test_values_that_memory_has_are_not_asked_for() -> None:
    body = query(top_k=3, vector=[1])
    assert widen(parsed(body, Needs(vectors=False))[1], [9]) == body + b"\x10\x09"


def test_a_search_by_id_knows_what_it_was_made_by() -> None:
    search, document = parsed(query(top_k=10, id="größe!"))
    assert search.query is None
    assert document.self_id == "größe!"


def test_sparse_and_hybrid_searches_are_taken() -> None:
    assert parsed(query(top_k=3, sparse_vector=SPARSE))[0].query is None
    assert parsed(query(top_k=3, sparse_vector=SPARSE, id="a"))[0].query is None
    assert parsed(query(top_k=3, sparse_vector=SPARSE, vector=[1]))[0].query is not None


def test_a_vector_of_single_numbers_goes_through() -> None:
    assert refusal(b"\x10\x03" + b"\x3d\x00\x00\x80\x3f" * 2) is Reason.UNSUPPORTED_FIELD


def test_a_vector_that_holds_no_number_is_not_compared_with() -> None:
    search = parsed(query(top_k=3, vector=[1, float("nan")]))[0]
    assert search.query is None


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


def test_metadata_is_never_asked_for_by_us() -> None:
    body = query(top_k=3, vector=[1])
    assert not read("QueryRequest", widen(parsed(body, Needs(optional_fields=("text",)))[1], [9])).include_metadata


def test_no_more_is_asked_for_than_the_client_lets_the_index_look_at_and_a_reply_can_hold() -> None:
    assert parsed(query(top_k=10, vector=[1], max_candidates=20))[0].most == 20
    assert parsed(query(top_k=10, vector=[1], max_candidates=100_000))[0].most == rest_request.most_matches(numbers=1)
    assert parsed(query(top_k=10, vector=[0.5] * 1536))[0].most == rest_request.most_matches(numbers=1536)
    unknown = rest_request.most_matches(numbers=rest_request.UNKNOWN_NUMBERS)
    assert parsed(query(top_k=10, id="a"))[0].most == unknown
    assert parsed(query(top_k=10, sparse_vector=SPARSE))[0].most == rest_request.most_matches(is_sparse=True)

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.pinecone.bodies import queries
from vecsieve.adapters.contract import Needs, Reason, Search
from vecsieve.adapters.pinecone import rest_request
from vecsieve.adapters.pinecone.rest_request import Document, parse_query, widen
from vecsieve.adapters.wire.json import whole


def read(body: bytes, needs: Needs | None = None) -> tuple[Search, Document]:
    return parse_query(body, whole(body), needs or Needs())


@pytest.mark.parametrize(
    ("body", "wide"),
    [
        (b'{"topK":3,"vector":[1,2]}', b'{"includeValues":true,"topK":50,"vector":[1,2]}'),
        (b'{"top_k":3,"vector":[1,2]}', b'{"include_values":true,"top_k":50,"vector":[1,2]}'),
        (b'{"topK":3,"includeValues":false,"id":"a"}', b'{"topK":50,"includeValues":true,"id":"a"}'),
        (b'{"topK":3,"include_values": null ,"id":"a"}', b'{"topK":50,"include_values": true ,"id":"a"}'),
        (b'{"topK":3,"includeValues":true,"id":"a"}', b'{"topK":50,"includeValues":true,"id":"a"}'),
        (b' { "id" : "topK" , "topK" : 3 } ', b' {"includeValues":true, "id" : "topK" , "topK" : 50 } '),
        (
            b'{"topK":3,"filter":{"topK":3,"includeValues":false},"scanFactor":2.50,"vector":[0.10]}',
            b'{"includeValues":true,"topK":50,"filter":{"topK":3,"includeValues":false},"scanFactor":2.50,"vector":[0.10]}',
        ),
    ],
)
def test_the_number_and_the_values_are_asked_for_and_every_other_byte_stays(body: bytes, wide: bytes) -> None:
    assert widen(read(body)[1], [50]) == wide


def test_what_a_search_asks_for() -> None:
    search, document = read(b'{"topK":10,"vector":[0.25,-1],"namespace":"n"}')
    assert (search.top_k, search.offset, search.pages) == (10, 0, False)
    assert search.query is not None
    assert search.query.dtype == np.float32
    assert search.query.tolist() == [0.25, -1]
    assert document.emptied
    assert (document.vector, document.sparse, document.self_id) == ("values", "sparseValues", "")
    assert not read(b'{"topK":10,"vector":[1],"includeValues":true}')[1].emptied


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.NOT_JSON),
        (b"[]", Reason.NOT_JSON),
        (b'{"topK":3,"vector":[1]', Reason.NOT_JSON),
        (b'{"topK":3,"vector":[1]}{}', Reason.NOT_JSON),
        (b'{"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":null,"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":0,"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":"10","vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10.0,"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"top_k":10,"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"topK":10,"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"include_values":true,"includeValues":true,"vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"includeValues":"true","vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"maxCandidates":"20","vector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"vector":["1"]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"vector":"AAAA"}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"vector":[1],"id":"a"}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"id":7}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":10,"sparseVector":[1]}', Reason.AMBIGUOUS_FIELD),
        (b'{"topK":1,"vector":[1]}', Reason.SINGLE_RESULT),
        (b'{"topK":10}', Reason.ORDERING_CHOSEN),
        (b'{"topK":10,"vector":[],"id":"","sparseVector":null}', Reason.ORDERING_CHOSEN),
        (b'{"topK":10,"vector":[1],"queries":[]}', Reason.UNSUPPORTED_FIELD),
        (b'{"topK":10,"queries":[{"values":[1]}]}', Reason.UNSUPPORTED_FIELD),
        (b'{"topK":10,"vector":[1],"diversity":0.5}', Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_understood_goes_through(body: bytes, reason: Reason) -> None:
    assert reason_of(read, body) is reason


def test_required_fields_are_in_the_metadata_or_nowhere() -> None:
    needs = Needs(payload_fields=("tenant",), optional_fields=("text",))
    assert reason_of(read, b'{"topK":3,"vector":[1]}', needs) is Reason.PAYLOAD_SELECTOR
    assert reason_of(read, b'{"topK":3,"vector":[1],"includeMetadata":false}', needs) is Reason.PAYLOAD_SELECTOR
    body = b'{"topK":3,"vector":[1],"include_metadata":true}'
    assert b'"include_metadata":true' in widen(read(body, needs)[1], [9])


def test_metadata_is_never_asked_for_by_us() -> None:
    document = read(b'{"topK":3,"vector":[1]}', Needs(optional_fields=("text",)))[1]
    assert widen(document, [9]) == b'{"includeValues":true,"topK":9,"vector":[1]}'


def test_no_more_is_asked_for_than_the_client_lets_the_index_look_at() -> None:
    assert read(b'{"topK":10,"vector":[1],"maxCandidates":20}')[0].most == 20
    assert read(b'{"topK":10,"vector":[1],"max_candidates":10}')[0].most == 10
    assert read(b'{"topK":10,"vector":[1],"maxCandidates":100000}')[0].most == rest_request.most_matches(numbers=1)


def test_no_more_is_asked_for_than_a_reply_can_hold() -> None:
    dense = b'{"topK":10,"vector":%s}' % json.dumps([0.5] * 1536).encode()
    assert read(dense)[0].most == rest_request.most_matches(numbers=1536)
    assert read(b'{"topK":10,"id":"a"}')[0].most == rest_request.most_matches(numbers=rest_request.UNKNOWN_NUMBERS)
    sparse = b'{"topK":10,"sparseVector":{"indices":[1],"values":[1]}}'
    assert read(sparse)[0].most == rest_request.most_matches(is_sparse=True)


@given(document=queries(), count=st.integers(2, 10_000))
def test_a_widened_request_is_the_clients_but_for_two_members(document: dict[str, Any], count: int) -> None:
    """Invariant: topK is the count, values are wanted, everything else and the order of members stay."""
    wide = json.loads(widen(read(json.dumps(document).encode())[1], [count]))
    assert wide == {**document, "topK": count, "includeValues": True}
    assert [key for key in wide if key in document] == list(document)

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.pinecone.bodies import documents_searches
from vecsieve.adapters.contract import Needs, Reason, Search
from vecsieve.adapters.pinecone import rest_request
from vecsieve.adapters.pinecone.rest_request import Document, parse_documents, widen
from vecsieve.adapters.wire.json import whole

TEXT = Needs(optional_fields=("text",))
DENSE = '{"type":"dense_vector","field":"_values","values":[0.5,1]}'
WORDS = '{"type":"text","fields":["text"],"query":"a"}'


def body(clauses: str, more: str = "") -> bytes:
    return f'{{"score_by":[{clauses}],"top_k":3{more}}}'.encode()


def read(request: bytes, needs: Needs = TEXT) -> tuple[Search, Document]:
    return parse_documents(request, whole(request), needs)


@pytest.mark.parametrize(
    ("selection", "shown"),
    [
        (',"include_fields":["title"]', ',"include_fields":["title","_values"]'),
        (',"include_fields":[]', ',"include_fields":["_values"]'),
        (',"include_fields":null', ',"include_fields":["_values"]'),
        (',"include_fields":["*"]', ',"include_fields":["*"]'),
        (',"include_fields":["_values"]', ',"include_fields":["_values"]'),
    ],
)
def test_the_field_of_the_vector_is_asked_for(selection: str, shown: str) -> None:
    wide = widen(read(body(DENSE, selection))[1], [3])
    assert wide == body(DENSE, shown)


def test_what_a_search_by_vector_asks_for() -> None:
    search, document = read(body(DENSE))
    assert search.query is not None
    assert search.query.tolist() == [0.5, 1]
    assert (search.top_k, search.most) == (3, rest_request.most_matches(numbers=2, has_texts=True))
    assert (document.vector, document.emptied) == ("_values", False)
    assert document.added == {"_values"}


@pytest.mark.parametrize(
    "clauses",
    [
        WORDS,
        WORDS + ',{"type":"query_string","query":"a"}',
        '{"type":"sparse_vector","field":"s","sparse_values":{"indices":[1],"values":[1]}}',
        '{"type":"embed","field":"e","query":"a"}',
        '{"type":"sparse_embed","fields":["e"],"query":"a"}',
    ],
)
def test_every_other_ranking_is_compared_by_its_texts(clauses: str) -> None:
    search, document = read(body(clauses))
    assert search.query is None
    assert document.vector is None
    assert document.added == {"text"}
    assert reason_of(read, body(clauses), Needs(payload_fields=("tenant",))) is Reason.NOTHING_TO_DO


@pytest.mark.parametrize(
    ("request_body", "reason"),
    [
        (b"", Reason.NOT_JSON),
        (b"[]", Reason.NOT_JSON),
        (b"{}", Reason.AMBIGUOUS_FIELD),
        (b'{"top_k":3}', Reason.ORDERING_CHOSEN),
        (b'{"top_k":3,"score_by":[]}', Reason.ORDERING_CHOSEN),
        (b'{"top_k":3,"score_by":null}', Reason.ORDERING_CHOSEN),
        (b'{"top_k":3,"score_by":{}}', Reason.AMBIGUOUS_FIELD),
        (b'{"top_k":"3","score_by":[]}', Reason.AMBIGUOUS_FIELD),
        (b'{"top_k":1,"score_by":[]}', Reason.SINGLE_RESULT),
        (body(DENSE, ',"more":1'), Reason.UNSUPPORTED_FIELD),
        (body(DENSE, ',"include_fields":"a"'), Reason.AMBIGUOUS_FIELD),
        (body(DENSE, ',"include_fields":["_v*"]'), Reason.PAYLOAD_SELECTOR),
        (body(DENSE + "," + WORDS), Reason.AMBIGUOUS_FIELD),
        (body(DENSE + "," + DENSE), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"mmr","field":"a"}'), Reason.UNSUPPORTED_FIELD),
        (body('{"field":"a","query":"b"}'), Reason.UNSUPPORTED_FIELD),
        (body('{"type":"text","query":"a","values":[1]}'), Reason.UNSUPPORTED_FIELD),
        (body('{"type":"text","query":"a","boost":2}'), Reason.UNSUPPORTED_FIELD),
        (body("1"), Reason.UNSUPPORTED_FIELD),
        (body('{"type":1}'), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"dense_vector","values":[1]}'), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"dense_vector","field":"a","fields":["b"],"values":[1]}'), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"dense_vector","fields":["a","b"],"values":[1]}'), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"dense_vector","field":"_score","values":[1]}'), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"dense_vector","field":"*","values":[1]}'), Reason.AMBIGUOUS_FIELD),
        (body('{"type":"dense_vector","field":"a","values":"b"}'), Reason.AMBIGUOUS_FIELD),
    ],
)
def test_what_is_not_understood_goes_through(request_body: bytes, reason: Reason) -> None:
    assert reason_of(read, request_body) is reason


@given(document=documents_searches("_values"), count=st.integers(2, 10_000))
def test_a_widened_request_is_the_clients_but_for_its_number_and_its_fields(
    document: dict[str, Any], count: int
) -> None:
    """Invariant: top_k is the count, the selection is the client's with ours behind, everything else stays."""
    wide = json.loads(widen(read(json.dumps(document).encode())[1], [count]))
    assert wide["top_k"] == count
    listed = document.get("include_fields") or []
    assert "*" in listed or wide["include_fields"][: len(listed)] == listed
    changed = {"top_k", "include_fields"}
    assert {k: v for k, v in wide.items() if k not in changed} == {
        k: v for k, v in document.items() if k not in changed
    }

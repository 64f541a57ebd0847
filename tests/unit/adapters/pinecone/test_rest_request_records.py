from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.pinecone.bodies import records_searches
from vecsieve.adapters.contract import Needs, Reason, Search
from vecsieve.adapters.pinecone import rest_request
from vecsieve.adapters.pinecone.rest_request import Document, parse_records, widen
from vecsieve.adapters.wire.json import whole

TEXT = Needs(optional_fields=("text",))


def read(body: bytes, needs: Needs = TEXT) -> tuple[Search, Document]:
    return parse_records(body, whole(body), needs)


def reranked(members: str) -> bytes:
    return b'{"query":{"top_k":20,"inputs":{"text":"a"}},"rerank":{%s}}' % members.encode()


@pytest.mark.parametrize(
    ("body", "wide"),
    [
        (
            b'{"query": {"top_k": 3, "inputs": {"text": "top_k"}}, "fields": ["a"]}',
            b'{"query": {"top_k": 50, "inputs": {"text": "top_k"}}, "fields": ["a","text"]}',
        ),
        (b'{"query":{"id":"a","top_k":3}}', b'{"query":{"id":"a","top_k":50}}'),
        (b'{"fields":["*"],"query":{"filter":{},"top_k":3}}', b'{"fields":["*"],"query":{"filter":{},"top_k":50}}'),
        (
            b'{"query":{"top_k":3,"vector":{"values":[1]},"match_terms":{}},"rerank":null}',
            b'{"query":{"top_k":50,"vector":{"values":[1]},"match_terms":{}},"rerank":null}',
        ),
    ],
)
def test_the_number_and_the_fields_are_asked_for_and_every_other_byte_stays(body: bytes, wide: bytes) -> None:
    assert widen(read(body)[1], [50]) == wide


def test_a_reranked_search_is_asked_for_more_of_what_it_ranked_already() -> None:
    search, document = read(reranked('"model":"m","rank_fields":["a"],"top_n":5,"parameters":{},"query":"b"'))
    assert (search.top_k, search.most) == (5, 20)
    wide = json.loads(widen(document, [20]))
    assert (wide["query"]["top_k"], wide["rerank"]["top_n"]) == (20, 20)


@pytest.mark.parametrize("members", ['"model":"m"', '"top_n":null', '"top_n":20', '"top_n":30'])
def test_a_rerank_that_leaves_out_nothing_leaves_nothing_to_choose(members: str) -> None:
    assert reason_of(read, reranked(members)) is Reason.NOTHING_TO_DO


def test_there_are_no_vectors_to_compare() -> None:
    search, document = read(b'{"query":{"top_k":3,"vector":{"values":[1,2]}}}')
    assert search.query is None
    assert (document.vector, document.sparse) == (None, None)
    assert not document.emptied
    assert search.most == rest_request.most_matches(has_texts=True)


@pytest.mark.parametrize(
    ("body", "needs", "reason"),
    [
        (b"", TEXT, Reason.NOT_JSON),
        (b"[]", TEXT, Reason.NOT_JSON),
        (b"{}", TEXT, Reason.ORDERING_CHOSEN),
        (b'{"query":null}', TEXT, Reason.ORDERING_CHOSEN),
        (b'{"query":[]}', TEXT, Reason.UNSUPPORTED_FIELD),
        (b'{"query":{"top_k":3},"more":1}', TEXT, Reason.UNSUPPORTED_FIELD),
        (b'{"query":{"topK":3}}', TEXT, Reason.UNSUPPORTED_FIELD),
        (b'{"query":{"top_k":3,"more":1}}', TEXT, Reason.UNSUPPORTED_FIELD),
        (b'{"query":{"inputs":{}}}', TEXT, Reason.AMBIGUOUS_FIELD),
        (b'{"query":{"top_k":"3"}}', TEXT, Reason.AMBIGUOUS_FIELD),
        (b'{"query":{"top_k":0}}', TEXT, Reason.AMBIGUOUS_FIELD),
        (b'{"query":{"top_k":3,"id":4}}', TEXT, Reason.AMBIGUOUS_FIELD),
        (b'{"query":{"top_k":3,"top_k":3}}', TEXT, Reason.AMBIGUOUS_FIELD),
        (b'{"query":{"top_k":3},"fields":"text"}', TEXT, Reason.AMBIGUOUS_FIELD),
        (b'{"query":{"top_k":1}}', TEXT, Reason.SINGLE_RESULT),
        (reranked('"top_n":1'), TEXT, Reason.SINGLE_RESULT),
        (reranked('"top_n":"5"'), TEXT, Reason.AMBIGUOUS_FIELD),
        (reranked('"top_n":5,"more":1'), TEXT, Reason.UNSUPPORTED_FIELD),
        (b'{"query":{"top_k":3}}', Needs(), Reason.NOTHING_TO_DO),
        (b'{"query":{"top_k":3}}', Needs(payload_fields=("tenant",)), Reason.NOTHING_TO_DO),
        (b'{"query":{"top_k":3},"fields":[]}', TEXT, Reason.NOTHING_TO_DO),
        (b'{"query":{"top_k":3},"fields":[]}', Needs(payload_fields=("tenant",)), Reason.PAYLOAD_SELECTOR),
    ],
)
def test_what_is_not_understood_or_has_nothing_to_compare_goes_through(
    body: bytes, needs: Needs, reason: Reason
) -> None:
    assert reason_of(read, body, needs) is reason


@given(document=records_searches(), count=st.integers(4, 10_000))
def test_a_widened_request_is_the_clients_but_for_its_number_and_its_fields(
    document: dict[str, Any], count: int
) -> None:
    """Invariant: one number is the count, listed fields have ours behind them, everything else stays."""
    _, parsed = read(json.dumps(document).encode())
    wide = json.loads(widen(parsed, [count]))
    part = "rerank" if "rerank" in document else "query"
    wide[part]["top_n" if part == "rerank" else "top_k"] = parsed.top_k
    listed = document.get("fields")
    assert wide == {**document, **({} if listed is None else {"fields": wide["fields"]})}
    assert listed is None or wide["fields"][: len(listed)] == listed
    assert list(wide) == list(document)

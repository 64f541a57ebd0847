from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.pinecone.bodies import documents_searches, queries, records_searches
from vecsieve.adapters.contract import Needs, Reason, Search, UnsupportedError
from vecsieve.adapters.pinecone import rest_request
from vecsieve.adapters.pinecone.rest_request import (
    LARGEST_TOP_K,
    UNKNOWN_NUMBERS,
    Document,
    Selected,
    most_matches,
    of_documents,
    of_records,
    parse_documents,
    parse_query,
    parse_records,
    widen,
    within,
)
from vecsieve.adapters.wire.json import splice, whole


def read_query(body: bytes, needs: Needs | None = None) -> tuple[Search, Document]:
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
    assert widen(read_query(body)[1], [50]) == wide


def test_what_a_search_asks_for() -> None:
    search, document = read_query(b'{"topK":10,"vector":[0.25,-1],"namespace":"n"}')
    assert (search.top_k, search.offset, search.pages) == (10, 0, False)
    assert search.query is not None
    assert search.query.dtype == np.float32
    assert search.query.tolist() == [0.25, -1]
    assert document.emptied
    assert (document.vector, document.sparse, document.self_id) == ("values", "sparseValues", "")
    assert not read_query(b'{"topK":10,"vector":[1],"includeValues":true}')[1].emptied


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
def test_a_query_that_is_not_understood_goes_through(body: bytes, reason: Reason) -> None:
    assert reason_of(read_query, body) is reason


def test_required_fields_are_in_the_metadata_or_nowhere() -> None:
    needs = Needs(payload_fields=("tenant",), optional_fields=("text",))
    assert reason_of(read_query, b'{"topK":3,"vector":[1]}', needs) is Reason.PAYLOAD_SELECTOR
    assert reason_of(read_query, b'{"topK":3,"vector":[1],"includeMetadata":false}', needs) is Reason.PAYLOAD_SELECTOR
    body = b'{"topK":3,"vector":[1],"include_metadata":true}'
    assert b'"include_metadata":true' in widen(read_query(body, needs)[1], [9])


def test_metadata_is_never_asked_for_by_us() -> None:
    document = read_query(b'{"topK":3,"vector":[1]}', Needs(optional_fields=("text",)))[1]
    assert widen(document, [9]) == b'{"includeValues":true,"topK":9,"vector":[1]}'


def test_no_more_is_asked_for_than_the_client_lets_the_index_look_at() -> None:
    assert read_query(b'{"topK":10,"vector":[1],"maxCandidates":20}')[0].most == 20
    assert read_query(b'{"topK":10,"vector":[1],"max_candidates":10}')[0].most == 10
    assert read_query(b'{"topK":10,"vector":[1],"maxCandidates":100000}')[0].most == rest_request.most_matches(
        numbers=1
    )


def test_no_more_is_asked_for_than_a_reply_can_hold() -> None:
    dense = b'{"topK":10,"vector":%s}' % json.dumps([0.5] * 1536).encode()
    assert read_query(dense)[0].most == rest_request.most_matches(numbers=1536)
    assert read_query(b'{"topK":10,"id":"a"}')[0].most == rest_request.most_matches(
        numbers=rest_request.UNKNOWN_NUMBERS
    )
    sparse = b'{"topK":10,"sparseVector":{"indices":[1],"values":[1]}}'
    assert read_query(sparse)[0].most == rest_request.most_matches(is_sparse=True)


@given(document=queries(), count=st.integers(2, 10_000))
def test_a_widened_request_is_the_clients_but_for_two_members(document: dict[str, Any], count: int) -> None:
    """Invariant: topK is the count, values are wanted, everything else and the order of members stay."""
    wide = json.loads(widen(read_query(json.dumps(document).encode())[1], [count]))
    assert wide == {**document, "topK": count, "includeValues": True}
    assert [key for key in wide if key in document] == list(document)


TEXT = Needs(optional_fields=("text",))
DENSE = '{"type":"dense_vector","field":"_values","values":[0.5,1]}'
WORDS = '{"type":"text","fields":["text"],"query":"a"}'


def body(clauses: str, more: str = "") -> bytes:
    return f'{{"score_by":[{clauses}],"top_k":3{more}}}'.encode()


def read_documents(request: bytes, needs: Needs = TEXT) -> tuple[Search, Document]:
    return parse_documents(request, whole(request), needs)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (',"include_fields":["title"]', ',"include_fields":["title","_values"]'),
        (',"include_fields":[]', ',"include_fields":["_values"]'),
        (',"include_fields":null', ',"include_fields":["_values"]'),
        (',"include_fields":["*"]', ',"include_fields":["*"]'),
        (',"include_fields":["_values"]', ',"include_fields":["_values"]'),
    ],
)
def test_the_field_of_the_vector_is_asked_for(selection: str, expected: str) -> None:
    wide = widen(read_documents(body(DENSE, selection))[1], [3])
    assert wide == body(DENSE, expected)


def test_what_a_search_by_vector_asks_for() -> None:
    search, document = read_documents(body(DENSE))
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
    search, document = read_documents(body(clauses))
    assert search.query is None
    assert document.vector is None
    assert document.added == {"text"}
    assert reason_of(read_documents, body(clauses), Needs(payload_fields=("tenant",))) is Reason.NOTHING_TO_DO


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
    assert reason_of(read_documents, request_body) is reason


@given(document=documents_searches("_values"), count=st.integers(2, 10_000))
def test_a_widened_request_is_the_clients_but_for_its_number_and_its_fields(
    document: dict[str, Any], count: int
) -> None:
    """Invariant: top_k is the count, the selection is the client's with ours behind, everything else stays."""
    wide = json.loads(widen(read_documents(json.dumps(document).encode())[1], [count]))
    assert wide["top_k"] == count
    listed = document.get("include_fields") or []
    assert "*" in listed or wide["include_fields"][: len(listed)] == listed
    changed = {"top_k", "include_fields"}
    assert {k: v for k, v in wide.items() if k not in changed} == {
        k: v for k, v in document.items() if k not in changed
    }


def read_records(body: bytes, needs: Needs = TEXT) -> tuple[Search, Document]:
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
    assert widen(read_records(body)[1], [50]) == wide


def test_a_reranked_search_is_asked_for_more_of_what_it_ranked_already() -> None:
    search, document = read_records(reranked('"model":"m","rank_fields":["a"],"top_n":5,"parameters":{},"query":"b"'))
    assert (search.top_k, search.most) == (5, 20)
    wide = json.loads(widen(document, [20]))
    assert (wide["query"]["top_k"], wide["rerank"]["top_n"]) == (20, 20)


@pytest.mark.parametrize("members", ['"model":"m"', '"top_n":null', '"top_n":20', '"top_n":30'])
def test_a_rerank_that_leaves_out_nothing_leaves_nothing_to_choose(members: str) -> None:
    assert reason_of(read_records, reranked(members)) is Reason.NOTHING_TO_DO


def test_there_are_no_vectors_to_compare() -> None:
    search, document = read_records(b'{"query":{"top_k":3,"vector":{"values":[1,2]}}}')
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
    assert reason_of(read_records, body, needs) is reason


@given(document=records_searches(), count=st.integers(4, 10_000))
def test_a_widened_request_for_records_is_the_clients_but_for_its_number_and_its_fields(
    document: dict[str, Any], count: int
) -> None:
    """Invariant: one number is the count, listed fields have ours behind them, everything else stays."""
    _, parsed = read_records(json.dumps(document).encode())
    wide = json.loads(widen(parsed, [count]))
    part = "rerank" if "rerank" in document else "query"
    wide[part]["top_n" if part == "rerank" else "top_k"] = parsed.top_k
    listed = document.get("fields")
    assert wide == {**document, **({} if listed is None else {"fields": wide["fields"]})}
    assert listed is None or wide["fields"][: len(listed)] == listed
    assert list(wide) == list(document)


NAMES = st.lists(st.sampled_from(["text", "doc", "größe", 'a"b', "t*", "_id", "_score"]), max_size=4)


def records(text: bytes | None, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Selected:
    return of_records(text or b"", None if text is None else (0, len(text)), required, optional)


def documents(text: bytes | None, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Selected:
    if text is None:
        return of_documents(b'{"top_k":2}', None, 0, required, optional)
    return of_documents(text, (0, len(text)), 0, required, optional)


def edited(text: bytes, selected: Selected) -> bytes:
    return splice(text, [selected.edit] if selected.edit else [])


def test_missing_fields_are_put_behind_the_listed_ones() -> None:
    text = b'[ "text" , "a" ]'
    selected = records(text, ("tenant",), ("text", "größe"))
    assert edited(text, selected) == '[ "text" , "a" ,"tenant","größe"]'.encode()
    assert selected.added == {"tenant", "größe"}
    assert selected.readable == {"tenant", "text", "größe"}


@pytest.mark.parametrize("text", [b"[]", b'["te*"]'])
def test_a_list_of_which_the_meaning_is_not_sure_is_not_widened(text: bytes) -> None:
    assert records(text, (), ("text",)) == Selected(None, frozenset(), frozenset())
    assert reason_of(records, text, ("tenant",), ("text",)) is Reason.PAYLOAD_SELECTOR


def test_names_that_are_no_fields_are_never_asked_for() -> None:
    assert documents(None, (), ("_id", "_score", "a*", "a", "a")).added == {"a"}
    with pytest.raises(UnsupportedError):
        documents(None, ("a*",))


@pytest.mark.parametrize("text", [b'"text"', b"{}", b"[1]", b'["\\ud800"]', b"true"])
def test_what_is_no_list_of_names_is_left_to_the_service(text: bytes) -> None:
    for select in (records, documents):
        assert reason_of(select, text, (), ("text",)) is Reason.AMBIGUOUS_FIELD


@given(listed=NAMES, required=NAMES, optional=NAMES, indent=st.sampled_from([None, 1]))
def test_the_widened_list_is_the_clients_and_what_was_added(
    listed: list[str], required: list[str], optional: list[str], indent: int | None
) -> None:
    """Invariant: the client's names stay in front, the added ones are wanted, new and each there once."""
    text = json.dumps(listed, indent=indent).encode()
    try:
        selected = documents(text, required, optional)
    except UnsupportedError:
        hopeless = {name for name in required if "*" in name or name in {"_id", "_score"}} - set(listed)
        assert hopeless or any("*" in name for name in listed)
        return
    names = json.loads(edited(text, selected))
    assert names[: len(listed)] == listed
    assert sorted(names[len(listed) :]) == sorted(selected.added)
    assert not selected.added & set(listed)
    assert selected.added <= {*required, *optional}
    assert set(required) <= selected.readable


@pytest.mark.parametrize(("numbers", "measured"), [(384, 640), (768, 346), (1024, 265), (1536, 180), (3072, 91)])
def test_a_fifth_less_is_asked_for_than_fits_by_measurement(numbers: int, measured: int) -> None:
    assert 0.75 * measured <= most_matches(numbers=numbers) <= 0.9 * measured


def test_sparse_values_and_texts_leave_less_room() -> None:
    assert most_matches(numbers=768, is_sparse=True) < most_matches(numbers=768)
    assert most_matches(has_texts=True) < most_matches() < LARGEST_TOP_K


@given(numbers=st.integers(0, 20_000), is_sparse=st.booleans(), has_texts=st.booleans())
def test_a_reply_of_that_many_matches_stays_below_four_megabytes(
    numbers: int, *, is_sparse: bool, has_texts: bool
) -> None:
    """Invariant: at least one match is asked for, and vectors alone never fill the reply."""
    count = most_matches(numbers=numbers, is_sparse=is_sparse, has_texts=has_texts)
    assert 1 <= count <= LARGEST_TOP_K
    assert count * 13.9 * numbers <= 4_000_000


def test_a_query_asks_for_no_more_than_the_index_may_look_at() -> None:
    assert within(20, numbers=768, is_sparse=False) == 20
    assert within(100_000, numbers=768, is_sparse=False) == within(None, numbers=768, is_sparse=False)
    assert within(0, numbers=768, is_sparse=False) == 0


def test_a_vector_that_the_request_does_not_show_may_be_long() -> None:
    assert within(None, numbers=0, is_sparse=False) == most_matches(numbers=UNKNOWN_NUMBERS)
    assert within(None, numbers=0, is_sparse=True) == most_matches(is_sparse=True)

"""``_msearch``: each of its searches is widened by itself, and the others stay byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import REST, reason_of
from support.opensearch import bodies
from support.opensearch.model import Server, Stored
from vecsieve.adapters.contract import (
    Bounds,
    MalformedReplyError,
    NamesInBody,
    Needs,
    Operation,
    Reason,
    SearchCall,
)

ADAPTER = REST["opensearch"].adapter()
KNN = {"query": {"knn": {"vec": {"vector": [0.5, 1.0], "k": 10}}}}
MATCH = {"query": {"match": {"text": "pump"}}}
HITS = tuple(
    Stored(id=f'"{rank}"', score=f"{1 - rank / 64}", source=(("text", f'"t{rank}"'),), vector=f"[{rank},1]")
    for rank in range(30)
)
SERVER = Server(hits=HITS)


def lines(*documents: Any) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def parsed(body: bytes, needs: Needs, *, collection: str = "docs") -> SearchCall:
    operation = Operation(backend="opensearch", name="multi_search", collection=collection)
    return ADAPTER.parse_request(operation, body, needs)


def test_each_search_is_widened_in_its_own_line_and_the_others_stay() -> None:
    body = lines({}, {**KNN, "size": 4}, {"index": "docs"}, MATCH, {}, {**KNN, "from": 2})
    call = parsed(body, Needs(vectors=False))
    assert [(search.top_k, search.offset) for search in call.searches] == [(4, 0), (10, 2)]
    wide = {"knn": {"vec": {"vector": [0.5, 1.0], "k": 20}}}
    expected = lines({}, {"query": wide, "size": 20}, {"index": "docs"}, MATCH)
    assert ADAPTER.widen(call, [20, 0]).startswith(expected)
    assert ADAPTER.widen(call, [0, 0]) == body
    assert [json.loads(line) for line in ADAPTER.widen(call, [0, 30]).splitlines()][5] == {**KNN, "size": 30, "from": 0}


def test_the_answer_has_the_kept_hits_of_each_search_and_all_of_the_others() -> None:
    body = lines({}, {**KNN, "size": 4}, {}, MATCH, {}, {**KNN, "size": 3, "_source": False})
    call = parsed(body, Needs(optional_fields=("text",)))
    reply = ADAPTER.parse_reply(call, SERVER.answer_batch(ADAPTER.widen(call, [20, 20])))
    assert [pool.size for pool in reply.pools] == [20, 20]
    assert [pool.fields[7] for pool in reply.pools] == [(b'"t7"',)] * 2
    assert [pool.vectors[7].tolist() for pool in reply.pools] == [[7.0, 1.0]] * 2
    answer = ADAPTER.trim(call, reply, [np.array([0, 1, 2, 3]), np.array([0, 1, 2])])
    assert answer == SERVER.answer_batch(body)


@given(data=st.data())
def test_the_first_page_of_every_search_is_the_direct_answer(data: st.DataObject) -> None:
    documents = data.draw(st.lists(bodies.searches(), min_size=1, max_size=3))
    server = Server(hits=tuple(data.draw(st.lists(bodies.stored_documents(), max_size=7))))
    body = lines(*[line for document in documents for line in ({}, document)])
    call = parsed(body, Needs(optional_fields=("text", "doc")))
    sizes = [min(3 * (search.top_k + search.offset), search.most or 99) for search in call.searches]
    reply = ADAPTER.parse_reply(call, server.answer_batch(ADAPTER.widen(call, sizes)))
    keep = [
        np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size))
        for search, pool in zip(call.searches, reply.pools, strict=True)
    ]
    assert ADAPTER.trim(call, reply, keep) == server.answer_batch(body)


@pytest.mark.parametrize(
    ("headers", "collection", "supported"),
    [
        ([{}, {"index": "docs"}, {"index": ["docs"]}], "docs", 3),
        ([{}, {"index": "other"}], "docs", 1),
        ([{"index": "other"}, {"index": "more"}], "", 2),
        ([{"from_a_later_version": 1}, {}], "docs", 1),
    ],
)
def test_a_search_of_another_index_stays(headers: list[Any], collection: str, supported: int) -> None:
    body = lines(*[line for header in headers for line in (header, KNN)])
    assert len(parsed(body, Needs(), collection=collection).searches) == supported


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ([{"index": "a"}, {"index": "a"}], {"a"}),
        ([{"index": ["a", "b"]}], {"a,b"}),
        ([{"index": "a"}, {"index": "b"}, {}], {"a", "b", "_all"}),
    ],
)
def test_a_batch_is_of_the_indices_that_its_headers_name(headers: list[Any], names: set[str]) -> None:
    assert isinstance(ADAPTER, NamesInBody)
    assert ADAPTER.collections_in(lines(*[line for header in headers for line in (header, KNN)])) == names
    assert not ADAPTER.collections_in(b"no lines")


def test_an_empty_header_is_one() -> None:
    assert len(parsed(b"\n" + lines(KNN), Needs()).searches) == 1
    assert len(parsed(b"{}\r\n" + json.dumps(KNN).encode() + b"\r\n", Needs()).searches) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.NOT_JSON),
        (lines({}), Reason.NOT_JSON),
        (lines({}, KNN)[:-1], Reason.NOT_JSON),
        (lines({}, MATCH), Reason.NOTHING_TO_DO),
        (lines({}, 7), Reason.NOTHING_TO_DO),
        (lines(*[{}, KNN] * 3), Reason.TOO_MANY_SEARCHES),
    ],
)
def test_what_is_no_batch_of_searches_passes_through(body: bytes, reason: Reason) -> None:
    assert reason_of(parsed, body, Needs(bounds=Bounds(searches=2, parts=9999, nesting=4))) is reason


def test_an_error_in_the_place_of_an_answer_is_no_reply() -> None:
    call = parsed(lines({}, KNN), Needs())
    body = b'{"took":1,"responses":[{"error":{"root_cause":[],"type":"x","reason":"y"},"status":400}]}'
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(call, body)


def test_fewer_answers_than_searches_are_no_reply() -> None:
    call = parsed(lines({}, KNN, {}, KNN), replace(Needs(), vectors=False))
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(call, SERVER.answer_batch(lines({}, KNN)))

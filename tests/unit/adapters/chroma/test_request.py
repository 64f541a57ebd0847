from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.chroma import bodies as chroma_bodies
from support.exchanges.conversation import Conversation
from vecsieve.adapters.chroma import request
from vecsieve.adapters.chroma.request import Document, parse, widen
from vecsieve.adapters.contract import Needs, Reason, Search, UnsupportedError

VECTOR = [0.25, -1.0, 3e-7]
EVERYTHING = Needs(payload_fields=("tenant",), optional_fields=("#document",))


def read(needs: Needs | None = None, /, **members: Any) -> tuple[tuple[Search, ...], Document]:
    body = {"query_embeddings": [VECTOR], "n_results": 5, **members}
    kept = {name: value for name, value in body.items() if value != "absent"}
    return parse(json.dumps(kept).encode(), Needs() if needs is None else needs)


def refused(**members: Any) -> Reason:
    with pytest.raises(UnsupportedError) as verdict:
        read(**members)
    return verdict.value.reason


def widened(document: Document, *counts: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(widen(document, counts))
    return content


def test_each_query_embedding_is_a_search_of_its_own() -> None:
    searches, _ = read(query_embeddings=[VECTOR, [1, 2, 3]])
    assert [(search.top_k, search.offset, search.pages) for search in searches] == [(5, 0, False)] * 2
    assert [None if search.query is None else search.query.tolist() for search in searches] == [
        pytest.approx(VECTOR),
        [1.0, 2.0, 3.0],
    ]


@pytest.mark.parametrize("absent", ["absent", None])
def test_ten_results_are_meant_where_no_number_is_said(absent: Any) -> None:
    searches, document = read(n_results=absent)
    assert searches[0].top_k == 10
    assert widened(document, 50)["n_results"] == 50
    assert widen(document, [10]).count(b"n_results") == (1 if absent is None else 0)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (0, Reason.NOTHING_TO_DO),
        (1, Reason.SINGLE_RESULT),
        (-1, Reason.AMBIGUOUS_FIELD),
        (1.5, Reason.AMBIGUOUS_FIELD),
        ("5", Reason.AMBIGUOUS_FIELD),
        (True, Reason.AMBIGUOUS_FIELD),
        (2**40, Reason.AMBIGUOUS_FIELD),
    ],
)
def test_a_number_that_leaves_no_choice_or_is_none_is_the_servers_business(number: Any, reason: Reason) -> None:
    assert refused(n_results=number) is reason


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"query_embeddings": []}, Reason.NOTHING_TO_DO),
        ({"query_embeddings": None}, Reason.AMBIGUOUS_FIELD),
        ({"query_embeddings": "absent"}, Reason.AMBIGUOUS_FIELD),
        ({"query_embeddings": VECTOR}, Reason.AMBIGUOUS_FIELD),
        ({"query_embeddings": ["AACAPw=="]}, Reason.AMBIGUOUS_FIELD),
        ({"query_embeddings": [VECTOR, None]}, Reason.AMBIGUOUS_FIELD),
        ({"query_embeddings": {"a": 1}}, Reason.AMBIGUOUS_FIELD),
        ({"include": None}, Reason.AMBIGUOUS_FIELD),
        ({"include": "documents"}, Reason.AMBIGUOUS_FIELD),
        ({"include": [1]}, Reason.AMBIGUOUS_FIELD),
        ({"include": ["data"]}, Reason.UNSUPPORTED_FIELD),
        ({"ids": {}}, Reason.AMBIGUOUS_FIELD),
        ({"read_level": "index_only"}, Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_known_exactly_is_left_alone(members: dict[str, Any], reason: Reason) -> None:
    assert refused(**members) is reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.NOT_JSON),
        (b"[]", Reason.NOT_JSON),
        (b"{}", Reason.AMBIGUOUS_FIELD),
        (b'{"n_results":5,"n_results":6,"query_embeddings":[[1]]}', Reason.AMBIGUOUS_FIELD),
    ],
)
def test_what_is_no_query_is_left_alone(body: bytes, reason: Reason) -> None:
    with pytest.raises(UnsupportedError, match=reason.value):
        parse(body, Needs())


def test_what_selection_reads_is_asked_for_behind_what_the_client_wants() -> None:
    _, document = read(EVERYTHING, include=["uris", "documents"])
    assert widened(document, 24)["include"] == ["uris", "documents", "embeddings", "distances", "metadatas"]
    assert document.added == ("embeddings", "distances", "metadatas")


@pytest.mark.parametrize(
    ("needs", "added"),
    [
        (Needs(), ("embeddings", "distances")),
        (Needs(vectors=False), ("distances",)),
        (Needs(optional_fields=("#document",)), ("embeddings", "distances", "documents")),
        (Needs(optional_fields=("#document", "text")), ("embeddings", "distances", "documents", "metadatas")),
        (Needs(payload_fields=("#document",)), ("embeddings", "distances", "documents")),
    ],
)
def test_only_the_columns_that_are_read_are_added(needs: Needs, added: tuple[str, ...]) -> None:
    assert read(needs, include=[])[1].added == added


def test_columns_that_the_server_includes_unasked_are_named_when_others_are_added() -> None:
    _, document = read(Needs(), include="absent")
    assert widened(document, 24)["include"] == ["documents", "metadatas", "distances", "embeddings"]


def test_of_named_records_no_more_are_asked_for_than_are_named() -> None:
    searches, _ = read(ids=["a", "b", "c", "d", "e", "f"])
    assert searches[0].most == 6
    assert refused(ids=["a", "b", "c", "d", "e"]) is Reason.NOTHING_TO_DO
    assert refused(ids=[]) is Reason.NOTHING_TO_DO
    assert read(ids=None)[0][0].most == request.most_candidates(searches=1, numbers=3)


def test_many_searches_with_long_vectors_leave_room_for_fewer_candidates_each() -> None:
    assert request.most_candidates(searches=1, numbers=1536) > 500
    assert request.most_candidates(searches=100, numbers=1536) < 10
    assert request.most_candidates(searches=0, numbers=0) > 5000


def test_a_vector_beyond_float32_is_no_query_to_compare_with() -> None:
    searches, _ = read(query_embeddings=[[1e300, 0.0], [1.0, 0.0]])
    assert searches[0].query is None
    assert searches[1].query is not None


@given(talk=chroma_bodies.conversations(), count=st.integers(2, 500))
def test_the_clients_own_members_are_never_written_anew(talk: Conversation, count: int) -> None:
    """Invariant: without the two members that widening may add or change, the document is the client's, value for value."""
    _, document = parse(talk.body, EVERYTHING)
    before, after = json.loads(talk.body), widened(document, count)
    assert after["n_results"] == count
    assert set(document.requested) < set(after["include"])
    for name in ("n_results", "include"):
        before.pop(name, None)
        after.pop(name)
    assert before == after

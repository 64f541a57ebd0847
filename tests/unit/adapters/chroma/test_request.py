from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.chroma.captures import NEEDS_EXCHANGES, exchanges
from vecsieve.adapters.chroma import request
from vecsieve.adapters.chroma.request import (
    NUMBER_BYTES,
    RECORD_BYTES,
    REPLY_BYTES,
    ChromaNames,
    Document,
    classify,
    most_candidates,
    parse,
    scope,
    widen,
)
from vecsieve.adapters.contract import (
    Called,
    Needs,
    Operation,
    Reason,
    RequestHead,
    Search,
    Unsettled,
    UnsupportedError,
)

VECTOR = [0.25, -1.0, 3e-7]
EVERYTHING = Needs(payload_fields=("tenant",), optional_fields=("#document",))


def read(needs: Needs | None = None, /, **members: Any) -> tuple[tuple[Search, ...], Document]:
    body = {"query_embeddings": [VECTOR], "n_results": 5, **members}
    kept = {name: value for name, value in body.items() if value != "absent"}
    return parse(json.dumps(kept).encode(), Needs() if needs is None else needs)


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
    ("members", "reason"),
    [
        # a number that leaves no choice, or is none
        ({"n_results": 0}, Reason.NOTHING_TO_DO),
        ({"n_results": 1}, Reason.SINGLE_RESULT),
        ({"n_results": -1}, Reason.AMBIGUOUS_FIELD),
        ({"n_results": 1.5}, Reason.AMBIGUOUS_FIELD),
        ({"n_results": "5"}, Reason.AMBIGUOUS_FIELD),
        ({"n_results": True}, Reason.AMBIGUOUS_FIELD),
        ({"n_results": 2**40}, Reason.AMBIGUOUS_FIELD),
        # what is not known exactly
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
def test_what_is_not_known_exactly_or_leaves_no_choice_is_left_alone(members: dict[str, Any], reason: Reason) -> None:
    assert reason_of(read, **members) is reason


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
    assert reason_of(read, ids=["a", "b", "c", "d", "e"]) is Reason.NOTHING_TO_DO
    assert reason_of(read, ids=[]) is Reason.NOTHING_TO_DO
    assert read(ids=None)[0][0].most == request.most_candidates(searches=1, numbers=3)


def test_many_searches_with_long_vectors_leave_room_for_fewer_candidates_each() -> None:
    assert request.most_candidates(searches=1, numbers=1536) > 500
    assert request.most_candidates(searches=100, numbers=1536) < 10
    assert request.most_candidates(searches=0, numbers=0) > 5000


def test_a_vector_beyond_float32_is_no_query_to_compare_with() -> None:
    searches, _ = read(query_embeddings=[[1e300, 0.0], [1.0, 0.0]])
    assert searches[0].query is None
    assert searches[1].query is not None


ID = "97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
DATABASE = "/api/v2/tenants/t/databases/d"
NAMES = ChromaNames()
DOCUMENT = {"id": ID.upper(), "name": "docs", "tenant": "t", "database": "d", "metadata": {"id": [1]}, "version": 0}


def head(method: str, path: str) -> RequestHead:
    return RequestHead(method=method, path=path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{DATABASE}/collections"),
        ("POST", f"{DATABASE}/collections"),
        ("GET", f"{DATABASE}/collections/docs"),
        ("GET", f"{DATABASE}/collections/by-id/{ID}"),
        ("POST", f"{DATABASE}/collections/{ID}/fork"),
        ("GET", "/api/v2/collections/t:d:docs"),
        ("GET", "/api/v1/collections"),
        ("POST", "/api/v1/collections"),
        ("GET", "/api/v1/collections/docs"),
    ],
)
def test_these_answers_tell_names(method: str, path: str) -> None:
    assert NAMES.describes(head(method, path))
    assert NAMES.unsettles(head(method, path)) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{DATABASE}/collections/docs"),
        ("PUT", f"{DATABASE}/collections/{ID}"),
        ("POST", f"{DATABASE}/collections/{ID}/add"),
        ("POST", f"{DATABASE}/collections/{ID}/get"),
        ("GET", f"{DATABASE}/collections/{ID}/count"),
        ("GET", f"{DATABASE}/collections_count"),
        ("GET", "/api/v2/heartbeat"),
    ],
)
def test_these_tell_none(method: str, path: str) -> None:
    assert not NAMES.describes(head(method, path))


def test_a_document_and_a_list_of_them_tell_ids_and_whole_names() -> None:
    called = Called(id=ID, name="t/d/docs")
    other = {**DOCUMENT, "id": "no id"}
    assert NAMES.described(json.dumps(DOCUMENT).encode()) == (called,)
    assert NAMES.described(json.dumps([DOCUMENT, other, DOCUMENT]).encode()) == (called, called)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b'{"id":1}', b"\xff", b"[" * 100_000])
def test_what_is_no_description_tells_nothing(body: bytes) -> None:
    assert NAMES.described(body) == ()


@given(body=st.binary(max_size=100))
def test_any_body_can_be_looked_at(body: bytes) -> None:
    """Invariant: reading a description never raises."""
    assert NAMES.described(body) == ()


@pytest.mark.parametrize(
    ("method", "path", "unsettled"),
    [
        ("PUT", f"{DATABASE}/collections/{ID.upper()}", Unsettled(key=ID)),
        ("DELETE", f"{DATABASE}/collections/docs", Unsettled(key="t/d/docs")),
        ("DELETE", f"{DATABASE}/collections/{ID}", Unsettled(key=ID)),
        ("DELETE", DATABASE, Unsettled(scope="t/d/")),
        ("DELETE", "/api/v2/tenants/%ff/databases/d", Unsettled(scope="")),
        ("DELETE", "/api/v2/tenants/%ff/databases/d/collections/docs", Unsettled(scope="")),
        ("DELETE", "/api/v1/collections/docs", Unsettled(scope="")),
        ("PUT", f"/api/v1/collections/{ID}", Unsettled(scope="")),
        ("POST", "/api/v2/reset", Unsettled(scope="")),
        ("GET", f"{DATABASE}/collections/docs", None),
        ("POST", f"{DATABASE}/collections/{ID}/delete", None),
        ("GET", DATABASE, None),
    ],
)
def test_what_renames_or_removes_collections_says_whose_names_it_unsettles(
    method: str, path: str, unsettled: Unsettled | None
) -> None:
    assert NAMES.unsettles(head(method, path)) == unsettled


@NEEDS_EXCHANGES
def test_recorded_clients_tell_the_names_of_what_they_query() -> None:
    names: dict[str, str] = {}
    for exchange in exchanges():
        if NAMES.describes(head(exchange.request.method, exchange.request.path)) and exchange.status == 200:
            names |= {called.id: called.name for called in NAMES.described(exchange.answer)}
    queried = {exchange.request.path.split("/")[-2] for exchange in exchanges() if exchange.is_query}
    assert queried <= names.keys()
    assert "default_tenant/default_database/docs_l2" in names.values()


DEFAULT_DATABASE = "/api/v2/tenants/default_tenant/databases/default_database"


def named(path: str, *, method: str = "POST", content_type: str = "application/json") -> Operation | None:
    return classify(RequestHead(method=method, path=path, content_type=content_type))


@pytest.mark.parametrize(
    ("path", "collection"),
    [
        (f"{DEFAULT_DATABASE}/collections/{ID}/query", f"default_tenant/default_database/{ID}"),
        (f"{DEFAULT_DATABASE}/collections/{ID.upper()}/query", f"default_tenant/default_database/{ID}"),
        (f"/api/v2/tenants/a%2Fb/databases/d%20%C3%A9/collections/{ID}/query", f"a/b/d é/{ID}"),
        (f"/api/v1/collections/{ID}/query", ID),
    ],
)
def test_a_query_is_named_with_what_its_path_knows_of_the_collection(path: str, collection: str) -> None:
    assert named(path) == Operation(backend="chroma", name="query", collection=collection, id=ID)


@pytest.mark.parametrize(
    "path",
    [
        f"{DEFAULT_DATABASE}/collections/{ID}/search",
        f"{DEFAULT_DATABASE}/collections/{ID}/get",
        f"{DEFAULT_DATABASE}/collections/{ID}/query/",
        f"/{DEFAULT_DATABASE}/collections/{ID}/query",
        f"{DEFAULT_DATABASE}/collections/{ID.replace('-', '')}/query",
        f"{DEFAULT_DATABASE}/collections/docs/query",
        f"/api/v2/collections/{ID}/query",
        f"/api/v3/collections/{ID}/query",
        f"/api/v2/tenants//databases/d/collections/{ID}/query",
        f"/api/v2/tenants/../databases/d/collections/{ID}/query",
        f"/api/v2/tenants/t/databases/%2E%2e/collections/{ID}/query",
        f"/api/v2/tenants/%ff/databases/d/collections/{ID}/query",
        f"/api/v2/tenants/\ud800/databases/d/collections/{ID}/query",
        "/api/v2/heartbeat",
        "",
    ],
)
def test_everything_else_is_left_alone(path: str) -> None:
    assert named(path) is None


def test_a_query_is_a_post_that_may_be_json() -> None:
    path = f"{DEFAULT_DATABASE}/collections/{ID}/query"
    assert named(path, method="GET") is None
    assert named(path, content_type="text/plain") is None
    assert named(path, content_type="") is not None
    assert named(path, content_type="application/json; charset=utf-8") is not None


def test_what_stands_before_a_name_is_decoded_and_empty_where_a_path_names_neither() -> None:
    assert scope("t%20", "d") == "t /d/"
    assert scope(None, None) == scope("t", None) == ""
    assert scope("t", ".") is None


@given(searches=st.integers(1, 500), numbers=st.integers(0, 5000))
def test_what_may_be_asked_for_fits_and_one_more_would_not(searches: int, numbers: int) -> None:
    """Invariant: all candidates of all searches together stay within the reply, as near as whole candidates come."""
    size = searches * (RECORD_BYTES + NUMBER_BYTES * numbers)
    assert most_candidates(searches=searches, numbers=numbers) * size <= REPLY_BYTES
    assert (most_candidates(searches=searches, numbers=numbers) + 1) * size > REPLY_BYTES


def test_a_usual_search_is_not_held_back() -> None:
    assert most_candidates(searches=1, numbers=3072) > 200
    assert most_candidates(searches=0, numbers=0) == most_candidates(searches=1, numbers=0)

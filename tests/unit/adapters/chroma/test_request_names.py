from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.chroma.captures import NEEDS_EXCHANGES, exchanges
from vecsieve.adapters.chroma.request import ChromaNames
from vecsieve.adapters.contract import Called, RequestHead, Unsettled

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
    told: dict[str, str] = {}
    for exchange in exchanges():
        if NAMES.describes(head(exchange.request.method, exchange.request.path)) and exchange.status == 200:
            told |= {called.id: called.name for called in NAMES.described(exchange.answer)}
    queried = {exchange.request.path.split("/")[-2] for exchange in exchanges() if exchange.is_query}
    assert queried <= told.keys()
    assert "default_tenant/default_database/docs_l2" in told.values()

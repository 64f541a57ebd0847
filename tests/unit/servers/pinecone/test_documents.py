from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone import documents
from servers.pinecone.calls import Limits
from servers.pinecone.documents import fetch, list_documents, search
from servers.pinecone.store import Index

from support.emulated import articles, call, refused, said

NEW = "2026-07"
DENSE = {"type": "dense_vector", "field": "vec", "values": [1, 0]}
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "a", "vec": [1, 0], "body": "red car", "year": 2019},
    {"_id": "b", "vec": [1, 1], "body": "red boat", "terms": {"indices": [1], "values": [0.5]}},
    {"_id": "c", "vec": [0, 1], "summary": "cold sea"},
]


def filled() -> Index:
    target = articles()
    call(documents.upsert, target, {"documents": DOCUMENTS}, version=NEW, namespace="ns")
    return target


def found(body: dict[str, Any], **options: Any) -> Any:
    return said(search, filled(), body, **{"version": NEW, "namespace": "ns", **options})


@pytest.mark.parametrize("included", [{}, {"include_fields": []}, {"include_fields": None}])
def test_a_search_shows_no_field_unless_asked(included: dict[str, Any]) -> None:
    answer = call(search, filled(), {"score_by": [DENSE], "top_k": 2, **included}, version=NEW, namespace="ns")
    assert answer.body == (
        b'{"matches":[{"_id":"a","_score":1.0},{"_id":"b","_score":0.7071067690849304}],'
        b'"namespace":"ns","usage":{"read_units":1}}'
    )
    assert answer.headers == {"x-pinecone-max-indexed-lsn": "1"}


def test_fields_stand_beside_the_score_vectors_too() -> None:
    body = {"score_by": [DENSE], "top_k": 1, "include_fields": ["vec", "year", "none"]}
    assert found(body)["matches"] == [{"_id": "a", "_score": 1.0, "vec": [1.0, 0.0], "year": 2019}]
    every = found({**body, "include_fields": ["*"], "filter": {"body": "red boat"}})["matches"][0]
    assert every.pop("_score") == pytest.approx(0.70710677)
    assert every == {**DOCUMENTS[1]}


def test_a_field_that_embeds_shows_its_text() -> None:
    body = {
        "score_by": [{"type": "embed", "field": "summary", "query": "cold sea"}],
        "top_k": 1,
        "include_fields": ["*"],
    }
    answer = found(body)
    assert answer["matches"][0]["summary"] == "cold sea"
    assert answer["usage"] == {"read_units": 1, "embed_total_tokens": 2}


def test_the_alpha_wants_include_fields() -> None:
    body = {"score_by": [DENSE], "top_k": 1}
    refusal = refused(search, filled(), body, version="2026-01.alpha", namespace="ns")
    assert refusal.code.status == 422
    assert len(found({**body, "include_fields": []}, version="2026-01.alpha")["matches"]) == 1


def test_an_unknown_namespace_is_empty() -> None:
    assert found({"score_by": [DENSE], "top_k": 1}, namespace="other")["matches"] == []


def test_an_answer_over_the_limit_is_refused() -> None:
    body = {"score_by": [DENSE], "top_k": 3}
    assert refused(search, filled(), body, version=NEW, namespace="ns", limits=Limits(result=50)).code.number == 11


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"score_by": [DENSE]}, "top_k"),
        ({"score_by": [DENSE], "top_k": 10_001}, "top_k"),
        ({"top_k": 1}, "score_by"),
        ({"score_by": [DENSE], "top_k": 1, "include_fields": "vec"}, "include_fields"),
        ({"score_by": [DENSE], "top_k": 1, "filter": []}, "filter"),
    ],
)
def test_a_wrong_search_is_refused(body: dict[str, Any], words: str) -> None:
    assert words in refused(search, filled(), body, version=NEW, namespace="ns").message


def test_a_fetch_shows_all_fields_unless_some_are_named() -> None:
    body = {"ids": ["b", "none", "a"]}
    assert said(fetch, filled(), body, namespace="ns") == {
        "documents": {"b": DOCUMENTS[1], "a": DOCUMENTS[0]},
        "namespace": "ns",
        "usage": {"read_units": 1},
    }
    some = said(fetch, filled(), {**body, "include_fields": ["year"]}, namespace="ns")["documents"]
    assert some == {"b": {"_id": "b"}, "a": {"_id": "a", "year": 2019}}


def test_a_fetch_by_filter_goes_page_by_page() -> None:
    target, body = filled(), {"filter": {"body": {"$exists": True}}, "limit": 1}
    first = said(fetch, target, body, namespace="ns")
    assert list(first["documents"]) == ["a"]
    second = said(fetch, target, {**body, "pagination_token": first["pagination"]["next"]}, namespace="ns")
    assert list(second["documents"]) == ["b"]
    assert "pagination" not in second


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": ["a"], "filter": {"year": 1}}])
def test_a_fetch_is_by_ids_or_by_filter(body: dict[str, Any]) -> None:
    assert "one of ids and filter" in refused(fetch, filled(), body, namespace="ns").message


def test_ids_are_listed_in_order_page_by_page() -> None:
    target = filled()
    first = said(list_documents, target, {"limit": 2}, namespace="ns")
    assert first["documents"] == [{"_id": "a"}, {"_id": "b"}]
    token = {"pagination_token": first["pagination"]["next"]}
    assert said(list_documents, target, {"limit": 2, **token}, namespace="ns") == {
        "documents": [{"_id": "c"}],
        "namespace": "ns",
        "usage": {"read_units": 1},
    }
    assert said(list_documents, target, {"prefix": "b"}, namespace="ns")["documents"] == [{"_id": "b"}]

from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.calls import Limits
from servers.pinecone.documents import delete, update, upsert
from servers.pinecone.store import Index, Record

from support.emulated import articles, call, index, refused, said

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "a", "vec": [1, 0], "body": "red car", "n": 1},
    {"_id": "b", "summary": "cold sea", "keywords": "sea", "terms": {"indices": [3], "values": [1]}, "n": 2},
]


def filled() -> Index:
    target = articles()
    call(upsert, target, {"documents": DOCUMENTS}, namespace="ns")
    return target


def record(target: Index, name: str) -> Record:
    return target.namespaces["ns"].records[name]


def test_a_document_is_sorted_into_vectors_and_the_rest() -> None:
    answer = call(upsert, articles(), {"documents": DOCUMENTS}, namespace="ns")
    assert (answer.status, answer.body) == (202, b'{"upserted_count":2,"usage":{"embed_total_tokens":3}}')
    assert answer.headers == {"x-pinecone-request-lsn": "1"}
    target = filled()
    assert record(target, "a").metadata == {"body": "red car", "n": 1}
    assert set(record(target, "a").dense) == {"vec"}
    assert set(record(target, "b").dense) == {"summary"}
    assert set(record(target, "b").sparse) == {"terms", "keywords"}
    assert record(target, "b").metadata["summary"] == "cold sea"


def test_documents_of_a_plain_index_carry_the_reserved_names() -> None:
    target = index()
    assert said(upsert, target, {"documents": [{"_id": "a", "_values": [1, 2]}]}, namespace="ns") == {
        "upserted_count": 1
    }
    assert record(target, "a").dense["_values"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"vec": [1, 0]}, "_id"),
        ({"_id": "x", "vec": [1]}, "Vector dimension 1"),
        ({"_id": "x", "vec": "1"}, "vec"),
        ({"_id": "x", "terms": [1]}, "terms"),
        ({"_id": "x", "other": {"deep": 1}}, "Metadata value"),
        ("x", "documents"),
    ],
)
def test_one_wrong_document_refuses_all(document: Any, words: str) -> None:
    target = articles()
    assert words in refused(upsert, target, {"documents": [DOCUMENTS[0], document]}, namespace="ns").message
    assert target.namespaces == {}


def test_an_upsert_has_its_limits() -> None:
    assert "1 to 1000" in refused(upsert, articles(), {"documents": []}, namespace="ns").message
    assert (
        refused(upsert, articles(), {"documents": DOCUMENTS}, namespace="ns", limits=Limits(upsert=9)).code.number == 11
    )


def test_a_patch_changes_what_it_names_and_null_takes_away() -> None:
    target = filled()
    patch = {"_id": "a", "vec": [0, 1], "n": None, "year": 2020}
    assert said(update, target, {"documents": [patch, {"_id": "zz", "n": 1}]}, namespace="ns") == {}
    assert record(target, "a").dense["vec"].tolist() == [0, 1]
    assert record(target, "a").metadata == {"body": "red car", "year": 2020}
    assert "zz" not in target.namespaces["ns"].records


def test_an_update_by_filter_counts_what_it_changed() -> None:
    target = filled()
    body = {"filter": {"n": {"$gte": 1}}, "set_fields": {"summary": "new text"}, "remove_fields": ["body", "keywords"]}
    assert said(update, target, body, namespace="ns") == {"matched_records": 2}
    assert record(target, "a").metadata == {"n": 1, "summary": "new text"}
    assert "summary" in record(target, "a").dense
    assert set(record(target, "b").sparse) == {"terms"}


@pytest.mark.parametrize(
    ("body", "answer", "left"),
    [
        ({"ids": ["a", "zz"]}, {}, ["b"]),
        ({"delete_all": True}, {}, []),
        ({"filter": {"n": 2}}, {"matched_records": 1}, ["a"]),
    ],
)
def test_a_delete_forgets_what_it_names(body: dict[str, Any], answer: dict[str, int], left: list[str]) -> None:
    target = filled()
    assert said(delete, target, body, namespace="ns") == answer
    assert list(target.namespaces["ns"].records) == left


def test_a_delete_is_accepted_and_not_yet_done() -> None:
    """202, as the public description has it."""
    assert call(delete, filled(), {"ids": ["a"]}, namespace="ns").status == 202


@pytest.mark.parametrize("body", [{}, {"ids": ["a"], "delete_all": True}, {"ids": ["a"], "filter": {"n": 1}}])
def test_a_delete_names_exactly_one_thing(body: dict[str, Any]) -> None:
    assert "exactly one" in refused(delete, filled(), body, namespace="ns").message


def test_a_namespace_that_is_not_there_has_nothing_to_change() -> None:
    assert said(delete, articles(), {"delete_all": True}, namespace="ns") == {}
    assert said(update, articles(), {"filter": {"n": 1}, "set_fields": {"n": 2}}, namespace="ns") == {
        "matched_records": 0
    }

from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone import documents
from servers.pinecone.documents import scored, tokens_of
from servers.pinecone.errors import RefusalError

from support.emulated import articles, call

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "car", "vec": [1, 0], "body": "red car", "summary": "a red car", "keywords": "car red"},
    {"_id": "boat", "vec": [0, 1], "body": "red boat on the sea", "terms": {"indices": [7], "values": [2]}},
    {"_id": "sea", "body": "the sea", "keywords": "sea"},
]


def ranking(*score_by: Any, passing: Any = None) -> list[str]:
    target = articles()
    call(documents.upsert, target, {"documents": DOCUMENTS}, namespace="ns")
    found = scored(target.namespaces["ns"], target.description, list(score_by), passing or (lambda _: True))
    return [one.record.id for one in found]


@pytest.mark.parametrize(
    ("clauses", "order"),
    [
        ([{"type": "dense_vector", "field": "vec", "values": [0, 1]}], ["boat", "car"]),
        ([{"type": "dense_vector", "fields": ["vec"], "values": [1, 0]}], ["car", "boat"]),
        ([{"type": "sparse_vector", "field": "terms", "sparse_values": {"indices": [7], "values": [1]}}], ["boat"]),
        ([{"type": "embed", "field": "summary", "query": "red"}], ["car"]),
        ([{"type": "sparse_embed", "field": "keywords", "query": "sea"}], ["sea", "car"]),
        ([{"type": "sparse_embed", "field": "keywords", "query": "..."}], []),
        ([{"type": "text", "fields": ["body"], "query": "red sea"}], ["boat", "car", "sea"]),
        ([{"type": "text", "field": "body", "query": "nothing"}], []),
        ([{"type": "query_string", "query": "body:(sea)"}], ["boat", "sea"]),
        ([{"type": "query_string", "query": "car"}], ["car"]),
        (
            [{"type": "text", "field": "body", "query": "red"}, {"type": "query_string", "query": "car"}],
            ["car", "boat"],
        ),
    ],
)
def test_each_clause_ranks_by_its_field(clauses: list[Any], order: list[str]) -> None:
    assert ranking(*clauses) == order


def test_only_passing_documents_are_found() -> None:
    clause = {"type": "text", "field": "body", "query": "red sea"}
    assert ranking(clause, passing=lambda one: one.id == "sea") == ["sea"]


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ([], "1 to 100 clauses"),
        ([{"type": "text", "field": "body", "query": "x"}] * 101, "1 to 100 clauses"),
        ([{"type": "magic"}], "the type is one of"),
        (["text"], "expected an object"),
        ([{"type": "text", "field": "body"}], "a text is wanted"),
        ([{"type": "text", "query": "x"}], "one of field and fields"),
        ([{"type": "text", "field": "body", "fields": ["body"], "query": "x"}], "one of field and fields"),
        ([{"type": "text", "field": "vec", "query": "x"}], "has no full-text search"),
        ([{"type": "query_string", "field": "body", "query": "x"}], "names its fields in the string"),
        ([{"type": "dense_vector", "field": "body", "values": [1, 0]}], "no field of dense vectors"),
        ([{"type": "dense_vector", "fields": ["vec", "x"], "values": [1, 0]}], "exactly one field"),
        ([{"type": "dense_vector", "field": "vec", "values": [1]}], "Vector dimension 1"),
        ([{"type": "dense_vector", "field": "vec"}], "list of numbers"),
        ([{"type": "sparse_vector", "field": "vec"}], "no field of sparse vectors"),
        ([{"type": "embed", "field": "summary", "query": "x"}] * 2, "must stand alone"),
        (
            [{"type": "embed", "field": "summary", "query": "x"}, {"type": "text", "field": "body", "query": "x"}],
            "must stand alone",
        ),
    ],
)
def test_clauses_that_mean_nothing_are_refused(clauses: list[Any], words: str) -> None:
    with pytest.raises(RefusalError, match=words):
        ranking(*clauses)


def test_only_clauses_that_embed_cost_tokens() -> None:
    assert tokens_of([{"type": "embed", "field": "summary", "query": "two words"}]) == 2
    assert tokens_of([{"type": "text", "field": "body", "query": "two words"}]) == 0

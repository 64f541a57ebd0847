from __future__ import annotations

from typing import Any

import orjson
import pytest
from servers.pinecone import vectors
from servers.pinecone.calls import Limits
from servers.pinecone.ranking import embed_dense
from servers.pinecone.records import search, upsert
from servers.pinecone.store import Index

from support.emulated import SPARSE_EMBED, call, index, integrated, refused, said

RECORDS: list[dict[str, Any]] = [
    {"_id": "1", "text": "red car", "kind": "road"},
    {"id": "2", "text": "red boat", "kind": "sea"},
    {"_id": "3", "text": "cold sea water", "kind": "sea", "title": "Sea"},
]
RERANK = {"model": "bge-reranker-v2-m3", "rank_fields": ["text"]}


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"\n".join(map(orjson.dumps, records))


def filled(embed: dict[str, Any] | None = None) -> Index:
    target = integrated() if embed is None else integrated(embed)
    call(upsert, target, lines(RECORDS) + b"\n\n", namespace="ns")
    return target


def hits(target: Index, query: dict[str, Any], **body: Any) -> list[dict[str, Any]]:
    found = said(search, target, {"query": query, **body}, namespace="ns")
    listed: list[dict[str, Any]] = found["result"]["hits"]
    return listed


def test_an_upsert_is_answered_with_nothing() -> None:
    target = integrated()
    answer = call(upsert, target, lines(RECORDS), namespace="ns")
    assert (answer.status, answer.body) == (201, b"")
    assert answer.headers == {"x-pinecone-request-lsn": "1"}
    record = target.namespaces["ns"].records["2"]
    assert record.metadata == {"text": "red boat", "kind": "sea"}
    assert record.dense["_values"].tolist() == embed_dense("red boat", 64).tolist()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "1 to 96 records"),
        (lines([RECORDS[0]] * 97), "got 97"),
        (lines([RECORDS[0], {"_id": "x"}]), "record 2: the field 'text'"),
        (lines([{"text": "x"}]), "record 1: _id"),
        (b"{", "record 1: invalid JSON"),
        (b"[]", "record 1: expected an object"),
        (lines([{"_id": "x", "text": "y", "deep": {"a": 1}}]), "Metadata value must be"),
    ],
)
def test_a_wrong_upsert_is_refused_whole(body: bytes, words: str) -> None:
    target = integrated()
    assert words in refused(upsert, target, body, namespace="ns").message
    assert target.namespaces == {}


def test_an_upsert_has_the_limit_of_vectors() -> None:
    assert refused(upsert, integrated(), lines(RECORDS), limits=Limits(upsert=10), namespace="ns").code.number == 11


def test_the_answer_has_the_shape_and_the_order_of_the_description() -> None:
    answer = call(search, filled(), {"query": {"top_k": 1, "inputs": {"text": "red car"}}}, namespace="ns")
    assert answer.body == (
        b'{"result":{"hits":[{"_id":"1","_score":1.0,"fields":{"text":"red car","kind":"road"}}]},'
        b'"usage":{"read_units":1,"embed_total_tokens":2}}'
    )
    assert answer.headers == {"x-pinecone-max-indexed-lsn": "1"}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        (None, {"text": "cold sea water", "kind": "sea", "title": "Sea"}),
        (["*"], {"text": "cold sea water", "kind": "sea", "title": "Sea"}),
        (["title", "none"], {"title": "Sea"}),
        ([], {}),
    ],
)
def test_fields_are_all_unless_named(fields: list[str] | None, shown: dict[str, str]) -> None:
    assert hits(filled(), {"top_k": 1, "inputs": {"text": "cold sea"}}, fields=fields)[0]["fields"] == shown


def test_a_search_by_vector_or_id_embeds_nothing() -> None:
    target = filled()
    by_id = said(search, target, {"query": {"top_k": 1, "id": "2"}}, namespace="ns")
    assert by_id["result"]["hits"][0]["_id"] == "2"
    assert by_id["usage"] == {"read_units": 1}
    vector = embed_dense("red boat", 64).tolist()
    assert hits(target, {"top_k": 1, "vector": {"values": vector}})[0]["_id"] == "2"
    assert hits(target, {"top_k": 1, "id": "none"}) == []


def test_a_filter_holds() -> None:
    assert [
        hit["_id"] for hit in hits(filled(), {"top_k": 3, "inputs": {"text": "red"}, "filter": {"kind": "sea"}})
    ] == [
        "2",
        "3",
    ]


def test_a_sparse_index_searches_by_words_and_can_insist_on_them() -> None:
    target = filled(SPARSE_EMBED)
    query: dict[str, Any] = {"top_k": 3, "inputs": {"text": "red sea"}}
    assert len(hits(target, query)) == 3
    terms = {"strategy": "all", "terms": ["SEA", "cold water"]}
    assert [hit["_id"] for hit in hits(target, {**query, "match_terms": terms})] == ["3"]
    assert hits(target, {"top_k": 3, "inputs": {"text": "..."}}) == []
    vector = {"sparse_indices": [1], "sparse_values": [1.0]}
    assert [hit["_score"] for hit in hits(target, {"top_k": 3, "vector": vector})] == [0.0, 0.0, 0.0]


def test_reranking_orders_by_its_own_score_and_cuts_to_top_n() -> None:
    query = {"top_k": 3, "inputs": {"text": "water"}}
    found = said(search, filled(), {"query": query, "rerank": {**RERANK, "top_n": 2}}, namespace="ns")
    assert found["result"]["hits"][0]["_id"] == "3"
    assert len(found["result"]["hits"]) == 2
    assert found["usage"] == {"read_units": 1, "embed_total_tokens": 1, "rerank_units": 1}
    other = {**RERANK, "query": "boat"}
    assert hits(filled(), query, rerank=other)[0]["_id"] == "2"
    assert len(hits(filled(), query, rerank=other)) == 3


@pytest.mark.parametrize(
    ("query", "body", "words"),
    [
        ({"top_k": 0, "inputs": {"text": "x"}}, {}, "query.top_k"),
        ({"inputs": {"text": "x"}}, {}, "query.top_k"),
        ({"top_k": 1}, {}, "exactly one of inputs, vector and id"),
        ({"top_k": 1, "id": "1", "inputs": {"text": "x"}}, {}, "exactly one of"),
        ({"top_k": 1, "inputs": {"txt": "x"}}, {}, "a text is wanted"),
        ({"top_k": 1, "vector": {"values": [1]}}, {}, "dimension"),
        ({"top_k": 1, "vector": {"values": None}}, {}, "Missing a query vector"),
        ({"top_k": 1, "inputs": {"text": "x"}, "match_terms": {"terms": ["x"]}}, {}, "match_terms"),
        ({"top_k": 3, "inputs": {"text": "x"}}, {"rerank": {**RERANK, "rank_fields": ["title"]}}, "has no text in"),
        ({"top_k": 3, "inputs": {"text": "x"}}, {"rerank": {"model": "m"}}, "model and rank_fields"),
        ({"top_k": 3, "inputs": {"text": "x"}}, {"rerank": {"rank_fields": ["text"]}}, "model and rank_fields"),
        ({"top_k": 3, "id": "1"}, {"rerank": RERANK}, "rerank.query"),
        ({"top_k": 3, "inputs": {"text": "x"}}, {"fields": "text"}, "fields"),
        (None, {}, "query"),
    ],
)
def test_a_wrong_search_is_refused(query: Any, body: dict[str, Any], words: str) -> None:
    assert words in refused(search, filled(), {"query": query, **body}, namespace="ns").message


def test_the_reranker_takes_a_hundred_documents() -> None:
    target = integrated()
    for start in (0, 60):
        many = [{"_id": str(start + number), "text": f"word {number}"} for number in range(60)]
        call(upsert, target, lines(many), namespace="ns")
    query = {"top_k": 100, "inputs": {"text": "word"}}
    assert len(hits(target, query, rerank=RERANK)) == 100
    refusal = refused(search, target, {"query": {**query, "top_k": 101}, "rerank": RERANK}, namespace="ns")
    assert "at most 100 documents, got 101" in refusal.message


def test_an_index_that_embeds_nothing_can_be_searched_by_vector_only() -> None:
    target = index()
    call(vectors.upsert, target, {"vectors": [{"id": "a", "values": [1, 0]}], "namespace": "ns"})
    assert hits(target, {"top_k": 1, "vector": {"values": [1, 0]}}) == [{"_id": "a", "_score": 1.0, "fields": {}}]
    words = "Integrated inference is not configured"
    assert words in refused(search, target, {"query": {"top_k": 1, "inputs": {"text": "x"}}}, namespace="ns").message
    assert words in refused(upsert, target, lines(RECORDS), namespace="ns").message

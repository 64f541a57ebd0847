from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.calls import Limits
from servers.pinecone.queries import query
from servers.pinecone.store import Index
from servers.pinecone.vectors import upsert

from support.emulated import articles, call, index, refused, said

VECTOR = [1, 0]


def filled(metric: str = "cosine") -> Index:
    target = index(2, metric)
    sparse = {"sparseValues": {"indices": [3], "values": [0.5]}} if metric == "dotproduct" else {}
    vectors: list[dict[str, Any]] = [
        {"id": "a", "values": [1, 0], "metadata": {"genre": "x", "year": 2019}},
        {"id": "b", "values": [1, 1], "metadata": {"genre": "y"}, **sparse},
        {"id": "c", "values": [0, 1]},
    ]
    call(upsert, target, {"vectors": vectors, "namespace": "ns"})
    return target


def ids(body: dict[str, Any]) -> list[str]:
    return [match["id"] for match in body["matches"]]


def test_values_are_an_empty_list_and_metadata_is_absent_unless_asked_for() -> None:
    answer = call(query, filled(), {"topK": 2, "vector": VECTOR, "namespace": "ns"})
    assert answer.body == (
        b'{"results":[],"matches":[{"id":"a","score":1,"values":[]},{"id":"b","score":0.707106769,"values":[]}],'
        b'"namespace":"ns","usage":{"readUnits":1}}'
    )
    assert answer.headers == {"grpc-status": "0", "x-pinecone-max-indexed-lsn": "1"}


def test_all_that_is_asked_for_stands_in_the_order_of_the_fields() -> None:
    body = {"topK": 1, "vector": VECTOR, "namespace": "ns", "includeValues": True, "includeMetadata": True}
    assert (
        b'{"id":"a","score":1,"values":[1,0],"metadata":{"genre":"x","year":2019}}' in call(query, filled(), body).body
    )
    hybrid = {**body, "topK": 3, "sparseVector": {"indices": [3], "values": [2]}}
    assert (
        b'{"id":"b","score":2,"values":[1,1],"metadata":{"genre":"y"},"sparseValues":{"indices":[3],"values":[0.5]}}'
        in call(query, filled("dotproduct"), hybrid).body
    )


def test_a_record_without_metadata_shows_none_even_when_asked() -> None:
    body = {"topK": 3, "vector": [0, 1], "namespace": "ns", "includeMetadata": True}
    assert said(query, filled(), body)["matches"][0] == {"id": "c", "score": 1, "values": []}


def test_both_spellings_and_numbers_as_text_mean_the_same() -> None:
    camel = {"topK": 2, "vector": VECTOR, "namespace": "ns", "includeValues": True}
    snake = {"top_k": "2", "vector": ["1", 0.0], "namespace": "ns", "include_values": True}
    assert call(query, filled(), camel).body == call(query, filled(), snake).body


def test_euclidean_scores_are_squared_distances_the_lowest_first() -> None:
    found = said(query, filled("euclidean"), {"topK": 3, "vector": VECTOR, "namespace": "ns"})
    assert [(match["id"], match["score"]) for match in found["matches"]] == [("a", 0), ("b", 1), ("c", 2)]


def test_a_record_finds_itself_by_id_and_an_unknown_id_finds_nothing() -> None:
    assert ids(said(query, filled(), {"topK": 2, "id": "c", "namespace": "ns"})) == ["c", "b"]
    assert ids(said(query, filled(), {"topK": 2, "id": "zz", "namespace": "ns"})) == []


def test_an_unknown_namespace_is_empty() -> None:
    assert said(query, filled(), {"topK": 2, "vector": VECTOR}) == {
        "results": [],
        "matches": [],
        "namespace": "",
        "usage": {"readUnits": 1},
    }


def test_a_filter_is_applied_before_the_page_is_cut() -> None:
    body = {"topK": 1, "vector": VECTOR, "namespace": "ns", "filter": {"genre": "y"}}
    assert ids(said(query, filled(), body)) == ["b"]


def test_a_sparse_index_is_queried_by_a_sparse_vector() -> None:
    target = index(None)
    call(upsert, target, {"vectors": [{"id": "s", "sparse_values": {"indices": [1, 5], "values": [0.5, 0.25]}}]})
    body = {"topK": 1, "sparseVector": {"indices": [5], "values": [2]}, "includeValues": True}
    assert said(query, target, body)["matches"] == [
        {"id": "s", "score": 0.5, "values": [], "sparseValues": {"indices": [1, 5], "values": [0.5, 0.25]}}
    ]


def test_the_legacy_queries_are_answered_each_for_itself() -> None:
    queries = [{"values": VECTOR, "topK": 1}, {"values": [0, 1], "namespace": "elsewhere"}]
    found = said(query, filled(), {"topK": 2, "namespace": "ns", "queries": queries})
    assert found["matches"] == []
    assert [(ids(one), one["namespace"]) for one in found["results"]] == [(["a"], "ns"), ([], "elsewhere")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"vector": VECTOR}, "topK must be from 1 to 10000, got 0"),
        ({"topK": 10_001, "vector": VECTOR}, "topK must be from 1 to 10000"),
        ({"topK": 1}, "Missing a query vector"),
        ({"topK": 1, "vector": VECTOR, "id": "a"}, "both ID and vector"),
        ({"topK": 1, "vector": [1]}, "Vector dimension 1 does not match the dimension of the index 2"),
        ({"topK": 10, "vector": VECTOR, "maxCandidates": 9}, "maxCandidates must be from 10 to 100000, got 9"),
        ({"topK": 1, "vector": VECTOR, "scanFactor": 5}, "scanFactor"),
        ({"topK": 1, "vector": VECTOR, "scanFactor": "x"}, "scanFactor"),
        ({"topK": 1, "vector": VECTOR, "topk": 1}, "topk: Cannot find field"),
        ({"topK": 1, "vector": VECTOR, "filter": {"a": {"$x": 1}}}, "filter"),
        ({"topK": 1, "vector": VECTOR, "includeValues": "yes"}, "includeValues"),
        ({"topK": 1, "queries": 7}, "queries"),
    ],
)
def test_a_wrong_query_is_refused_even_where_there_is_nothing(body: dict[str, Any], words: str) -> None:
    refusal = refused(query, index(), body)
    assert refusal.code.status == 400
    assert words in refusal.message


@pytest.mark.parametrize(
    ("field", "value", "version"),
    [("maxCandidates", 10, "2025-04"), ("scanFactor", 1, "2025-04"), ("queries", [], "2026-07")],
)
def test_a_field_the_version_does_not_have_is_unknown(field: str, value: object, version: str) -> None:
    body = {"topK": 1, "vector": VECTOR, field: value}
    assert refused(query, filled(), body, version=version).message == f"{field}: Cannot find field."
    other = "2026-04"
    assert call(query, filled(), body, version=other).status == 200


def test_an_id_excludes_a_sparse_vector_since_2026_07() -> None:
    body = {"topK": 1, "id": "a", "namespace": "ns", "sparseVector": {"indices": [1], "values": [1]}}
    assert ids(said(query, filled("dotproduct"), body)) == ["a"]
    assert "sparse" in refused(query, filled("dotproduct"), body, version="2026-07").message


def test_an_answer_over_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    body = {"topK": 3, "vector": VECTOR, "namespace": "ns", "includeValues": True}
    size = len(call(query, filled(), body).body)
    assert call(query, filled(), body, limits=Limits(result=size)).status == 200
    refusal = refused(query, filled(), body, limits=Limits(result=size - 1))
    assert refusal.code.number == 11
    assert str(size) in refusal.message


def test_the_limit_is_four_megabytes_of_values() -> None:
    target = index(1536)
    vectors = [{"id": str(number), "values": [1 / 3 + number, *[1 / 7] * 1535]} for number in range(400)]
    for start in range(0, 400, 50):
        call(upsert, target, {"vectors": vectors[start : start + 50]})
    body = {"vector": [1] * 1536, "includeValues": True}
    assert len(said(query, target, {**body, "topK": 150})["matches"]) == 150
    assert refused(query, target, {**body, "topK": 400}).code.number == 11
    assert len(said(query, target, {**body, "topK": 400, "includeValues": False})["matches"]) == 400


def test_an_index_of_documents_has_no_query() -> None:
    assert "documents" in refused(query, articles(), {"topK": 1, "vector": VECTOR}).message

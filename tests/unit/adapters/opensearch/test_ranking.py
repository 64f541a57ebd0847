"""What a widened search raises for each kind of ranking: the ranking stays the client's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.backends.transports import REST, reason_of
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reason, SearchCall

ADAPTER = REST["opensearch"].adapter()
QUERY = [0.5, 1.0]
WHOLE, LEAN = Needs(), Needs(vectors=False)
OS_KNN = {"knn": {"v": {"vector": QUERY, "k": 10}}}
ES_KNN = {"field": "v", "query_vector": QUERY, "k": 10, "num_candidates": 30}
MATCH = {"match": {"text": "pump"}}


def parsed(body: Any, needs: Needs = WHOLE, *, parameters: str = "") -> SearchCall:
    operation = Operation(backend="opensearch", name="search", collection="docs", partition=parameters)
    return ADAPTER.parse_request(operation, json.dumps(body).encode(), needs)


def widened(body: Any, *, parameters: str = "") -> Any:
    """The widened request without vectors and fields."""
    return json.loads(ADAPTER.widen(parsed(body, LEAN, parameters=parameters), [50]))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"query": OS_KNN}, {"query": {"knn": {"v": {"vector": QUERY, "k": 50}}}, "size": 50}),
        ({"query": {"bool": {"must": OS_KNN}}}, {"query": {"bool": {"must": {"knn": {"v": {"vector": QUERY, "k": 50}}}}}, "size": 50}),
        ({"knn": ES_KNN}, {"knn": {**ES_KNN, "k": 50, "num_candidates": 50}, "size": 50}),
        ({"knn": [ES_KNN], "size": 5}, {"knn": [{**ES_KNN, "k": 50, "num_candidates": 50}], "size": 50}),
        ({"retriever": {"knn": ES_KNN}}, {"retriever": {"knn": {**ES_KNN, "k": 50, "num_candidates": 50}}, "size": 50}),
        ({"query": {"knn": {"field": "v", "query_vector": QUERY}}}, {"query": {"knn": {"field": "v", "query_vector": QUERY, "k": 50}}, "size": 50}),
        ({"query": {"neural": {"v": {"query_text": "x", "k": 100}}}}, {"query": {"neural": {"v": {"query_text": "x", "k": 100}}}, "size": 50}),
        ({"query": {"neural": {"v": {"query_text": "x"}}}}, {"query": {"neural": {"v": {"k": 50, "query_text": "x"}}}, "size": 50}),
        ({"retriever": {"standard": {"query": {"neural": {"v": {"query_text": "x"}}}}}},
         {"retriever": {"standard": {"query": {"neural": {"v": {"k": 50, "query_text": "x"}}}}}, "size": 50}),
    ],
    ids=str,
)  # fmt: skip
def test_neighbours_that_alone_order_the_results_are_raised_with_the_size(body: Any, expected: Any) -> None:
    assert widened(body) == expected


SCRIPT = {
    "script": {"source": "knn_score", "lang": "knn", "params": {"field": "v", "query_value": QUERY}},
    "query": MATCH,
}


@pytest.mark.parametrize(
    "body",
    [
        {"query": {"bool": {"should": [OS_KNN, MATCH]}}},
        {"query": {"bool": {"must": [OS_KNN], "filter": [MATCH]}}},
        {"query": {"knn": {"v": {"vector": QUERY, "k": 3}}}},
        {"query": {"knn": {"v": {"vector": QUERY, "min_score": 0.5}}}},
        {"query": {"nested": {"path": "v", "query": {"knn": {"v.w": {"vector": QUERY, "k": 10}}}}}},
        {"query": {"function_score": {"query": OS_KNN}}},
        {"query": {"dis_max": {"queries": [MATCH, OS_KNN]}}},
        {"query": {"script_score": SCRIPT}},
        {"query": {"semantic": {"field": "t", "query": "x"}}},
        {"query": {"neural_sparse": {"t": {"query_text": "x"}}}},
        {"query": OS_KNN, "aggs": {"a": {"terms": {"field": "f"}}}},
        {"query": OS_KNN, "post_filter": MATCH},
        {"knn": ES_KNN, "query": MATCH},
        {"knn": [ES_KNN, ES_KNN]},
        {"knn": {**ES_KNN, "inner_hits": {}}},
        {"retriever": {"standard": {"query": OS_KNN, "filter": MATCH}}},
        {"retriever": {"rrf": {"retrievers": [{"knn": ES_KNN}, {"standard": {"query": MATCH}}], "rank_window_size": 60}}},
        {"retriever": {"linear": {"retrievers": [{"retriever": {"knn": ES_KNN}, "weight": 2}], "rank_window_size": 60}}},
        {"retriever": {"text_similarity_reranker": {"retriever": {"standard": {"query": MATCH}}, "field": "t",
         "inference_text": "x", "rank_window_size": 60}}},
        {"knn": ES_KNN, "query": MATCH, "rank": {"rrf": {"window_size": 60}}},
    ],
    ids=str,
)  # fmt: skip
def test_beside_other_scores_and_filters_only_the_size_is_raised(body: Any) -> None:
    assert widened(body) == {**body, "size": 50}


LONG = [0.5, -1.25] * 20


@pytest.mark.parametrize("filters", [{}, {"filter": {"terms": {"n": [0]}}}])
@pytest.mark.parametrize("needs", [WHOLE, LEAN, Needs(query=False)])
def test_requests_that_differ_in_a_long_vector_are_read_once_and_each_has_its_own(filters: Any, needs: Needs) -> None:
    for factor in (1, 2, 1):
        body = {"query": {"knn": {"v": {"vector": [factor * number for number in LONG], "k": 10, **filters}}}}
        call = parsed(body, needs)
        wide = json.loads(ADAPTER.widen(call, [10]))
        assert wide["query"] == body["query"]
        assert ADAPTER.widen(call, [0]) == json.dumps(body).encode()
        assert [None if search.query is None else search.query.tolist() for search in call.searches] == [
            body["query"]["knn"]["v"]["vector"] if needs.query else None
        ]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([*LONG, "x"], Reason.AMBIGUOUS_FIELD),
        ([LONG], Reason.AMBIGUOUS_FIELD),
        ([*LONG, None], Reason.AMBIGUOUS_FIELD),
        ([1] * 70_000, Reason.TOO_MANY_PARTS),
    ],
    ids=["a word", "a list", "null", "too many"],
)
def test_a_vector_that_is_none_passes_through(vector: Any, reason: Reason) -> None:
    assert reason_of(parsed, {"query": {"knn": {"v": {"vector": vector, "k": 10}}}}) is reason


def test_a_vector_in_another_clause_is_not_the_querys() -> None:
    clause = {"knn": {"v": {"vector": LONG, "k": 10}}}
    call = parsed({"post_filter": clause, "query": OS_KNN})
    assert [search.query.tolist() for search in call.searches if search.query is not None] == [QUERY]


def test_a_count_that_follows_the_size_stays_beside_other_scores() -> None:
    """Elasticsearch finds ``size`` neighbours where none are counted."""
    knn = {"field": "v", "query_vector": QUERY}
    body = {"knn": [knn, {**knn, "k": 7}], "query": {"bool": {"should": [{"knn": knn}, MATCH]}}, "size": 8}
    pinned = {**knn, "k": 8}
    query = {"bool": {"should": [{"knn": pinned}, MATCH]}}
    assert widened(body) == {"knn": [pinned, {**knn, "k": 7}], "query": query, "size": 50}
    # Without another clause, but on a page that begins behind the neighbours.
    assert widened({"knn": knn, "size": 8, "from": 8}) == {"knn": pinned, "size": 50, "from": 0}


def test_a_hybrid_search_keeps_the_depth_of_its_lists() -> None:
    queries = [MATCH, OS_KNN]
    body = {"query": {"hybrid": {"queries": queries}}, "size": 8}
    expected = {"query": {"hybrid": {"queries": queries, "pagination_depth": 8}}, "size": 50}
    assert widened(body, parameters="search_pipeline=norm") == expected
    deep = {"query": {"hybrid": {"queries": queries, "pagination_depth": 90}}, "size": 8, "from": 8}
    assert widened(deep) == {**deep, "size": 50, "from": 0}
    # The server refuses a page without a depth: so it does here.
    assert reason_of(parsed, {**body, "from": 8}) is Reason.UNSUPPORTED_FIELD


@pytest.mark.parametrize(
    ("fusion", "most"),
    [({"rank_window_size": 60}, 60), ({}, 10), ({"window_size": 20}, 20), ({"rank_window_size": 90_000}, 10_000)],
)
def test_a_fusion_is_read_up_to_its_window(fusion: dict[str, int], most: int) -> None:
    call = parsed({"retriever": {"rrf": {"retrievers": [{"knn": ES_KNN}, {"knn": ES_KNN}], **fusion}}})
    assert [search.most for search in call.searches] == [most]


@pytest.mark.parametrize(
    ("source", "params", "field"),
    [
        ("cosineSimilarity(params.query_vector, 'v') + 1.0", {"query_vector": QUERY}, "v"),
        ('double d = dotProduct(params.q, "a.v"); return 1 + d', {"q": QUERY}, "a.v"),
        ("1.0 + cosineSimilarity(params.qv, doc['v'])", {"qv": QUERY}, "v"),
        ("1/(1 + l2norm(params.qv, 'v'))", {"qv": QUERY}, "v"),
        ("1.0 + cosineSimilarity(params.qv, doc[params.field])", {"qv": QUERY, "field": "v"}, "v"),
        ("knn_score", {"field": "v", "query_value": QUERY, "space_type": "l2"}, "v"),
    ],
)
def test_a_script_names_its_vectors(source: str, params: dict[str, Any], field: str) -> None:
    call = parsed(
        {"query": {"script_score": {"query": {"match_all": {}}, "script": {"source": source, "params": params}}}}
    )
    assert [search.query.tolist() for search in call.searches if search.query is not None] == [QUERY]
    assert json.loads(ADAPTER.widen(call, [50]))["fields"] == [field]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"query": MATCH}, Reason.NOTHING_TO_DO),
        ({}, Reason.NOTHING_TO_DO),
        ({"query": OS_KNN, "size": 0}, Reason.NOTHING_TO_DO),
        ({"query": OS_KNN, "size": 1}, Reason.SINGLE_RESULT),
        ({"query": {"bool": {"filter": [OS_KNN]}}}, Reason.NOTHING_TO_DO),
        ({"query": {"script_score": {"query": MATCH, "script": {"source": "doc['n'].value"}}}}, Reason.NOTHING_TO_DO),
        ({"query": {"script_score": {"query": MATCH, "script": {"source": "doc['n'].value", "params": {}}}}}, Reason.NOTHING_TO_DO),
        ({"retriever": {"rrf": {"retrievers": [{"standard": {"query": MATCH}}]}}}, Reason.NOTHING_TO_DO),
        ({"query": OS_KNN, "sort": ["date"]}, Reason.ORDERING_CHOSEN),
        ({"query": OS_KNN, "sort": ["_score", "date"]}, Reason.ORDERING_CHOSEN),
        ({"query": OS_KNN, "collapse": {"field": "f"}}, Reason.ORDERING_CHOSEN),
        ({"query": OS_KNN, "search_after": [1]}, Reason.ORDERING_CHOSEN),
        ({"query": OS_KNN, "rescore": {"window_size": 50}}, Reason.ORDERING_CHOSEN),
        ({"query": OS_KNN, "ext": {"mmr": {"candidates": 20}}}, Reason.ORDERING_CHOSEN),
        ({"retriever": {"diversify": {"type": "mmr"}}}, Reason.ORDERING_CHOSEN),
        ({"retriever": {"standard": {"query": OS_KNN, "sort": ["date"]}}}, Reason.ORDERING_CHOSEN),
        ({"retriever": {"pinned": {"ids": ["1"]}}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "ext": {"rerank": {}}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "pit": {"id": "x"}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "explain": True}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "profile": True}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "from_a_later_version": 1}, Reason.UNSUPPORTED_FIELD),
        ({"query": {"knn": {"v": {"vector": QUERY, "k": 10, "later": 1}}}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "search_pipeline": "rerank"}, Reason.UNSUPPORTED_FIELD),
        ({"query": {"hybrid": {"queries": [OS_KNN]}}, "search_pipeline": {"response_processors": []}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "knn": ES_KNN, "retriever": {"knn": ES_KNN}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "size": None}, Reason.AMBIGUOUS_FIELD),
        ({"knn": {**ES_KNN, "num_candidates": 9}}, Reason.AMBIGUOUS_FIELD),
        ({"retriever": {"knn": {"field": "v", "query_vector": QUERY, "num_candidates": 50}}}, Reason.AMBIGUOUS_FIELD),
        ({"query": {"bool": {"must": [{"semantic": {"field": "t", "query": "x"}}, MATCH]}}}, Reason.UNSUPPORTED_FIELD),
        ({"query": OS_KNN, "size": "5"}, Reason.AMBIGUOUS_FIELD),
        ({"query": {**OS_KNN, **MATCH}}, Reason.AMBIGUOUS_FIELD),
        ([], Reason.NOT_JSON),
    ],
    ids=str,
)  # fmt: skip
def test_what_passes_through_says_why(body: Any, reason: Reason) -> None:
    assert reason_of(parsed, body) is reason


@pytest.mark.parametrize("member", ["explain", "profile"])
def test_a_switch_that_is_off_changes_nothing(member: str) -> None:
    assert widened({"query": OS_KNN, member: False, "sort": [{"_score": "desc"}]})["size"] == 50


def test_a_pipeline_of_the_query_string_is_for_hybrid_searches_alone() -> None:
    assert reason_of(parsed, {"query": OS_KNN}, parameters="search_pipeline=p") is Reason.UNSUPPORTED_FIELD


def test_clauses_nested_deeper_than_the_bound_pass_through() -> None:
    body: dict[str, Any] = OS_KNN
    for _ in range(4):
        body = {"bool": {"must": [body]}}
    bounds = Bounds(searches=9, parts=9999, nesting=4)
    assert reason_of(parsed, {"query": body}, Needs(bounds=bounds)) is Reason.TOO_DEEP

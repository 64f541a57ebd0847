"""A hybrid search over REST: what it asks for, its parts as searches, and their replies made one, as the handlers' source describes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of, reason_of
from vecsieve.adapters.contract import (
    Bounds,
    MalformedReplyError,
    Needs,
    Reason,
    Reply,
    RequestHead,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.fusions import Divided, Fusion, Method, Undivided, UndividedError
from vecsieve.adapters.milvus.rest import MilvusRest, written
from vecsieve.adapters.milvus.search import Schema

ADAPTER = MilvusRest()
SCHEMA = Schema(
    vectors=frozenset({"vec", "other"}),
    scalars=frozenset({"id", "text"}),
    primary="id",
    metrics=frozenset({("vec", "COSINE"), ("other", "IP")}),
)
HYBRID, ADVANCED = "/v2/vectordb/entities/hybrid_search", "/v2/vectordb/entities/advanced_search"
QUERY = [0.5, 1, -2]
RRF = {"strategy": "rrf", "params": {"k": 60}}
WEIGHTED = {"strategy": "weighted", "params": {"weights": [0.25, 0.75], "norm_score": True}}


def hybrid(**members: Any) -> dict[str, Any]:
    parts = [
        {"data": [QUERY], "annsField": "vec", "limit": 10, "filter": "page > 1", "params": {"nprobe": 8}},
        {"data": [QUERY], "annsField": "other", "limit": 20, "metricType": "IP", "exprParams": {"é": [1]}},
    ]
    settings = {"dbName": "own", "collectionName": "docs", "search": parts, "rerank": RRF, "limit": 5}
    return {**settings, "outputFields": ["text"], "consistencyLevel": "Strong", **members}


def read(content: object, needs: Needs | None = None, path: str = HYBRID) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=path))
    return ADAPTER.parse_request(
        operation, json.dumps(content).encode(), Needs(known=SCHEMA) if needs is None else needs
    )


def divide(content: object, needs: Needs | None = None, path: str = HYBRID) -> Divided:
    call = read(content, needs, path)
    result = ADAPTER.divided(call, ADAPTER.widen(call, [50]))
    assert result is not None
    return result


def undivided(content: object, needs: Needs | None = None) -> Undivided:
    with pytest.raises(UndividedError) as verdict:
        divide(content, needs)
    return verdict.value.reason


def test_a_hybrid_search_is_widened_by_the_limit_of_the_fused_list() -> None:
    call = read(hybrid())
    (search,) = call.searches
    assert (search.top_k, search.offset, search.pages, search.query) == (5, 0, False, None)
    assert json.loads(ADAPTER.widen(call, [50])) == hybrid(limit=50, outputFields=["text", "vec"])
    assert json.loads(ADAPTER.widen(call, [0])) == hybrid()


def test_points_of_two_collections_are_not_taken_for_each_other() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"collectionName": "other"},
        {"dbName": "docs"},
        {"partitionNames": ["docs"]},
    ]
    assert len({read({**hybrid(), **change}).searches[0].partition for change in changes}) == len(changes)


@pytest.mark.parametrize(("path", "action"), [(HYBRID, "hybrid_search"), (ADVANCED, "advanced_search")])
def test_each_part_becomes_a_search_beside_its_path(path: str, action: str) -> None:
    divided = divide(hybrid(), path=path)
    assert divided.ending.of(path) == "/v2/vectordb/entities/search"
    assert divided.ending.old == action
    assert divided.fusion == Fusion(method=Method.RRF, limit=50, k=61, is_by_id=True)
    shared = {"dbName": "own", "collectionName": "docs", "outputFields": ["text", "vec"], "consistencyLevel": "Strong"}
    assert [json.loads(part.body) for part in divided.parts] == [
        {
            **shared,
            "data": [QUERY],
            "annsField": "vec",
            "limit": 10,
            "filter": "page > 1",
            "searchParams": {"nprobe": 8},
        },
        {**shared, "data": [QUERY], "annsField": "other", "limit": 20, "exprParams": {"é": [1]}},
    ]


def test_a_list_knows_its_query_where_it_is_of_the_compared_vector() -> None:
    first, second = [part.call.searches[0] for part in divide(hybrid()).parts]
    assert first.query is not None
    assert first.query.tolist() == QUERY
    assert (second.query, first.top_k, second.top_k) == (None, 10, 20)


def test_a_weighted_sum_is_of_the_metrics_that_the_description_names() -> None:
    fusion = divide(hybrid(rerank=WEIGHTED)).fusion
    assert (fusion.method, fusion.weights, fusion.metrics, fusion.is_normed) == (
        Method.WEIGHTED, (0.25, 0.75), ("COSINE", "IP"), True,
    )  # fmt: skip
    unknown = Needs(known=replace(SCHEMA, metrics=frozenset({("vec", "COSINE")})))
    content = hybrid(rerank=WEIGHTED)
    del content["search"][1]["metricType"]
    assert undivided(content, unknown) is Undivided.INEXACT


def part(**members: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["search"][0].update(members)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda requests: requests.update(offset=3), Reason.UNSUPPORTED_FIELD),
        (lambda requests: requests.update(groupingField="text"), Reason.ORDERING_CHOSEN),
        (lambda requests: requests.update(groupSize=3), Reason.ORDERING_CHOSEN),
        (lambda requests: requests.update(strictGroupSize=True), Reason.ORDERING_CHOSEN),
        (lambda requests: requests.update(functionScore={"functions": []}), Reason.ORDERING_CHOSEN),
        (lambda requests: requests.update(searchAggregation={}), Reason.UNSUPPORTED_FIELD),
        (lambda requests: requests.update(limit=1), Reason.SINGLE_RESULT),
        (lambda requests: requests.update(limit="5"), Reason.AMBIGUOUS_FIELD),
        (lambda requests: requests.update(search={}), Reason.AMBIGUOUS_FIELD),
        (lambda requests: requests.update(search=[]), Reason.NOTHING_TO_DO),
        (lambda requests: requests.update(search=[3]), Reason.UNSUPPORTED_FIELD),
        (lambda requests: requests.update(outputFields=None), Reason.PAYLOAD_SELECTOR),
        (part(data=[QUERY, QUERY]), Reason.UNSUPPORTED_FIELD),
        (part(data=QUERY), Reason.UNSUPPORTED_FIELD),
        (part(groupingField="text"), Reason.ORDERING_CHOSEN),
        (part(limit=None), Reason.AMBIGUOUS_FIELD),
        (part(params={"radius": 0.5}), Reason.UNSUPPORTED_FIELD),
        (part(params={"params": {"range_filter": 0.5}}), Reason.UNSUPPORTED_FIELD),
        (part(params={"group_by_field": "text"}), Reason.ORDERING_CHOSEN),
        (part(params={"params": {"group_by_field": "text"}}), Reason.ORDERING_CHOSEN),
        (part(ids=[1]), Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_leaves_a_hybrid_search_alone(change: Callable[[dict[str, Any]], None], reason: Reason) -> None:
    content = hybrid()
    change(content)
    assert reason_of(read, content) is reason


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (part(offset=2), Undivided.MEMBER),
        (part(metricType="L2"), Undivided.MEMBER),
        (lambda requests: requests.pop("rerank"), Undivided.MEMBER),
        (lambda requests: requests.update(rerank={}), Undivided.MEMBER),
        (lambda requests: requests.update(rerank={"strategy": "model"}), Undivided.MEMBER),
        (lambda requests: requests.update(rerank={**RRF, "more": 1}), Undivided.MEMBER),
        (lambda requests: requests.update(rerank={"strategy": "rrf", "params": {"k": 60.5}}), Undivided.INEXACT),
        (
            lambda requests: requests.update(rerank={"strategy": "weighted", "params": {"weights": [1, 1]}}),
            Undivided.MEMBER,
        ),
    ],
)
def test_what_the_searches_could_not_answer_exactly_is_not_divided(
    change: Callable[[dict[str, Any]], None], expected: Undivided
) -> None:
    content = hybrid()
    change(content)
    assert undivided(content) is expected


def test_more_parts_than_searches_of_one_request_and_rows_without_known_ids_are_not_divided() -> None:
    few = Needs(known=SCHEMA, bounds=Bounds(searches=1, parts=10_000, nesting=3))
    assert undivided(hybrid(), few) is Undivided.MANY
    assert undivided(hybrid(), Needs(known=replace(SCHEMA, primary=""))) is Undivided.INEXACT
    assert undivided(hybrid(), Needs()) is Undivided.INEXACT


def test_a_search_is_no_fusion() -> None:
    content = {"collectionName": "docs", "data": [QUERY], "annsField": "vec", "limit": 3, "outputFields": ["text"]}
    call = read(content, path="/v2/vectordb/entities/search")
    assert ADAPTER.divided(call, ADAPTER.widen(call, [50])) is None


# Replies.


def reply(rows: list[int], *, score: float = 1.0, **members: Any) -> bytes:
    """As the server writes it: ids as texts."""
    data = [
        {"distance": score - place / 16, "id": f"{row}", "text": f"é \ud83d {row}", "vec": [row, 1, 0.5]}
        for place, row in enumerate(rows)
    ]
    counts = {"topks": [len(rows)]} if rows else {}
    return json.dumps({"code": 0, "cost": 3, "data": data, **counts, **members}, separators=(",", ":")).encode()


def replies(divided: Divided, *bodies: bytes) -> list[Reply]:
    return [ADAPTER.parse_reply(part.call, body) for part, body in zip(divided.parts, bodies, strict=True)]


def test_ids_of_a_list_are_numbers_and_scores_the_float32_that_the_server_has() -> None:
    divided = divide(hybrid())
    first, _ = replies(divided, reply([10, 9], score=0.1), reply([]))
    assert first.pools[0].ids == (b"10", b"9")
    assert first.pools[0].scores[0] == float(np.float32(0.1)) != 0.1
    whole = ADAPTER.parse_reply(read(hybrid()), reply([10, 9], score=0.1)).pools[0]
    assert whole.ids == (b'"10"', b'"9"'), "what a client is told stays as the server writes it"
    assert whole.scores[0] == 0.1


def test_ids_that_are_texts_stay_texts() -> None:
    known = Needs(known=replace(SCHEMA, has_texts=True))
    first, _ = replies(divide(hybrid(), known), reply([10]), reply([]))
    assert first.pools[0].ids == (b'"10"',)


def test_the_reply_is_the_rows_in_their_own_bytes_with_the_fused_scores() -> None:
    divided = divide(hybrid())
    lists = replies(divided, reply([7, 8, 9], recalls=[1.0]), reply([5, 7]))
    ranked = [(0, 0, np.float32(1 / 61)), (1, 0, np.float32(0.5)), (0, 2, np.float32(1e-7))]
    made = ADAPTER.fused(divided, lists, ranked)
    content = json.loads(made)
    assert {name: content[name] for name in content if name != "data"} == {"code": 0, "cost": 6, "topks": [3]}
    assert [row["id"] for row in content["data"]] == ["7", "5", "9"]
    assert [np.float32(row["distance"]) for row in content["data"]] == [score for _, _, score in ranked]
    assert b'"distance":0.016393442,"id":"7"' in made
    assert b'"distance":1e-7,"id":"9"' in made
    assert [row["vec"] for row in content["data"]] == [[7, 1, 0.5], [5, 1, 0.5], [9, 1, 0.5]]
    answer = ADAPTER.parse_reply(read(hybrid()), made)
    assert answer.pools[0].size == 3
    page = json.loads(ADAPTER.trim(read(hybrid()), answer, [np.array([0, 2], np.intp)]))
    assert (page["topks"], [row["id"] for row in page["data"]]) == ([2], ["7", "9"])
    assert "vec" not in page["data"][0]


def test_lists_without_rows_make_the_servers_own_reply_of_none() -> None:
    divided = divide(hybrid())
    assert ADAPTER.fused(divided, replies(divided, reply([]), reply([])), []) == reply([])


def test_costs_that_are_no_numbers_stay() -> None:
    divided = divide(hybrid())
    lists = replies(divided, reply([7], cost=None), reply([8]))
    assert json.loads(ADAPTER.fused(divided, lists, [(0, 0, np.float32(1))]))["cost"] is None


@given(
    rows=st.tuples(*[st.lists(st.integers(-9, 99), max_size=6, unique=True)] * 2),
    data=st.data(),
)
def test_a_fused_reply_is_read_as_any_other(rows: tuple[list[int], list[int]], data: st.DataObject) -> None:
    """Invariant: every row is one of a list's, and its score the fused one."""
    divided = divide(hybrid())
    lists = replies(divided, *map(reply, rows))
    places = [(index, row) for index, page in enumerate(rows) for row in range(len(page))]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    scores = [np.float32(data.draw(st.floats(-2, 2, width=32))) for _ in chosen]
    ranked = [(*place, score) for place, score in zip(chosen, scores, strict=True)]
    made = ADAPTER.parse_reply(read(hybrid()), ADAPTER.fused(divided, lists, ranked)) if chosen else None
    if made is not None:
        assert [json.loads(key) for key in made.pools[0].ids] == [str(rows[index][row]) for index, row in chosen]
        assert made.pools[0].scores.astype(np.float32).tolist() == [float(score) for score in scores]


@given(st.binary(max_size=300) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*hybrid(), "data", "params", "k"]), inner),
).map(lambda value: json.dumps(hybrid(**value) if isinstance(value, dict) else value).encode()))  # fmt: skip
def test_any_body_is_read_or_left_alone(body: bytes) -> None:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=HYBRID))
    try:
        call = ADAPTER.parse_request(operation, body, Needs(known=SCHEMA))
        ADAPTER.divided(call, ADAPTER.widen(call, [50]))
    except (UnsupportedError, UndividedError):
        return


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_score_is_written_with_as_few_digits_as_tell_it(score: float) -> None:
    single = np.float32(score)
    text = written(single)
    assert np.float32(json.loads(text)) == single
    assert b"e" not in text or not 1e-6 <= abs(single) < 1e21


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (1, b"1"),
        (0, b"0"),
        (0.5, b"0.5"),
        (1e-6, b"0.000001"),
        (9e-7, b"9e-7"),
        (1e21, b"1e+21"),
        (-2.5e-9, b"-2.5e-9"),
    ],
)
def test_scores_look_as_servers_write_them(score: float, text: bytes) -> None:
    assert written(np.float32(score)) == text


def test_a_score_that_is_no_number_makes_no_reply() -> None:
    with pytest.raises(MalformedReplyError):
        written(np.float32(np.nan))

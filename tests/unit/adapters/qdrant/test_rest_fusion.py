"""A fusion over REST divided into a batch, and its reply fused again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from vecsieve.adapters.contract import Bounds, Needs, Operation
from vecsieve.adapters.fusions import Divided, Ending, Method, Undivided, UndividedError
from vecsieve.adapters.qdrant.rest import QdrantRest

ADAPTER = QdrantRest()
QUERY = Operation(backend="qdrant", name="query", collection="c")
RRF: dict[str, Any] = {"fusion": "rrf"}
FIRST = {"query": [0.25, 1e-7], "using": "a", "limit": 3}
SECOND = {"query": {"nearest": {"indices": [1], "values": [2.0]}}, "using": "s"}
MUST = {"must": [{"key": "k", "match": {"value": 1}}]}


def divide(body: dict[str, Any], **needs: Any) -> Divided | None:
    """The batch of a body, widened to 50 candidates."""
    call = ADAPTER.parse_request(QUERY, json.dumps(body).encode(), Needs(**needs))
    return ADAPTER.divided(call, ADAPTER.widen(call, [50]))


def items(body: dict[str, Any], **needs: Any) -> list[dict[str, Any]]:
    divided = divide(body, **needs)
    assert divided is not None
    searches: list[dict[str, Any]] = json.loads(divided.parts[0].body)["searches"]
    return searches


def reason(body: dict[str, Any], **needs: Any) -> Undivided:
    with pytest.raises(UndividedError) as refused:
        divide(body, **needs)
    return refused.value.reason


def fusion(**members: Any) -> dict[str, Any]:
    return {"prefetch": [FIRST, SECOND], "query": RRF, **members}


def test_each_prefetch_becomes_a_search_with_the_selectors_of_the_widened_root() -> None:
    searches = items(fusion(with_payload=["t"], shard_key="k", limit=7))
    added = {"with_payload": ["t"], "shard_key": "k", "with_vector": ["a"]}
    assert searches == [{**FIRST, **added}, {**SECOND, **added}]


def test_the_fusion_is_read_with_the_widened_limit() -> None:
    divided = divide(fusion(query={"rrf": {"k": 9, "weights": [2, 0.5]}}, score_threshold=0.25))
    assert divided is not None
    assert divided.ending == Ending(new="/batch")
    result = divided.fusion
    assert (result.method, result.k, result.weights, result.threshold, result.limit) == (
        Method.RRF,
        9,
        (2.0, 0.5),
        0.25,
        50,
    )


def test_the_roots_filter_holds_for_each_search() -> None:
    other = {"must_not": MUST["must"]}
    searches = items(fusion(prefetch=[FIRST, {**SECOND, "filter": None}, {**FIRST, "filter": other}], filter=MUST))
    assert [search["filter"] for search in searches] == [MUST, MUST, {"must": [MUST, other]}]


def test_a_list_knows_its_query_where_it_is_of_the_compared_vector() -> None:
    divided = divide(fusion(prefetch=[FIRST, {**FIRST, "using": "b"}, SECOND]))
    assert divided is not None
    queries = [search.query for search in divided.parts[0].call.searches]
    assert queries[0] is not None
    assert queries[0].tolist() == np.array(FIRST["query"], np.float32).tolist()
    assert queries[1:] == [None, None]
    assert [search.top_k for search in divided.parts[0].call.searches] == [3, 3, 10]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (fusion(prefetch=[FIRST, {**FIRST, "prefetch": [SECOND]}]), Undivided.NESTED),
        (fusion(query={"formula": {"sum": ["$score"]}}), Undivided.FORMULA),
        (fusion(prefetch=[FIRST, {"query": 7}]), Undivided.POINTS),
        (fusion(prefetch=[FIRST, {"query": {"nearest": "0b2f"}}]), Undivided.POINTS),
        (fusion(prefetch=[FIRST, {"query": {"recommend": {"positive": [[1.0]]}}}]), Undivided.POINTS),
        (fusion(prefetch=[FIRST, {"limit": 4}]), Undivided.UNRANKED),
        (fusion(prefetch=[FIRST, {"query": {"order_by": "k"}}]), Undivided.UNRANKED),
        (fusion(prefetch=[FIRST, {"query": {"sample": "random"}}]), Undivided.UNRANKED),
        (fusion(prefetch=[]), Undivided.MEMBER),
        (fusion(params={}), Undivided.MEMBER),
        (fusion(using="a"), Undivided.MEMBER),
        (fusion(lookup_from={"collection": "d"}), Undivided.MEMBER),
        (fusion(top=3), Undivided.MEMBER),
        (fusion(prefetch=[{**FIRST, "novel": 1}]), Undivided.MEMBER),
        (fusion(prefetch=[{**FIRST, "limit": "3"}]), Undivided.MEMBER),
        (fusion(prefetch=[{**FIRST, "filter": {"should": []}}], filter=MUST), Undivided.MEMBER),
        (fusion(prefetch=[{**FIRST, "filter": MUST}], filter={"min_should": {}}), Undivided.MEMBER),
        (fusion(score_threshold="0.5"), Undivided.MEMBER),
        (fusion(query={"fusion": "novel"}), Undivided.MEMBER),
        (fusion(query={"rrf": {"k": 0}}), Undivided.MEMBER),
        (fusion(query={"rrf": {"k": 1.5}}), Undivided.MEMBER),
        (fusion(query={"rrf": {"novel": 1}}), Undivided.MEMBER),
        (fusion(query={"rrf": {"weights": [1.0]}}), Undivided.MEMBER),
        (fusion(query={"rrf": {"weights": [1.0, -1.0]}}), Undivided.MEMBER),
    ],
)
def test_what_the_batch_could_not_answer_exactly_is_not_divided(body: dict[str, Any], expected: Undivided) -> None:
    assert reason(body) is expected


def test_more_lists_than_searches_of_one_request_are_not_divided() -> None:
    bounds = Bounds(searches=2, parts=10_000, nesting=8)
    assert reason(fusion(prefetch=[FIRST] * 3), bounds=bounds) is Undivided.MANY


@pytest.mark.parametrize("text", [{"text": "t", "model": "m"}, {"nearest": {"text": "t", "model": "m"}}])
def test_a_text_that_the_server_embeds_stands_for_no_stored_point(text: dict[str, Any]) -> None:
    assert [item["query"] for item in items(fusion(prefetch=[FIRST, {"query": text}]))] == [FIRST["query"], text]


@pytest.mark.parametrize(
    "body", [{"query": [1.0, 2.0], "limit": 4}, {"query": [1.0, 2.0], "prefetch": [FIRST]}, {"query": {"nearest": 4}}]
)
def test_a_search_that_fuses_nothing_is_no_fusion(body: dict[str, Any]) -> None:
    assert divide(body) is None


def test_a_batch_of_the_client_is_no_single_fusion() -> None:
    operation = Operation(backend="qdrant", name="query_batch", collection="c")
    call = ADAPTER.parse_request(operation, json.dumps({"searches": [fusion(), fusion()]}).encode(), Needs())
    assert ADAPTER.divided(call, ADAPTER.widen(call, [50, 50])) is None


def test_the_reply_has_the_points_bytes_with_the_fused_scores() -> None:
    divided = divide(fusion(with_payload=True))
    assert divided is not None
    body = (
        b'{"result":[{"points":[{"id":1,"version":3,"score":0.9,"payload":{"score":1.0},"vector":{"a":[1.0,2.0]}}]},'
        b'{"points":[{"id":"u","version":4,"score":7.5,"payload":{},"vector":{"a":[3.0,4.0]}}]}],"status":"ok","time":0.5}'
    )
    reply = ADAPTER.parse_reply(divided.parts[0].call, body)
    assert [pool.ids for pool in reply.pools] == [(b"1",), (b'"u"',)]
    assert [pool.vectors.tolist() for pool in reply.pools] == [[[1.0, 2.0]], [[3.0, 4.0]]]
    fused = ADAPTER.fused(divided, [reply], [(1, 0, np.float32(0.1)), (0, 0, np.float32(1) / np.float32(3))])
    assert fused == (
        b'{"result":{"points":[{"id":"u","version":4,"score":0.1,"payload":{},"vector":{"a":[3.0,4.0]}},'
        b'{"id":1,"version":3,"score":0.33333334,"payload":{"score":1.0},"vector":{"a":[1.0,2.0]}}]},"status":"ok","time":0.5}'
    )
    assert ADAPTER.fused(divided, [reply], []) == b'{"result":{"points":[]},"status":"ok","time":0.5}'

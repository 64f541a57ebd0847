"""Policy `per_retriever` over the real engine: a fusion is divided into its searches, and fused again as the engine fuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support.deploy.expositions import counts
from support.exchanges import fused_requests
from support.exchanges.fused_requests import EVERYTHING, is_one_order, request, without_page
from support.grpc.stack import Asker
from support.process import stack
from support.process.stack import Answer
from support.qdrant.embedded import start_embedded_grpc_process
from support.qdrant.grpc_searches import GrpcSearch, grpc_search, id_of, point_of
from vecsieve.adapters.fused_scores import dbsf, rrf

Json = dict[str, Any]
HEADER = "x-vecsieve-per-retriever"
DEEP = 1000
NUMBERS = [pytest.param(number, marks=[] if number < 40 else [pytest.mark.deep]) for number in range(DEEP)]


@dataclass(frozen=True, slots=True)
class World:
    """The engine, and a proxy before it, over both transports."""

    engine: str
    proxy: str
    admin: str
    engine_grpc: Asker
    proxy_grpc: Asker

    def direct(self, collection: str, body: Json) -> Answer:
        return _ask(self.engine, collection, body, {})

    def through(self, collection: str, body: Json, **headers: str) -> Answer:
        return _ask(self.proxy, collection, body, {HEADER: "on", **headers})

    def counted(self) -> dict[str, float]:
        """How often each result of a fusion was counted."""
        return counts(self.admin, "fusions_total", "result")


def _ask(url: str, collection: str, body: Json, headers: dict[str, str]) -> Answer:
    return stack.exchange(
        url, "POST", f"/collections/{collection}/points/query?timeout=20", json.dumps(body).encode(), headers
    )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        client = QdrantClient(url=url, timeout=30)
        fused_requests.load(client, "clean", copies=1)
        fused_requests.load(client, "copied", copies=fused_requests.COPIES)
        client.close()
        proxy, admin = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc))
        yield World(url, proxy, admin, opened.enter_context(Asker(rpc)), opened.enter_context(Asker(proxy)))


def points(answer: Answer) -> list[Json]:
    assert answer.status == 200, answer.body
    hits: list[Json] = json.loads(answer.body)["result"]["points"]
    return hits


def scored(answer: Answer) -> list[tuple[Any, float]]:
    return [(point["id"], point["score"]) for point in points(answer)]


@pytest.mark.parametrize("number", NUMBERS)
def test_without_copies_the_answer_is_the_engines_own_but_for_the_order_of_equal_scores(
    world: World, number: int
) -> None:
    body = request(number)
    direct, through = world.direct("clean", body), world.through("clean", body)
    everything = world.direct("clean", without_page(body))
    assert is_one_order(scored(through), scored(direct), dict(scored(everything)))
    assert {point["id"]: point for point in points(everything)} | {point["id"]: point for point in points(through)} == {
        point["id"]: point for point in points(everything)
    }, "each point as the client asked for it"
    scores = [score for _, score in scored(everything)]
    if len(set(scores)) == len(scores):
        assert through.timeless == direct.timeless


@pytest.mark.parametrize("number", NUMBERS)
def test_without_copies_the_message_is_the_engines_own_but_for_the_order_of_equal_scores(
    world: World, number: int
) -> None:
    def call_for(body: Json) -> GrpcSearch:
        return grpc_search("query", "clean", (body,), is_batch=False)

    def pairs(raw: list[bytes]) -> list[tuple[Any, float]]:
        return [(id_of(result), point_of(result).score) for result in raw]

    body = request(number)
    call, whole = call_for(body), call_for(without_page(body))
    direct, through = world.engine_grpc.ask(call), world.proxy_grpc.ask(call, metadata=((HEADER, "on"),))
    assert through.code is direct.code is grpc.StatusCode.OK
    everything = whole.results(world.engine_grpc.ask(whole).messages[0])[0]
    results, original = (call.results(seen.messages[0])[0] for seen in (through, direct))
    assert is_one_order(pairs(results), pairs(original), dict(pairs(everything)))
    assert sorted(map(id_of, everything)) == sorted({id_of(result) for result in (*results, *everything)})
    assert {len(result) for result in results} <= {len(result) for result in everything}
    scores = [score for _, score in pairs(everything)]
    if len(set(scores)) == len(scores):
        assert through.messages == direct.messages


def test_nearly_all_of_those_requests_were_divided(world: World) -> None:
    before = world.counted()
    for number in range(40):
        world.through("clean", request(number))
    after = world.counted()
    assert after["divided"] - before["divided"] >= 36
    assert after["member"] - before["member"] <= 4, "those with two filters of which one is an alternative"


@pytest.mark.parametrize("number", range(12))
def test_local_mode_is_a_second_witness(number: int) -> None:
    client = QdrantClient(":memory:")
    fused_requests.load(client, "clean", copies=1)
    rng = np.random.default_rng(number)
    text, image = (rng.normal(size=size).tolist() for size in fused_requests.SIZES.values())
    prefetches = [models.Prefetch(query=text, using="text", limit=20), models.Prefetch(query=image, using="image")]
    lists = [
        client.query_points("clean", query=prefetch.query, using=prefetch.using, limit=prefetch.limit or 10).points
        for prefetch in prefetches
    ]
    for query, fused in (
        (models.RrfQuery(rrf=models.Rrf(k=number + 1)), rrf([[p.id for p in hits] for hits in lists], k=number + 1)),
        (
            models.FusionQuery(fusion=models.Fusion.DBSF),
            dbsf([([p.id for p in hits], [p.score for p in hits]) for hits in lists]),
        ),
    ):
        local = client.query_points("clean", prefetch=prefetches, query=query, limit=EVERYTHING).points
        assert {point.id: point.score for point in local} == pytest.approx(dict(fused), rel=1e-5)


# With copies.


def families(answer: Answer) -> list[int]:
    return [point["payload"]["family"] for point in points(answer)]


def of_copies(number: int, query: Json) -> Json:
    rng = np.random.default_rng([number, 5])
    searches = [
        {"query": rng.normal(size=size).tolist(), "using": name, "limit": 24}
        for name, size in fused_requests.SIZES.items()
    ]
    return {"prefetch": searches, "query": query, "limit": 8, "with_payload": True}


FUSIONS = ({"fusion": "rrf"}, {"rrf": {"k": 60, "weights": [3.0, 1.0]}}, {"fusion": "dbsf"})


@pytest.mark.parametrize("query", FUSIONS, ids=json.dumps)
@pytest.mark.parametrize("number", range(6))
def test_ranks_and_scores_are_those_of_lists_without_copies(world: World, number: int, query: Json) -> None:
    body = of_copies(number, query)
    lists = []
    for search in body["prefetch"]:
        first: dict[int, Json] = {}
        for point in points(world.direct("copied", {**search, "with_payload": True})):
            first.setdefault(point["payload"]["family"], point)
        lists.append(list(first.values()))
    keys = [[point["id"] for point in hits] for hits in lists]
    fused = (
        dbsf([(ids, [point["score"] for point in page]) for ids, page in zip(keys, lists, strict=True)])
        if query == FUSIONS[2]
        else rrf(keys, k=query.get("rrf", {}).get("k", 2), weights=query.get("rrf", {}).get("weights"))
    )
    through = world.through("copied", body)
    expected = {identity: float(str(score)) for identity, score in fused}
    assert all(expected[identity] == score for identity, score in scored(through))
    assert len(set(families(through))) == len(families(through)) == 8
    best = scored(through)[0][1]
    assert best == float(str(fused[0][1]))
    assert [score for _, score in scored(through)] == sorted((score for _, score in scored(through)), reverse=True)


def test_a_page_longer_than_the_distinct_points_is_filled_with_copies(world: World) -> None:
    body = of_copies(1, {"fusion": "rrf"}) | {"limit": 30}
    direct, through = world.direct("copied", body), world.through("copied", body)
    assert len(points(through)) == len(points(direct)) == 30
    distinct = len(set(families(through)))
    assert distinct == len(set(families(world.direct("copied", body | {"limit": EVERYTHING}))))
    assert [score for _, score in scored(through)] == sorted((score for _, score in scored(through)), reverse=True)


@pytest.mark.parametrize("offset", [0, 4, 8])
def test_pages_of_a_divided_fusion_repeat_no_family(world: World, offset: int) -> None:
    body = of_copies(2, {"fusion": "rrf"}) | {"limit": 4}
    first = [families(world.through("copied", body | {"offset": place})) for place in range(0, offset + 1, 4)]
    seen = [family for page in first for family in page]
    assert len(set(seen)) == len(seen) == offset + 4


# What is not divided.


def leaf(**members: object) -> Json:
    return {"query": [0.5] * 24, "using": "text", "limit": 12, **members}


FORMULA = {"query": {"formula": {"sum": ["$score"]}}, "prefetch": leaf()}
SHOULD = {"should": [{"key": "chunk_size", "range": {"gte": 3}}, {"key": "kind", "match": {"value": "red"}}]}
LEFT_WHOLE: dict[str, tuple[str, Json]] = {
    "nested": ("nested", {"query": {"fusion": "rrf"}, "prefetch": [leaf(), {"prefetch": [leaf()], **leaf()}]}),
    "a stored point": ("points", {"query": {"fusion": "rrf"}, "prefetch": [leaf(), leaf(query=404)]}),
    "no query": ("unranked", {"query": {"fusion": "rrf"}, "prefetch": [leaf(), {"limit": 5}]}),
    "two alternatives": ("member", {"query": {"fusion": "rrf"}, "prefetch": leaf(filter=SHOULD), "filter": SHOULD}),
    "parameters": ("member", {"query": {"fusion": "rrf"}, "prefetch": leaf(), "params": {"exact": True}}),
    "a vector of the root": ("member", {"query": {"fusion": "rrf"}, "prefetch": leaf(), "using": "text"}),
    "too few weights": ("member", {"query": {"rrf": {"weights": [1.0]}}, "prefetch": [leaf(), leaf()]}),
    "an unknown fusion": ("member", {"query": {"fusion": "best"}, "prefetch": leaf()}),
    "a formula": ("formula", FORMULA),
}


@pytest.mark.parametrize("case", LEFT_WHOLE)
def test_a_fusion_that_cannot_be_divided_exactly_is_sent_whole_and_counted(world: World, case: str) -> None:
    reason, body = LEFT_WHOLE[case]
    before = world.counted()
    direct, through = world.direct("clean", body), world.through("clean", body)
    after = world.counted()
    assert through.status == direct.status
    if direct.status == 200:
        everything = dict(scored(world.direct("clean", without_page(body))))
        assert is_one_order(scored(through), scored(direct), everything)
    else:
        assert through.timeless == direct.timeless
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {reason: 1}


def test_without_the_policy_nothing_is_divided(world: World) -> None:
    before = world.counted()
    through = _ask(world.proxy, "copied", of_copies(3, {"fusion": "rrf"}), {})
    assert len(points(through)) == 8
    assert world.counted() == before


def test_a_search_that_is_no_fusion_is_neither_divided_nor_counted(world: World) -> None:
    body = {"query": [0.5] * 24, "using": "text", "limit": 5, "prefetch": leaf(limit=40)}
    before = world.counted()
    assert world.through("clean", body).timeless == world.direct("clean", body).timeless
    assert world.counted() == before


def test_what_the_database_refuses_of_the_batch_is_answered_as_it_answers_the_clients_own(world: World) -> None:
    body = {"query": {"fusion": "rrf"}, "prefetch": [leaf(), leaf(using="unheard")], "limit": 5}
    direct, through = world.direct("clean", body), world.through("clean", body)
    assert direct.status >= 400
    assert (through.status, through.timeless) == (direct.status, direct.timeless)

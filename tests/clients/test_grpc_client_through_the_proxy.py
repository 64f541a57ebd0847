"""The official client with `prefer_grpc`, blocking and asyncio, through the proxy: policies by collection, payloads, limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

from support.deploy.expositions import counted
from support.grpc.calls import Pairs, ask
from support.grpc.clients import code_of, details_of, over_grpc
from support.grpc.upstream import ending, grpc_upstream
from support.process import stack
from support.qdrant import planted
from support.qdrant.embedded import embedded_server, start_embedded_grpc_process
from support.qdrant.scripted_grpc import QUERY, UPSERT, before, upsert
from support.qdrant.scripted_grpc import search as search_message

SECRET = "confidential"  # in every text and in no answer that was not asked for it
RULES = """
explain: {keep: 20, texts: false}
policy: {threshold: {fixed: 0.01}}
rules:
  - collection: tenants
    policy: {tenant_keys: [group_id]}
  - collection: longest
    policy: {representative: longest, text_fields: [body]}
  - collection: short
    policy: {texts: none, short: allow}
  - collection: filled
    policy: {texts: none}
  - collection: in-mmr-order
    policy: {order: mmr, mmr: {lambda: 0.7}}
  - collection: ghost
    policy: {vector: ghost}
  - collection: "*-off"
    policy: {mode: off}
  - collection: texts
    policy: {texts: said}
"""
COLLECTIONS = ("tenants", "longest", "short", "filled", "in-mmr-order", "ghost", "switched-off", "plain")
FAMILIES, COPIES = 12, 4
QUERY_VECTOR = [float(value) for value in planted.bases()[:6].sum(axis=0)]
SELECTIONS: tuple[Any, ...] = (
    False,
    True,
    ["n"],
    ["body"],
    models.PayloadSelectorExclude(exclude=["n"]),
)


@dataclass(frozen=True, slots=True)
class World:
    """The engine and the proxy, each as the blocking client sees it, and the proxy's addresses."""

    engine: QdrantClient
    proxy: QdrantClient
    url: str
    admin: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    file = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(RULES)
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        engine = over_grpc(url, rpc)
        opened.callback(engine.close)
        for collection in COLLECTIONS:
            load(engine, collection, noise=0.003)
        load(engine, "texts", noise=0.06)  # their vectors are 0.1 to 0.2 apart, far beyond the cut
        there, admin = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc, "--config", str(file)))
        proxy = over_grpc(there, there)
        opened.callback(proxy.close)
        yield World(engine, proxy, there, admin)


def load(client: QdrantClient, collection: str, *, noise: float, **more: Any) -> None:
    """Copies 0 and 1 of every family are one tenant's, 2 and 3 another's; later copies have more blanks in the same text."""
    words = [f"word{place}" for place in range(400)]

    def payload(family: int, copy: int) -> dict[str, Any]:
        body = f"{SECRET} {(' ' * (copy + 1)).join(words[family * 30 : family * 30 + 30])}"
        return {"group_id": copy // 2, "body": body, "n": 2**62 + family}

    planted.plant(client, collection, payload, families=FAMILIES, copies=COPIES, noise=noise, **more)


def hits(client: QdrantClient, collection: str, *, limit: int = 8, **more: Any) -> list[models.ScoredPoint]:
    return client.query_points(collection, query=QUERY_VECTOR, limit=limit, **more).points


def families(points: list[models.ScoredPoint]) -> list[int]:
    return [planted.family(int(point.id)) for point in points]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_the_payload_is_the_clients_own_selection_whatever_a_policy_needs(world: World, selection: Any) -> None:
    for collection in (*COLLECTIONS, "texts"):
        for vectors in (False, True):
            how: dict[str, Any] = {"with_payload": selection, "with_vectors": vectors}
            everyone = {point.id: point for point in hits(world.engine, collection, limit=100, **how)}
            for paging in ({}, {"offset": 4}):
                points = hits(world.proxy, collection, **how, **paging)
                assert points == [everyone[point.id] for point in points]
                assert len(points) == 8


def test_rules_go_by_the_collection_that_the_message_names(world: World) -> None:
    distinct = {name: len(set(families(hits(world.proxy, name)))) for name in COLLECTIONS}
    assert distinct["plain"] == distinct["longest"] == 8
    for name in ("switched-off", "ghost"):
        assert hits(world.proxy, name) == hits(world.engine, name)
    owners = [(int(point.id) // 10, int(point.id) % 10 // 2) for point in hits(world.proxy, "tenants")]
    assert len(set(owners)) == len(owners)
    assert max(Counter(family for family, _ in owners).values()) == 2
    assert {int(point.id) % 10 for point in hits(world.proxy, "longest")} == {COPIES - 1}
    assert len(hits(world.proxy, "short", limit=30)) == FAMILIES
    assert len(hits(world.proxy, "plain", limit=30)) == FAMILIES, "a proven copy fills no page"
    assert len(hits(world.proxy, "filled", limit=30)) == 30
    ranking = [point.id for point in hits(world.engine, "in-mmr-order", limit=100)]
    places = [ranking.index(point.id) for point in hits(world.proxy, "in-mmr-order", limit=FAMILIES)]
    assert places[0] == 0
    assert places != sorted(places)


QUERIES: dict[str, dict[str, Any]] = {
    "by vector": {"query": QUERY_VECTOR},
    "by id": {"query": 20},
    "with a threshold": {"query": QUERY_VECTOR, "score_threshold": 0.3},
    "recommended": {"query": models.RecommendQuery(recommend=models.RecommendInput(positive=[20, 30], negative=[40]))},
    "discovered": {
        "query": models.DiscoverQuery(
            discover=models.DiscoverInput(target=20, context=[models.ContextPair(positive=30, negative=40)])
        )
    },
    "prefetched": {"query": QUERY_VECTOR, "prefetch": [models.Prefetch(query=QUERY_VECTOR, limit=40)]},
    "filtered": {
        "query": QUERY_VECTOR,
        "query_filter": models.Filter(must=[models.FieldCondition(key="group_id", match=models.MatchValue(value=1))]),
    },
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_both_clients_get_distinct_results_that_are_upstreams_own(world: World, name: str, is_async: bool) -> None:
    everyone = {point.id: point for point in world.engine.query_points("plain", limit=100, **QUERIES[name]).points}
    if is_async:
        points = asyncio.run(hits_async(world, QUERIES[name]))
    else:
        points = world.proxy.query_points("plain", limit=6, **QUERIES[name]).points
    there = {planted.family(int(identifier)) for identifier in everyone}
    assert [everyone[point.id] for point in points] == points
    assert points[0].id == next(iter(everyone))
    assert len(set(families(points))) == len(points) == min(6, len(there))


async def hits_async(world: World, how: dict[str, Any]) -> list[models.ScoredPoint]:
    client = AsyncQdrantClient(url=world.url, grpc_port=int(world.url.rsplit(":", 1)[1]), prefer_grpc=True, timeout=30)
    try:
        return (await client.query_points("plain", limit=6, **how)).points
    finally:
        await client.close()


def test_strict_modes_limit_is_learned_and_the_next_search_keeps_to_it(world: World) -> None:
    strict = models.StrictModeConfig(enabled=True, max_query_limit=20)
    with collection_of(world.engine, "strict", strict):
        before = counted(world.admin, "fail_open_total")
        first, second = hits(world.proxy, "strict"), hits(world.proxy, "strict")
        assert first == hits(world.engine, "strict")
        assert len(set(families(second))) > len(set(families(first)))
        assert counted(world.admin, "fail_open_total") - before == 1
        too_many = [refused(client, "strict", limit=21) for client in (world.engine, world.proxy)]
        assert too_many[0] == too_many[1]


def test_a_rate_limit_is_told_as_the_database_tells_it_and_no_search_is_sent_twice(world: World) -> None:
    strict = models.StrictModeConfig(enabled=True, read_rate_limit=2)
    with collection_of(world.engine, "rated", strict):
        assert [len(set(families(hits(world.proxy, "rated")))) for _ in range(2)] == [8, 8], "each cost one of two"
        with pytest.raises(ResourceExhaustedResponse) as caught:
            hits(world.proxy, "rated")
        assert caught.value.retry_after_s > 0


@contextmanager
def collection_of(client: QdrantClient, name: str, strict: models.StrictModeConfig) -> Iterator[None]:
    load(client, name, noise=0.003, strict_mode_config=strict)
    try:
        yield
    finally:
        client.delete_collection(name)


def refused(client: QdrantClient, collection: str, **how: Any) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.RpcError) as raised:
        hits(client, collection, **how)
    return code_of(raised.value), details_of(raised.value)


@pytest.mark.parametrize("mode", ["on", "shadow", "off"])
async def test_without_its_key_a_call_is_refused_as_directly(mode: str) -> None:
    keys: tuple[Pairs, ...] = ((), (("api-key", "wrong"),))
    async with embedded_server(api_key="right", with_grpc=True) as database:
        assert database.grpc_url is not None
        there = database.grpc_url.removeprefix("http://")
        async with before(there, mode=mode) as proxy:
            for method, message in ((QUERY, search_message()), (UPSERT, upsert(1))):
                for key in keys:
                    direct, through = [
                        await ask(at, "unary_unary", (message,), method=method, metadata=key)
                        for at in (there, f"127.0.0.1:{proxy.port}")
                    ]
                    assert direct.code is grpc.StatusCode.UNAUTHENTICATED
                    assert through == direct
            known = await ask(
                f"127.0.0.1:{proxy.port}",
                "unary_unary",
                (search_message(),),
                method=QUERY,
                metadata=(("api-key", "right"),),
            )
            assert known.code is grpc.StatusCode.NOT_FOUND


async def test_the_client_is_told_when_to_come_back_and_the_database_is_asked_once() -> None:
    script = ending(grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limit", trailing=(("retry-after", "7"),))
    async with grpc_upstream(Query=script) as database, before(database.address) as proxy:
        client = AsyncQdrantClient(
            url="http://127.0.0.1:9", grpc_port=proxy.port, prefer_grpc=True, check_compatibility=False
        )
        with pytest.raises(ResourceExhaustedResponse) as caught:
            await client.query_points("c", query=[0.5, 0.25, 0.125, 0.0], limit=3)
        await client.close()
        assert caught.value.retry_after_s == 7
        assert len(database.calls) == 1

"""Every kind of request beside each other, on the same points: the memory neither mixes their points nor changes an answer."""

from __future__ import annotations

import os
from typing import Any

import pytest

from support.backends.shadowed import Corpus, Json, Shadowed, shadowed

TRANSPORTS = ("REST", "gRPC")
# Requests that cannot bring texts; a memory may have them from others, and then compares by them, too.
KNOWS_MORE = ("a by search", "part of the payload", "payload by search")
# A fusion is served from a hash map: two equal direct calls may differ.
ONE, OTHER = Corpus(160, seed=1, nearest=0.005), Corpus(160, seed=2, nearest=0.005)


async def loaded(sides: Shadowed) -> None:
    """A collection whose points have two vectors, of one dimension and other families each, and one with an unnamed vector."""
    vectors = {
        name: {"size": ONE.dimension, "distance": distance} for name, distance in (("a", "Cosine"), ("b", "Euclid"))
    }
    await sides.submit(sides.engine.port, "PUT", "/named", {"vectors": vectors})
    points = [
        {**one, "vector": {"a": one["vector"], "b": other["vector"]}}
        for one, other in zip(ONE.points(), OTHER.points(), strict=True)
    ]
    await sides.put("named", points, port=sides.engine.port)
    await sides.load("plain", ONE)


def requests(one: list[float], other: list[float]) -> dict[str, tuple[str, str, Json]]:
    """By name: collection, operation, body."""
    filtered = {"must": [{"key": "tenant", "match": {"value": "t1"}}]}
    plain: Json = {"query": one, "limit": 6}
    return {
        "a": ("named", "query", {**plain, "using": "a"}),
        "b": ("named", "query", {"query": other, "using": "b", "limit": 6}),
        "a by search": ("named", "search", {"vector": {"name": "a", "vector": one}, "limit": 6}),
        "a with b's vector": ("named", "query", {**plain, "using": "a", "with_vector": ["b"]}),
        "plain": ("plain", "query", plain),
        "payload": ("plain", "query", {**plain, "with_payload": True}),
        "some payload": ("plain", "query", {**plain, "with_payload": ["n"]}),
        "part of the payload": ("plain", "query", {**plain, "with_payload": {"exclude": ["text"]}}),
        "payload by search": ("plain", "search", {"vector": one, "limit": 6}),
        "own vectors": ("plain", "query", {**plain, "with_vector": True}),
        "filter": ("plain", "query", {**plain, "filter": filtered}),
        "threshold": ("plain", "query", {**plain, "score_threshold": 0.2}),
        "exact": ("plain", "query", {**plain, "params": {"exact": True}}),
        "page": ("plain", "query", {**plain, "offset": 4}),
        "rescored": ("plain", "query", {**plain, "prefetch": {"query": other, "limit": 60}}),
        "filtered prefetch": ("plain", "query", {**plain, "prefetch": {"query": one, "limit": 60, "filter": filtered}}),
        "fused": (
            "plain",
            "query",
            {"prefetch": [{"query": one, "limit": 40}, {"query": one, "limit": 40, "filter": filtered}], "query": {"fusion": "rrf"}, "limit": 6},
        ),
        "by id": ("plain", "query", {"query": 7, "limit": 6}),
        "batch": ("plain", "query_batch", {"searches": [plain, {"query": other, "limit": 4}, {**plain, "with_payload": True}]}),
        "batch of two vectors": (
            "named",
            "query_batch",
            {"searches": [{**plain, "using": "a"}, {"query": other, "using": "b", "limit": 6}]},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("policy", [{}, {"tenant_keys": ("tenant",)}], ids=["default", "tenants"])
async def test_requests_of_all_kinds_share_a_memory_and_are_answered_as_without_one(
    transport: str, policy: dict[str, Any]
) -> None:
    count = 3 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 1
    pairs = list(zip(ONE.questions(count), OTHER.questions(count), strict=True))
    async with shadowed(policy=policy) as sides:
        await loaded(sides)
        recalled: set[str] = set()
        for _ in range(3):
            for one, other in pairs:
                for name, (collection, operation, body) in requests(one, other).items():
                    before = sides.recalls()
                    warm, cold = await sides.both(collection, body, transport=transport, operation=operation)
                    if name not in KNOWS_MORE:
                        assert warm == cold or name == "fused", name
                    recalled |= {name} if sides.recalls()["whole"] > before["whole"] else set()
        assert recalled >= {
            "a",
            "b",
            "plain",
            "filter",
            "threshold",
            "page",
            "rescored",
            "batch",
            "batch of two vectors",
        }
        assert "fused" not in recalled
        assert "by id" not in recalled
        assert sides.memory.score_failures == 0
        assert not sides.warm.failed_open()

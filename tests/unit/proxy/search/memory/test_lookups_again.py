"""The unknown few of a pool are fetched by the client's own query narrowed to them; where that fails, the whole pool is."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from support.clocks import ManualClock
from vecsieve.adapters.contract import Needs, Operation, SearchCall
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import Attempt, needs_of, plan
from vecsieve.proxy.search.memory.lookups import lean_needs
from vecsieve.proxy.search.memory.points import FeatureMemory
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.labels import FailOpen, MemoryRecall
from vecsieve.proxy.telemetry.tracing import Stopwatch

DIMENSION = 96
OPERATION = Operation(backend="qdrant", name="query", collection="c")
POLICY = Policies(Settings()).resolve("qdrant", "c").with_texts(("text",))
VECTORS = np.random.default_rng(0).standard_normal((80, DIMENSION)).astype(np.float32)
QUERY = np.random.default_rng(1).standard_normal(DIMENSION).astype(np.float32)
BODY = json.dumps({"query": QUERY.tolist(), "limit": 8}).encode()


class Database:
    """Ranks the points ``among`` by cosine; ``sent``: the kinds of request that came."""

    def __init__(self, refuse: Callable[[], bytes] | None = None) -> None:
        self.among = list(range(60))
        self.refuse = refuse
        self.sent: list[str] = []

    async def fetch(self, body: bytes, *, reads: int = 1) -> bytes:
        asked: dict[str, Any] = json.loads(body)
        having = asked.get("filter", {}).get("must", [])
        has_vectors = bool(asked.get("with_vector"))
        self.sent.append("lookup" if having else "whole" if has_vectors else "lean")
        if having and self.refuse is not None:
            return self.refuse()
        among = [each for each in self.among if not having or each in having[-1]["has_id"]]
        rows = VECTORS[among]
        scores = (rows @ QUERY) / np.linalg.norm(rows, axis=1) / np.linalg.norm(QUERY)
        best = np.argsort(-scores, kind="stable")[: asked["limit"]].tolist()
        points = [
            {"id": among[at], "version": 1, "score": float(scores[at])}
            | ({"payload": {"text": f"text {among[at]}"}} if "with_payload" in asked else {})
            | ({"vector": rows[at].tolist()} if has_vectors else {})
            for at in best
        ]
        return json.dumps({"result": {"points": points}, "status": "ok", "time": 0.1}, separators=(",", ":")).encode()


def read(searcher: Searcher, needs: Needs) -> SearchCall:
    return searcher.read(OPERATION, BODY, needs)


async def asked(memory: FeatureMemory, database: Database, *, is_lean: bool) -> tuple[bytes, MemoryRecall | None]:
    """The answer to the question, and how much of it memory had."""
    clock = ManualClock()
    searcher, needs = Searcher(QdrantRest(), memory=memory), needs_of(POLICY, None)
    call = read(searcher, lean_needs(memory, "c", needs) if is_lean else needs)
    planned = plan(call, POLICY, None)
    assert planned is not None
    spare = partial(read, searcher, needs) if is_lean else None
    attempt = Attempt(call=call, spare=spare, policy=POLICY, plan=planned, watch=Stopwatch(clock))
    return await searcher.improve(attempt, database.fetch, cap=None), attempt.recall


def rejected() -> bytes:
    raise RejectedReplyError(FailOpen.OVERFETCH_STATUS)


REFUSALS: dict[str, Callable[[], bytes] | None] = {
    "none": None,
    "a status": rejected,
    "no JSON": lambda: b"{",
    "an empty list": lambda: b'{"result":{"points":[]},"status":"ok","time":0.1}',
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_few_unknown_points_are_looked_up_and_else_the_whole_pool_is(refusal: str) -> None:
    database, memory = Database(), FeatureMemory(1 << 22, ttl_seconds=600.0, clock=ManualClock())
    await asked(memory, database, is_lean=False)
    database.among += [70, 71, 72]  # written since
    database.refuse = REFUSALS[refusal]
    found, recall = await asked(memory, database, is_lean=True)
    expected = ["lookup"] if refusal == "none" else ["lookup", "whole"]
    assert database.sent == ["whole", "lean", *expected]
    assert recall is (MemoryRecall.PARTIAL if refusal == "none" else MemoryRecall.NONE)
    cold, _ = await asked(FeatureMemory(1 << 22, ttl_seconds=600.0, clock=ManualClock()), database, is_lean=False)
    assert found == cold

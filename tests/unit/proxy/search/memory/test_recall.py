"""Requests that were answered before, so that memory has their points, and pools that memory completes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Needs, Operation, Pool, SearchCall
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.memory.points import QUIET_SECONDS, FeatureMemory
from vecsieve.proxy.search.memory.recall import Recall
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.pools.values import Planned
from vecsieve.proxy.telemetry.labels import MemoryRecall
from vecsieve.proxy.telemetry.tracing import Stopwatch

DIMENSION, TTL_SECONDS = 96, 600.0
POLICY = Policies(Settings()).resolve("qdrant", "c")
VECTORS = np.random.default_rng(0).standard_normal((60, DIMENSION)).astype(np.float32)
QUERY = np.random.default_rng(1).standard_normal(DIMENSION).astype(np.float32)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> FeatureMemory:
    return FeatureMemory(4 << 20, ttl_seconds=TTL_SECONDS, clock=clock)


@pytest.fixture
def recall(memory: FeatureMemory) -> Recall:
    return Recall(memory)


def read(raw: bytes, needs: Needs, collection: str = "c") -> SearchCall:
    return QdrantRest().parse_request(Operation(backend="qdrant", name="query", collection=collection), raw, needs)


def pool(which: list[int], *, is_fused: bool = False, has_vectors: bool = True) -> Pool:
    rows = VECTORS[which]
    scores = (rows @ QUERY) / (np.linalg.norm(rows, axis=1) * np.linalg.norm(QUERY))
    if is_fused:
        scores = 1.0 / np.arange(2, len(which) + 2)
    return Pool(
        scores=scores.astype(np.float64),
        vectors=rows if has_vectors else np.empty((len(which), 0), np.float32),
        ids=tuple([b"%d" % number for number in which]),
        versions=(b"1",) * len(which),
        unusable=0 if has_vectors else len(which),
    )


def answered(
    recall: Recall, which: list[int], *, number: int = 0, collection: str = "c", is_fused: bool = False
) -> MemoryRecall | None:
    """What memory had of a search with this pool; it learns what it lacked."""
    operation = Operation(backend="qdrant", name="query", collection=collection)
    raw = json.dumps({"query": QUERY.tolist(), "limit": 5, "params": {"hnsw_ef": number}}).encode()
    lean, repeat = recall.lean(operation, raw, Needs(), lambda needs: read(raw, needs, collection))
    call = read(raw, Needs(), collection) if lean is None else lean
    assert call.needs.vectors is (lean is None)
    planned = Planned(call=call, policy=POLICY, plan=(50,), watch=Stopwatch(lambda: 0.0, 0.0), repeat=repeat)
    if lean is not None:
        bare = QdrantRest().parse_reply(call, b'{"result":{"points":[]},"status":"ok","time":0}')
        bare = replace(bare, pools=(pool(which, is_fused=is_fused, has_vectors=False),))
        whole = recall.recalled(planned, bare, rounds=0)
        if whole is not None:
            (completed,) = whole[0].pools
            assert completed.unusable == 0
            assert np.abs(completed.vectors - VECTORS[which]).max() < 1e-3
            return MemoryRecall.WHOLE
    recall.learnt(planned, call.searches[0], pool(which, is_fused=is_fused), rounds=1)
    return None if lean is None else MemoryRecall.NONE


def test_a_request_that_was_answered_needs_no_vectors_and_no_other_does(recall: Recall) -> None:
    assert answered(recall, [0, 1, 2]) is None
    assert answered(recall, [0, 1, 2]) is MemoryRecall.WHOLE
    assert answered(recall, [0, 1, 2], number=1) is None
    assert answered(recall, [0, 1, 2], collection="d") is None


def test_one_whose_points_are_other_ones_each_time_is_not_tried_again_until_all_is_forgotten(
    recall: Recall, memory: FeatureMemory, clock: ManualClock
) -> None:
    answered(recall, [0, 1, 2])
    assert answered(recall, [0, 1, 3]) is MemoryRecall.NONE
    assert answered(recall, [0, 1, 2]) is None
    memory.forget("c")
    clock.advance(QUIET_SECONDS)
    answered(recall, [0, 1, 2])
    assert answered(recall, [0, 1, 2]) is MemoryRecall.WHOLE


def test_points_that_are_too_old_come_with_vectors_and_are_trusted_again(recall: Recall, clock: ManualClock) -> None:
    """Scores of a fusion prove nothing."""
    answered(recall, [0, 1, 2], is_fused=True)
    clock.advance(TTL_SECONDS)
    assert answered(recall, [0, 1, 2], is_fused=True) is MemoryRecall.WHOLE
    clock.advance(1.0)
    assert answered(recall, [0, 1, 2], is_fused=True) is None, "no second read"
    assert answered(recall, [0, 1, 2], is_fused=True) is MemoryRecall.WHOLE


@pytest.mark.parametrize("forgotten", ["c", None])
def test_whoever_forgets_a_collection_forgets_its_requests(
    recall: Recall, memory: FeatureMemory, clock: ManualClock, forgotten: str | None
) -> None:
    answered(recall, [0, 1, 2])
    memory.forget(forgotten)
    for _ in range(2):
        assert answered(recall, [0, 1, 2]) is None, "nothing is learnt in the quiet time"
    clock.advance(QUIET_SECONDS)
    assert answered(recall, [0, 1, 2]) is None
    assert answered(recall, [0, 1, 2]) is MemoryRecall.WHOLE


def test_another_collection_s_requests_stay_known(recall: Recall, memory: FeatureMemory) -> None:
    answered(recall, [0, 1, 2])
    memory.forget("d")
    assert answered(recall, [0, 1, 2]) is MemoryRecall.WHOLE

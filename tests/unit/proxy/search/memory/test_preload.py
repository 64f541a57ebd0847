"""Reading a collection into memory: page by page, paced, and again where the database was not ready."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from support.clocks import ManualClock
from vecsieve.adapters.contract import Question
from vecsieve.adapters.pinecone.rest import PineconeRest
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.texts import CollectionTexts
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError
from vecsieve.proxy.search.memory import preload as module
from vecsieve.proxy.search.memory.points import FeatureMemory
from vecsieve.proxy.search.memory.preload import PAGE, Preload, Source
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.telemetry.labels import FailOpen

DIMENSION = 96
REFUSED = RefusedReplyError(403, b"", is_server_error=False, may_be_size=False)
NOT_READY = RefusedReplyError(503, b"", is_server_error=True, may_be_size=False)


class Database:
    """A collection of so many points. ``failures`` come first, one for each request; ``sent``: the last parts of paths."""

    def __init__(self, points: int, *failures: Exception) -> None:
        self.points = points
        self.failures = list(failures)
        self.sent: list[str] = []

    async def send(self, question: Question) -> bytes:
        self.sent.append(question.target.rpartition("/")[2])
        if self.failures:
            raise self.failures.pop(0)
        asked = json.loads(question.body or b"{}")
        answers: dict[str, Callable[[Any], object]] = {
            "c": self._described,
            "scroll": self._listed,
            "query": self._found,
        }
        result = answers[self.sent[-1]](asked)
        return json.dumps({"result": result, "status": "ok", "time": 0.1}, separators=(",", ":")).encode()

    def _described(self, _asked: Any) -> object:
        return {"config": {"params": {"vectors": {"size": DIMENSION, "distance": "Dot"}}}}

    def _listed(self, asked: Any) -> object:
        first = asked.get("offset", 0)
        behind = min(first + asked["limit"], self.points)
        ids = [{"id": number} for number in range(first, behind)]
        return {"points": ids, "next_page_offset": behind if behind < self.points else None}

    def _found(self, asked: Any) -> object:
        # Rows along one axis each, so that the score is the query's number there.
        query: list[float] = asked["query"]
        found = []
        for number in asked["filter"]["must"][0]["has_id"]:
            row = [float(axis == number % DIMENSION) for axis in range(DIMENSION)]
            point = {
                "id": number,
                "version": 3,
                "score": query[number % DIMENSION],
                "payload": {"text": f"text {number}"},
            }
            found.append({**point, "vector": row})
        return {"points": found}


def made(
    database: Database, *, size: int = 1 << 22, mode: str = "on", **policy: object
) -> tuple[FeatureMemory, Preload]:
    memory = FeatureMemory(size, ttl_seconds=600.0, clock=ManualClock())
    policies = Policies(Settings.model_validate({"mode": mode, "policy": policy}))
    source = Source(
        adapter=QdrantRest(),
        send=database.send,
        policy=lambda collection: policies.resolve("qdrant", collection),
        texts=CollectionTexts(),
        has_room=lambda: True,
    )
    return memory, Preload(memory, source, points_per_second=1e9)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.0, 0.0))


@pytest.mark.parametrize("points", [1, PAGE, PAGE + 1, 2 * PAGE])
async def test_all_points_are_known_and_the_next_search_relies_on_it(points: int) -> None:
    memory, preload = made(Database(points))
    await preload.read(["c"])
    assert memory.points == preload.learnt == points
    assert memory.is_promising("c")
    assert memory.is_versioned("c")


async def test_an_empty_collection_is_read_without_a_search() -> None:
    database = Database(0)
    _, preload = made(database)
    await preload.read(["c"])
    assert database.sent == ["c", "scroll"]


@pytest.mark.parametrize("failure", [LostReplyError(FailOpen.OVERFETCH_RESET), NOT_READY])
async def test_a_database_that_is_not_ready_is_asked_again(failure: Exception) -> None:
    memory, preload = made(Database(10, failure, failure))
    await preload.read(["c"])
    assert memory.points == 10


@pytest.mark.parametrize(("failure", "asked"), [(NOT_READY, 3), (REFUSED, 1)])
async def test_one_that_refuses_is_left_alone(failure: Exception, asked: int, caplog: pytest.LogCaptureFixture) -> None:
    database = Database(10, *[failure] * 9)
    memory, preload = made(database)
    with caplog.at_level(logging.WARNING):
        await preload.read(["c"])
    assert memory.points == 0
    assert len(database.sent) == asked
    assert [record.getMessage() for record in caplog.records] == [
        "memory.preload: a collection could not be read: RefusedReplyError"
    ]


@pytest.mark.parametrize("policy", [{"mode": "off"}, {"tenant_keys": ("tenant",)}], ids=["off", "tenants"])
async def test_a_collection_whose_points_would_not_be_used_is_not_read(policy: dict[str, Any]) -> None:
    database = Database(10)
    memory, preload = made(database, **policy)
    await preload.read(["c"])
    assert database.sent == []
    assert not memory.is_promising("c")


async def test_another_vector_than_the_policy_s_is_not_read() -> None:
    database = Database(10)
    _, preload = made(database, vector="title")
    await preload.read(["c"])
    assert database.sent == ["c"]


async def test_a_memory_that_is_nearly_full_ends_it_and_searches_do_not_rely_on_it() -> None:
    memory, preload = made(Database(1000), size=100_000)
    await preload.read(["c"])
    assert 0 < memory.points < 1000
    assert not memory.is_promising("c")


async def test_an_adapter_that_cannot_list_points_reads_nothing() -> None:
    database = Database(10)
    memory, _ = made(database)
    policy = Policies(Settings()).resolve("qdrant", "c")
    source = Source(PineconeRest(), database.send, lambda _: policy, CollectionTexts(), lambda: True)
    await Preload(memory, source, points_per_second=1.0).read(["c"])
    assert database.sent == []

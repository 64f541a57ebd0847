"""The pools of fusions under `per_retriever`: what is sent, what comes back, and what is left to the ladder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from prometheus_client import CollectorRegistry

from support.clocks import ManualClock
from vecsieve.adapters.contract import Adapter, MalformedReplyError, Operation
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.process.runtime import LongWork
from vecsieve.proxy.search.collections.profiles import Scaling
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import Attempt, needs_of
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.retrievers import Retrievers
from vecsieve.proxy.selection.policy import When
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.tracing import Stopwatch

T = TypeVar("T")
QUERY = Operation(backend="qdrant", name="query", collection="c")
LEAVES = [{"query": [1.0, 0.0], "using": "a"}, {"query": [0.0, 1.0], "using": "a"}]
FUSION = {"prefetch": LEAVES, "query": {"fusion": "rrf"}, "limit": 2}


class Database:
    """Answers what it is sent with ``lists``: pairs of an id and a text."""

    def __init__(self, *lists: list[tuple[int, str]], answer: bytes | Exception | None = None) -> None:
        self.sent: list[tuple[bytes, str]] = []
        self._lists = lists
        self._answer = answer

    async def __call__(self, body: bytes, *, suffix: str = "") -> bytes:
        self.sent.append((body, suffix))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer or json.dumps({"result": [{"points": _points(each)} for each in self._lists]}).encode()


def _points(listed: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [
        {"id": number, "version": 1, "score": 1.0 - place / 10, "payload": {"text": text}}
        for place, (number, text) in enumerate(listed)
    ]


class Rig:
    def __init__(self, body: dict[str, Any], adapter: Adapter | None = None) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, backend="qdrant")
        adapter = QdrantRest() if adapter is None else adapter
        scaling = Scaling(None, None, lambda _profile, _event: None)
        policy = Policies(Settings()).resolve("qdrant", "c")
        call = adapter.parse_request(QUERY, json.dumps(body).encode(), needs_of(policy, None))
        self.widened = adapter.widen(call, [50])
        self.attempt = Attempt(call=call, policy=policy, plan=(50,), watch=Stopwatch(ManualClock()))
        self.retrievers = Retrievers(adapter, self.metrics, scaling, LongWork())

    def fetch(self, database: Database) -> bytes:
        return run(self.retrievers.fetch(self.attempt, self.widened, database))

    def counted(self) -> dict[str, float | None]:
        def count(result: str) -> float | None:
            return self.registry.get_sample_value("vecsieve_fusions_total", {"backend": "qdrant", "result": result})

        return {result: count(result) for result in ("divided", "nested", "member")}


def run(awaited: Awaitable[T]) -> T:
    async def main() -> T:
        return await awaited

    return asyncio.run(main())


def ranked(reply: bytes) -> list[tuple[int, float]]:
    return [(point["id"], point["score"]) for point in json.loads(reply)["result"]["points"]]


LONG = " ".join(f"word{number}" for number in range(40))
OTHER = " ".join(f"name{number}" for number in range(40))
THIRD = " ".join(f"place{number}" for number in range(40))


def test_a_fusion_is_sent_as_the_batch_of_its_searches_and_nothing_else() -> None:
    rig, database = Rig(FUSION), Database([(1, LONG), (2, OTHER)], [(2, OTHER)])
    assert ranked(rig.fetch(database)) == [(2, pytest.approx(0.8333334)), (1, 0.5)]
    ((body, suffix),) = database.sent
    assert suffix == "/batch"
    assert [each["query"] for each in json.loads(body)["searches"]] == [each["query"] for each in LEAVES]


def test_a_copy_takes_no_rank_from_what_stands_below_it_and_comes_last() -> None:
    database = Database([(1, LONG), (9, LONG), (2, OTHER)], [(3, THIRD)])
    rig = Rig(FUSION)
    assert ranked(rig.fetch(database)) == [(1, 0.5), (3, 0.5), (2, 0.33333334), (9, 0.33333334)]
    assert rig.attempt.policy.selection.when is When.ALWAYS, "the copies are behind the page, where the gate is blind"


def test_without_copies_the_policy_stays_as_it_is() -> None:
    rig = Rig(FUSION)
    before = rig.attempt.policy
    rig.fetch(Database([(1, LONG)], [(2, OTHER)]))
    assert rig.attempt.policy is before


def test_scores_below_the_threshold_are_left_out_of_copies_and_of_others() -> None:
    rig = Rig(FUSION | {"score_threshold": 0.34})
    database = Database([(1, LONG), (9, LONG), (2, OTHER)], [(3, THIRD)])
    assert ranked(rig.fetch(database)) == [(1, 0.5), (3, 0.5)]


def test_what_cannot_be_divided_is_sent_as_it_is_and_counted() -> None:
    rig, database = Rig(FUSION | {"params": {"exact": True}}), Database(answer=b"the reply")
    assert rig.fetch(database) == b"the reply"
    assert database.sent == [(rig.widened, "")]
    assert rig.counted() == {"divided": 0, "nested": 0, "member": 1}
    assert not rig.attempt.is_divided


def test_a_search_that_is_no_fusion_is_sent_as_it_is_and_not_counted() -> None:
    rig, database = Rig({"query": [1.0, 0.0], "limit": 4}), Database(answer=b"the reply")
    assert rig.fetch(database) == b"the reply"
    assert database.sent == [(rig.widened, "")]
    assert not any(rig.counted().values())


def test_divided_fusions_are_counted() -> None:
    rig = Rig(FUSION)
    rig.fetch(Database([(1, LONG)], [(2, OTHER)]))
    assert rig.counted() == {"divided": 1, "nested": 0, "member": 0}
    assert rig.attempt.is_divided, "what its reply weighs is not learned for single searches"


@pytest.mark.parametrize(
    "answer",
    [
        b"no json",
        b'{"result":[{"points":[]}]}',
        b'{"result":{"points":[]}}',
        b'{"result":[{"points":[{"id":1,"version":1}]},{"points":[]}]}',
    ],
)
def test_a_reply_that_is_not_the_batchs_is_malformed(answer: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        Rig(FUSION).fetch(Database(answer=answer))


def test_a_score_that_is_no_number_is_malformed_where_scores_are_fused() -> None:
    body = b'{"result":[{"points":[{"id":1,"version":1,"score":null},{"id":2,"version":1,"score":1.0}]},{"points":[]}]}'
    with pytest.raises(MalformedReplyError):
        Rig(FUSION | {"query": {"fusion": "dbsf"}}).fetch(Database(answer=body))


def test_a_refused_batch_is_refused() -> None:
    refusal = RejectedReplyError(FailOpen.OVERFETCH_STATUS)
    with pytest.raises(RejectedReplyError) as raised:
        Rig(FUSION).fetch(Database(answer=refusal))
    assert raised.value is refusal


def test_the_policys_tenants_are_kept_apart_in_each_list() -> None:
    rig = Rig(FUSION)
    rig.attempt.policy = replace(rig.attempt.policy, tenant_keys=("owner",))
    rig.attempt.call = rig.attempt.call.__class__(
        operation=QUERY,
        searches=rig.attempt.call.searches,
        needs=needs_of(rig.attempt.policy, None),
        document=rig.attempt.call.document,
    )
    points = [
        {"id": number, "version": 1, "score": 0.5, "payload": {"text": LONG, "owner": owner}}
        for number, owner in ((1, "x"), (2, "y"))
    ]
    reply = rig.fetch(Database(answer=json.dumps({"result": [{"points": points}, {"points": []}]}).encode()))
    assert ranked(reply) == [(1, 0.5), (2, 0.33333334)]
    assert rig.attempt.policy.selection.when is When.REDUNDANT

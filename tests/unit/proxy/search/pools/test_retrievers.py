"""The pools of fusions under `per_retriever`: what is sent, what comes back, and what is left to the ladder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from support.milvus.bodies import group
from support.milvus.messages import message_type, pairs
from support.milvus.model import NUMBERS, VECTORS, Row, Server
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Adapter, MalformedReplyError, Operation
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.runtime.loop import LongWork
from vecsieve.proxy.search.budgets import ReadBudget
from vecsieve.proxy.search.collections.profiles import Scaling
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import needs_of
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.pools.retrievers import FusionDivision, Retrievers, Send
from vecsieve.proxy.telemetry.labels import FailOpen, ReadKind
from vecsieve.proxy.telemetry.metrics import Metrics

T = TypeVar("T")
QUERY = Operation(backend="qdrant", name="query", collection="c")
LEAVES = [{"query": [1.0, 0.0], "using": "a"}, {"query": [0.0, 1.0], "using": "a"}]
FUSION = {"prefetch": LEAVES, "query": {"fusion": "rrf"}, "limit": 2}


class Database:
    """Answers what it is sent with ``lists``: pairs of an id and a text."""

    def __init__(self, *lists: list[tuple[int, str]], answer: bytes | Exception | None = None) -> None:
        self.sent: list[tuple[bytes, Ending]] = []
        self._lists = lists
        self._answer = answer

    async def __call__(self, body: bytes, *, ending: Ending = SAME, further: ReadKind | None = None) -> bytes:
        self.sent.append((body, ending))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer or json.dumps({"result": [{"points": _points(points)} for points in self._lists]}).encode()


def _points(listed: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [
        {"id": number, "version": 1, "score": 1.0 - place / 10, "payload": {"text": text}}
        for place, (number, text) in enumerate(listed)
    ]


class Rig:
    def __init__(
        self,
        body: dict[str, Any] | bytes,
        adapter: Adapter | None = None,
        operation: Operation = QUERY,
        known: object | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.backend = operation.backend
        self.metrics = Metrics(self.registry, backend=operation.backend)
        self.adapter = adapter = QdrantRest() if adapter is None else adapter
        scaling = Scaling(None, None, lambda _profile, _event: None)
        policy = replace(Policies(Settings()).resolve("qdrant", "c"), per_retriever=True)
        self.reads = reads = ReadBudget(0.0, metrics=self.metrics, clock=ManualClock())
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        call = adapter.parse_request(operation, raw, needs_of(policy, None, known=known))
        self.widened = adapter.widen(call, [50])
        self.call, self.policy = call, policy
        self.division: FusionDivision | None = None
        self.retrievers = Retrievers(adapter, self.metrics, scaling, LongWork(), reads)

    def fetch(self, database: Send) -> bytes:
        self.division = self.division or FusionDivision(self.retrievers, database)
        return run(self.division.fetch(self.call, self.policy, self.widened, further=None))

    def counted(self) -> dict[str, float | None]:
        return {result: self.count(result) for result in ("divided", "nested", "member")}

    def count(self, result: str) -> float | None:
        return self.registry.get_sample_value("vecsieve_fusions_total", {"backend": self.backend, "result": result})


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
    ((body, ending),) = database.sent
    assert ending == Ending(new="/batch")
    assert [search["query"] for search in json.loads(body)["searches"]] == [leaf["query"] for leaf in LEAVES]


def test_a_copy_takes_no_rank_from_what_stands_below_it_and_comes_last() -> None:
    database = Database([(1, LONG), (9, LONG), (2, OTHER)], [(3, THIRD)])
    rig = Rig(FUSION)
    assert ranked(rig.fetch(database)) == [(1, 0.5), (3, 0.5), (2, 0.33333334), (9, 0.33333334)]
    assert rig.division is not None
    assert rig.division.has_copies, "they are behind the page, where the gate is blind"


def test_without_copies_the_policy_stays_as_it_is() -> None:
    rig = Rig(FUSION)
    rig.fetch(Database([(1, LONG)], [(2, OTHER)]))
    assert rig.division is not None
    assert not rig.division.has_copies


def test_scores_below_the_threshold_are_left_out_of_copies_and_of_others() -> None:
    rig = Rig(FUSION | {"score_threshold": 0.34})
    database = Database([(1, LONG), (9, LONG), (2, OTHER)], [(3, THIRD)])
    assert ranked(rig.fetch(database)) == [(1, 0.5), (3, 0.5)]


def test_what_cannot_be_divided_is_sent_as_it_is_and_counted() -> None:
    rig, database = Rig(FUSION | {"params": {"exact": True}}), Database(answer=b"the reply")
    assert rig.fetch(database) == b"the reply"
    assert database.sent == [(rig.widened, SAME)]
    assert rig.counted() == {"divided": 0, "nested": 0, "member": 1}
    assert rig.division is not None
    assert not rig.division.is_divided


def test_a_larger_pool_is_made_of_the_lists_that_were_fetched() -> None:
    rig, database = Rig(FUSION), Database([(1, LONG), (2, OTHER)], [(3, THIRD)])
    first = rig.fetch(database)
    rig.widened = rig.adapter.widen(rig.call, [1000])
    assert rig.fetch(database) == first
    assert len(database.sent) == 1
    assert rig.counted() == {"divided": 1, "nested": 0, "member": 0}


def test_a_search_that_is_no_fusion_is_sent_as_it_is_and_not_counted() -> None:
    rig, database = Rig({"query": [1.0, 0.0], "limit": 4}), Database(answer=b"the reply")
    assert rig.fetch(database) == b"the reply"
    assert database.sent == [(rig.widened, SAME)]
    assert not any(rig.counted().values())


def test_divided_fusions_are_counted() -> None:
    rig = Rig(FUSION)
    rig.fetch(Database([(1, LONG)], [(2, OTHER)]))
    assert rig.counted() == {"divided": 1, "nested": 0, "member": 0}
    assert rig.division is not None
    assert rig.division.is_divided, "what its reply weighs is not learned for single searches"


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
    rig.policy = replace(rig.policy, tenant_keys=("owner",))
    rig.call = rig.call.__class__(
        operation=QUERY,
        searches=rig.call.searches,
        needs=needs_of(rig.policy, None),
        document=rig.call.document,
    )
    points = [
        {"id": number, "version": 1, "score": 0.5, "payload": {"text": LONG, "owner": owner}}
        for number, owner in ((1, "x"), (2, "y"))
    ]
    reply = rig.fetch(Database(answer=json.dumps({"result": [{"points": points}, {"points": []}]}).encode()))
    assert ranked(reply) == [(1, 0.5), (2, 0.33333334)]
    assert rig.division is not None
    assert not rig.division.has_copies


# A database without batches: each list is a request.


class Milvus:
    """Answers searches with ``lists`` by their fields; ``fails``: those that raise, ``stuck``: those that never end."""

    def __init__(self, lists: dict[str, Server], *, fails: tuple[str, ...] = (), stuck: tuple[str, ...] = ()) -> None:
        self.sent: list[str] = []
        self.under_way = self.most = 0
        self._lists, self._fails, self._stuck = lists, fails, stuck

    async def __call__(self, body: bytes, *, ending: Ending = SAME, further: ReadKind | None = None) -> bytes:
        if ending == SAME:
            self.sent.append("whole")
            return b"the reply"
        request = message_type("SearchRequest").FromString(body)
        (field,) = [pair.value for pair in request.search_params if pair.key == "anns_field"]
        self.sent.append(field)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            if field in self._fails:
                raise RejectedReplyError(FailOpen.OVERFETCH_STATUS)
            if field in self._stuck:
                await asyncio.Event().wait()
            return self._lists[field].answer(body)
        finally:
            self.under_way -= 1


def row_of(number: int, text: str, score: float) -> Row:
    vectors: dict[str, bytes | None] = {
        name: np.zeros(8, "<f4").tobytes() if name == "vec" else b"" for name in VECTORS
    }
    return Row(id=number, score=score, values=dict.fromkeys(NUMBERS) | {"text": text}, vectors=vectors, meta={})


LISTS = {
    "vec": Server(lists=((row_of(1, LONG, 0.9), row_of(9, LONG, 0.8), row_of(2, OTHER, 0.7)),), nullable=True),
    "half": Server(lists=((row_of(3, THIRD, 0.9),),), nullable=True),
}


def hybrid_rig() -> Rig:
    hybrid = message_type("HybridSearchRequest")(collection_name="c")
    for field in LISTS:
        part = hybrid.requests.add(nq=1, placeholder_group=group(101, [np.ones(8, "<f4").tobytes()]))
        pairs(part.search_params, topk=10, anns_field=field)
    hybrid.output_fields.extend(["text"])
    pairs(hybrid.rank_params, strategy="rrf", params='{"k":60}', limit=4)
    adapter = MilvusGrpc()
    known = adapter.parse_description(LISTS["vec"].schema.SerializeToString())
    return Rig(
        hybrid.SerializeToString(), adapter, Operation(backend="milvus", name="hybrid_search", collection="c"), known
    )


def ranked_rows(raw: bytes) -> list[tuple[int, float]]:
    results = message_type("SearchResults").FromString(raw).results
    return list(zip(results.ids.int_id.data, results.scores, strict=True))


def test_lists_that_are_requests_each_are_asked_for_at_once_and_their_copies_come_last() -> None:
    rig, milvus = hybrid_rig(), Milvus(LISTS)
    rows = ranked_rows(rig.fetch(milvus))
    assert [number for number, _ in rows] == [1, 3, 2, 9]
    assert [score for _, score in rows] == pytest.approx([1 / 61, 1 / 61, 1 / 62, 1 / 62])
    assert (sorted(milvus.sent), milvus.most) == (["half", "vec"], 2)
    assert rig.counted()["divided"] == 1


def test_the_further_lists_are_reads_of_ours_and_are_withheld_after_a_refusal() -> None:
    rig, milvus = hybrid_rig(), Milvus(LISTS)
    rig.reads.refused("c")
    assert rig.fetch(milvus) == b"the reply"
    assert milvus.sent == ["whole"]
    assert rig.count("withheld") == 1
    other = hybrid_rig()
    other.fetch(Milvus(LISTS))
    assert other.registry.get_sample_value("vecsieve_own_reads_total", {"kind": "retrievers"}) == 1


def test_the_first_failure_ends_the_other_requests() -> None:
    rig, milvus = hybrid_rig(), Milvus(LISTS, fails=("half",), stuck=("vec",))
    with pytest.raises(RejectedReplyError):
        rig.fetch(milvus)
    assert (sorted(milvus.sent), milvus.under_way) == (["half", "vec"], 0)

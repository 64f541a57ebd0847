"""Pages are kept by all that decides them, and by nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from support.backends.text_rankings import DATABASES, QUERY, TOP_K
from support.backends.toy_exchange import ToyExchange, Toys, toys
from support.qdrant import model as qdrant_model
from vecsieve.adapters.contract import Needs, Operation, Pool, Reply, Search, SearchCall
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.statements import PoolStatements
from vecsieve.proxy.search.collections.texts import WINDOW
from vecsieve.proxy.search.memory.pages import Page, Pages, page_key
from vecsieve.proxy.search.memory.points import Rows
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.pools.values import Planned, PoolSet
from vecsieve.proxy.search.searcher import untouched
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.selection.values import Metric
from vecsieve.proxy.telemetry.tracing import Stopwatch

POLICY = Policies(Settings()).resolve("qdrant", "c").with_texts(("text",))
ROWS = np.eye(3, dtype=np.float32)
POOL = Pool(scores=np.array([0.9, 0.8, 0.7]), vectors=ROWS, fields=((b'"a"',), (b'"b"',), (b'"c"',)))
SEARCH = Search(top_k=2, offset=0, pages=False, query=np.ones(3, np.float32))
KNOWN = Rows(ROWS, identity=b"123", metric=Metric.COSINE, until=1.0)


def pools(policy: ResolvedPolicy = POLICY, *, is_by_texts: bool, searches: int = 1) -> PoolSet:
    operation = Operation(backend="qdrant", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(SEARCH,) * searches, needs=Needs(), document=None)
    plan = (50,) * searches
    return PoolSet(
        planned=Planned(call=call, policy=policy, plan=plan, watch=Stopwatch(lambda: 0.0, 0.0)),
        call=call,
        policy=policy,
        is_by_texts=is_by_texts,
        reply=Reply(pools=(POOL,) * searches, document=None),
        sizes=plan,
        exhausted=(True,) * searches,
        known=(),
        rounds=1,
        reply_bytes=0,
    )


def test_where_vectors_decide_a_page_depends_on_all_that_they_are_compared_by() -> None:
    made = pools(is_by_texts=False)
    key = page_key(made, SEARCH, POOL, KNOWN, 1.0)
    assert key is not None
    assert key == page_key(made, SEARCH, POOL, replace(KNOWN, until=2.0), 1.0)
    others = [
        page_key(made, SEARCH, POOL, replace(KNOWN, identity=b"124"), 1.0),
        page_key(made, SEARCH, POOL, replace(KNOWN, metric=None), 1.0),
        page_key(made, SEARCH, POOL, KNOWN, 2.0),
        page_key(made, SEARCH, replace(POOL, scores=np.array([0.9, 0.8, 0.6])), KNOWN, 1.0),
        page_key(made, SEARCH, replace(POOL, fields=((b'"a"',), (b'"b"',), (b'"d"',))), KNOWN, 1.0),
        page_key(made, SEARCH, replace(POOL, alone=(1,)), KNOWN, 1.0),
        page_key(made, replace(SEARCH, query=np.zeros(3, np.float32)), POOL, KNOWN, 1.0),
        page_key(made, replace(SEARCH, top_k=3), POOL, KNOWN, 1.0),
    ]
    assert None not in others
    assert len({key, *others}) == len(others) + 1


@pytest.mark.parametrize("is_by_texts", [True, False])
def test_equal_payloads_that_are_read_otherwise_are_other_pages(is_by_texts: bool) -> None:
    """Two rules may differ in nothing but the path of the text within one payload key."""
    other = Policies(Settings()).resolve("qdrant", "c").with_texts(("text.body",))
    assert other.selection == POLICY.selection
    keys = [page_key(pools(variant, is_by_texts=is_by_texts), SEARCH, POOL, KNOWN, 1.0) for variant in (POLICY, other)]
    assert keys[0] is not None
    assert keys[0] != keys[1]


def test_pages_of_a_ranking_of_a_batch_and_of_rows_that_memory_lacks_are_not_kept() -> None:
    made = pools(is_by_texts=False)
    assert page_key(made, SEARCH, POOL, None, None) is None
    assert page_key(made, replace(SEARCH, pages=True), POOL, KNOWN, 1.0) is None
    assert page_key(pools(is_by_texts=False, searches=2), SEARCH, POOL, KNOWN, 1.0) is None


@pytest.mark.parametrize(("is_repeated", "times"), [(False, 2), (True, 1)])
def test_a_page_is_kept_when_it_is_made_again_or_its_request_was_answered_before(is_repeated: bool, times: int) -> None:
    kept, page = Pages(), Page(untouched(POOL), ())
    key = page_key(pools(is_by_texts=False), SEARCH, POOL, KNOWN, 1.0)
    assert key is not None
    for _ in range(times):
        assert kept.get(key, POOL) is None
        kept.made(key, page, is_repeated=is_repeated)
    assert kept.get(key, POOL) is page.selection


def test_a_page_that_depends_on_payloads_is_of_pools_with_the_same_ones() -> None:
    kept, key = Pages(), page_key(pools(is_by_texts=False), SEARCH, POOL, KNOWN, 1.0)
    assert key is not None
    one = replace(POOL, payloads=lambda rows: [b'{"a":"x"}' for _ in rows])
    other = replace(POOL, payloads=lambda rows: [b'{"a":"y"}' for _ in rows])
    assert one.payloads is not None
    statements = PoolStatements(one.payloads, one.size)
    statements.unsaid(0, (1,), "")
    page = Page(untouched(one), statements.evidence)
    kept.made(key, page, is_repeated=True)
    assert kept.get(key, one) is page.selection
    assert kept.get(key, other) is None


# Kept pages: one is given again only where everything on which it depends is the same.

PARTS = "valve pump seal motor shaft gauge hose tank filter lamp cable fuse plug rotor blade bolt".split()  # noqa: SIM905 - a sentence is easier to read
DATABASE = DATABASES["qdrant"]


def sentence(number: int) -> str:
    turned = PARTS[number % 16 :] + PARTS[: number % 16]
    return f"Part {number} has a " + " and a ".join(turned[:: 1 + number % 2]) + "."


def policy_of(**policy: object) -> ResolvedPolicy:
    return Policies(Settings.model_validate({"policy": policy})).resolve("qdrant", "c")


Point = tuple[Mapping[str, object], Sequence[float]]


def spread(number: int) -> list[float]:
    """Vectors far apart."""
    return [1.0 + (number * place * 7) % 11 for place in range(1, 9)]


@dataclass(slots=True)
class Client:
    around: Toys = field(default_factory=toys)
    service: SearchService = field(init=False)

    def __post_init__(self) -> None:
        self.service = SearchService(DATABASE.adapter, DATABASE.dialect, self.around.services, number_bytes=4)

    async def ids(self, points: Sequence[Point], policy: ResolvedPolicy) -> list[int]:
        """The ids of the answer."""
        stored = tuple(
            qdrant_model.Stored(
                id=str(number),
                score=str(0.9375 - number / 128),
                payload=tuple((key, json.dumps(value)) for key, value in payload.items()),
                vectors=(("", json.dumps(vector)),),
            )
            for number, (payload, vector) in enumerate(points)
        )
        exchange = ToyExchange(
            policy=policy,
            plain=json.dumps({"query": QUERY, "limit": TOP_K, "with_payload": True}).encode(),
            operation=DATABASE.operation,
            answering=partial(qdrant_model.Server(points=stored).answer, "query"),
        )
        attempt = self.service.prepare(exchange, DATABASE.known)
        assert isinstance(attempt, Source), attempt
        answer, _ = await self.service.best_answer(exchange, attempt)
        return [point["id"] for point in json.loads(answer.body)["result"]["points"]]


async def test_a_page_by_another_text_below_the_same_key_is_another() -> None:
    """A reload may change where the text is; the values that were fetched are the same."""
    points = [
        ({"meta": {"title": sentence(number // 2), "body": sentence(100 + number)}}, spread(number))
        for number in range(24)
    ]
    titles, bodies = (
        policy_of(text_fields=("meta.title",), ignore=("meta.body",)),
        policy_of(text_fields=("meta.body",), ignore=("meta.body",)),
    )
    client = Client()
    for _ in range(WINDOW + 4):
        assert await client.ids(points, titles) == [0, 2, 4, 6]
    assert await client.ids(points, bodies) == [0, 1, 2, 3]


async def test_a_page_by_other_tenants_is_another() -> None:
    points = [({"text": sentence(number // 2), "source_id": number % 2}, spread(number // 2)) for number in range(24)]
    client = Client()
    for _ in range(WINDOW + 4):
        assert await client.ids(points, policy_of()) == [0, 2, 4, 6]
    assert await client.ids(points, policy_of(tenant_keys=("source_id",))) == [0, 1, 2, 3]

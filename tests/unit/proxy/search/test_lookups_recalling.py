"""A search fetched without vectors gives the answer of one fetched with them, or is fetched again."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clocks import ManualClock
from support.pinecone_model import Service, Stored
from vecsieve.adapters.contract import Needs, Operation, Pool, Reply, Search, SearchCall
from vecsieve.adapters.pinecone.rest import PineconeRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import Attempt, needs_of, plan
from vecsieve.proxy.search.lookups import WINDOW, VectorMemory, completed, is_promising
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.labels import FailOpen, MemoryLookup
from vecsieve.proxy.telemetry.tracing import Stopwatch

OPERATION = Operation(backend="pinecone", name="query", collection="docs")
QUERY = np.array([1, 1], np.float32)
VECTORS = np.array([[1, 0], [0, 1]], np.float32)
NONE = np.zeros((2, 0), np.float32)


def call(*searches: Search, vectors: bool = True) -> SearchCall:
    return SearchCall(operation=OPERATION, searches=searches, needs=Needs(vectors=vectors), document=None)


def search(partition: bytes = b"", query: object = QUERY) -> Search:
    assert query is None or isinstance(query, np.ndarray)
    return Search(top_k=1, offset=0, pages=False, query=query, partition=partition)


def reply(*pools: Pool) -> Reply:
    return Reply(pools=pools, document="spans")


def pool(vectors: np.ndarray = VECTORS, ids: tuple[bytes, ...] = (b"1", b"2")) -> Pool:
    missing = len(ids) if not vectors.shape[1] else 0
    return Pool(scores=np.zeros(len(ids)), vectors=vectors, ids=ids, unusable=missing)


@pytest.fixture
def memory() -> VectorMemory:
    return VectorMemory(1_000_000, clock=ManualClock())


def test_a_pool_with_vectors_is_remembered_and_returned_as_it_is(memory: VectorMemory) -> None:
    given_ = reply(pool())
    assert completed(memory, call(search()), given_) == given_
    assert memory.recall("docs", b"", (b"1", b"2")) is not None


def test_a_pool_without_vectors_gets_them_from_memory(memory: VectorMemory) -> None:
    completed(memory, call(search(b'"ns"')), reply(pool()))
    found = completed(memory, call(search(b'"ns"'), vectors=False), reply(pool(NONE, (b"2", b"1"))))
    assert found is not None
    assert found.document == "spans"
    assert found.pools[0].vectors.tolist() == [[0, 1], [1, 0]]
    assert (found.pools[0].unusable, found.pools[0].compared_by) == (0, "")


@pytest.mark.parametrize(
    ("searched", "ids"), [(search(b'"ns"'), (b"1", b"2")), (search(), (b"1", b"3"))], ids=["namespace", "id"]
)
def test_an_unknown_record_is_no_reply(memory: VectorMemory, searched: Search, ids: tuple[bytes, ...]) -> None:
    completed(memory, call(search()), reply(pool()))
    assert completed(memory, call(searched, vectors=False), reply(pool(NONE, ids))) is None


def test_vectors_of_another_dimension_than_the_querys_are_neither_remembered_nor_used(memory: VectorMemory) -> None:
    three = search(query=np.ones(3, np.float32))
    completed(memory, call(three), reply(pool()))
    assert memory.recall("docs", b"", (b"1",)) is None
    completed(memory, call(search()), reply(pool()))
    assert completed(memory, call(three, vectors=False), reply(pool(NONE))) is None


def test_a_search_without_a_dense_vector_has_nothing_to_do_with_memory(memory: VectorMemory) -> None:
    sparse = search(query=None)
    given_ = reply(pool())
    assert completed(memory, call(sparse), given_) == given_
    assert memory.recall("docs", b"", (b"1",)) is None
    assert completed(memory, call(sparse, vectors=False), reply(pool(NONE))) is not None


def test_an_empty_pool_and_one_without_ids_are_left_alone(memory: VectorMemory) -> None:
    for each in (pool(np.zeros((0, 0), np.float32), ()), Pool(scores=np.zeros(2), vectors=NONE)):
        assert completed(memory, call(search(), vectors=False), reply(each)) == reply(each)


def test_a_pool_whose_vectors_were_asked_for_and_did_not_come_is_the_ladders_business(memory: VectorMemory) -> None:
    completed(memory, call(search()), reply(pool()))
    blind = reply(pool(NONE))
    assert completed(memory, call(search()), blind) == blind


def test_only_searches_by_a_dense_vector_are_promising(memory: VectorMemory) -> None:
    assert not is_promising(memory, call(search()))
    for _ in range(WINDOW + 1):
        completed(memory, call(search()), reply(pool()))
    assert is_promising(memory, call(search()))
    assert not is_promising(memory, call(search(query=None)))


# From here on: the whole life of a search, over an upstream that answers as Pinecone writes.


def service(families: Sequence[int]) -> Service:
    return Service(records=tuple(
        Stored(
            id=f'"r{rank}-{family}"', score=f"{0.9 - rank / 1000:.3f}",
            values=json.dumps([1.0 if axis == family else 0.0 for axis in range(8)], separators=(",", ":")),
        )
        for rank, family in enumerate(families)
    ))  # fmt: skip


class Upstream:
    """Answers; records whether values were asked for. ``refuses``: replies from that one on."""

    def __init__(self, families: Sequence[int], refuses: int = 1000) -> None:
        self.service = service(families)
        self.asked: list[bool] = []
        self.refuses = refuses

    async def fetch(self, body: bytes) -> bytes:
        if len(self.asked) >= self.refuses:
            raise RejectedReplyError(FailOpen.OVERFETCH_STATUS)
        self.asked.append(json.loads(body).get("includeValues", False))
        return self.service.answer("query", body)


def policy() -> ResolvedPolicy:
    return Policies(Settings(backend="pinecone")).resolve("pinecone", "docs")


def body(top_k: int = 3, **members: object) -> bytes:
    return json.dumps({"topK": top_k, "vector": [1.0] * 8, **members}).encode()


def attempt_of(searcher: Searcher, sent: bytes) -> Attempt:
    chosen = policy()
    whole = searcher.read(OPERATION, sent, needs_of(chosen, None))
    lean = searcher.lean(whole, sent)
    sizes = plan(whole, chosen, None)
    assert sizes is not None
    asked, spare = (whole, None) if lean is None else (lean, whole)
    return Attempt(call=asked, spare=spare, policy=chosen, plan=sizes, watch=Stopwatch(lambda: 0.0))


async def answered(searcher: Searcher, upstream: Upstream, sent: bytes) -> tuple[bytes, MemoryLookup | None]:
    attempt = attempt_of(searcher, sent)
    return await searcher.improve(attempt, upstream.fetch, cap=None), attempt.recall


COPIES = [0, 0, 1, 2, 2, 3, 1, 3]


async def warmed(memory: VectorMemory, families: Sequence[int] = COPIES) -> Searcher:
    searcher, upstream = Searcher(PineconeRest(), memory=memory), Upstream(families)
    for _ in range(WINDOW + 1):
        await answered(searcher, upstream, body())
    return searcher


async def test_after_eight_known_pools_vectors_are_asked_for_no_more_and_the_answer_is_the_same(
    memory: VectorMemory,
) -> None:
    searcher, upstream = Searcher(PineconeRest(), memory=memory), Upstream(COPIES)
    answers = [await answered(searcher, upstream, body()) for _ in range(12)]
    assert {answer for answer, _ in answers} == {answers[0][0]}
    assert [match["id"] for match in json.loads(answers[0][0])["matches"]] == ["r0-0", "r2-1", "r3-2"]
    assert upstream.asked == [True] * WINDOW + [False] * 4
    assert [recall for _, recall in answers] == [None] * WINDOW + [MemoryLookup.HIT] * 4


async def test_a_pool_with_a_new_record_is_fetched_again_and_the_answer_is_the_same(memory: VectorMemory) -> None:
    searcher = await warmed(memory)
    changed = Upstream([*COPIES[:1], 5, *COPIES[2:]])
    direct, _ = await answered(Searcher(PineconeRest()), changed, body())
    changed.asked.clear()
    answer, recall = await answered(searcher, changed, body())
    assert (answer, recall, changed.asked) == (direct, MemoryLookup.MISS, [False, True])


async def test_when_the_second_fetch_fails_the_plain_answer_comes_from_the_first(memory: VectorMemory) -> None:
    searcher = await warmed(memory)
    changed = Upstream([5, *COPIES[1:]], refuses=1)
    attempt = attempt_of(searcher, body())
    with pytest.raises(RejectedReplyError):
        await searcher.improve(attempt, changed.fetch, cap=None)
    assert [match["id"] for match in json.loads(searcher.plain(attempt))["matches"]] == ["r0-5", "r1-0", "r2-1"]


async def test_a_pool_that_must_grow_beyond_what_is_known_is_fetched_with_its_vectors(memory: VectorMemory) -> None:
    searcher = await warmed(memory, [0] * 24)
    larger = Upstream([0] * 24 + [1] * 5 + [2] * 5)
    direct, _ = await answered(Searcher(PineconeRest()), larger, body())
    larger.asked.clear()
    answer, recall = await answered(searcher, larger, body())
    assert (answer, recall, larger.asked) == (direct, MemoryLookup.MISS, [False, False, True])


async def test_when_growing_fails_after_a_recall_the_smaller_pool_stands(memory: VectorMemory) -> None:
    searcher = await warmed(memory, [0] * 24)
    larger = Upstream([0] * 24 + [1] * 5, refuses=2)
    answer, recall = await answered(searcher, larger, body())
    assert [match["id"] for match in json.loads(answer)["matches"]] == ["r0-0", "r1-0", "r2-0"]
    assert recall is MemoryLookup.MISS


async def test_a_client_that_asks_for_values_itself_gets_them(memory: VectorMemory) -> None:
    searcher, upstream = await warmed(memory), Upstream(COPIES)
    answer, recall = await answered(searcher, upstream, body(includeValues=True))
    assert all(len(match["values"]) == 8 for match in json.loads(answer)["matches"])
    assert (recall, upstream.asked) == (None, [True])


async def test_a_namespace_is_remembered_on_its_own(memory: VectorMemory) -> None:
    searcher, upstream = await warmed(memory), Upstream(COPIES)
    _, recall = await answered(searcher, upstream, body(namespace="other"))
    assert recall is MemoryLookup.MISS


@given(
    rankings=st.lists(st.lists(st.integers(0, 7), min_size=4, max_size=40), min_size=1, max_size=6),
    order=st.lists(st.integers(0, 5), max_size=30),
)
@settings(max_examples=40)
async def test_memory_never_changes_an_answer(rankings: list[list[int]], order: list[int]) -> None:
    """Invariant: while every id keeps its vector, answers with a memory are those without, byte for byte."""
    searcher = Searcher(PineconeRest(), memory=VectorMemory(30_000, clock=ManualClock()))
    for number in order:
        families = rankings[number % len(rankings)]
        with_memory, _ = await answered(searcher, Upstream(families), body())
        direct, _ = await answered(Searcher(PineconeRest()), Upstream(families), body())
        assert with_memory == direct

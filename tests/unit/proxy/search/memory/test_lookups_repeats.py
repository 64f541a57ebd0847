"""Requests that were answered before, so that memory has their points."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clocks import ManualClock
from vecsieve.adapters.contract import Needs, Operation, Pool, Search, SearchCall
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.fetch import Attempt
from vecsieve.proxy.search.memory.lookups import (
    PARSED_BYTES,
    REQUESTS,
    Repeats,
    arranged,
    begins_with,
    candidates_needed,
    settled_order,
)
from vecsieve.proxy.search.memory.points import QUIET_SECONDS, FeatureMemory
from vecsieve.proxy.search.memory.recall import Recall
from vecsieve.proxy.search.memory.shelves import Decided, Enough
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.report import figures
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Caps, Fixed, Linkage, Policy, Relevance, Similarity, Strategy
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Metric

POLICY = Policies(Settings()).resolve("qdrant", "c").selection


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> FeatureMemory:
    return FeatureMemory(1 << 20, ttl_seconds=600.0, clock=clock)


@pytest.fixture
def repeats(memory: FeatureMemory) -> Repeats:
    return Repeats(memory)


def answered(repeats: Repeats, body: bytes, *, until: float | None = math.inf) -> None:
    repeats.answered(repeats.of("c", body), has_until=until)


def is_known(repeats: Repeats, body: bytes, *, collection: str = "c") -> bool:
    return repeats.of(collection, body).is_known


def test_a_request_is_known_once_it_was_answered_and_no_other_is(repeats: Repeats) -> None:
    assert not is_known(repeats, b"a")
    answered(repeats, b"a")
    assert is_known(repeats, b"a")
    assert not is_known(repeats, b"b")
    assert not is_known(repeats, b"a", collection="d")


def test_one_whose_points_memory_cannot_recall_is_not_known(repeats: Repeats) -> None:
    answered(repeats, b"a", until=None)
    assert not is_known(repeats, b"a")
    answered(repeats, b"a")
    assert is_known(repeats, b"a")


def test_one_whose_points_are_other_ones_each_time_is_not_tried_again_until_all_is_forgotten(
    repeats: Repeats, memory: FeatureMemory, clock: ManualClock
) -> None:
    answered(repeats, b"a")
    answered(repeats, b"a", until=None)
    answered(repeats, b"a")
    assert not is_known(repeats, b"a")
    memory.forget("c")
    clock.advance(QUIET_SECONDS)
    answered(repeats, b"a")
    assert is_known(repeats, b"a")


def test_one_whose_points_are_too_old_is_trusted_again_once_they_came_anew(
    repeats: Repeats, clock: ManualClock
) -> None:
    answered(repeats, b"a", until=clock.now + 600.0)
    clock.advance(600.0)
    assert is_known(repeats, b"a")
    clock.advance(1.0)
    found = repeats.of("c", b"a")
    assert found.is_old
    assert not found.is_known
    repeats.answered(found, has_until=clock.now + 600.0)
    assert repeats.of("c", b"a") == found._replace(is_known=True, is_old=False)


@pytest.mark.parametrize("forgotten", ["c", None])
def test_whoever_forgets_a_collection_forgets_its_requests(
    repeats: Repeats, memory: FeatureMemory, clock: ManualClock, forgotten: str | None
) -> None:
    answered(repeats, b"a")
    memory.forget(forgotten)
    assert not is_known(repeats, b"a")
    answered(repeats, b"a")
    assert not is_known(repeats, b"a"), "nothing is learnt in the quiet time"
    clock.advance(QUIET_SECONDS)
    assert not is_known(repeats, b"a")
    answered(repeats, b"a")
    assert is_known(repeats, b"a")


def test_another_collection_s_requests_stay_known(repeats: Repeats, memory: FeatureMemory) -> None:
    answered(repeats, b"a")
    memory.forget("d")
    assert is_known(repeats, b"a")


def test_the_longest_unanswered_are_dropped_beyond_the_bound(repeats: Repeats) -> None:
    for number in range(REQUESTS + 1):
        answered(repeats, b"%d" % number)
    assert not is_known(repeats, b"0")
    assert is_known(repeats, b"%d" % REQUESTS)


def enough_of(repeats: Repeats, body: bytes) -> int | None:
    enough = repeats.of("c", body).enough
    return None if enough is None else enough.candidates


def shown(repeats: Repeats, candidates: int, *, is_missed: bool = False) -> None:
    """An answer to the same request that depended on so many candidates of the whole pool."""
    enough = Enough(candidates, POLICY)
    repeats.answered(repeats.of("c", b"a"), has_until=math.inf, enough=enough, is_missed=is_missed)


def test_how_many_candidates_were_enough_is_believed_for_the_time_limit(repeats: Repeats, clock: ManualClock) -> None:
    answered(repeats, b"a")
    assert enough_of(repeats, b"a") is None
    shown(repeats, 13)
    assert enough_of(repeats, b"a") == 13
    clock.advance(400.0)
    confirmed = repeats.of("c", b"a")
    repeats.answered(confirmed, has_until=math.inf, enough=confirmed.enough)  # of the first candidates alone
    assert enough_of(repeats, b"a") == 13
    clock.advance(201.0)
    assert enough_of(repeats, b"a") is None, "the whole pool was last looked at 601 s ago"
    shown(repeats, 14)
    assert enough_of(repeats, b"a") == 14


def test_a_request_whose_first_candidates_changed_is_not_tried_again_for_the_time_limit(
    repeats: Repeats, clock: ManualClock
) -> None:
    shown(repeats, 13)
    shown(repeats, 13, is_missed=True)
    shown(repeats, 13)
    assert enough_of(repeats, b"a") is None
    clock.advance(601.0)
    shown(repeats, 13)
    assert enough_of(repeats, b"a") == 13


def test_an_answer_from_a_whole_pool_whose_decision_was_pushed_out_bars_nothing(repeats: Repeats) -> None:
    shown(repeats, 13)
    answered(repeats, b"a")  # decided anew, and not shown to be enough yet
    assert enough_of(repeats, b"a") is None
    shown(repeats, 14)
    assert enough_of(repeats, b"a") == 14


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_a_pool_begins_with_any_order_of_its_ties_and_with_no_other_points(size: int, count: int, seed: int) -> None:
    """Invariant: the first candidates are the same whatever the order of equal scores that are whole in both."""
    draw = np.random.default_rng(seed)
    scores = np.sort(draw.integers(0, 10, size).astype(float))[::-1]
    whole = Pool(scores=scores, vectors=np.empty((size, 0), np.float32), ids=tuple(b"%d" % row for row in range(size)))
    if count > size or (count < size and count and scores[count] == scores[count - 1]):
        return
    order = np.lexsort((draw.random(count), -scores[:count])).tolist()
    part = Pool(scores=scores[:count], vectors=whole.vectors[:count], ids=tuple(whole.ids[row] for row in order))
    assert begins_with(whole, part)
    if count:
        assert not begins_with(whole, replace(part, ids=(b"new", *part.ids[1:])))
        assert not begins_with(part, replace(whole, scores=np.append(scores, -1.0), ids=(*whole.ids, b"more")))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_what_a_full_page_depends_on_holds_all_that_is_kept_and_all_that_stands_for_it(top_k: int, seed: int) -> None:
    """Invariant: the first candidates alone say the same of each of them, and no full page needs more than the pool."""
    draw = np.random.default_rng(seed)
    bases = draw.normal(size=(12, 32))
    vectors = (
        bases[draw.integers(0, 12, 40)] + draw.choice([0.0, 0.05, 0.5], 40)[:, None] * draw.normal(size=(40, 32))
    ).astype(np.float32)
    scores = np.sort(draw.random(40))[::-1].copy()
    selection = select(Candidates(scores=scores, vectors=vectors, metric=Metric.COSINE), top_k=top_k, policy=POLICY)
    needed = candidates_needed(selection, scores, POLICY)
    if needed is None:
        assert selection.wanting or selection.restrained or selection.keep.max() == 39
        return
    assert top_k <= needed < 40
    pool, search = Pool(scores=scores, vectors=vectors), Search(top_k=top_k, offset=0, pages=False, query=None)
    decided = Decided(selection, figures(search, pool, selection), POLICY, np.arange(40), math.inf)
    part = arranged(decided, range(needed))
    assert part.selection.keep.tolist() == selection.keep.tolist()
    assert (part.selection.representative < needed).all()
    assert part.selection.fates.tolist() == selection.fates[:needed].tolist()
    assert part.selection.distinct == len(set(selection.labels[:needed].tolist()))
    assert part.figures is decided.figures
    assert part.slots.tolist() == list(range(needed))


@pytest.mark.parametrize(
    "other",
    [
        {"representative": Strategy.CENTROID},
        {"diversifier": Mmr(weight=0.7, relevance=Relevance.MINMAX, similarity=Similarity.SCALED)},
        {"threshold": Fixed(value=0.1), "linkage": Linkage.AVERAGE},
        {"caps": Caps(per_cluster=2, per_document=None, per_source=None)},
        {"caps": Caps(per_cluster=1, per_document=1, per_source=None)},
    ],
    ids=["centroid", "diversifier", "average linkage", "two of a cluster", "one of a document"],
)
def test_under_a_policy_that_looks_at_the_whole_pool_no_part_is_enough(other: dict[str, Any]) -> None:
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(20, 32)).astype(np.float32)
    scores = np.linspace(1.0, 0.5, 20)
    selection = select(Candidates(scores=scores, vectors=vectors, metric=Metric.COSINE), top_k=5, policy=POLICY)
    assert candidates_needed(selection, scores, POLICY) == 5
    assert candidates_needed(selection, scores, replace(POLICY, **other)) is None


@pytest.mark.parametrize(("ties", "needed"), [(1, 5), (4, 8), (16, None)])
def test_of_candidates_with_one_score_all_are_needed(ties: int, needed: int | None) -> None:
    vectors = np.random.default_rng(1).normal(size=(20, 32)).astype(np.float32)
    scores = np.linspace(1.0, 0.5, 20)
    scores[4 : 4 + ties] = scores[4]
    selection = select(Candidates(scores=scores, vectors=vectors, metric=Metric.COSINE), top_k=5, policy=POLICY)
    assert candidates_needed(selection, scores, POLICY) == needed


@given(st.data())
def test_a_decision_is_the_same_in_whatever_order_candidates_of_one_score_come(data: st.DataObject) -> None:
    """Invariant: settled and arranged back, each candidate has the fate and the representative that it had, by its id."""
    scores = np.sort(data.draw(st.lists(st.sampled_from([0.5, 0.6, 0.7]), min_size=6, max_size=6)))[::-1].copy()
    ids = [b"%d" % number for number in range(6)]
    again = [ids[place] for place in sorted(range(6), key=lambda place: (-scores[place], data.draw(st.integers())))]
    vectors = np.repeat(np.random.default_rng(1).normal(size=(3, 32)), 2, axis=0).astype(np.float32)
    selection = select(Candidates(scores=scores, vectors=vectors, metric=Metric.COSINE), top_k=3, policy=POLICY)
    pool, search = (
        Pool(scores=scores, vectors=vectors, ids=tuple(ids)),
        Search(top_k=3, offset=0, pages=False, query=None),
    )
    decided = Decided(selection, figures(search, pool, selection), POLICY, np.arange(6), math.inf)
    settled = arranged(decided, settled_order(pool, 6))
    order = settled_order(replace(pool, ids=tuple(again)), 6)
    now = arranged(settled, np.argsort(order)).selection
    assert [again[place] for place in now.keep] == [ids[place] for place in selection.keep]
    for place, name in enumerate(again):
        before = ids.index(name)
        assert now.fates[place] == selection.fates[before]
        assert again[now.representative[place]] == ids[selection.representative[before]]


OPERATION = Operation(backend="qdrant", name="query", collection="c")


def request(*, limit: int = 4) -> bytes:
    """A search by a vector, in an object of its own each time."""
    return b'{"query":[%s],"limit":%d}' % (b",".join([b"0.25"] * 32), limit)


def parsed(body: bytes, needs: Needs) -> SearchCall:
    return QdrantRest().parse_request(OPERATION, body, needs)


def test_a_kept_request_is_found_by_its_bytes_for_the_same_operation_and_needs_alone(repeats: Repeats) -> None:
    needs = Needs(optional_fields=("text",))
    assert repeats.parsed(OPERATION, request(), needs) is None
    repeats.keep(request(), needs, call := parsed(request(), needs))
    assert repeats.parsed(OPERATION, request(), replace(needs)) is call
    assert repeats.parsed(OPERATION, request(limit=5), needs) is None
    assert repeats.parsed(replace(OPERATION, collection="d"), request(), needs) is None
    assert repeats.parsed(OPERATION, request(), replace(needs, optional_fields=("title",))) is None


def test_kept_requests_are_bounded_in_bytes_and_the_last_ones_stay(repeats: Repeats) -> None:
    needs, call = Needs(), parsed(request(), Needs())
    bodies = [b"%d" % number + bytes(100_000) for number in range(PARSED_BYTES // 100_000)]
    for body in bodies:
        repeats.keep(body, needs, call)
    assert repeats.parsed(OPERATION, bodies[0], needs) is None
    assert repeats.parsed(OPERATION, bodies[-1], needs) is call


def unscaled(attempt: Attempt, _vector: str | None, _dimension: int) -> tuple[Policy, float | None]:
    """The policy of the settings."""
    return attempt.policy.selection, None


class Parsing(QdrantRest):
    """Counts the requests that it parses."""

    count = 0

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        self.count += 1
        return parsed(body, needs)


def test_a_request_that_memory_knows_is_not_parsed_again(memory: FeatureMemory) -> None:
    adapter = Parsing()
    recall = Recall(adapter, memory, unscaled)
    found = []
    for _ in range(4):
        lean, repeat = recall.lean(OPERATION, request(), Needs(), partial(adapter.parse_request, OPERATION, request()))
        recall._repeats.answered(repeat, has_until=math.inf)
        found.append(lean)
    assert found[0] is None, "memory knows nothing of the first"
    assert adapter.count == 1
    assert found[1] is not None
    assert found[1] is found[2] is found[3]

"""Requests that were answered before, so that memory has their points."""

from __future__ import annotations

import math

import pytest

from support.clocks import ManualClock
from vecsieve.proxy.search.memory.lookups import REQUESTS, Repeats
from vecsieve.proxy.search.memory.points import QUIET_SECONDS, FeatureMemory


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

"""What is learned is bounded, expires, and belongs to one collection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.collections.learned import (
    FRESH_SECONDS,
    HINT_SECONDS,
    LIMIT_SECONDS,
    REFUSED_SECONDS,
    Description,
    Expiring,
    Learned,
)


def on(collection: str, *, backend: str = "qdrant", name: str = "query") -> Operation:
    return Operation(backend=backend, name=name, collection=collection)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def learned(clock: ManualClock) -> Learned:
    return Learned(clock, entries=3)


def test_nothing_is_known_at_first(learned: Learned) -> None:
    assert (learned.cap(on("a")), learned.hint(on("a")), learned.capped_collections) == (None, None, 0)


def test_a_named_limit_is_kept_for_ten_minutes(learned: Learned, clock: ManualClock) -> None:
    learned.refused(on("a"), 100)
    clock.advance(LIMIT_SECONDS - 1)
    assert learned.cap(on("a")) == 100
    clock.advance(1)
    assert learned.cap(on("a")) is None


def test_a_refusal_without_a_limit_stops_widening_for_a_minute(learned: Learned, clock: ManualClock) -> None:
    learned.refused(on("a"), None)
    clock.advance(REFUSED_SECONDS - 1)
    assert learned.cap(on("a")) == 0
    clock.advance(1)
    assert learned.cap(on("a")) is None


def test_a_later_refusal_replaces_an_earlier_one(learned: Learned) -> None:
    learned.refused(on("a"), None)
    learned.refused(on("a"), 50)
    assert (learned.cap(on("a")), learned.capped_collections) == (50, 1)


def test_a_limit_below_zero_is_none_at_all(learned: Learned) -> None:
    learned.refused(on("a"), -1)
    assert learned.cap(on("a")) == 0


def test_knowledge_belongs_to_a_collection_and_to_all_its_operations(learned: Learned) -> None:
    learned.refused(on("a"), 100)
    assert learned.cap(on("a", name="search_batch")) == 100
    assert learned.cap(on("b")) is None


def test_a_hint_is_kept_for_an_hour(learned: Learned, clock: ManualClock) -> None:
    learned.compared(on("a"), "text")
    clock.advance(HINT_SECONDS - 1)
    assert learned.hint(on("a")) == "text"
    clock.advance(1)
    assert learned.hint(on("a")) is None


def test_the_unnamed_vector_is_a_hint_too(learned: Learned) -> None:
    learned.compared(on("a"), "")
    assert learned.hint(on("a")) == ""


def test_forgetting_unlearns_both_kinds_for_one_collection(learned: Learned) -> None:
    for collection in ("a", "b"):
        learned.refused(on(collection), 100)
        learned.compared(on(collection), "text")
    learned.forget("a")
    learned.forget("never seen")
    assert (learned.cap(on("a")), learned.hint(on("a"))) == (None, None)
    assert (learned.cap(on("b")), learned.hint(on("b"))) == (100, "text")


def test_what_may_change_any_collection_unlearns_all(learned: Learned) -> None:
    learned.refused(on("a"), 100)
    learned.compared(on("b"), "text")
    learned.descriptions.put(("c", "question"), Description("schema"), seconds=60)
    learned.forget(None)
    assert (learned.cap(on("a")), learned.hint(on("b")), learned.descriptions.get(("c", "question"))) == (
        None,
        None,
        None,
    )


def test_the_parts_of_a_collection_are_forgotten_with_it(learned: Learned) -> None:
    for collection in ("Articles", "Articles/tenant", "Articles2"):
        learned.compared(on(collection), "text")
    learned.forget("Articles")
    assert [learned.hint(on(each)) for each in ("Articles", "Articles/tenant", "Articles2")] == [None, None, "text"]


def test_a_contradiction_unlearns_what_the_collection_is_like_and_keeps_its_limit(
    learned: Learned, clock: ManualClock
) -> None:
    learned.refused(on("a"), 100)
    learned.compared(on("a"), "text")
    learned.descriptions.put(("a", "question"), Description("schema"), seconds=60)
    clock.advance(FRESH_SECONDS)
    learned.contradicted(on("a"))
    assert (learned.cap(on("a")), learned.hint(on("a")), learned.descriptions.get(("a", "question"))) == (
        100,
        None,
        None,
    )


def test_what_was_just_told_is_not_asked_again_because_of_a_contradiction(learned: Learned, clock: ManualClock) -> None:
    """Else a database that refuses every widened search would be asked a question for each of them."""
    learned.descriptions.put(("a", "question"), Description("schema"), seconds=60)
    clock.advance(FRESH_SECONDS / 2)
    learned.contradicted(on("a"))
    assert learned.descriptions.get(("a", "question")) == Description("schema")


def test_the_least_recently_used_collection_leaves_first(learned: Learned) -> None:
    for collection in ("a", "b", "c"):
        learned.refused(on(collection), 10)
    assert learned.cap(on("a")) == 10
    learned.refused(on("d"), 10)
    assert [learned.cap(on(collection)) for collection in "abcd"] == [10, None, 10, 10]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9), st.integers(0, 5)), max_size=60))
def test_any_history_reads_as_a_plain_dictionary_with_expiry(history: list[tuple[str, int, int]]) -> None:
    """Invariant: never more than the bound, never an expired value, and what is held is what was last put."""
    clock = ManualClock()
    held = Expiring[str, int](entries=4, clock=clock)
    last: dict[str, tuple[int, float]] = {}
    for key, value, wait in history:
        clock.advance(wait)
        held.put(key, value, seconds=7)
        last[key] = (value, clock.now + 7)
        assert len(held) <= 4
        assert held.get(key) == value
        for each, (put, expires) in last.items():
            found = held.get(each)
            assert found is None or (found == put and clock.now < expires)

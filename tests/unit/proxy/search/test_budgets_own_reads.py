"""The budget of our own reads: what it grants in a minute, and how it comes back after a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.backends.toy_backend import OPERATION
from support.deploy.expositions import value
from support.process.clocks import ManualClock
from vecsieve.proxy.search.budgets import (
    FREE,
    OVERDRAFT,
    QUIET_SECONDS,
    REPEATED,
    RISE_SECONDS,
    SLOT_SECONDS,
    SLOTS,
    ReadBudget,
)
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.telemetry.labels import ReadKind, Withheld
from vecsieve.proxy.telemetry.metrics import Metrics

OTHER = replace(OPERATION, collection="other")
MINUTE = SLOT_SECONDS * SLOTS


def has(budget: ReadBudget, reads: int = 1, *, is_repeat: bool = False) -> bool:
    """Whether so many reads can be held."""
    held = budget.hold(OPERATION, reads, is_repeat=is_repeat)
    if held is not None:
        held.release()
    return held is not None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def budget(clock: ManualClock, registry: CollectorRegistry) -> ReadBudget:
    return ReadBudget(0.1, metrics=Metrics(registry, backend="qdrant"), clock=clock)


def taken(budget: ReadBudget, kind: ReadKind = ReadKind.GROW, *, most: int = 100) -> int:
    """How many are granted in a row."""
    return next((count for count in range(most) if not budget.take(OPERATION, kind)), most)


def test_the_first_search_of_a_collection_may_be_grown(budget: ReadBudget) -> None:
    budget.count(OPERATION)
    assert taken(budget) == FREE


def test_the_budget_is_a_share_of_what_clients_read_in_the_last_minute(budget: ReadBudget, clock: ManualClock) -> None:
    budget.count(OPERATION, 90)
    assert taken(budget) == 9 + FREE
    assert taken(budget) == 0
    clock.advance(MINUTE)
    assert taken(budget) == FREE


def test_a_batch_costs_as_many_reads_as_it_has_searches(budget: ReadBudget) -> None:
    budget.count(OPERATION, 90)
    assert not budget.take(OPERATION, ReadKind.GROW, 11)
    assert budget.take(OPERATION, ReadKind.GROW, 10)


def test_collections_have_budgets_of_their_own(budget: ReadBudget) -> None:
    budget.count(OPERATION, 10)
    assert taken(budget) == 2
    assert budget.take(OTHER, ReadKind.GROW)


def test_what_is_granted_and_what_is_not_are_counted(budget: ReadBudget, registry: CollectorRegistry) -> None:
    assert budget.take(OPERATION, ReadKind.GROW)
    assert not budget.take(OPERATION, ReadKind.RECALL)
    budget.refused(OPERATION.collection)
    assert not budget.take(OPERATION, ReadKind.SHADOW)
    assert value(registry, "own_reads_total", kind="grow") == 1
    assert value(registry, "own_reads_total", kind="recall") == 0
    assert value(registry, "own_reads_withheld_total", reason=Withheld.BUDGET) == 1
    assert value(registry, "own_reads_withheld_total", reason=Withheld.REFUSED) == 1


def test_asking_whether_one_would_be_granted_counts_nothing(budget: ReadBudget, registry: CollectorRegistry) -> None:
    assert has(budget)
    assert not has(budget, FREE + 1)
    assert value(registry, "own_reads_withheld_total", reason=Withheld.BUDGET) == 0
    assert taken(budget) == FREE


def test_what_was_granted_and_not_sent_is_granted_again(budget: ReadBudget) -> None:
    assert taken(budget) == FREE
    budget.give_back(OPERATION)
    assert taken(budget) == 1


def test_a_repeated_request_may_reserve_reads_beyond_the_budget_for_what_memory_lacks(
    budget: ReadBudget, registry: CollectorRegistry
) -> None:
    assert taken(budget) == FREE
    assert not has(budget)
    assert budget.hold(OPERATION) is None
    held = [budget.hold(OPERATION, is_repeat=True) for _ in range(REPEATED)]
    assert all(each is not None and each.is_beyond for each in held)
    assert not has(budget, is_repeat=True)
    assert budget.hold(OPERATION, is_repeat=True) is None
    budget.grant(OPERATION, ReadKind.RECALL, 1, reserved=held[0], is_paged=False)
    assert value(registry, "own_reads_total", kind="recall") == 1
    assert not has(budget, is_repeat=True), "it was spent"
    assert held[1] is not None
    held[1].release()
    assert has(budget, is_repeat=True)


def test_what_is_reserved_beyond_the_budget_grows_no_pool(budget: ReadBudget) -> None:
    assert taken(budget) == FREE
    held = budget.hold(OPERATION, is_repeat=True)
    with pytest.raises(RejectedReplyError):
        budget.grant(OPERATION, ReadKind.GROW, 1, reserved=held, is_paged=False)


def test_after_a_refusal_no_request_exceeds_the_budget(budget: ReadBudget, clock: ManualClock) -> None:
    budget.refused(OPERATION.collection)
    clock.advance(QUIET_SECONDS + RISE_SECONDS / 2)
    assert budget.hold(OPERATION, is_repeat=True) is None


@pytest.mark.parametrize("kind", [ReadKind.SHADOW, ReadKind.LOOKUP])
def test_what_a_setting_asks_for_by_name_is_bounded_by_refusals_alone(
    budget: ReadBudget, clock: ManualClock, kind: ReadKind
) -> None:
    assert taken(budget, kind) == 100
    budget.refused(OPERATION.collection)
    assert taken(budget, kind) == 0
    clock.advance(QUIET_SECONDS + RISE_SECONDS / 2)
    budget.count(OPERATION, 10)
    assert taken(budget, kind) == 5


def test_a_replay_is_never_withheld_but_too_many_end_the_widening(budget: ReadBudget) -> None:
    for _ in range(FREE + OVERDRAFT):
        budget.spend(OPERATION, ReadKind.REPLAY)
        assert not budget.is_overdrawn(OPERATION)
    budget.spend(OPERATION, ReadKind.REPLAY)
    assert budget.is_overdrawn(OPERATION)
    budget.count(OPERATION, 10)
    assert not budget.is_overdrawn(OPERATION)


def test_after_a_refusal_nothing_is_sent_for_a_minute_then_little_then_more(
    budget: ReadBudget, clock: ManualClock
) -> None:
    budget.refused(OPERATION.collection)
    granted = []
    for _ in range(12):
        budget.count(OPERATION, 600)
        granted.append((budget.is_quiet(OPERATION), taken(budget)))
        clock.advance(MINUTE)
    assert granted[0] == (True, 0)
    assert granted[1] == (False, 0)
    assert [count for _, count in granted[1:]] == [6 * step for step in range(10)] + [60 + FREE]
    assert not any(quiet for quiet, _ in granted[1:])


def test_a_refusal_on_the_way_up_begins_anew(budget: ReadBudget, clock: ManualClock) -> None:
    budget.refused(OPERATION.collection)
    clock.advance(QUIET_SECONDS + RISE_SECONDS)
    budget.count(OPERATION, 100)
    assert budget.take(OPERATION, ReadKind.GROW)
    budget.refused(OPERATION.collection)
    assert (budget.is_quiet(OPERATION), taken(budget)) == (True, 0)


def test_a_refusal_whose_collection_cannot_be_told_ends_reads_of_ours_and_no_widening(
    budget: ReadBudget, clock: ManualClock
) -> None:
    budget.refused("")
    assert not budget.is_quiet(OPERATION)
    assert taken(budget) == 0
    assert not budget.take(OTHER, ReadKind.SHADOW)
    clock.advance(QUIET_SECONDS + RISE_SECONDS)
    assert taken(budget) == FREE


def test_only_so_many_collections_are_remembered(clock: ManualClock) -> None:
    budget = ReadBudget(0.1, metrics=Metrics(CollectorRegistry(), backend="qdrant"), clock=clock, entries=2)
    for name in ("a", "b", "a", "c"):
        budget.count(replace(OPERATION, collection=name))
    assert len(budget) == 2
    budget.refused("a")
    assert budget.is_quiet(replace(OPERATION, collection="a"))


@given(
    share=st.floats(0.0, 1.0),
    steps=st.lists(st.tuples(st.sampled_from(["ask", "take", "wait", "refuse"]), st.integers(1, 30)), max_size=120),
)
def test_in_any_minute_ours_are_at_most_one_more_than_the_share(share: float, steps: list[tuple[str, int]]) -> None:
    """When a read is granted, those of the last minute's slots pass the share of the clients' reads by at most one. Later the clients' reads may
    leave the window before those that they allowed.
    """
    clock = ManualClock(500.0)
    budget = ReadBudget(share, metrics=Metrics(CollectorRegistry(), backend="qdrant"), clock=clock)
    clients: list[tuple[int, int]] = []
    granted: list[tuple[int, int]] = []
    for what, number in steps:
        slot = int(clock() / SLOT_SECONDS)
        if what == "ask":
            budget.count(OPERATION, number)
            clients.append((slot, number))
        elif what == "take" and budget.take(OPERATION, ReadKind.GROW, number):
            granted.append((slot, number))
            theirs, ours = (sum(count for at, count in reads if at > slot - SLOTS) for reads in (clients, granted))
            assert ours <= FREE + share * theirs + 1e-5
        elif what == "wait":
            clock.advance(float(number))
        elif what == "refuse" and number == 1:
            budget.refused(OPERATION.collection)

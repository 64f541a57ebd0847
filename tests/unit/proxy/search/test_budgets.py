"""Extra bytes: counted by collection, bounded by a budget, begun anew with the UTC month."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.backends.toy_backend import OPERATION
from support.deploy.expositions import value
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.budgets import (
    FREE,
    OVERDRAFT,
    QUIET_SECONDS,
    REPEATED,
    RISE_SECONDS,
    SLOT_SECONDS,
    SLOTS,
    Egress,
    ReadBudget,
)
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.telemetry.labels import ReadKind, Withheld
from vecsieve.proxy.telemetry.metrics import Metrics

JULY = datetime(2026, 7, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def on(collection: str) -> Operation:
    return Operation(backend="pinecone", name="query", collection=collection)


@pytest.fixture
def calendar() -> ManualClock:
    return ManualClock(JULY)


def test_without_a_budget_everything_is_counted_and_nothing_is_spent(calendar: ManualClock) -> None:
    egress = Egress(None, now=calendar)
    egress.spend(on("a"), 10**18)
    assert (egress.is_spent, egress.remaining_bytes) == (False, math.inf)
    assert json.loads(egress.as_json())["extra_bytes"] == 10**18


def test_a_budget_is_spent_with_its_last_byte(calendar: ManualClock) -> None:
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), 99)
    assert (egress.is_spent, egress.remaining_bytes) == (False, 1)
    egress.spend(on("b"), 1)
    assert (egress.is_spent, egress.remaining_bytes) == (True, 0)


def test_a_search_that_passes_the_budget_leaves_nothing_and_no_debt(calendar: ManualClock) -> None:
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), 5_000)
    assert egress.remaining_bytes == 0
    calendar.advance(1)
    assert egress.remaining_bytes == 100


def test_an_answer_larger_than_what_was_read_for_it_costs_nothing(calendar: ManualClock) -> None:
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), -7)
    assert egress.remaining_bytes == 100
    assert json.loads(egress.as_json())["collections"] == [
        {"backend": "pinecone", "collection": "a", "searches": 1, "extra_bytes": 0}
    ]


def test_the_month_turns_at_midnight_utc(calendar: ManualClock) -> None:
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), 100)
    assert egress.is_spent
    calendar.advance(1)
    assert not egress.is_spent
    page = json.loads(egress.as_json())
    assert (page["month"], page["extra_bytes"], page["collections"]) == ("2026-08", 0, [])


def test_december_is_followed_by_january() -> None:
    calendar = ManualClock(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), 100)
    calendar.advance(1)
    assert not egress.is_spent
    assert json.loads(egress.as_json())["month"] == "2027-01"


def test_a_clock_that_is_set_back_does_not_give_the_month_again(calendar: ManualClock) -> None:
    calendar.advance(1)
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), 100)
    calendar.advance(-3600)
    assert egress.is_spent
    assert json.loads(egress.as_json())["month"] == "2026-08"


def test_another_budget_counts_what_is_spent_already(calendar: ManualClock) -> None:
    egress = Egress(100, now=calendar)
    egress.spend(on("a"), 80)
    egress.resize(50)
    assert egress.is_spent
    egress.resize(200)
    assert egress.remaining_bytes == 120
    egress.resize(None)
    assert not egress.is_spent


def test_a_spent_budget_is_said_once_a_month_and_once_for_each_new_budget(
    calendar: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "vecsieve.egress")
    egress = Egress(10, now=calendar)
    for _ in range(3):
        egress.spend(on("secret-index"), 10)
    assert len(caplog.messages) == 1
    calendar.advance(1)
    egress.spend(on("secret-index"), 9)
    assert len(caplog.messages) == 1
    egress.spend(on("secret-index"), 1)
    assert len(caplog.messages) == 2
    egress.resize(5)
    assert len(caplog.messages) == 3
    assert "secret-index" not in caplog.text


def test_the_page_shows_the_dearest_collection_first_and_ties_by_name(calendar: ManualClock) -> None:
    egress = Egress(1000, now=calendar)
    for name, extra in (("b", 5), ("a", 5), ("c", 7), ("b", 1), ("a", 1)):
        egress.spend(on(name), extra)
    page = json.loads(egress.as_json())
    assert page == {
        "month": "2026-07",
        "budget_bytes": 1000,
        "searches": 5,
        "extra_bytes": 19,
        "collections": [
            {"backend": "pinecone", "collection": "c", "searches": 1, "extra_bytes": 7},
            {"backend": "pinecone", "collection": "a", "searches": 2, "extra_bytes": 6},
            {"backend": "pinecone", "collection": "b", "searches": 2, "extra_bytes": 6},
        ],
        "others": {"searches": 0, "extra_bytes": 0},
    }


def test_a_name_that_is_not_ascii_is_shown_in_ascii(calendar: ManualClock) -> None:
    egress = Egress(None, now=calendar)
    egress.spend(on('é"\n'), 1)
    assert json.loads(egress.as_json())["collections"][0]["collection"] == 'é"\n'
    assert egress.as_json().isascii()


@given(
    searches=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(-50, 500)), max_size=60),
    entries=st.integers(1, 8),
    budget=st.none() | st.integers(1, 5_000),
)
def test_every_byte_is_on_the_page_once_however_many_collections_there_are(
    searches: list[tuple[str, int]], entries: int, budget: int | None
) -> None:
    """Invariant: named collections and the others add up to the total, and never more are named than the bound."""
    egress = Egress(budget, now=ManualClock(JULY), entries=entries)
    for name, extra in searches:
        egress.spend(on(name), extra)
    page = json.loads(egress.as_json())
    rows = [*page["collections"], page["others"]]
    total = sum(max(0, extra) for _, extra in searches)
    assert len(page["collections"]) <= entries
    assert page["extra_bytes"] == total == sum(row["extra_bytes"] for row in rows)
    assert page["searches"] == len(searches) == sum(row["searches"] for row in rows)
    assert egress.remaining_bytes == (math.inf if budget is None else max(0, budget - total))
    assert egress.is_spent == (budget is not None and total >= budget)


# The budget of our own reads: what it grants in a minute, and how it comes back after a refusal.

OTHER = replace(OPERATION, collection="other")
MINUTE = SLOT_SECONDS * SLOTS


def has(budget: ReadBudget, reads: int = 1, *, is_repeat: bool = False) -> bool:
    """Whether so many reads can be held."""
    hold = budget.hold(OPERATION, reads, is_repeat=is_repeat)
    if hold is not None:
        hold.release()
    return hold is not None


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
    reservations = [budget.hold(OPERATION, is_repeat=True) for _ in range(REPEATED)]
    assert all(reservation is not None and reservation.is_beyond for reservation in reservations)
    assert not has(budget, is_repeat=True)
    assert budget.hold(OPERATION, is_repeat=True) is None
    budget.grant(OPERATION, ReadKind.RECALL, 1, reserved=reservations[0], is_paged=False)
    assert value(registry, "own_reads_total", kind="recall") == 1
    assert not has(budget, is_repeat=True), "it was spent"
    assert reservations[1] is not None
    reservations[1].release()
    assert has(budget, is_repeat=True)


def test_what_is_reserved_beyond_the_budget_grows_no_pool(budget: ReadBudget) -> None:
    assert taken(budget) == FREE
    reservation = budget.hold(OPERATION, is_repeat=True)
    with pytest.raises(RejectedReplyError):
        budget.grant(OPERATION, ReadKind.GROW, 1, reserved=reservation, is_paged=False)


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

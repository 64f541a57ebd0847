"""Extra bytes: counted by collection, bounded by a budget, begun anew with the UTC month."""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.budgets import Egress

JULY = datetime(2026, 7, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def on(collection: str, backend: str = "pinecone") -> Operation:
    return Operation(backend=backend, name="query", collection=collection)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(JULY)


def test_without_a_budget_everything_is_counted_and_nothing_is_spent(clock: ManualClock) -> None:
    egress = Egress(None, now=clock)
    egress.spend(on("a"), 10**18)
    assert (egress.is_spent, egress.remaining_bytes) == (False, math.inf)
    assert json.loads(egress.as_json())["extra_bytes"] == 10**18


def test_a_budget_is_spent_with_its_last_byte(clock: ManualClock) -> None:
    egress = Egress(100, now=clock)
    egress.spend(on("a"), 99)
    assert (egress.is_spent, egress.remaining_bytes) == (False, 1)
    egress.spend(on("b"), 1)
    assert (egress.is_spent, egress.remaining_bytes) == (True, 0)


def test_a_search_that_passes_the_budget_leaves_nothing_and_no_debt(clock: ManualClock) -> None:
    egress = Egress(100, now=clock)
    egress.spend(on("a"), 5_000)
    assert egress.remaining_bytes == 0
    clock.advance(1)
    assert egress.remaining_bytes == 100


def test_an_answer_larger_than_what_was_read_for_it_costs_nothing(clock: ManualClock) -> None:
    egress = Egress(100, now=clock)
    egress.spend(on("a"), -7)
    assert egress.remaining_bytes == 100
    assert json.loads(egress.as_json())["collections"] == [
        {"backend": "pinecone", "collection": "a", "searches": 1, "extra_bytes": 0}
    ]


def test_the_month_turns_at_midnight_utc(clock: ManualClock) -> None:
    egress = Egress(100, now=clock)
    egress.spend(on("a"), 100)
    assert egress.is_spent
    clock.advance(1)
    assert not egress.is_spent
    page = json.loads(egress.as_json())
    assert (page["month"], page["extra_bytes"], page["collections"]) == ("2026-08", 0, [])


def test_december_is_followed_by_january() -> None:
    clock = ManualClock(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
    egress = Egress(100, now=clock)
    egress.spend(on("a"), 100)
    clock.advance(1)
    assert not egress.is_spent
    assert json.loads(egress.as_json())["month"] == "2027-01"


def test_a_clock_that_is_set_back_does_not_give_the_month_again(clock: ManualClock) -> None:
    clock.advance(1)
    egress = Egress(100, now=clock)
    egress.spend(on("a"), 100)
    clock.advance(-3600)
    assert egress.is_spent
    assert json.loads(egress.as_json())["month"] == "2026-08"


def test_another_budget_counts_what_is_spent_already(clock: ManualClock) -> None:
    egress = Egress(100, now=clock)
    egress.spend(on("a"), 80)
    egress.resize(50)
    assert egress.is_spent
    egress.resize(200)
    assert egress.remaining_bytes == 120
    egress.resize(None)
    assert not egress.is_spent


def test_a_spent_budget_is_said_once_a_month_and_once_for_each_new_budget(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "vecsieve.egress")
    egress = Egress(10, now=clock)
    for _ in range(3):
        egress.spend(on("secret-index"), 10)
    assert len(caplog.messages) == 1
    clock.advance(1)
    egress.spend(on("secret-index"), 9)
    assert len(caplog.messages) == 1
    egress.spend(on("secret-index"), 1)
    assert len(caplog.messages) == 2
    egress.resize(5)
    assert len(caplog.messages) == 3
    assert "secret-index" not in caplog.text


def test_the_page_shows_the_dearest_collection_first_and_ties_by_name(clock: ManualClock) -> None:
    egress = Egress(1000, now=clock)
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


def test_a_name_that_is_not_ascii_is_shown_in_ascii(clock: ManualClock) -> None:
    egress = Egress(None, now=clock)
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

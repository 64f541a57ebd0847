"""The breaker opens on the documented counts, waits the documented time, and lets one probe decide."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.proxy.search.limits import PROBE_SECONDS, Breaker, spread
from vecsieve.proxy.telemetry.labels import BreakerState

CLOSED, OPEN, PROBING = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.PROBING


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def heard() -> list[BreakerState]:
    return []


@pytest.fixture
def breaker(clock: ManualClock, heard: list[BreakerState]) -> Breaker:
    return Breaker(clock, jitter=lambda _: 0.0, changed=heard.append)


def repeat(times: int, call: Callable[[], None]) -> None:
    for _ in range(times):
        call()


def probe(breaker: Breaker, clock: ManualClock) -> None:
    """It opens, and after its wait lets a call through."""
    repeat(5, breaker.failed)
    clock.advance(30)
    assert breaker.allow()


def test_four_failures_in_a_row_change_nothing_and_the_fifth_opens(breaker: Breaker) -> None:
    repeat(4, breaker.failed)
    assert (breaker.allow(), breaker.state) == (True, CLOSED)
    breaker.failed()
    assert (breaker.allow(), breaker.state) == (False, OPEN)


def test_a_success_between_failures_starts_the_row_anew(breaker: Breaker) -> None:
    repeat(4, breaker.failed)
    breaker.succeeded()
    repeat(4, breaker.failed)
    assert breaker.state is CLOSED


def test_more_than_half_of_twenty_in_ten_seconds_opens(breaker: Breaker, clock: ManualClock) -> None:
    for _ in range(9):
        breaker.failed()
        breaker.succeeded()
        clock.advance(1.0)
    breaker.failed()
    assert breaker.state is CLOSED, "10 of 19: too few calls to judge by"
    breaker.failed()
    assert breaker.state is OPEN, "11 of 20"


def test_exactly_half_does_not_open(breaker: Breaker) -> None:
    for _ in range(30):
        breaker.succeeded()
        breaker.failed()
    assert breaker.state is CLOSED


def test_failures_older_than_ten_seconds_do_not_count(breaker: Breaker, clock: ManualClock) -> None:
    for _ in range(9):
        breaker.failed()
        breaker.succeeded()
    clock.advance(11.0)
    repeat(4, breaker.failed)
    assert breaker.state is CLOSED


def test_an_open_breaker_lets_one_probe_through_after_thirty_seconds(breaker: Breaker, clock: ManualClock) -> None:
    repeat(5, breaker.failed)
    clock.advance(29.9)
    assert not breaker.allow()
    clock.advance(0.1)
    assert [breaker.allow(), breaker.allow(), breaker.allow()] == [True, False, False]
    assert breaker.state is PROBING


def test_a_probe_that_succeeds_closes_and_forgets_the_past(
    breaker: Breaker, clock: ManualClock, heard: list[BreakerState]
) -> None:
    probe(breaker, clock)
    breaker.succeeded()
    repeat(4, breaker.failed)
    assert (breaker.state, heard) == (CLOSED, [OPEN, PROBING, CLOSED])


def test_each_failed_probe_makes_the_wait_longer_up_to_five_minutes(breaker: Breaker, clock: ManualClock) -> None:
    repeat(5, breaker.failed)
    waits = []
    for _ in range(12):
        opened = clock.now
        while not breaker.allow():
            clock.advance(1.0)
        waits.append(clock.now - opened)
        breaker.failed()
    assert waits == [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]


def test_after_closing_the_first_wait_is_thirty_seconds_again(breaker: Breaker, clock: ManualClock) -> None:
    probe(breaker, clock)
    breaker.failed()
    clock.advance(60)
    assert breaker.allow()
    breaker.succeeded()
    probe(breaker, clock)


def test_a_probe_without_an_outcome_is_given_up(breaker: Breaker, clock: ManualClock) -> None:
    probe(breaker, clock)
    clock.advance(PROBE_SECONDS)
    assert breaker.allow()


def test_an_abandoned_probe_makes_way_for_the_next_at_once(breaker: Breaker, clock: ManualClock) -> None:
    probe(breaker, clock)
    breaker.abandoned()
    assert (breaker.allow(), breaker.allow()) == (True, False)


def test_an_abandoned_request_of_a_closed_breaker_says_nothing(breaker: Breaker) -> None:
    repeat(4, breaker.failed)
    breaker.abandoned()
    assert breaker.state is CLOSED
    breaker.failed()
    assert breaker.state is OPEN


def test_outcomes_that_come_late_do_not_move_an_open_breaker(breaker: Breaker, clock: ManualClock) -> None:
    repeat(5, breaker.failed)
    breaker.succeeded()
    breaker.failed()
    breaker.abandoned()
    assert breaker.state is OPEN
    clock.advance(30)
    assert breaker.allow(), "the late failure did not lengthen the wait"


@pytest.mark.parametrize(("jitter", "wait"), [(-1.0, 24.0), (1.0, 36.0)])
def test_jitter_moves_the_wait_by_at_most_a_fifth(clock: ManualClock, jitter: float, wait: float) -> None:
    breaker = Breaker(clock, jitter=lambda _: jitter)
    repeat(5, breaker.failed)
    clock.advance(wait - 0.01)
    assert not breaker.allow()
    clock.advance(0.02)
    assert breaker.allow()


@given(st.integers(0, 10_000), st.integers(1, 50))
def test_jitter_stays_in_bounds_and_is_the_same_each_time(seed: int, openings: int) -> None:
    """Invariant: spread(seed)(n) lies in [-1, 1] and is a function of seed and n alone."""
    assert -1 <= spread(seed)(openings) <= 1
    assert spread(seed)(openings) == spread(seed)(openings)


def test_neighbouring_workers_come_back_apart() -> None:
    first = sorted(spread(seed)(1) for seed in range(8))
    assert min(after - before for before, after in pairwise(first)) > 0.1


@given(st.lists(st.sampled_from(["allow", "succeeded", "failed", "abandoned", "wait"]), max_size=200))
def test_any_history_leaves_the_breaker_able_to_recover(history: list[str]) -> None:
    """Invariant: after five quiet minutes one request is let through, and its success closes the breaker."""
    clock = ManualClock()
    breaker = Breaker(clock, jitter=spread(7))
    for step in history:
        if step == "wait":
            clock.advance(3.0)
        else:
            getattr(breaker, step)()
    clock.advance(300)
    assert breaker.allow()
    breaker.succeeded()
    assert breaker.state is CLOSED

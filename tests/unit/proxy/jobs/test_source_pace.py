"""Requests go out evenly spread, never faster than asked, and without waiting where there is no limit."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.source import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


def pace(clock: Clock, rate: float | None) -> Pace:
    return Pace(rate, clock=lambda: clock.now, sleep=clock.sleep)


def test_the_first_request_goes_at_once_and_the_next_wait_their_turn() -> None:
    clock = Clock()
    paced = pace(clock, 4.0)
    for _ in range(5):
        paced.wait()
    assert clock.slept == pytest.approx([0.25] * 4)


def test_time_spent_on_the_answer_counts() -> None:
    clock = Clock()
    paced = pace(clock, 4.0)
    paced.wait()
    clock.now += 0.2
    paced.wait()
    assert clock.slept == pytest.approx([0.05])


def test_time_not_used_is_not_saved_up() -> None:
    clock = Clock()
    paced = pace(clock, 4.0)
    paced.wait()
    clock.now += 60.0
    for _ in range(3):
        paced.wait()
    assert clock.slept == pytest.approx([0.25, 0.25])


def test_without_a_limit_nothing_waits() -> None:
    clock = Clock()
    paced = pace(clock, None)
    for _ in range(100):
        paced.wait()
    assert clock.slept == []


@given(st.floats(0.1, 1000.0), st.lists(st.floats(0.0, 3.0), min_size=2, max_size=30))
def test_two_requests_are_never_nearer_than_the_rate_allows(rate: float, answers: list[float]) -> None:
    """Whatever the answers take, at least 1 / rate seconds lie between two requests."""
    clock = Clock()
    paced = pace(clock, rate)
    sent: list[float] = []
    for seconds in answers:
        paced.wait()
        sent.append(clock.now)
        clock.now += seconds
    assert all(later - earlier >= 1 / rate - 1e-9 for earlier, later in itertools.pairwise(sent))

from __future__ import annotations

from itertools import pairwise

from support.network.relay_server import Invalidation
from support.process.clocks import ManualClock
from vecsieve.proxy.http.connections import LOOKED_AT, NEVER, NEW_SECONDS, Ages, Connections


class Line:
    """A connection that is idle or not, and remembers that it had to go."""

    def __init__(self, *, idle: bool) -> None:
        self.idle = idle
        self.looks = 0
        self.has_left = False

    @property
    def is_idle(self) -> bool:
        self.looks += 1
        return self.idle

    def leave(self) -> None:
        self.has_left = True


def opened(ledger: Connections, *idle: bool) -> list[Line]:
    """Connections on each of which a request has come."""
    lines = connected(ledger, *idle)
    for line in lines:
        ledger.head_received(line)
    return lines


def connected(ledger: Connections, *idle: bool) -> list[Line]:
    """Connections on which nothing has come."""
    lines = [Line(idle=idle_line) for idle_line in idle]
    assert all(ledger.admit(line) for line in lines)
    return lines


def test_above_four_fifths_the_oldest_idle_one_goes_for_each_that_asks_something() -> None:
    heard = Invalidation()
    ledger = Connections(limit=10, events=heard)
    lines = opened(ledger, False, True, False, True, *[False] * 5)
    assert [line.has_left for line in lines[:4]] == [False, True, False, False]
    opened(ledger, False)
    assert [line.has_left for line in lines[:4]] == [False, True, False, True]
    assert heard.rejected == ["crowded", "crowded"]
    assert len(ledger) == 8


def test_a_second_request_costs_nobody_a_place() -> None:
    ledger = Connections(limit=10, events=Invalidation())
    lines = opened(ledger, *[True] * 8, *[False] * 2)
    for line in lines:
        ledger.head_received(line)
    assert sum(line.has_left for line in lines) == 2


def test_a_crowd_that_asks_nothing_costs_those_who_are_served_nothing() -> None:
    clock, heard = ManualClock(), Invalidation()
    ledger = Connections(limit=10, events=heard, clock=clock)
    served = opened(ledger, *[True] * 4)
    connected(ledger, *[False] * 6)
    refused = [ledger.admit(Line(idle=False)) for _ in range(100)]
    assert not any(refused)
    assert not any(line.has_left for line in served)
    assert not ledger.must_close
    assert heard.rejected == ["limit"] * 100


def test_at_the_limit_the_oldest_that_had_time_to_ask_and_did_not_gives_its_place_to_a_newcomer() -> None:
    clock, heard = ManualClock(), Invalidation()
    ledger = Connections(limit=4, events=heard, clock=clock)
    (served,) = opened(ledger, True)
    first, second, third = connected(ledger, False, False, False)
    clock.advance(NEW_SECONDS)
    opened(ledger, False)
    assert (first.has_left, second.has_left, third.has_left, served.has_left) == (True, False, False, False)
    assert heard.rejected == ["crowded"]


def test_a_crowd_of_busy_ones_is_told_to_close_and_at_the_limit_nobody_enters() -> None:
    heard = Invalidation()
    ledger = Connections(limit=10, events=heard)
    opened(ledger, *[False] * 10)
    assert ledger.must_close
    assert not ledger.admit(Line(idle=False))
    assert heard.rejected == ["limit"]
    assert len(ledger) == 10


def test_a_newcomer_makes_the_ledger_look_at_a_bounded_number_and_in_the_end_at_all() -> None:
    ledger = Connections(limit=10 * LOOKED_AT, events=Invalidation())
    lines = opened(ledger, *[False] * (10 * LOOKED_AT))
    for line in lines:
        line.looks = 0
    lines[-1].idle = True
    tries = 0
    while not ledger.admit(Line(idle=False)):
        tries += 1
        assert sum(line.looks for line in lines) <= tries * LOOKED_AT
    assert tries < 10
    assert lines[-1].has_left


def test_a_new_one_that_ends_is_forgotten_whole() -> None:
    clock = ManualClock()
    ledger = Connections(limit=1, events=Invalidation(), clock=clock)
    (line,) = connected(ledger, False)
    ledger.forget(line)
    ledger.head_received(line)
    clock.advance(NEW_SECONDS)
    connected(ledger, False)
    assert not line.has_left


def test_draining_marks_every_answer_and_only_a_dismissal_ends_the_idle_ones() -> None:
    ledger = Connections(limit=10, events=Invalidation())
    idle, busy = opened(ledger, True, False)
    ledger.drain()
    assert (idle.has_left, busy.has_left, ledger.must_close) == (False, False, True)
    ledger.dismiss()
    assert (idle.has_left, busy.has_left) == (True, False)


def test_without_an_age_no_connection_is_ever_old() -> None:
    assert Ages(None, clock=ManualClock()).end() == NEVER > 1e300


def test_connections_made_together_end_apart_within_a_tenth_of_their_age() -> None:
    clock = ManualClock(50.0)
    ages = Ages(600.0, clock=clock)
    ends = sorted(ages.end() - 50.0 for _ in range(100))
    assert 540.0 <= ends[0] < 550.0
    assert 650.0 < ends[-1] <= 660.0
    assert max(later - earlier for earlier, later in pairwise(ends)) < 3.0, "evenly"

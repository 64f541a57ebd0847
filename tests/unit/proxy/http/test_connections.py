from __future__ import annotations

from support.relay_server import Heard
from vecsieve.proxy.http.connections import Connections


class Line:
    """A connection that is idle or not, and remembers that it had to go."""

    def __init__(self, *, idle: bool) -> None:
        self.is_idle = idle
        self.has_left = False

    def leave(self) -> None:
        self.has_left = True


def opened(ledger: Connections, *idle: bool) -> list[Line]:
    lines = [Line(idle=each) for each in idle]
    assert all(ledger.admit(line) for line in lines)
    return lines


def test_nothing_happens_below_four_fifths() -> None:
    heard = Heard()
    ledger = Connections(limit=10, events=heard)
    lines = opened(ledger, *[True] * 8)
    assert not ledger.must_close
    assert not any(line.has_left for line in lines)
    assert heard.open_connections == 8


def test_above_four_fifths_the_oldest_idle_one_goes_for_each_newcomer() -> None:
    heard = Heard()
    ledger = Connections(limit=10, events=heard)
    lines = opened(ledger, False, True, False, True, *[False] * 5)
    assert [line.has_left for line in lines[:4]] == [False, True, False, False]
    opened(ledger, False)
    assert [line.has_left for line in lines[:4]] == [False, True, False, True]
    assert heard.rejected == ["crowded", "crowded"]
    assert len(ledger) == 8


def test_a_crowd_of_busy_ones_is_told_to_close_and_at_the_limit_nobody_enters() -> None:
    heard = Heard()
    ledger = Connections(limit=10, events=heard)
    opened(ledger, *[False] * 10)
    assert ledger.must_close
    assert not ledger.admit(Line(idle=False))
    assert heard.rejected == ["limit"]
    assert len(ledger) == 10


def test_a_closed_one_is_forgotten_once() -> None:
    ledger = Connections(limit=10, events=Heard())
    (line,) = opened(ledger, False)
    ledger.forget(line)
    ledger.forget(line)
    assert len(ledger) == 0


def test_draining_marks_every_answer_and_only_a_dismissal_ends_the_idle_ones() -> None:
    ledger = Connections(limit=10, events=Heard())
    idle, busy = opened(ledger, True, False)
    ledger.drain()
    assert (idle.has_left, busy.has_left, ledger.must_close) == (False, False, True)
    ledger.dismiss()
    assert (idle.has_left, busy.has_left) == (True, False)


def test_a_limit_of_one_serves_one() -> None:
    ledger = Connections(limit=1, events=Heard())
    opened(ledger, False)
    assert not ledger.must_close
    assert not ledger.admit(Line(idle=False))

from __future__ import annotations

from itertools import pairwise

from support.process.clocks import ManualClock
from vecsieve.proxy.search.limits import Ages


def test_without_an_age_no_connection_is_ever_old() -> None:
    clock = ManualClock()
    ages = Ages(None, clock=clock)
    end = ages.end()
    clock.advance(1e9)
    assert not ages.is_over(end)


def test_connections_made_together_end_apart_within_a_tenth_of_their_age() -> None:
    clock = ManualClock(50.0)
    ages = Ages(600.0, clock=clock)
    ends = sorted(ages.end() - 50.0 for _ in range(100))
    assert 540.0 <= ends[0] < 550.0
    assert 650.0 < ends[-1] <= 660.0
    assert max(later - earlier for earlier, later in pairwise(ends)) < 3.0, "evenly"


def test_a_connection_is_old_from_its_end_on() -> None:
    clock = ManualClock()
    ages = Ages(10.0, clock=clock)
    end = ages.end()
    clock.now = end - 0.01
    assert not ages.is_over(end)
    clock.now = end
    assert ages.is_over(end)

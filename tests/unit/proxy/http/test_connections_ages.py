from __future__ import annotations

from itertools import pairwise

from support.process.clocks import ManualClock
from vecsieve.proxy.http.connections import NEVER, Ages


def test_without_an_age_no_connection_is_ever_old() -> None:
    assert Ages(None, clock=ManualClock()).end() == NEVER > 1e300


def test_connections_made_together_end_apart_within_a_tenth_of_their_age() -> None:
    clock = ManualClock(50.0)
    ages = Ages(600.0, clock=clock)
    ends = sorted(ages.end() - 50.0 for _ in range(100))
    assert 540.0 <= ends[0] < 550.0
    assert 650.0 < ends[-1] <= 660.0
    assert max(later - earlier for earlier, later in pairwise(ends)) < 3.0, "evenly"

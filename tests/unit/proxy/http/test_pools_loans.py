from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.pools import LOOKED_AT, Loan, Loans


def test_of_those_who_take_nothing_the_one_that_has_waited_longest_goes_first() -> None:
    ended: list[str] = []
    loans = Loans()
    for name, speed in (("reads", 10.0), ("stands longest", 0.0), ("stands", 0.0)):
        loans.add(name, Loan(None, partial(float, speed), partial(ended.append, name)))
    assert loans.call_in()
    assert loans.call_in()
    assert loans.call_in()
    assert not loans.call_in()
    assert ended == ["stands longest", "stands", "reads"]


def test_what_was_taken_back_is_not_called_in() -> None:
    loans = Loans()
    loans.add("back", Loan(None, lambda: 0.0, lambda: None))
    loans.take_back("back")
    loans.take_back("back")
    assert not loans.call_in()
    assert len(loans) == 0


@given(st.lists(st.floats(min_value=0, max_value=1e9), max_size=LOOKED_AT))
def test_each_is_called_in_once_and_slower_ones_first(speeds: list[float]) -> None:
    """Invariant: calling in until nothing is left ends each loan once, in the order of speed."""
    ended: list[float] = []
    loans = Loans()
    for holder, speed in enumerate(speeds):
        loans.add(holder, Loan(None, partial(float, speed), partial(ended.append, speed)))
    while loans.call_in():
        pass
    assert ended == sorted(speeds)


@given(st.lists(st.floats(min_value=0.001, max_value=1e9), min_size=1, max_size=5 * LOOKED_AT))
def test_of_many_clients_a_bounded_number_is_compared_and_all_in_turn(speeds: list[float]) -> None:
    """Invariant: each call asks LOOKED_AT clients at most, ends the slowest of them, and all have been asked after two rounds."""
    asked: list[int] = []
    ended: list[int] = []
    loans = Loans()

    def speed_of(holder: int) -> float:
        asked.append(holder)
        return speeds[holder]

    for holder in range(len(speeds)):
        loans.add(holder, Loan(None, partial(speed_of, holder), partial(ended.append, holder)))
    seen: set[int] = set()
    for call in range(1, len(speeds) + 1):
        asked.clear()
        assert loans.call_in()
        assert len(asked) <= LOOKED_AT
        assert speeds[ended[-1]] == min(speeds[each] for each in asked)
        seen.update(asked)
        assert len(seen) >= min(len(speeds), call * (LOOKED_AT - 1))
    assert sorted(ended) == list(range(len(speeds)))

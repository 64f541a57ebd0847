from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.pools import Loan, Loans


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


@given(st.lists(st.floats(min_value=0, max_value=1e9), max_size=20))
def test_each_is_called_in_once_and_slower_ones_first(speeds: list[float]) -> None:
    """Invariant: calling in until nothing is left ends each loan once, in the order of speed."""
    ended: list[float] = []
    loans = Loans()
    for holder, speed in enumerate(speeds):
        loans.add(holder, Loan(None, partial(float, speed), partial(ended.append, speed)))
    while loans.call_in():
        pass
    assert ended == sorted(speeds)

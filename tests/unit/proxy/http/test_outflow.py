from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.outflow import ANSWER_SHARE, Backlog
from vecsieve.proxy.http.pools import Loan


def test_one_answer_has_a_share_of_the_memory_and_all_together_the_whole() -> None:
    backlog = Backlog(ANSWER_SHARE * 10)
    assert not backlog.grew(0, 11)
    for _ in range(ANSWER_SHARE):
        assert backlog.grew(0, 10)
    assert not backlog.grew(0, 1)
    assert backlog.total_bytes == ANSWER_SHARE * 10
    backlog.changed(-10)
    assert backlog.grew(0, 9)
    assert backlog.grew(9, 10)


def test_one_that_is_alone_is_not_cut_however_much_it_holds() -> None:
    cut: list[str] = []
    backlog = Backlog(1)
    backlog.changed(100)
    backlog.lend("alone", Loan(None, lambda: 0.0, lambda: cut.append("alone")))
    assert cut == []
    backlog.changed(100)
    backlog.lend("reads", Loan(None, lambda: 1.0, lambda: cut.append("reads")))
    assert cut == ["alone"]


@given(st.lists(st.integers(min_value=1, max_value=500), max_size=40))
def test_what_slow_clients_hold_stays_within_the_limit_while_more_than_one_is_left(sizes: list[int]) -> None:
    """Invariant: with all clients slow, the total exceeds the limit by what one of them holds at most."""
    backlog, held = Backlog(1000), dict(enumerate(sizes))

    def cut(holder: int) -> None:
        backlog.changed(-held.pop(holder))

    for holder, size in enumerate(sizes):
        backlog.changed(size)
        backlog.lend(holder, Loan(None, lambda: 0.0, partial(cut, holder)))
        assert backlog.total_bytes == sum(held[each] for each in held if each <= holder)
        assert backlog.total_bytes <= 1000 or len([each for each in held if each <= holder]) == 1

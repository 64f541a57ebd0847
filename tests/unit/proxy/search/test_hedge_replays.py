from __future__ import annotations

from contextlib import ExitStack

import pytest

from vecsieve.proxy.search.hedge import Replays


@pytest.mark.parametrize(("in_flight", "most"), [(1, 3), (10, 3), (15, 3), (20, 4), (100, 20), (1000, 200)])
def test_a_fifth_of_what_is_in_flight_may_be_asked_again_and_at_least_three(in_flight: int, most: int) -> None:
    replays = Replays(lambda: in_flight)
    with ExitStack() as under_way:
        for _ in range(most):
            assert not replays.is_spent
            under_way.enter_context(replays.one())
        assert replays.is_spent
    assert not replays.is_spent


def test_one_that_breaks_is_no_longer_under_way() -> None:
    replays = Replays(lambda: 0)
    for _ in range(4):
        with pytest.raises(ZeroDivisionError), replays.one():
            raise ZeroDivisionError
    assert not replays.is_spent

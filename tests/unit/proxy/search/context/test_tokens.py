"""A budget of tokens pays for the first texts, never for none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.context.tokens import affordable, of_bytes


@given(st.integers(0, 10**9))
def test_the_estimate_of_bytes_never_pays_too_little(size: int) -> None:
    """Four bytes are paid by each token, and no token is for nothing."""
    assert 4 * of_bytes(size) - 4 < size <= 4 * of_bytes(size)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 500))
def test_what_a_budget_pays_for_fits_and_one_more_would_not(costs: list[int], tokens: int) -> None:
    """The longest prefix within the budget, or the first alone."""
    count = affordable(costs, tokens)
    assert count >= min(1, len(costs))
    assert count <= 1 or sum(costs[:count]) <= tokens
    assert count == len(costs) or sum(costs[: count + 1]) > tokens


def test_texts_behind_a_spent_budget_are_not_counted() -> None:
    asked: list[int] = []

    def costs() -> object:
        for place in range(100):
            asked.append(place)
            yield 10

    assert affordable(costs(), 25) == 2  # type: ignore[arg-type]  # - a generator of numbers
    assert asked == [0, 1, 2]


def test_free_texts_fit_any_budget() -> None:
    assert affordable([0, 0, 0], 1) == 3
    assert affordable([5, 0, 0], 1) == 1
    assert affordable([], 1) == 0

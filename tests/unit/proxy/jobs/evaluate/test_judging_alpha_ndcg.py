"""Alpha-nDCG against hand-worked lists, and against the ideal found by trying everything."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.evaluate.judging import FIRST_ALONE, AlphaNdcg

SECOND = 1.0 / math.log2(3)
TOPICS = st.dictionaries(
    st.sampled_from("pqrs"), st.frozensets(st.integers(0, 4), min_size=1), min_size=1
)  # fmt: skip


def gain(rows: tuple[int, ...], subtopics: dict[str, frozenset[int]]) -> float:
    """The definition, word for word: a subtopic met for the n-th time earns a half to the power of n - 1."""
    return sum(
        sum(0.5 ** sum(above in items for above in rows[:rank]) for items in subtopics.values() if row in items)
        / math.log2(rank + 2)
        for rank, row in enumerate(rows)
    )


def test_a_list_worked_out_by_hand() -> None:
    measure = AlphaNdcg({"x": frozenset({0, 1, 3}), "z": frozenset({3})}, 3)
    ideal = 2.0 + 0.5 * SECOND + 0.25 * 0.5  # 3 meets both, 0 meets x for the second time, 1 for the third
    assert measure.of([0, 1, 2]) == pytest.approx((1.0 + 0.5 * SECOND) / ideal)
    assert measure.of([0, 2, 3]) == pytest.approx((1.0 + 1.5 * 0.5) / ideal)
    assert measure.of([3, 0, 1]) == pytest.approx(1.0)
    assert measure.of([3, 1, 0]) == pytest.approx(1.0)


def test_the_group_measure_worked_out_by_hand() -> None:
    # Three groups: x is said by 0, 1 and 3, y by 2, z by 3. Best: 3 says two of them, then 2 the third.
    measure = AlphaNdcg(
        {"x": frozenset({0, 1, 3}), "y": frozenset({2}), "z": frozenset({3})}, 3, alpha=FIRST_ALONE
    )  # fmt: skip
    ideal = 2.0 + SECOND
    assert measure.of([3, 2, 0]) == pytest.approx(1.0)
    assert measure.of([0, 1, 2]) == pytest.approx((1.0 + 0.5) / ideal)  # 1 says what 0 said
    assert measure.of([0, 3, 2]) == pytest.approx((1.0 + SECOND + 0.5) / ideal)
    assert measure.of([4, 5, 6]) == 0.0


def test_nothing_found_is_zero_and_the_page_ends_at_top_k() -> None:
    measure = AlphaNdcg({"x": frozenset({0})}, 2)
    assert measure.of([]) == 0.0
    assert measure.of([1, 2]) == 0.0
    assert measure.of([1, 2, 0]) == 0.0
    assert measure.of([1, 0]) == pytest.approx(SECOND)


@given(TOPICS, st.integers(1, 3))
def test_gains_are_the_definition_s(subtopics: dict[str, frozenset[int]], top_k: int) -> None:
    """Invariant: two lists stand to each other as their gains by the definition do; the greedy ideal is near the best."""
    measure = AlphaNdcg(subtopics, top_k)
    lists = list(permutations(range(5), top_k))
    gains = [gain(rows, subtopics) for rows in lists]
    ratios = [measure.of(rows) / gained for rows, gained in zip(lists, gains, strict=True) if gained]
    assert max(ratios) == pytest.approx(min(ratios))
    assert 1.0 - 1e-9 <= max(measure.of(rows) for rows in lists) <= 1.0 / (1.0 - 1.0 / math.e)


@given(TOPICS)
def test_the_order_of_subtopics_and_rows_does_not_matter(subtopics: dict[str, frozenset[int]]) -> None:
    """Invariant: renumbering the rows changes nothing."""
    moved = {name: frozenset(4 - row for row in rows) for name, rows in subtopics.items()}
    assert AlphaNdcg(subtopics, 3).of([0, 1, 2]) == pytest.approx(AlphaNdcg(moved, 3).of([4, 3, 2]))

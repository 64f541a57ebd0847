"""Redundancy, subtopics met and nDCG, against hand-worked lists and plain definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.evaluate.judging import met, ndcg, redundant

ATOMS = st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), max_size=8)


@pytest.mark.parametrize(
    ("atoms", "expected"),
    [
        ([], 0),
        ([["x"]], 0),
        ([["x"], ["x"]], 1),
        ([["x"], ["x"], ["x"]], 2),
        ([["x"], ["x", "y"]], 0),  # half of it is new
        ([["x", "y"], ["x", "y", "z"]], 1),  # a third of it is
        ([["x"], [], []], 0),  # nothing is known of what they say
        ([["x"], ["y"], ["x", "y"]], 1),
        ([["x"], ["x", "x", "y"]], 1),  # an atom said twice counts twice
    ],
)
def test_an_item_is_redundant_when_less_than_half_of_it_is_new(atoms: list[list[str]], expected: int) -> None:
    assert redundant(atoms) == expected


@given(ATOMS)
def test_a_list_after_itself_is_redundant_but_for_what_says_nothing(atoms: list[list[str]]) -> None:
    """Invariant: every item of a repeated list that has atoms is redundant the second time, and no other is added."""
    assert redundant(atoms + atoms) == redundant(atoms) + sum(bool(said) for said in atoms)


@given(ATOMS)
def test_the_first_item_that_says_something_is_never_redundant(atoms: list[list[str]]) -> None:
    """Invariant: redundant items are fewer than items with atoms, where there are any."""
    speaking = sum(bool(said) for said in atoms)
    assert redundant(atoms) <= max(speaking - 1, 0)


def test_subtopics_are_met_by_any_of_their_items() -> None:
    subtopics = {"x": frozenset({1, 2}), "y": frozenset({3}), "never": frozenset[int]()}
    assert met([5, 2], subtopics) == {"x"}
    assert met([3, 1], subtopics) == {"x", "y"}
    assert met([], subtopics) == frozenset()


@pytest.mark.parametrize(
    ("rows", "relevant", "top_k", "expected"),
    [
        ([7], {7}, 3, 1.0),
        ([0, 7], {7}, 3, 1.0 / math.log2(3)),
        ([0, 1, 2], {7}, 3, 0.0),
        ([7, 0, 8], {7, 8, 9}, 3, 1.5 / (1.5 + 1.0 / math.log2(3))),
        ([7, 8], {7, 8, 9}, 2, 1.0),  # more relevant items than places
        ([0, 1, 7], {7}, 2, 0.0),  # beyond the page
        ([], {7}, 3, 0.0),
    ],
)
def test_ndcg_by_hand(rows: list[int], relevant: set[int], top_k: int, expected: float) -> None:
    assert ndcg(rows, frozenset(relevant), top_k) == pytest.approx(expected)


@given(st.permutations(range(8)), st.sets(st.integers(0, 7), min_size=1), st.integers(1, 8))
def test_ndcg_is_one_exactly_when_relevant_items_come_first(order: list[int], relevant: set[int], top_k: int) -> None:
    """Invariant: within 0 and 1, and 1 for relevant items first."""
    best = sorted(order, key=lambda row: row not in relevant)
    assert 0.0 <= ndcg(order, frozenset(relevant), top_k) <= ndcg(best, frozenset(relevant), top_k) + 1e-12
    assert ndcg(best, frozenset(relevant), top_k) == pytest.approx(1.0)

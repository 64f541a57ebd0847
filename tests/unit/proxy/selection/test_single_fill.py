"""Filling: the least redundant first, each counting for the next."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.oracles import fill as naive_fill
from support.pools import angles, damaged
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.single import fill
from vecsieve.proxy.selection.values import FloatMatrix


@given(damaged(smallest=1, largest=20), st.integers(0, 25), st.data())
def test_fills_are_those_of_the_plain_algorithm(rows: FloatMatrix, count: int, data: st.DataObject) -> None:
    # Invariant: farthest from all that is kept, one at a time, ties by rank, in rank order.
    distance = measure(rows, magnitude=False).distance
    kept = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    wanted = naive_fill(kept, distance.tolist(), count)
    assert fill(np.array(kept, dtype=np.intp), distance, count).tolist() == wanted


def test_two_copies_of_one_far_duplicate_do_not_both_come_in() -> None:
    distance = measure(angles(0, 10, 10, 5), magnitude=False).distance
    assert fill(np.array([0]), distance, 2).tolist() == [1, 3]


def test_there_is_nothing_to_fill_from_an_empty_pool() -> None:
    empty = np.empty(0, dtype=np.intp)
    assert not len(fill(empty, np.empty((0, 0), dtype=np.float32), 3))


def test_a_full_page_is_not_filled() -> None:
    distance = measure(angles(0, 10, 20), magnitude=False).distance
    assert not len(fill(np.array([0, 1]), distance, 0))
    assert not len(fill(np.array([0, 1]), distance, -1))
    assert fill(np.array([0, 1]), distance, 9).tolist() == [2]


def test_the_distances_are_left_as_they_were() -> None:
    distance = measure(angles(0, 10, 20), magnitude=False).distance
    before = distance.tobytes()
    fill(np.array([0]), distance, 2)
    assert distance.tobytes() == before


@given(st.data())
def test_a_repetition_fills_only_where_nothing_else_is_left(data: st.DataObject) -> None:
    """Invariant: while any candidate that repeats no result is left, held back by a cap or not, none is chosen that repeats one."""
    texts = np.array(data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=12)))
    distance = np.where(texts[:, None] == texts, 0.0, 0.1 + np.abs(texts[:, None] - texts)).astype(np.float32)
    held = np.array(sorted(data.draw(st.sets(st.integers(1, len(texts) - 1)))), dtype=np.intp)
    count = data.draw(st.integers(1, len(texts)))
    filled = fill(np.array([0]), distance, count, behind=held).tolist()
    assert len(filled) == min(count, len(texts) - 1)
    on_page = texts[[0, *filled]].tolist()
    assert len(set(on_page)) == min(len(on_page), len(set(texts.tolist())))


@given(st.data())
def test_no_text_stands_twice_on_a_page_that_may_be_short(data: st.DataObject) -> None:
    """Invariant: with equal texts named, a page has each text once, and all texts while there is room."""
    texts = np.array(data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=12)))
    distance = np.where(texts[:, None] == texts, 0.0, 0.1 + np.abs(texts[:, None] - texts)).astype(np.float32)
    held = np.array(sorted(data.draw(st.sets(st.integers(1, len(texts) - 1)))), dtype=np.intp)
    count = data.draw(st.integers(1, len(texts)))
    filled = fill(np.array([0]), distance, count, behind=held, equal=texts[:, None] == texts).tolist()
    on_page = texts[[0, *filled]].tolist()
    assert len(set(on_page)) == len(on_page) == min(1 + count, len(set(texts.tolist())))


def test_equal_vectors_of_other_texts_still_fill() -> None:
    distance, equal = np.zeros((4, 4), np.float32), np.eye(4, dtype=np.bool_)
    equal[0, 1] = equal[1, 0] = True
    assert fill(np.array([0]), distance, 3, equal=equal).tolist() == [2, 3]

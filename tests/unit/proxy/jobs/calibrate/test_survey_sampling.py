"""Which points are looked at: evenly spread, the same every time, never more than asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import MemorySource, points
from vecsieve.proxy.jobs.calibrate.survey import spread


def source(count: int, page: int = 10_000) -> MemorySource:
    return MemorySource(points(np.ones((count, 2), np.float32)), page_limit=page)


@given(st.integers(1, 400), st.integers(1, 60), st.integers(1, 90))
def test_a_sample_is_as_large_as_asked_ascending_and_evenly_spread(count: int, wanted: int, page: int) -> None:
    """Whatever the sizes of collection, sample and pages: ids ascend, are as many as wanted, and no gap is twice another."""
    sample = spread(source(count, page), wanted, lambda _: None)
    ids = [each for each in sample.ids if isinstance(each, int)]
    assert sample.listed == count
    assert len(ids) == min(count, wanted)
    gaps = [later - earlier for earlier, later in itertools.pairwise(ids)]
    assert all(gap > 0 for gap in gaps)
    assert ids[0] == 0
    if gaps:
        assert max([*gaps, count - ids[-1]]) <= 3 * count / wanted + 1


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 90), st.integers(1, 90))
def test_the_size_of_pages_changes_nothing(count: int, wanted: int, one: int, other: int) -> None:
    """The same collection gives the same sample however its ids come in."""
    pages = [spread(source(count, page), wanted, lambda _: None) for page in (one, other)]
    if count <= wanted:
        assert pages[0] == pages[1]
    assert len(pages[0].ids) == len(pages[1].ids)


def test_a_small_collection_is_taken_whole() -> None:
    assert spread(source(7), 20, lambda _: None).ids == (0, 1, 2, 3, 4, 5, 6)


def test_nothing_listed_is_an_empty_sample() -> None:
    assert spread(source(0), 20, lambda _: None).ids == ()


def test_progress_hears_of_every_id() -> None:
    heard: list[int] = []
    spread(source(25, page=10), 5, heard.append)
    assert heard == [10, 10, 5]


@pytest.mark.parametrize("page", [1, 3, 1000])
def test_texts_are_ids_too(page: int) -> None:
    held = [
        type(each)(id=f"{each.id:04}", vector=each.vector, payload={}) for each in points(np.ones((9, 2), np.float32))
    ]
    sample = spread(MemorySource(held, page_limit=page), 3, lambda _: None)
    assert len(sample.ids) == 3
    assert sample.ids[0] == "0000"

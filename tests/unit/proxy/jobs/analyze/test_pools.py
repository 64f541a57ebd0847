"""Pools around stored points: their scale, and the copies among their first results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import families as planted
from vecsieve.proxy.jobs.analyze.pools import TOP_K, Pool, collection_median, pool, saving
from vecsieve.proxy.jobs.source import Vectors
from vecsieve.proxy.selection.geometry import measure, median_distance


def made(vectors: Vectors, texts: list[int] | None = None) -> Pool:
    return pool(vectors, np.array(texts or [0] * len(vectors), np.uint64), magnitude=False)


def test_three_copies_of_each_leave_a_third_of_a_page() -> None:
    found = saving([made(planted(12, 3)), made(planted(40, 1))], 0.05)
    # The first 8 of 12 families of three: three, three and two of a family.
    assert (found.searches, found.results, found.copies, found.filled) == (2, 16, 5, 16)
    assert found.by_copies == (1, 0, 0, 0, 0, 1, 0, 0)


def test_too_few_families_leave_a_page_that_cannot_be_filled() -> None:
    found = saving([made(planted(3, 10))], 0.05)
    assert (found.results, found.copies, found.filled) == (8, 7, 3)


def test_a_pool_smaller_than_a_page_is_counted_as_it_is() -> None:
    found = saving([made(planted(1, 3))], 0.05)
    assert (found.results, found.copies, found.filled) == (3, 2, 1)


def test_equal_texts_are_copies_and_points_without_text_are_not_equal() -> None:
    assert saving([made(planted(4, 1), [9, 9, 0, 0])], 0.0).copies == 1


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 2.0))
def test_the_count_by_copies_adds_up(seed: int, cut: float) -> None:
    """Every search is counted once, and copies and distinct results are the results."""
    rng = np.random.default_rng(seed)
    pools = [made(rng.normal(size=(int(n), 3)).astype(np.float32)) for n in rng.integers(1, 50, 5)]
    found = saving(pools, cut)
    assert sum(found.by_copies) == found.searches == 5
    assert 0 <= found.copies <= found.results - found.searches
    assert found.results - found.copies <= found.filled <= found.results <= TOP_K * found.searches


def test_without_searches_nothing_is_found() -> None:
    found = saving([], 0.1)
    assert (found.searches, found.results, found.copies, found.filled) == (0, 0, 0, 0)


def test_the_collections_median_is_the_pools_and_unknown_without_pairs() -> None:
    pools = [made(planted(count, 1, seed=count)) for count in (5, 9, 20)]
    expected = sorted(each.median for each in pools)[1]
    assert collection_median([*pools, made(planted(1, 1))]) == pytest.approx(expected)
    assert collection_median([made(planted(1, 1))]) is None
    assert pools[0].median == median_distance(measure(planted(5, 1, seed=5), magnitude=False))

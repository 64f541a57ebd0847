"""Pools around stored points: their scale, and the copies among their first results."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import families as planted
from vecsieve.proxy.jobs.analyze.pools import (
    FEWEST,
    TOP_K,
    Pool,
    collection_median,
    overlap,
    pool,
    saving,
    share_within,
)
from vecsieve.proxy.jobs.source import Point, Vectors
from vecsieve.proxy.selection.geometry import measure, median_distance


def made(vectors: Vectors, texts: list[int] | None = None) -> Pool:
    return pool(vectors, np.array(texts or [0] * len(vectors), np.uint64), [0.0] * len(vectors), magnitude=False)


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


def test_the_nearest_other_of_a_point_is_the_second_of_its_pool_in_whatever_order_it_comes() -> None:
    keys = np.zeros(3, np.uint64)
    near = pool(planted(1, 3), keys, [0.02, 0.0, 0.1], magnitude=False)
    alone = pool(planted(1, 1), keys[:1], [0.0], magnitude=False)
    assert (near.nearest, alone.nearest) == (0.02, np.inf)
    assert [share_within([near, alone], cut) for cut in (0.01, 0.02, 2.0)] == [0.0, 0.5, 0.5]
    assert share_within([], 0.5) == 0.0


# The splitter's overlap is read off spans, whatever order and gaps the points come in; few spans say nothing.


def points(size: int, step: int, *, documents: int = 3, chunks: int = 8) -> list[Point]:
    made = [
        Point(
            id=document * 100 + chunk,
            vector=None,
            payload={"doc_id": f"d{document}", "token_start": chunk * step, "token_end": chunk * step + size},
        )
        for document in range(documents)
        for chunk in range(chunks)
    ]
    random.Random(3).shuffle(made)
    return made


@pytest.mark.parametrize(
    ("size", "step", "share", "is_large"),
    [
        (100, 100, 0.0, False),
        (256, 224, 0.125, False),
        (512, 448, 0.125, False),
        (100, 50, 0.5, True),
        (100, 10, 0.9, True),
    ],
)
def test_neighbours_tell_the_overlap(size: int, step: int, share: float, is_large: bool) -> None:
    found = overlap(points(size, step))
    assert found is not None
    assert (found.share, found.pairs, found.is_large) == (share, 21, is_large)


def test_a_point_that_came_twice_counts_once_and_gaps_do_not_count() -> None:
    every = points(100, 80)
    twice, with_gaps = overlap(every + every), overlap([each for each in every if each.id % 4])
    assert twice == overlap(every)
    assert with_gaps is not None
    assert with_gaps.share == 0.2


def test_few_neighbours_say_nothing() -> None:
    assert overlap(points(100, 50, documents=1, chunks=FEWEST)) is None
    assert overlap([]) is None
    assert overlap(points(100, 200)) is None


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"doc_id": "a"},
        {"doc_id": "a", "token_start": 5},
        {"doc_id": "a", "token_start": 5, "token_end": 5},
        {"doc_id": "a", "token_start": "1", "token_end": "9"},
        {"doc_id": "a", "token_start": -1, "token_end": 9},
        {"token_start": 1, "token_end": 9},
    ],
)
def test_what_is_no_span_of_a_document_is_left_out(payload: dict[str, object]) -> None:
    every = points(100, 50)
    assert overlap([*every, Point(id="odd", vector=None, payload=payload)]) == overlap(every)

"""Pools around stored points: their scale, and the copies among their first results."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.memory_source import families as planted
from vecsieve.proxy.jobs.analyze.pools import FEWEST, TOP_K, Pool, near_cut, overlap, pool, saving
from vecsieve.proxy.jobs.source import Point, Vectors
from vecsieve.proxy.selection.geometry import measure, median_distance
from vecsieve.proxy.selection.values import Metric


def made(*texts: str | None, vectors: Vectors | None = None, more: Sequence[str] = ()) -> Pool:
    """``more``: what the payload of each says besides its text."""
    rows = planted(len(texts), 1) if vectors is None else vectors
    payloads = [{"text": text, "note": note} for text, note in zip_longest(texts, more, fillvalue="")]
    return pool(rows, texts, payloads, Metric.COSINE, magnitude=False)


def family(number: int) -> str:
    return f"Rule number {number} says that parcels leave on time."


def test_three_repeats_of_each_leave_a_third_of_a_page() -> None:
    estimate = saving([made(*(family(place // 3) for place in range(36))), made(*map(family, range(40)))])
    # The first 8 of 12 families of three: three, three and two of a family.
    assert (estimate.searches, estimate.results, estimate.repeats, estimate.filled) == (2, 16, 5, 16)
    assert estimate.by_repeats == (1, 0, 0, 0, 0, 1, 0, 0)


def test_equal_texts_with_other_notes_are_no_repeats() -> None:
    notes = ["This holds for ships.", "This holds for trains.", "This holds for trains."]
    estimate = saving([made(family(1), family(1), family(1), more=notes)])
    assert (estimate.results, estimate.repeats, estimate.filled) == (3, 1, 2)


def test_too_few_families_leave_a_page_that_cannot_be_filled() -> None:
    estimate = saving([made(*(family(place // 10) for place in range(30)))])
    assert (estimate.results, estimate.repeats, estimate.filled) == (8, 7, 3)


def test_a_pool_smaller_than_a_page_is_counted_as_it_is() -> None:
    estimate = saving([made(family(1), family(1), family(1))])
    assert (estimate.results, estimate.repeats, estimate.filled) == (3, 2, 1)


def test_without_texts_only_nearly_equal_vectors_are_repeats() -> None:
    rows = planted(4, 1)
    assert saving([made(None, None, None, None, vectors=rows)]).repeats == 0
    assert saving([made(None, None, None, None, vectors=np.concatenate((rows[:3], rows[:1])))]).repeats == 1


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=50), max_size=4))
def test_the_count_by_repeats_adds_up(pools: list[list[int]]) -> None:
    """Every search is counted once, and repeats and distinct results are the results."""
    estimate = saving([made(*map(family, reading)) for reading in pools])
    assert sum(estimate.by_repeats) == estimate.searches == len(pools)
    assert 0 <= estimate.repeats <= estimate.results - estimate.searches
    assert estimate.results - estimate.repeats <= estimate.filled <= estimate.results <= TOP_K * estimate.searches


def test_vectors_are_nearly_equal_within_a_share_of_the_pools_median() -> None:
    pools = [made(*([None] * count), vectors=planted(count, 1, seed=count)) for count in (5, 9, 20)]
    expected = sorted(reading.median for reading in pools)[1]
    alone = made(None, vectors=planted(1, 1))
    assert near_cut([*pools, alone]) == pytest.approx(2e-4 * expected)
    assert near_cut([alone]) == 0.0
    assert pools[0].median == median_distance(measure(planted(5, 1, seed=5), magnitude=False))


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
    measured = overlap(points(size, step))
    assert measured is not None
    assert (measured.share, measured.pairs, measured.is_large) == (share, 21, is_large)


def test_a_point_that_came_twice_counts_once_and_gaps_do_not_count() -> None:
    every = points(100, 80)
    twice, with_gaps = overlap(every + every), overlap([point for point in every if point.id % 4])
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

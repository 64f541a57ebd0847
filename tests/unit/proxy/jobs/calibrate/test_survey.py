"""What a sample shows: distances as the proxy would measure them, and clear words when there is too little."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from support.jobs.memory_source import MemorySource, families, points
from vecsieve.proxy.jobs.calibrate.survey import (
    EXCERPT_CHARACTERS,
    Sample,
    Survey,
    excerpt,
    mean_similarity,
    survey,
)
from vecsieve.proxy.jobs.pairs.reading import listed_ids
from vecsieve.proxy.jobs.source import Point, SourceError
from vecsieve.proxy.runtime.files import Advance


@contextmanager
def quiet(_title: str, _total: int | None) -> Iterator[Advance]:
    yield lambda _: None


def surveyed(source: MemorySource, *, wanted: int = 2000) -> Survey:
    return survey(source, Sample.of(listed_ids(source, "docs", quiet), wanted), fields=("text",), bar=quiet)


def test_nearest_neighbours_are_the_other_members_of_the_family() -> None:
    seen = surveyed(MemorySource(points(families(30, 3))))
    assert seen.nearest.shape == (90,)
    assert 0.0 < seen.nearest.max() < 0.01


def test_a_pool_leaves_its_centre_out_and_holds_fifty_with_their_texts() -> None:
    seen = surveyed(MemorySource(points(families(80, 1))))
    assert len(seen.pools) == 80
    for centre, pool in enumerate(seen.pools):
        assert centre not in pool.ids
        assert len(pool.ids) == len(pool.texts) == 50
        assert pool.distance.shape == (50, 50)
        assert pool.texts[0] == f"text number {pool.ids[0]}"
        upper = pool.distance[np.triu_indices(50, 1)]
        assert pool.median == pytest.approx(float(np.median(upper)), abs=1e-6)


def test_at_most_two_hundred_pools_are_drawn() -> None:
    assert 100 <= len(surveyed(MemorySource(points(families(500, 1, dimension=8)))).pools) <= 200


def test_points_without_a_usable_vector_are_counted_and_left_out() -> None:
    held = points(families(40, 1))
    held[3] = Point(id=3, vector=None, payload={})
    held[5] = Point(id=5, vector=np.zeros(48, np.float32), payload={})
    held[7] = Point(id=7, vector=np.full(48, np.nan, np.float32), payload={})
    seen = surveyed(MemorySource(held))
    assert seen.unusable == 3
    assert len(seen.nearest) == 37
    assert not {3, 5, 7} & {each for pool in seen.pools for each in pool.ids}


def test_too_few_points_are_refused_with_both_numbers() -> None:
    with pytest.raises(SourceError, match="saw 19 points with a usable vector; wanted at least 20"):
        surveyed(MemorySource(points(families(19, 1))))


def test_a_point_that_vanished_after_it_was_listed_is_no_trouble() -> None:
    source = MemorySource(points(families(30, 1)))
    seen = survey(source, Sample(ids=(*range(30), 4711), listed=31), fields=("text",), bar=quiet)
    assert len(seen.nearest) == 30


def test_where_length_carries_meaning_it_counts() -> None:
    vectors = families(30, 1)
    both = np.concatenate([vectors, 3.0 * vectors]).astype(np.float32)
    assert surveyed(MemorySource(points(both))).nearest.max() == 0.0
    assert surveyed(MemorySource(points(both), distance="Dot")).nearest.min() > 0.2


def test_the_same_collection_is_seen_the_same_twice() -> None:
    one, other = (surveyed(MemorySource(points(families(40, 2))), wanted=30) for _ in range(2))
    assert one.nearest.tobytes() == other.nearest.tobytes()
    assert one.medians.tobytes() == other.medians.tobytes()
    assert one.unrelated == other.unrelated


@given(
    arrays.arrays(np.float32, (6, 4), elements=st.floats(-5, 5, width=32)).filter(
        lambda m: bool((abs(m).max(1) > 0.1).all())
    )
)
def test_the_mean_similarity_is_that_of_all_pairs(vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    """The closed form equals the mean over the written-out pairs."""
    rows = vectors.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [float(rows[i] @ rows[j]) for i in range(6) for j in range(i)]
    assert mean_similarity(vectors) == pytest.approx(np.mean(pairs), abs=1e-9)


def test_opposite_vectors_are_as_unlike_as_can_be() -> None:
    assert mean_similarity(np.array([[1, 0], [-1, 0]], np.float32)) == -1.0


@given(st.none() | st.text(max_size=4000))
def test_an_excerpt_is_bounded_and_on_one_line(text: str | None) -> None:
    """Of any text a bounded beginning without line ends is kept, of none nothing."""
    kept = excerpt(text)
    assert (kept is None) is (text is None)
    assert kept is None or (len(kept) <= EXCERPT_CHARACTERS and "\n" not in kept)


# Which points are looked at: evenly spread, the same every time, never more than asked.


@given(st.integers(1, 400), st.integers(1, 60), st.integers(1, 90))
def test_a_sample_is_as_large_as_asked_ascending_and_evenly_spread(count: int, wanted: int, page: int) -> None:
    """Whatever the sizes of collection, sample and pages: ids ascend, are as many as wanted, and no gap is twice another."""
    source = MemorySource(points(np.ones((count, 2), np.float32)), page_limit=page)
    heard: list[int] = []

    @contextmanager
    def hearing(_title: str, _total: int | None) -> Iterator[Advance]:
        yield heard.append

    sample = Sample.of(listed_ids(source, "docs", hearing), wanted)
    ids = [each for each in sample.ids if isinstance(each, int)]
    assert (sample.listed, sum(heard), max(heard)) == (count, count, min(page, count))
    assert len(ids) == min(count, wanted)
    gaps = [later - earlier for earlier, later in itertools.pairwise(ids)]
    assert all(gap > 0 for gap in gaps)
    assert ids[0] == 0
    assert max([*gaps, count - ids[-1]]) <= -(-count // wanted)


def test_a_collection_without_points_is_told() -> None:
    with pytest.raises(SourceError, match="'docs' has no points"):
        listed_ids(MemorySource([]), "docs", quiet)

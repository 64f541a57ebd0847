"""What a sample shows: distances as the proxy would measure them, and clear words when there is too little."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from support.jobs.calibrations import calibrated, calibration
from support.jobs.memory_source import MemorySource, families, points
from vecsieve.proxy.jobs.calibrate.survey import (
    EXCERPT_CHARACTERS,
    KEPT_SHARED,
    PAGE,
    Effect,
    Pool,
    Sample,
    Survey,
    as_json,
    borderline,
    by_rule,
    differing,
    effect,
    excerpt,
    mean_similarity,
    profile_of,
    proposed,
    survey,
)
from vecsieve.proxy.jobs.pairs.reading import listed_ids
from vecsieve.proxy.jobs.source import Point, SourceError, Vectors
from vecsieve.proxy.runtime.files import Advance
from vecsieve.proxy.search.collections.profiles import decoded, encoded
from vecsieve.proxy.selection.geometry import NOISE, measure, median_distance
from vecsieve.proxy.selection.values import Metric


def surveyed(source: MemorySource, *, count: int = 2000) -> Survey:
    return survey(source, Sample.of(listed_ids(source, "docs"), count), fields=("text",))


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
    stored = points(families(40, 1))
    stored[3] = Point(id=3, vector=None, payload={})
    stored[5] = Point(id=5, vector=np.zeros(48, np.float32), payload={})
    stored[7] = Point(id=7, vector=np.full(48, np.nan, np.float32), payload={})
    seen = surveyed(MemorySource(stored))
    assert seen.unusable == 3
    assert len(seen.nearest) == 37
    assert not {3, 5, 7} & {identifier for pool in seen.pools for identifier in pool.ids}


def test_too_few_points_are_refused_with_both_numbers() -> None:
    with pytest.raises(SourceError, match="saw 19 points with a usable vector; wanted at least 20"):
        surveyed(MemorySource(points(families(19, 1))))


def test_a_point_that_vanished_after_it_was_listed_is_no_trouble() -> None:
    source = MemorySource(points(families(30, 1)))
    seen = survey(source, Sample(ids=(*range(30), 4711), listed=31), fields=("text",))
    assert len(seen.nearest) == 30


def test_where_length_carries_meaning_it_counts() -> None:
    vectors = families(30, 1)
    both = np.concatenate([vectors, 3.0 * vectors]).astype(np.float32)
    assert surveyed(MemorySource(points(both))).nearest.max() == 0.0
    assert surveyed(MemorySource(points(both), distance="Dot")).nearest.min() > 0.2


def test_the_same_collection_is_seen_the_same_twice() -> None:
    one, other = (surveyed(MemorySource(points(families(40, 2))), count=30) for _ in range(2))
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
def test_a_sample_is_as_large_as_asked_ascending_and_evenly_spread(count: int, expected: int, page: int) -> None:
    """Whatever the sizes of collection, sample and pages: ids ascend, are as many as wanted, and no gap is twice another."""
    source = MemorySource(points(np.ones((count, 2), np.float32)), page_limit=page)
    heard: list[int] = []

    @contextmanager
    def observer(_title: str, _total: int | None) -> Iterator[Advance]:
        yield heard.append

    with patch("vecsieve.proxy.jobs.pairs.reading.progress_bar", observer):
        sample = Sample.of(listed_ids(source, "docs"), expected)
    ids = [identifier for identifier in sample.ids if isinstance(identifier, int)]
    assert (sample.listed, sum(heard), max(heard)) == (count, count, min(page, count))
    assert len(ids) == min(count, expected)
    gaps = [later - earlier for earlier, later in itertools.pairwise(ids)]
    assert all(gap > 0 for gap in gaps)
    assert ids[0] == 0
    assert max([*gaps, count - ids[-1]]) <= -(-count // expected)


def test_a_collection_without_points_is_told() -> None:
    with pytest.raises(SourceError, match="'docs' has no points"):
        listed_ids(MemorySource([]), "docs")


# The proposed cut and what it would do, on collections whose answer is known.


def seen(vectors: Vectors) -> Survey:
    source = MemorySource(points(vectors))
    return survey(source, Sample.of(listed_ids(source, "docs"), 2000), fields=("text",))


def test_the_cut_is_a_fifth_of_the_mean_of_the_pools_medians() -> None:
    looked = seen(families(40, 3))
    proposal = proposed(looked)
    assert proposal.mean_median == pytest.approx(float(np.mean([pool.median for pool in looked.pools])))
    assert proposal.cut == pytest.approx(0.2 * proposal.mean_median)
    assert proposal.typical == pytest.approx(float(np.median([pool.median for pool in looked.pools])))


@pytest.mark.parametrize(("median", "cut"), [(0.0, 0.0), (0.05, 0.01), (0.5, 0.1), (1.5, 0.3), (1.9, 0.3)])
def test_the_rule_is_clipped(median: float, cut: float) -> None:
    assert by_rule(median) == pytest.approx(cut)


def test_three_copies_of_everything_are_seen_by_every_policy() -> None:
    proposal = proposed(seen(families(40, 3)))
    for item in (proposal.median_effect, proposal.typical_effect, proposal.cut_effect):
        assert item.pages == 1.0
        assert 0.5 < item.copies < 0.7


def test_without_copies_nothing_is_merged() -> None:
    proposal = proposed(seen(families(80, 1)))
    assert (proposal.cut_effect.pages, proposal.cut_effect.copies) == (0.0, 0.0)
    assert proposal.density[0] == (0.0, 0.0)


def test_a_collection_of_nothing_but_one_vector_gets_the_smallest_cut() -> None:
    proposal = proposed(seen(np.ones((60, 8), np.float32)))
    assert proposal.cut == 0.0
    assert (proposal.mean_median, proposal.typical) == (0.0, 0.0)
    assert proposal.density[0] == (0.0, 1.0)
    assert proposal.cut_effect.copies == pytest.approx(7 / 8)


@given(st.integers(1, 4), st.floats(0.0, 0.02))
def test_density_grows_with_the_distance_and_holds_the_cut(copies: int, noise: float) -> None:
    """Shares never fall as the distance grows, lie in [0, 1], and the proposed cut is among the distances."""
    proposal = proposed(seen(families(24, copies, noise=noise, dimension=8)))
    density, cut = proposal.density, proposal.cut
    shares = [share for _, share in density]
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0
    assert cut in [distance for distance, _ in density]


# Pairs around the cut: five on either side, near it, nobody twice, texts cut where they differ.


def pool(distances: list[float], first: int = 0) -> Pool:
    """A pool of separate pairs: ids first, first + 1 at distances[0], and so on; all else far apart."""
    n = 2 * len(distances)
    distance = np.full((n, n), 0.9, np.float32)
    np.fill_diagonal(distance, 0.0)
    for place, value in enumerate(distances):
        distance[2 * place, 2 * place + 1] = distance[2 * place + 1, 2 * place] = value
    ids = tuple(range(first, first + n))
    return Pool(
        vectors=np.ones((n, 1), np.float32),
        ids=ids,
        texts=tuple(f"text {identifier}" for identifier in ids),
        distance=distance,
        cosine_median=0.9,
        median=0.9,
    )


def test_five_pairs_on_either_side_nearest_first() -> None:
    made = pool([thousandth / 1000 for thousandth in range(20, 200, 2)])
    pairs = borderline([made], 0.1)
    distances = [pair.distance for pair in pairs]
    assert len(pairs) == 10
    assert distances == sorted(distances)
    assert [pair.merged for pair in pairs] == [True] * 5 + [False] * 5
    assert distances[4] == pytest.approx(0.1)
    assert distances[5] == pytest.approx(0.102)
    assert distances[0] == pytest.approx(0.06, abs=0.002)
    assert distances[9] == pytest.approx(0.14, abs=0.002)


def test_the_same_pair_seen_in_two_pools_is_shown_once() -> None:
    made = pool([0.09])
    assert len(borderline([made, made, made], 0.1)) == 1


def test_a_big_family_does_not_fill_the_list() -> None:
    distance = np.full((30, 30), 0.095, np.float32)
    np.fill_diagonal(distance, 0.0)
    crowd = Pool(
        vectors=np.ones((30, 1), np.float32),
        ids=tuple(range(30)),
        texts=(None,) * 30,
        distance=distance,
        cosine_median=0.095,
        median=0.095,
    )
    ids = [identifier for pair in borderline([crowd], 0.1) for identifier in pair.ids]
    assert len(ids) == 10
    assert len(set(ids)) == 10


def test_around_a_cut_of_zero_lie_exact_copies_alone() -> None:
    assert [pair.distance for pair in borderline([pool([0.0, 0.1])], 0.0)] == [0.0]


@given(st.lists(st.floats(0.0, 2.0, width=32), max_size=40), st.floats(0.0, 0.5))
def test_merged_means_at_most_the_cut(distances: list[float], cut: float) -> None:
    """Whatever the pool, a pair is called merged exactly when its distance is at most the cut, as far as float32 can tell."""
    for pair in borderline([pool(distances)], cut):
        assert pair.merged is (pair.distance <= cut + NOISE)


def test_a_long_shared_beginning_is_left_out_of_both() -> None:
    same = "the same words again and again " * 10
    one, other = differing(same + "ends here", same + "ends elsewhere")
    assert one is not None
    assert other is not None
    assert one.startswith("… ")
    assert one.endswith("ends here")
    assert other.endswith("ends elsewhere")
    assert len(one) < KEPT_SHARED + 30


def test_short_and_missing_texts_are_shown_as_they_are() -> None:
    assert differing("one", "other") == ("one", "other")
    assert differing(None, "other") == (None, "other")
    assert differing("", None) == ("", None)


@given(st.text(max_size=900), st.text(max_size=900))
def test_what_is_shown_is_bounded_and_part_of_the_text(one: str, other: str) -> None:
    """Each side shows a stretch of its own text, of bounded length."""
    for text, part in zip((one, other), differing(one, other), strict=True):
        assert part is not None
        assert len(part) <= EXCERPT_CHARACTERS + 2
        assert part.removeprefix("… ") in text


# What selection does to sampled pools: copies counted as the proxy would collapse them.


def measured_pool(vectors: Vectors) -> Pool:
    geometry = measure(vectors, magnitude=False)
    n = len(vectors)
    return Pool(
        ids=tuple(range(n)),
        texts=(None,) * n,
        vectors=vectors,
        distance=geometry.distance,
        cosine_median=median_distance(geometry),
        median=median_distance(geometry),
    )


PAIRS = measured_pool(families(25, 2))  # every second result repeats the one above


def test_half_of_a_page_of_pairs_is_copies() -> None:
    assert effect([PAIRS], metric=Metric.COSINE, cut=0.1) == Effect(pages=1.0, copies=0.5)
    assert effect([PAIRS], metric=Metric.COSINE).copies == pytest.approx(0.5)


def test_a_cut_of_zero_takes_exact_copies_alone() -> None:
    exact = measured_pool(families(25, 2, noise=0.0))
    assert effect([exact], metric=Metric.COSINE, cut=0.0).copies == 0.5
    assert effect([PAIRS], metric=Metric.COSINE, cut=0.0).copies == 0.0


def test_the_scale_moves_the_default() -> None:
    loose = measured_pool(families(25, 2, noise=0.04))
    narrow, wide = (effect([loose], metric=Metric.COSINE, scale=scale).copies for scale in (0.01, 2.0))
    assert narrow < wide


def test_without_pools_there_is_no_effect() -> None:
    assert effect([], metric=Metric.COSINE, cut=0.1) == Effect(pages=0.0, copies=0.0)


@given(st.integers(2, 20), st.integers(1, 3), st.floats(0.0, 2.0))
def test_shares_are_shares(families_count: int, copies: int, cut: float) -> None:
    """Whatever the pool and the cut, both numbers lie in [0, 1], and one of a page's results is always itself."""
    result = effect([measured_pool(families(families_count, copies))], metric=Metric.COSINE, cut=cut)
    assert 0.0 <= result.copies <= (PAGE - 1) / PAGE
    assert result.pages in {0.0, 1.0}
    assert (result.pages > 0) is (result.copies > 0)


# What a calibration found, as a profile and as plain values.


def test_the_profile_says_what_was_seen() -> None:
    result = calibration(copies=3)
    profile = profile_of(result)
    assert (profile.collection, profile.vector_name, profile.dimension) == ("docs", "", 48)
    assert profile.distance == "Cosine"
    assert profile.sample == 120
    assert profile.pools == len(result.survey.pools)
    assert profile.created_by.startswith("vecsieve ")
    medians = profile.pool_median
    assert 0.5 < medians.percentile_1 <= medians.percentile_50 <= medians.percentile_99 < 1.2
    assert -0.1 < profile.mean_unrelated_similarity < 0.1


def test_the_profile_is_one_the_proxy_reads() -> None:
    profile = profile_of(calibration(copies=3))
    assert decoded(encoded(profile), name="docs.json") == profile


def test_the_same_collection_gives_the_same_bytes() -> None:
    assert encoded(profile_of(calibration(copies=2))) == encoded(profile_of(calibrated(copies=2)))


def test_plain_values_are_json_and_hold_the_profile_the_density_and_the_pairs() -> None:
    result = calibration(copies=3, noise=0.05)
    read = json.loads(orjson.dumps(as_json(result)))
    assert read["profile"] == profile_of(result).model_dump()
    assert read["points"] == 120
    assert {entry["distance"] for entry in read["density"]} >= {0.0, 0.1, 0.3}
    assert len(read["borderline"]) == len(result.pairs) > 0
    assert set(read["borderline"][0]) == {"ids", "texts", "distance", "merged"}
    assert read["cut"] == result.proposal.cut
    assert 0.0 <= read["nearest_neighbour_distance"]["percentile_50"] < 0.3

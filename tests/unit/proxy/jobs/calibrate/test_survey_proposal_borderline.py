"""Pairs around the cut: five on either side, near it, nobody twice, texts cut where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.calibrate.survey import EXCERPT_CHARACTERS, KEPT_SHARED, Pool, borderline, differing
from vecsieve.proxy.selection.geometry import NOISE


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
    made = pool([each / 1000 for each in range(20, 200, 2)])
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
    ids = [each for pair in borderline([crowd], 0.1) for each in pair.ids]
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
    for text, shown in zip((one, other), differing(one, other), strict=True):
        assert shown is not None
        assert len(shown) <= EXCERPT_CHARACTERS + 2
        assert shown.removeprefix("… ") in text

"""Lists merged by ranks and by scores: Qdrant's formulas, in its width and order of operations."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.fused_scores import RRF_K, dbsf, joined, normalized, rrf, weighted

KEYS = st.lists(st.integers(0, 30), max_size=20, unique=True)
SCORES = st.floats(-100, 100, width=32)


def single(value: float) -> float:
    """Rounded to 32 bits, without numpy."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def test_ranks_count_from_zero_and_k_is_two() -> None:
    fused = rrf([[2, 1], [1, 2, 3], [5, 3, 1]])
    assert [key for key, _ in fused] == [1, 2, 3, 5]
    assert [str(score) for _, score in fused] == ["1.0833334", "0.8333334", "0.5833334", "0.5"]


def test_a_weight_divides_ranks_and_not_contributions() -> None:
    assert dict(rrf([[1, 2], [2, 1]], weights=[3.0, 1.0])) == pytest.approx({2: 1 / (2 / 3 + 1) + 0.5, 1: 0.75 + 1 / 3})


def test_a_weight_of_zero_adds_nothing_and_its_points_stay() -> None:
    assert rrf([[1], [2]], weights=[1.0, 0.0]) == [(1, np.float32(0.5)), (2, np.float32(0.0))]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [-1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_weights_that_the_database_refuses_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        rrf([[1], [2]], weights=weights)


@given(lists=st.lists(KEYS, max_size=4), k=st.integers(1, 100))
def test_a_sum_is_rounded_after_each_list(lists: list[list[int]], k: int) -> None:
    """A fused score is the 32-bit sum of 32-bit parts in the order of the lists."""
    expected: dict[int, float] = {}
    for keys in lists:
        for place, key in enumerate(keys):
            expected[key] = single(expected.get(key, 0.0) + single(1.0 / single(place + k)))
    assert {key: float(score) for key, score in rrf(lists, k=k)} == expected


@given(lists=st.lists(KEYS, min_size=1, max_size=4))
def test_equal_scores_keep_the_order_in_which_their_points_were_met(lists: list[list[int]]) -> None:
    """The order is by score, then by first occurrence."""
    met = list(dict.fromkeys(key for keys in lists for key in keys))
    fused = rrf(lists)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], met.index(pair[0])))


@given(scores=st.lists(SCORES, min_size=2, max_size=30))
def test_three_deviations_around_the_mean_become_zero_to_one(scores: list[float]) -> None:
    """A list's normalized scores are affine in its scores, and their mean is a half."""
    result = normalized(scores).astype(float)
    deviation = float(np.std(scores, ddof=1))
    if deviation > 1e-2:
        assert result == pytest.approx((np.array(scores) - np.mean(scores)) / (6 * deviation) + 0.5, abs=1e-3)


@pytest.mark.parametrize("scores", [[], [3.0], [2.0, 2.0, 2.0]])
def test_one_score_and_equal_scores_become_a_half(scores: list[float]) -> None:
    assert normalized(scores).tolist() == [0.5] * len(scores)


def test_scores_of_several_lists_are_added() -> None:
    fused = dict(dbsf([(["a", "b", "c"], [0.9, 0.8, 0.1]), (["c"], [7.0])]))
    assert fused["c"] == normalized([0.9, 0.8, 0.1])[2] + np.float32(0.5)
    assert fused["a"] > fused["b"]


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        dbsf([(["a", "b"], [1.0, score])])


def test_the_default_k_is_the_databases() -> None:
    assert RRF_K == 2


@given(lists=st.lists(KEYS, max_size=3), dropped=st.sets(st.integers(0, 30)))
def test_points_of_no_distinct_list_come_last_and_no_score_grows(lists: list[list[int]], dropped: set[int]) -> None:
    """The joined list has every point once, the distinct fusion first, in falling scores."""
    whole, distinct = rrf(lists), rrf([[key for key in keys if key not in dropped] for keys in lists])
    result = joined(distinct, whole)
    scores = [score for _, score in result]
    assert result[: len(distinct)] == distinct
    assert sorted(key for key, _ in result) == sorted(key for key, _ in whole)
    assert scores == sorted(scores, reverse=True)


def test_lists_without_copies_join_to_their_own_fusion() -> None:
    fused = rrf([[1, 2], [2, 3]])
    assert joined(fused, fused) is fused


# Milvus' weighted sums.

METRICS = st.sampled_from(["COSINE", "IP", "BM25", "L2"])


def milvus_normed(score: float, metric: str) -> float:
    """Rounded to 32 bits after each step, without numpy."""
    angle, half_turn = single(math.atan(score)), single(math.pi)
    return {
        "COSINE": single(single(1 + score) * 0.5),
        "IP": single(0.5 + single(angle / half_turn)),
        "BM25": single(single(2 * angle) / half_turn),
        "L2": single(1 - single(single(2 * angle) / half_turn)),
    }[metric]


@given(data=st.data(), count=st.integers(1, 3), is_normed=st.booleans())
def test_a_weighted_sum_is_rounded_after_each_step(data: st.DataObject, count: int, *, is_normed: bool) -> None:
    """The fused score is the 32-bit sum of weights times scores, normed where asked for, or where distances are beside similarities."""
    lists = [
        (keys, data.draw(st.lists(SCORES, min_size=len(keys), max_size=len(keys))))
        for keys in data.draw(st.lists(KEYS, min_size=count, max_size=count))
    ]
    metrics = data.draw(st.lists(METRICS, min_size=count, max_size=count))
    weights = data.draw(st.lists(st.floats(0, 1, width=32), min_size=count, max_size=count))
    distances = [metric == "L2" for metric in metrics]
    expected: dict[int, float] = {}
    for (keys, scores), metric, weight in zip(lists, metrics, weights, strict=True):
        is_turned = is_normed or (metric == "L2" and not all(distances))
        for key, score in zip(keys, scores, strict=True):
            part = single(weight * (milvus_normed(score, metric) if is_turned else score))
            expected[key] = single(expected[key] + part) if key in expected else part
    fused = weighted(lists, weights=weights, metrics=metrics, is_normed=is_normed, by=lambda key: key)
    assert {key: float(score) for key, score in fused} == expected
    sign = 1 if all(distances) and not is_normed else -1
    assert [key for key, _ in fused] == sorted(expected, key=lambda key: (sign * expected[key], key))


def test_sums_of_64_bits_are_rounded_once() -> None:
    lists = [[1, 2, 3], [3, 1, 2], [2, 3, 1]]
    fused = dict(rrf(lists, k=61, is_double=True))
    assert fused == {key: np.float32(sum(1 / (61 + hits.index(key)) for hits in lists)) for key in (1, 2, 3)}
    summed = weighted([([1], [0.1])] * 3, weights=[0.1, 0.2, 0.3], metrics=["IP"] * 3, is_normed=False, is_double=True)
    assert summed == [(1, np.float32(0.1 * 0.1 + 0.1 * 0.2 + 0.1 * 0.3))]


@given(lists=st.lists(KEYS, min_size=1, max_size=4))
def test_equal_scores_are_ranked_as_told(lists: list[list[int]]) -> None:
    """The order is by score, then by the key's place."""
    fused = rrf(lists, by=lambda key: -key)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], -pair[0]))


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_cannot_be_summed_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="scores"):
        weighted([([1], [score])], weights=[1.0], metrics=["IP"], is_normed=True)


def test_of_sums_of_distances_what_has_copies_comes_last_with_the_largest_score() -> None:
    whole = [(1, np.float32(0.1)), (2, np.float32(0.2)), (3, np.float32(0.9))]
    assert joined([(1, np.float32(0.1)), (3, np.float32(0.9))], whole)[-1] == (2, np.float32(0.9))

"""Relevance: which way is up is read from the ranking, never assumed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import SCALED_MMR
from support.selection.pools import angles, pool
from vecsieve.proxy.selection.diversifiers.mmr import Mmr, relevance
from vecsieve.proxy.selection.diversifiers.relevance import by_rank, oriented, query_distance, scaled
from vecsieve.proxy.selection.values import FloatVector

RAW = Mmr(weight=0.5, is_scaled=False)
MINMAX = Mmr(weight=0.5, is_scaled=True)
SCORES = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12).map(
    lambda values: np.array(values, dtype=np.float64)
)


def test_falling_scores_are_relevance() -> None:
    assert oriented(np.array([0.9, 0.9, 0.1])).tolist() == [0.9, 0.9, 0.1]


def test_rising_scores_are_distances() -> None:
    assert oriented(np.array([0.1, 0.5, 7.0])).tolist() == [-0.1, -0.5, -7.0]


@pytest.mark.parametrize("scores", [[0.5, 0.9, 0.1], [0.9, np.nan, 0.1], [np.inf, 1.0, 0.0], [0.0, 0.0, -np.inf]])
def test_scores_that_say_nothing_are_replaced_by_the_rank(scores: list[float]) -> None:
    assert oriented(np.array(scores)).tolist() == [1.0, 0.5, 0.0]


def test_equal_scores_are_equally_relevant() -> None:
    assert oriented(np.full(3, 0.4)).tolist() == [0.4, 0.4, 0.4]
    assert scaled(np.full(3, 0.4)).tolist() == [1.0, 1.0, 1.0]


@given(SCORES)
def test_relevance_never_rises_with_rank(scores: FloatVector) -> None:
    # Invariant: for any scores at all, min-max relevance is in [0, 1], never rises, and its first value is the largest.
    values = relevance(pool(np.ones((len(scores), 2)), scores.tolist()), MINMAX)
    assert ((values >= 0) & (values <= 1)).all()
    assert (np.diff(values) <= 0).all()


@given(SCORES, st.booleans())
def test_weight_one_is_the_rank_whatever_the_scores(scores: FloatVector, is_scaled: bool) -> None:
    # Invariant: at weight 1 relevance falls strictly with rank.
    mmr = Mmr(weight=1.0, is_scaled=is_scaled)
    candidates = pool(np.ones((len(scores), 2)), scores.tolist(), query=np.ones(2, dtype=np.float32))
    assert (np.diff(relevance(candidates, mmr)) < 0).all()


def test_minmax_spans_the_whole_pool() -> None:
    assert relevance(pool(angles(0, 1, 2), [0.9, 0.6, 0.5]), MINMAX).tolist() == pytest.approx([1.0, 0.25, 0.0])


def test_a_span_that_overflows_counts_as_no_information() -> None:
    with np.errstate(over="ignore"):
        assert scaled(np.array([1e308, -1e308])).tolist() == [1.0, 1.0]


def test_raw_relevance_is_the_cosine_to_a_known_query() -> None:
    candidates = pool(angles(60, 0), [0.9, 0.1], query=angles(0)[0])
    assert relevance(candidates, RAW).tolist() == pytest.approx([0.5, 1.0])


@pytest.mark.parametrize("query", [None, [1.0, 0.0, 0.0], [0.0, 0.0], [np.nan, 1.0]])
def test_raw_relevance_is_the_score_without_a_usable_query(query: list[float] | None) -> None:
    given_query = None if query is None else np.array(query, dtype=np.float32)
    assert relevance(pool(angles(60, 0), [0.9, 0.1], query=given_query), RAW).tolist() == [0.9, 0.1]


def test_raw_relevance_is_the_score_when_one_candidate_has_no_cosine() -> None:
    rows = angles(60, 0, 10)
    rows[1] = np.nan
    assert relevance(pool(rows, [0.9, 0.8, 0.1], query=angles(0)[0]), RAW).tolist() == [0.9, 0.8, 0.1]


def test_the_distance_to_the_query_is_on_the_pools_scale() -> None:
    candidates = pool(angles(0, 90) * np.float32(2.0), query=angles(0)[0])
    plain, with_length = (query_distance(candidates, magnitude=magnitude) for magnitude in (False, True))
    assert plain is not None
    assert with_length is not None
    assert plain.tolist() == pytest.approx([0.0, 1.0])
    assert with_length.tolist() == pytest.approx([0.2, 1.0])


@pytest.mark.parametrize(("n", "values"), [(0, []), (1, [1.0]), (3, [1.0, 0.5, 0.0])])
def test_rank_relevance_falls_from_one_to_zero(n: int, values: list[float]) -> None:
    assert by_rank(n).tolist() == values
    assert isinstance(SCALED_MMR.diversifier, Mmr)
    assert len(relevance(pool(np.ones((n, 2))), SCALED_MMR.diversifier)) == n

"""The metric of a pool, told by its scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import DEFAULT
from support.selection.pools import page
from support.selection.texts import as_texts
from vecsieve.proxy.selection.metric import LOOKED_AT, is_implausible, is_unit, metric_of
from vecsieve.proxy.selection.policy import Fixed, Relative, When
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, FloatVector, Metadata, Metric


def scored(kind: str, query: FloatMatrix, rows: FloatMatrix) -> FloatVector:
    """Scores as a backend writes them."""
    query_vector, row_vectors = query.astype(np.float64), rows.astype(np.float64)
    cosine = row_vectors @ query_vector / np.linalg.norm(row_vectors, axis=1) / np.linalg.norm(query_vector)
    apart = row_vectors - query_vector
    scores: dict[str, FloatVector] = {
        "cosine": cosine,
        "1 - cosine": 1.0 - cosine,
        "certainty": (1.0 + cosine) / 2.0,
        "dot": row_vectors @ query_vector,
        "negative dot": -(row_vectors @ query_vector),
        "1 - dot": 1.0 - row_vectors @ query_vector,
        "euclid": np.linalg.norm(apart, axis=1),
        "squared euclid": (apart**2).sum(axis=1),
        "negative squared euclid": -(apart**2).sum(axis=1),
        "manhattan": np.abs(apart).sum(axis=1),
    }
    return scores[kind].astype(np.float32).astype(np.float64)


KINDS = {
    "cosine": Metric.COSINE,
    "1 - cosine": Metric.COSINE,
    "certainty": Metric.COSINE,
    "dot": Metric.DOT,
    "negative dot": Metric.DOT,
    "1 - dot": Metric.DOT,
    "euclid": Metric.EUCLIDEAN,
    "squared euclid": Metric.EUCLIDEAN,
    "negative squared euclid": Metric.EUCLIDEAN,
    "manhattan": Metric.MANHATTAN,
}


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32 - 1), st.integers(3, 64), st.integers(LOOKED_AT, 40))
def test_plain_scores_tell_the_metric(kind: str, seed: int, dimensions: int, count: int) -> None:
    """Whatever the collection, the scores of a metric are never taken for those of another."""
    random = np.random.default_rng(seed)
    rows = (random.standard_normal((count, dimensions)) * 3 + 1).astype(np.float32)
    query = (random.standard_normal(dimensions) * 3 + 1).astype(np.float32)
    assert metric_of(query, rows, scored(kind, query, rows).astype(np.float64)) is KINDS[kind]


@pytest.mark.parametrize("kind", ["euclid", "manhattan", "dot"])
def test_the_metric_is_told_far_from_the_origin(kind: str) -> None:
    random = np.random.default_rng(4)
    rows = (random.standard_normal((20, 32)) + 1000).astype(np.float32)
    query = (random.standard_normal(32) + 1000).astype(np.float32)
    assert metric_of(query, rows, scored(kind, query, rows).astype(np.float64)) is KINDS[kind]


def test_scores_of_a_fusion_or_a_formula_tell_nothing() -> None:
    random = np.random.default_rng(5)
    rows, query = random.standard_normal((20, 8)).astype(np.float32) * 2, random.standard_normal(8).astype(np.float32)
    bent = np.asarray(scored("dot", query, rows) * 1.5 + 0.1, dtype=np.float64)
    assert metric_of(query, rows, bent) is Metric.UNKNOWN
    assert metric_of(query, rows, np.asarray(scored("dot", query, rows) * 1.5 + 0.1, np.float64)) is Metric.UNKNOWN


def test_vectors_of_length_one_are_compared_by_direction_whatever_the_scores() -> None:
    rows = np.array([[0.6, 0.8], [1.0, 0.0], [np.nan, np.nan], [0.0, 0.0]], np.float32)
    assert is_unit(rows)
    assert metric_of(None, rows, np.arange(4.0)) is Metric.COSINE
    assert not is_unit(rows * 2)


@pytest.mark.parametrize(
    "query", [None, np.zeros(2, np.float32), np.ones(3, np.float32), np.full(2, np.nan, np.float32)]
)
def test_without_a_usable_query_the_metric_is_unknown(query: FloatMatrix | None) -> None:
    assert metric_of(query, np.array([[3, 4], [1, 2]], np.float32), np.array([1.0, 0.5])) is Metric.UNKNOWN


def test_without_scores_the_metric_is_unknown() -> None:
    rows = np.array([[3, 4], [1, 2]], np.float32)
    assert metric_of(np.ones(2, np.float32), rows, np.full(2, np.nan)) is Metric.UNKNOWN


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-30, 1.0, 1e30]))
def test_any_pool_has_a_metric(seed: int, scale: float) -> None:
    """Nothing in vectors, query or scores raises: the answer is one of the five."""
    random = np.random.default_rng(seed)
    rows = (random.standard_normal((12, 4)) * scale).astype(np.float32)
    rows[random.random((12, 4)) < 0.1] = random.choice(np.array([np.nan, np.inf, 0.0], np.float32))
    query = (random.standard_normal(4) * scale).astype(np.float32)
    with np.errstate(all="ignore"):
        assert metric_of(query, rows, random.standard_normal(12)) in Metric


# Vectors that would collapse most of a pool whose scores differ are not believed.

PLAIN = replace(DEFAULT, chance=None, threshold=Relative(factor=0.5, minimum=0.0, maximum=2.0))
HEADS = np.array([0, 0, 0, 0, 0, 5, 6, 0, 0, 0], dtype=np.intp)
NEAR = np.full(10, 0.1, np.float32)


def spread() -> FloatVector:
    return np.linspace(1.0, 0.2, 10)


def test_most_of_a_pool_collapsed_across_its_scores_is_implausible() -> None:
    assert is_implausible(HEADS, NEAR, spread(), Metric.COSINE)


def test_copies_with_about_the_same_score_are_believed() -> None:
    scores = np.array([1.0, 0.99, 0.98, 0.98, 0.97, 0.6, 0.5, 0.96, 0.95, 0.95])
    assert not is_implausible(HEADS, NEAR, scores, Metric.COSINE)


def test_half_a_pool_may_be_copies() -> None:
    assert not is_implausible(np.array([0, 0, 0, 0, 0, 0, 6, 7, 8, 9], dtype=np.intp), NEAR, spread(), Metric.COSINE)


def test_equal_vectors_are_copies_whatever_their_scores() -> None:
    assert not is_implausible(HEADS, np.zeros(10, np.float32), spread(), Metric.COSINE)


@pytest.mark.parametrize("scores", [np.ones(10), np.full(10, np.nan), np.linspace(0.91, 0.9, 10), np.empty(0)])
def test_scores_that_do_not_clearly_differ_say_nothing(scores: FloatVector) -> None:
    n = len(scores)
    assert not is_implausible(HEADS[:n], NEAR[:n], scores, Metric.COSINE)


def test_a_far_candidate_does_not_hide_that_scores_differ() -> None:
    """One whose position is a thousand times as far away has a score beside which those of the others are as good as equal."""
    heads = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 9], dtype=np.intp)
    scores = np.append(np.linspace(2.0, 4.0, 9), 4000.0)
    assert is_implausible(heads, NEAR, scores, Metric.EUCLIDEAN)
    equal = np.append(np.linspace(3.0, 3.01, 9), 4000.0)
    assert not is_implausible(heads, NEAR, equal, Metric.EUCLIDEAN)


def few_coordinates(count: int = 50) -> Candidates:
    """Places in five coordinates that are stretched over 64 dimensions, nearest first."""
    random = np.random.default_rng(3)
    turn, query = random.standard_normal((5, 64)), random.standard_normal(5)
    places = random.standard_normal((400, 5))
    apart = np.linalg.norm((places - query) @ turn, axis=1)
    best = np.argsort(apart, kind="stable")[:count]
    return Candidates(scores=apart[best], vectors=(places[best] @ turn).astype(np.float32), metric=Metric.EUCLIDEAN)


def test_such_a_pool_is_answered_as_the_backend_does() -> None:
    outcome = select(few_coordinates(), top_k=8, policy=PLAIN)
    assert outcome.restrained
    assert not outcome.acted
    assert outcome.keep.tolist() == list(range(8))
    assert outcome.distinct == 50


def test_a_list_read_by_pages_is_left_alone_from_its_first_block_on() -> None:
    pool = few_coordinates(120)
    for offset in (0, 8, 96):
        outcome = page(pool, top_k=8, offset=offset, policy=PLAIN, exhausted=True)
        assert outcome.restrained
        assert outcome.keep.tolist() == list(range(offset, offset + 8))


def test_a_fixed_cut_is_not_restrained() -> None:
    assert not select(few_coordinates(), top_k=8, policy=replace(PLAIN, threshold=Fixed(value=2.0))).restrained


def test_a_policy_that_always_acts_is_not_restrained() -> None:
    assert not select(few_coordinates(), top_k=8, policy=replace(PLAIN, when=When.ALWAYS)).restrained


def test_texts_are_better_evidence() -> None:
    pool = replace(few_coordinates(), metadata=Metadata(texts=as_texts(f"place {i}" for i in range(50))))
    assert not select(pool, top_k=8, policy=PLAIN).restrained

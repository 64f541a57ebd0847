"""The metric of a pool, told by its scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.metric import LOOKED_AT, is_unit, metric_of
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Metric


def scored(kind: str, query: FloatMatrix, rows: FloatMatrix) -> FloatVector:
    """Scores as a backend writes them."""
    asked, each = query.astype(np.float64), rows.astype(np.float64)
    cosine = each @ asked / np.linalg.norm(each, axis=1) / np.linalg.norm(asked)
    apart = each - asked
    found: dict[str, FloatVector] = {
        "cosine": cosine,
        "1 - cosine": 1.0 - cosine,
        "certainty": (1.0 + cosine) / 2.0,
        "dot": each @ asked,
        "negative dot": -(each @ asked),
        "1 - dot": 1.0 - each @ asked,
        "euclid": np.linalg.norm(apart, axis=1),
        "squared euclid": (apart**2).sum(axis=1),
        "negative squared euclid": -(apart**2).sum(axis=1),
        "manhattan": np.abs(apart).sum(axis=1),
    }
    return found[kind].astype(np.float32).astype(np.float64)


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

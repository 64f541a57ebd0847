"""Vectors that would collapse most of a pool whose scores differ are not believed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.selection.policies import DEFAULT
from support.selection.pools import page
from support.selection.texts import as_texts
from vecsieve.proxy.selection.metric import is_implausible
from vecsieve.proxy.selection.policy import Fixed, Relative, When
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, FloatVector, Metadata, Metric

PLAIN = replace(DEFAULT, chance=None, threshold=Relative(factor=0.5, minimum=0.0, maximum=2.0))
HEADS = np.array([0, 0, 0, 0, 0, 5, 6, 0, 0, 0], dtype=np.intp)
NEAR = np.full(10, 0.1, np.float32)


def spread(n: int = 10) -> FloatVector:
    return np.linspace(1.0, 0.2, n)


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

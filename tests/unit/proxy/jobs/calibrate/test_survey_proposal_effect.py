"""What selection does to sampled pools: copies counted as the proxy would collapse them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.memory_source import families
from vecsieve.proxy.jobs.calibrate.survey import PAGE, Effect, Pool, effect
from vecsieve.proxy.jobs.source import Vectors
from vecsieve.proxy.selection.geometry import measure, median_distance
from vecsieve.proxy.selection.values import Metric


def pool(vectors: Vectors) -> Pool:
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


PAIRS = pool(families(25, 2))  # every second result repeats the one above


def test_half_of_a_page_of_pairs_is_copies() -> None:
    assert effect([PAIRS], metric=Metric.COSINE, cut=0.1) == Effect(pages=1.0, copies=0.5)
    assert effect([PAIRS], metric=Metric.COSINE).copies == pytest.approx(0.5)


def test_a_cut_of_zero_takes_exact_copies_alone() -> None:
    exact = pool(families(25, 2, noise=0.0))
    assert effect([exact], metric=Metric.COSINE, cut=0.0).copies == 0.5
    assert effect([PAIRS], metric=Metric.COSINE, cut=0.0).copies == 0.0


def test_the_scale_moves_the_default() -> None:
    loose = pool(families(25, 2, noise=0.04))
    narrow, wide = (effect([loose], metric=Metric.COSINE, scale=scale).copies for scale in (0.01, 2.0))
    assert narrow < wide


def test_without_pools_there_is_no_effect() -> None:
    assert effect([], metric=Metric.COSINE, cut=0.1) == Effect(pages=0.0, copies=0.0)


@given(st.integers(2, 20), st.integers(1, 3), st.floats(0.0, 2.0))
def test_shares_are_shares(families_count: int, copies: int, cut: float) -> None:
    """Whatever the pool and the cut, both numbers lie in [0, 1], and one of a page's results is always itself."""
    found = effect([pool(families(families_count, copies))], metric=Metric.COSINE, cut=cut)
    assert 0.0 <= found.copies <= (PAGE - 1) / PAGE
    assert found.pages in {0.0, 1.0}
    assert (found.pages > 0) is (found.copies > 0)

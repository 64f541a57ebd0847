"""Learning from traffic: the mean, when it counts, what is forgotten."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.collections.profiles import ENOUGH_POOLS, MEMORY_POOLS, Scales

DOCS = ("docs", "")
MEDIANS = st.floats(min_value=1e-6, max_value=2.0, allow_nan=False)


def taught(*medians: float) -> Scales:
    scales = Scales()
    for median in medians:
        scales.observe(DOCS, median)
    return scales


def test_before_fifty_pools_nothing_is_said() -> None:
    assert taught(*[0.4] * (ENOUGH_POOLS - 1)).scale(DOCS) is None
    assert taught(*[0.4] * ENOUGH_POOLS).scale(DOCS) == pytest.approx(0.4)


def test_an_unknown_collection_has_no_scale() -> None:
    assert taught(*[0.4] * ENOUGH_POOLS).scale(("docs", "title")) is None


@given(st.lists(MEDIANS, min_size=ENOUGH_POOLS, max_size=MEMORY_POOLS // 4))
def test_the_scale_is_the_mean_of_the_medians(medians: list[float]) -> None:
    """The scale is the arithmetic mean while nothing has faded yet."""
    assert taught(*medians).scale(DOCS) == pytest.approx(math.fsum(medians) / len(medians))


@given(st.lists(MEDIANS, min_size=ENOUGH_POOLS, max_size=80))
def test_the_same_traffic_teaches_the_same_number(medians: list[float]) -> None:
    """The same medians in the same order give the same scale to the last bit."""
    assert taught(*medians).scale(DOCS) == taught(*medians).scale(DOCS)


@pytest.mark.parametrize("median", [0.0, -0.1, math.nan, math.inf])
def test_a_pool_without_anything_to_measure_teaches_nothing(median: float) -> None:
    assert taught(*[0.4] * (ENOUGH_POOLS - 1), median).scale(DOCS) is None
    assert taught(*[0.4] * ENOUGH_POOLS, median).scale(DOCS) == pytest.approx(0.4)


def test_a_collection_filled_anew_is_learned_anew() -> None:
    scale = taught(*[0.8] * 5000, *[0.2] * (5 * MEMORY_POOLS)).scale(DOCS)
    assert scale == pytest.approx(0.2, abs=0.01)


def test_the_collection_unseen_for_longest_leaves_first() -> None:
    scales = Scales(entries=2)
    for name in ("a", "b", "a", "c"):
        for _ in range(ENOUGH_POOLS):
            scales.observe((name, ""), 0.3)
    assert len(scales) == 2
    assert [scales.scale((name, "")) is not None for name in "abc"] == [True, False, True]


def test_one_collection_is_forgotten_with_all_its_vectors_or_all_are() -> None:
    scales = Scales()
    for key in (("a", ""), ("a", "image"), ("b", "")):
        scales.observe(key, 0.3)
    scales.forget("a")
    assert len(scales) == 1
    scales.forget(None)
    assert len(scales) == 0

"""When live pools stop looking like their profile, it is said once, and once again when they do."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.profiles import profile
from vecsieve.proxy.search.collections.profiles import FITTING_SHARE, SMALLEST_POOL, WIDENED, WINDOW, Drift, Event

FITS = 0.4
STRANGE = 0.9


def feed(drift: Drift, *medians: float, dimension: int = 384) -> list[Event]:
    events = [drift.observe(profile(), dimension=dimension, median=median, size=40) for median in medians]
    return [event for event in events if event is not None]


def test_pools_like_the_profile_are_silent() -> None:
    drift = Drift()
    assert feed(drift, *[FITS] * 1000) == []
    assert drift.drifted("docs", "") is None


def test_another_dimension_is_said_at_once_and_once() -> None:
    drift = Drift()
    assert feed(drift, FITS, FITS, dimension=768) == [Event.DIMENSION]
    assert drift.drifted("docs", "") is Event.DIMENSION


def test_strange_medians_are_said_once_the_window_is_full() -> None:
    drift = Drift()
    assert feed(drift, *[STRANGE] * (WINDOW - 1)) == []
    assert feed(drift, STRANGE) == [Event.MEDIANS]
    assert feed(drift, *[STRANGE] * 1000) == []


def test_half_of_the_pools_outside_is_no_drift_yet_and_one_more_is() -> None:
    drift = Drift()
    assert feed(drift, *[STRANGE] * (WINDOW // 2), *[FITS] * (WINDOW // 2)) == []
    drift = Drift()
    assert feed(drift, *[STRANGE] * (WINDOW // 2 + 1), *[FITS] * (WINDOW // 2 - 1)) == [Event.MEDIANS]


@pytest.mark.parametrize(
    ("median", "fits"),
    [(0.2 / WIDENED, True), (0.2 / WIDENED - 1e-6, False), (0.6 * WIDENED, True), (0.6 * WIDENED + 1e-6, False)],
)
def test_the_profiles_range_is_widened_by_a_quarter(median: float, *, fits: bool) -> None:
    assert feed(Drift(), *[median] * WINDOW) == ([] if fits else [Event.MEDIANS])


def test_it_recovers_only_when_most_pools_fit_again() -> None:
    drift = Drift()
    feed(drift, *[STRANGE] * WINDOW)
    still_outside = int(WINDOW * FITTING_SHARE)
    assert feed(drift, *[FITS] * (WINDOW - still_outside - 1)) == []
    assert feed(drift, FITS) == [Event.RECOVERED]
    assert drift.drifted("docs", "") is None
    assert feed(drift, *[STRANGE] * WINDOW) == [Event.MEDIANS]


def test_after_another_dimension_a_whole_window_must_fit() -> None:
    drift = Drift()
    feed(drift, FITS, dimension=768)
    assert feed(drift, *[FITS] * (WINDOW - 1)) == []
    assert feed(drift, FITS) == [Event.RECOVERED]


@pytest.mark.parametrize("median", [0.0, math.nan, math.inf])
def test_a_pool_without_anything_to_measure_is_not_counted(median: float) -> None:
    assert feed(Drift(), *[median] * (5 * WINDOW)) == []


@pytest.mark.parametrize(("size", "counted"), [(SMALLEST_POOL - 1, False), (SMALLEST_POOL, True)])
def test_pools_of_few_candidates_are_not_counted(size: int, *, counted: bool) -> None:
    drift = Drift()
    events = [drift.observe(profile(), dimension=384, median=STRANGE, size=size) for _ in range(WINDOW)]
    assert events[-1] is (Event.MEDIANS if counted else None)


def test_a_new_profile_starts_anew() -> None:
    drift = Drift()
    feed(drift, *[STRANGE] * WINDOW)
    assert drift.observe(profile(sample=1), dimension=384, median=FITS, size=40) is None
    assert drift.drifted("docs", "") is None


def test_the_collection_unseen_for_longest_is_forgotten_first() -> None:
    drift = Drift(entries=2)
    for name in ("a", "b", "a", "c"):
        drift.observe(profile(collection=name), dimension=768, median=FITS, size=40)
    assert len(drift) == 2
    assert [drift.drifted(name, "") for name in "abc"] == [Event.DIMENSION, None, Event.DIMENSION]


@given(st.lists(st.tuples(st.sampled_from([384, 768]), st.floats(0.0, 2.0)), max_size=3 * WINDOW))
def test_no_event_is_said_twice_in_a_row(pools: list[tuple[int, float]]) -> None:
    """Whatever the pools, an event always differs from the one before it."""
    drift = Drift()
    events = [drift.observe(profile(), dimension=dimension, median=median, size=40) for dimension, median in pools]
    said = [event for event in events if event is not None]
    assert all(one is not other for one, other in pairwise(said))
    assert not said or said[0] is not Event.RECOVERED

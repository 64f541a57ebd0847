"""The arithmetic of the benchmarks: a table with a wrong ratio is worse than none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import connections, stats
from bench.contenders import OtherSearchError, unselected
from bench.figures import Aim, Figure, Sides, figure

POSITIVE = st.floats(min_value=1e-6, max_value=1e6)
ROUNDS = st.lists(POSITIVE, min_size=1, max_size=20)


@given(ROUNDS, st.floats(min_value=0.01, max_value=100.0))
def test_a_ratio_is_taken_round_by_round(baseline: list[float], factor: float) -> None:
    """Invariant: whatever slows both sides of a round alike leaves its ratio alone."""
    ours = [factor * value for value in baseline]
    assert stats.ratios(ours, baseline) == pytest.approx([factor] * len(baseline))


def test_rounds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rounds of ours against 1"):
        stats.ratios([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="1 rounds of ours against 2"):
        stats.differences([1.0], [1.0, 2.0])


@given(st.lists(POSITIVE, min_size=1, max_size=200), st.floats(min_value=0.001, max_value=1.0))
def test_a_percentile_covers_its_share_and_no_smaller_value_does(values: list[float], share: float) -> None:
    """Invariant: at least that share lies at or below it, and less than that share below it."""
    seen = stats.percentile(values, share)
    assert sum(value <= seen for value in values) >= share * len(values)
    assert sum(value < seen for value in values) < share * len(values)


def one_figure(*aims: Aim) -> Figure:
    return figure("search", Sides([40.0, 50.0, 60.0], [100.0, 100.0, 200.0]), unit="1/s", against="relay", aims=aims)


@pytest.mark.parametrize(
    ("aim", "is_met"),
    [
        (Aim("ratio", ">=", 0.4), True),
        (Aim("ratio", ">=", 0.41), False),
        (Aim("ours", "<=", 50.0), True),
        (Aim("ours", "<=", 49.0), False),
    ],
)
def test_an_aim_is_judged_by_the_median_and_its_bound_counts_as_met(aim: Aim, is_met: bool) -> None:
    assert (one_figure(aim).missed == ()) is is_met


def test_searches_without_a_removed_copy_are_counted_and_too_many_are_refused() -> None:
    assert unselected((10.0, 20.0), (110.0, 120.0)) == 0.0
    assert unselected((10.0, 20.0), (107.0, 120.0)) == pytest.approx(0.03)
    with pytest.raises(OtherSearchError, match="60% of 100 searches"):
        unselected((10.0, 20.0), (50.0, 120.0))
    with pytest.raises(OtherSearchError, match="100% of 0 searches"):
        unselected((10.0, 20.0), (10.0, 20.0))


def test_the_generator_takes_only_a_counted_200() -> None:
    assert connections.body_bytes(b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 12") == 12
    with pytest.raises(ConnectionError, match="503"):
        connections.body_bytes(b"HTTP/1.1 503 Busy\r\nContent-Length: 1")
    with pytest.raises(ConnectionError, match="without Content-Length"):
        connections.body_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")


def test_ratios_of_a_dead_baseline_fail_loudly() -> None:
    with pytest.raises(ZeroDivisionError):
        stats.ratios([1.0], [0.0])
    assert math.isfinite(stats.ratios([1.0], [1e-6])[0])

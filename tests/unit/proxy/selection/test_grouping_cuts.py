"""The cut: a number, or a share of the pool's own scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from support.selection.oracles import median
from support.selection.pools import angles, damaged
from vecsieve.proxy.selection.geometry import measure, median_distance
from vecsieve.proxy.selection.grouping import cuts
from vecsieve.proxy.selection.policy import Certain, Fixed, Relative
from vecsieve.proxy.selection.values import FloatMatrix

RELATIVE = Relative(factor=0.2, minimum=0.02, maximum=0.3)


@given(damaged(largest=70))
def test_the_median_is_the_sorted_middle_of_the_first_fifty_usable(rows: FloatMatrix) -> None:
    # Invariant: equal to sorting all pairs of the first 50 usable candidates.
    geometry = measure(rows, magnitude=False)
    wanted = median(geometry.distance.astype(np.float64).tolist(), geometry.usable.tolist())
    assert median_distance(geometry) == pytest.approx(wanted, abs=1e-7)


def test_candidates_behind_the_fiftieth_do_not_change_the_scale() -> None:
    random = np.random.default_rng(1)
    rows = random.standard_normal((50, 8)).astype(np.float32)
    longer = np.concatenate((rows, np.ones((50, 8), dtype=np.float32)))
    assert median_distance(measure(longer, magnitude=False)) == pytest.approx(
        median_distance(measure(rows, magnitude=False)), abs=1e-6
    )


def test_unusable_candidates_do_not_count_towards_the_fifty() -> None:
    rows = angles(0, 0, 0, 90, 90)
    rows[1:3] = np.nan
    assert median_distance(measure(rows, magnitude=False)) == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [np.empty((0, 3)), np.ones((1, 3)), np.zeros((5, 3)), np.ones((5, 0))])
def test_without_a_pair_the_median_is_zero_and_the_cut_the_minimum(rows: FloatMatrix) -> None:
    scale = median_distance(measure(rows.astype(np.float32), magnitude=False))
    assert scale == 0.0
    assert cuts(RELATIVE, scale, 1)[0] == 0.02


@pytest.mark.parametrize(("scale", "cut"), [(0.05, 0.02), (0.5, 0.1), (1.9, 0.3)])
def test_the_relative_cut_is_clipped(scale: float, cut: float) -> None:
    assert cuts(RELATIVE, scale, 1)[0] == pytest.approx(cut)


@pytest.mark.parametrize("value", [0.0, 0.15, 2.0])
def test_a_fixed_cut_does_not_look_at_the_pool(value: float) -> None:
    assert cuts(Fixed(value=value), 0.7, 1)[0] == value


def test_no_cut_is_wider_than_chance_allows() -> None:
    assert cuts(RELATIVE, 1.0, 1, largest=0.12) == [0.12]
    assert cuts(Fixed(value=0.4), 1.0, 1, largest=0.12) == [0.4]


def test_bounds_in_cosine_distances_are_read_in_the_unit_of_the_cut() -> None:
    assert cuts(RELATIVE, 1.0, 1, unit=0.05) == pytest.approx([0.4])
    assert cuts(Fixed(value=0.1), 1.0, 1, unit=0.5) == [0.2]


def test_other_cuts_are_the_same_everywhere() -> None:
    assert cuts(Fixed(value=0.1), 0.9, 3) == [0.1, 0.1, 0.1]
    assert cuts(RELATIVE, 0.5, 3) == pytest.approx([0.1] * 3)


def test_the_calibrated_rule_allows_more_doubt_down_the_page_whatever_the_pool() -> None:
    rule = Certain(first=0.85, last=0.4)
    found = cuts(rule, 1.0, 10)
    assert found[1:] == pytest.approx([0.15, 0.2784, 0.3586, 0.427, 0.4888, 0.5461, 0.6, 0.6, 0.6], abs=1e-4)
    assert cuts(rule, 0.2, 10, largest=0.1, unit=0.05) == found
    assert cuts(Certain(first=1.0, last=1.0), 1.0, 4) == [0.0] * 4

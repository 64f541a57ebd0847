"""The arithmetic of a noisy machine: medians with their range, ratios taken round by round, percentiles."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds, and how far the rounds lay apart."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Median, lowest and highest of at least one value. Raises ValueError for none."""
    if not values:
        raise ValueError("no rounds: nothing was measured")
    return Spread(median=statistics.median(values), low=min(values), high=max(values))


def ratios(ours: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Ours over baseline, round by round: what slowed both sides of a round cancels out. Raises ValueError."""
    if len(ours) != len(baseline):
        raise ValueError(f"{len(ours)} rounds of ours against {len(baseline)} of the baseline")
    return [ours_round / baseline_round for ours_round, baseline_round in zip(ours, baseline, strict=True)]


def differences(ours: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Ours minus baseline, round by round. Raises ValueError when the counts differ."""
    if len(ours) != len(baseline):
        raise ValueError(f"{len(ours)} rounds of ours against {len(baseline)} of the baseline")
    return [ours_round - baseline_round for ours_round, baseline_round in zip(ours, baseline, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all values do not exceed (nearest rank). Raises ValueError."""
    if not values:
        raise ValueError("no values: a percentile of nothing")
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share {share}, wanted above 0 and at most 1")
    return sorted(values)[math.ceil(share * len(values)) - 1]

"""How near is a duplicate: one number for every pool, a share of the pool's own median distance, or one that grows.

The same cosine distance means different things in different models and collections (a safe cut ran from 0.05 to 0.50
over eleven labelled sets); divided by the pool's median distance it hardly moves.

Why a cut may grow: dropping a copy gains the same at every place of the page, while dropping what was no copy costs the
answer only if that was the answer, and the chance of it falls about tenfold from the second kept result to the
seventh (measured on the same sets, at equal distance over median). So the second result must be all but equal to the
first to be dropped, and the eighth may resemble any of seven.

That holds where ranking and vectors agree. Where they do, results deeper in the ranking lie farther apart; where they do
not (a weak model, a ranking by something else than these vectors), rank says little of who is the answer, and a cut that
grows with it does harm. The correlation of the pairs' ranks with their distances tells the two apart without labels (0.23
against 0.03 in the middle of a set for a good model and for its own shallow layers), so it tempers the cut.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.geometry import Geometry, pairs
from vecsieve.proxy.selection.policy import Fixed, Growing, Relative, Threshold
from vecsieve.proxy.selection.values import FloatVector

# The scale is read from so many candidates at most, so that asking for more does not change what "near" means.
SCALE_FROM = 50

# A product of norms below this is rounding: a pool of copies, or one pair.
FLAT = 1e-9


def median_distance(geometry: Geometry) -> float:
    """Median of the pairwise distances of the first 50 usable candidates; 0.0 when there are fewer than two."""
    chosen = geometry.usable.nonzero()[0][:SCALE_FROM]
    m = len(chosen)
    if m < 2:
        return 0.0
    distance = geometry.distance[:m, :m] if chosen[-1] == m - 1 else geometry.distance[np.ix_(chosen, chosen)]
    return median_of(pairs(distance))


def agreement(geometry: Geometry) -> float:
    """Pearson correlation of i + j with the distance of candidates i and j, over the same pairs as the median.

    1.0 where there is nothing to correlate: fewer than two candidates, or all equally far apart.
    """
    chosen = geometry.usable.nonzero()[0][:SCALE_FROM]
    m = len(chosen)
    if m < 2:
        return 1.0
    among = geometry.distance[:m, :m] if chosen[-1] == m - 1 else geometry.distance[np.ix_(chosen, chosen)]
    values = pairs(among).astype(np.float64)
    values -= values.mean()
    depth = _depth(m)
    norm = float(np.sqrt((values @ values) * (depth @ depth)))
    return float(values @ depth) / norm if norm > FLAT else 1.0


def tempered(threshold: Threshold, correlation: float) -> float:
    """What the median counts for under a growing threshold: [wary, 1]. 1.0 under every other."""
    if not isinstance(threshold, Growing) or threshold.trusted == 0.0:
        return 1.0
    return min(max(correlation / threshold.trusted, threshold.wary), 1.0)


def cuts(
    threshold: Threshold, typical: float, count: int, *, largest: float = math.inf, unit: float = 1.0
) -> list[float]:
    """The cut for a pool with this (tempered) typical distance when 0 to ``count - 1`` results stand already; nothing is
    ever compared with none, and only a growing cut minds how many stand.

    ``largest``: what chance allows. ``unit``: the cosine distance that 1.0 stands for, in which a threshold's own bounds
    are given.
    """
    if isinstance(threshold, Fixed):
        return [threshold.value / unit] * count
    if isinstance(threshold, Relative):
        cut = min(threshold.factor * typical, largest)
        return [min(max(cut, threshold.minimum / unit), threshold.maximum / unit)] * count
    grown = np.minimum(_shares(threshold, count) * typical, largest)
    bounded: list[float] = np.maximum(grown, threshold.minimum / unit).tolist()
    return bounded


@lru_cache(maxsize=SCALE_FROM)
def _shares(threshold: Growing, count: int) -> FloatVector:
    """What the median counts for when 0 to ``count - 1`` are kept (count,): a matter of the policy and the pool's size."""
    kept = np.arange(count, dtype=np.float64)
    shares: FloatVector = np.minimum(threshold.factor * kept**threshold.power, threshold.most)
    return shares


@lru_cache(maxsize=SCALE_FROM + 1)
def _depth(m: int) -> FloatVector:
    """I + j of every pair i < j < m, less the mean (m * (m - 1) / 2,): the same for every pool of that size."""
    ranks = np.arange(m)
    depth = pairs(np.add.outer(ranks, ranks).astype(np.float32)).astype(np.float64)
    centred: FloatVector = depth - depth.mean()
    return centred


def median_of(values: npt.NDArray[np.floating[Any]]) -> float:
    """np.median without its 20 microseconds of ceremony. ``values``: not empty, finite; they are reordered."""
    middle = len(values) // 2
    if len(values) % 2:
        values.partition(middle)
        return float(values[middle])
    values.partition((middle - 1, middle))
    return (float(values[middle - 1]) + float(values[middle])) / 2.0

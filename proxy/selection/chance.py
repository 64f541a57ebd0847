"""How near two results may be by chance: the bound under which every merge by vectors alone stays.

In few dimensions nearness is chance. Of two independent points of a d-dimensional cloud the squared distance is, over its
own median, a chi-squared variable with d degrees of freedom over its median: at d = 8 one pair in seventy is within half
the typical distance, at d = 384 none ever is. So a share of the typical distance says "copy" only as far as such a share
is improbable in a pool without copies, and that depends on d.

d is the number of dimensions that the collection has. An intrinsic dimension read off the pool would be lower wherever
copies are, so the more copies there were, the fewer would be found.

A normal cloud is the reference because its differences are normal too, whatever its mean. Pages over normal, uniform and
Laplace clouds come back unchanged (tests/laws/test_metrics.py). Clouds with heavier tails (exponential, Student's t) or with
dimensions of very unequal variance exceed the bound: some of their pages lose a result.
"""

from __future__ import annotations

import math
from functools import lru_cache

# Beyond this many dimensions the bound is wider than any cut in use (0.75), so it is not worked out any more.
ENOUGH_DIMENSIONS = 512


@lru_cache(maxsize=2 * ENOUGH_DIMENSIONS)
def nearest_by_chance(dimensions: int, chance: float) -> float:
    """The squared distance, as a share of the median one, that two independent points are within with this probability.

    ``dimensions``: in which the points are free; 0 or less: 0.0, nothing but equal points. ``chance``: in [0, 1).
    """
    freedom = min(dimensions, ENOUGH_DIMENSIONS)
    if freedom <= 0 or chance <= 0.0:
        return 0.0
    return _quantile(freedom, chance) / _quantile(freedom, 0.5)


def _quantile(freedom: int, probability: float) -> float:
    """Below which a chi-squared variable lies with this probability, by bisection on its logarithm."""
    low, high = -700.0, math.log(4.0 * freedom + 40.0)
    for _ in range(80):
        middle = (low + high) / 2.0
        if _below(freedom / 2.0, math.exp(middle) / 2.0) < probability:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _below(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(a, x), by its power series (NIST DLMF 8.7.1)."""
    term = math.exp(a * math.log(x) - x - math.lgamma(a + 1.0)) if x > 0.0 else 0.0
    total, k = term, a
    while term > total * 1e-15:
        k += 1.0
        term *= x / k
        total += term
    return total

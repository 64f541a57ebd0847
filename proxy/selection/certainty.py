"""The calibrated rule for vectors: the probability that a candidate repeats a better-ranked result, from their distance.

For results without texts, in the presets `vectors` and `meaning`. A logistic model over the distance, fitted to labelled sets in several
embedding models. It removes nothing below VECTORS_LEAST.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from .policy import Certain
from .values import FloatMatrix

# From the second result on, the certainty falls over this many results to its last value. It falls fast at first, like the
# probability that a result is the answer.
FALLS_OVER = 6
FALL_POWER = 0.7

# Vectors alone remove nothing below this certainty. At .8, 97 % of what they remove is right on sets left out of the fit.
VECTORS_LEAST = 0.8

# Relative distances are clipped to this range.
NEAREST, FARTHEST = 0.02, 2.0
# The logarithm of the relative distance at which "far" ends and "near" begins: 0.37 of the typical distance.
KNEE = -1.0

# The constants of the logistic models, fitted to 790,008 pairs of 12 labelled sets (argkp, banking77, clinc150, dirty, docs_versions, hotpot, numpydoc,
# perspectrum, xquad_multi, xquad_ov12, xquad_ov25, xquad_ov50) in 3 embeddings, each set with the same weight. By vectors alone: a constant, and the
# logarithm of the relative distance beyond and below the knee.
VECTORS: Mapping[str, float] = MappingProxyType({"one": -5.118, "far": -3.827, "near": -1.421})
# Of two sentences (judging/rewordings.py): the same; the weight of rare words that both have, as a share of all and of the lighter sentence; how much
# the pool's sentences repeat one another; and the share of the shorter one with which both begin.
SENTENCES: Mapping[str, float] = MappingProxyType(
    {
        "one": -5.814,
        "far": -2.977,
        "near": -1.125,
        "rare_shared": 3.180,
        "rare_contained": 0.926,
        "repetition": 15.279,
        "opening": -1.149,
    }
)

Pairs = npt.NDArray[np.float64]

# How far the certainty has fallen after 0, 1, 2… kept results: 0 is not at all, 1 is completely.
_FALL = [max(0, stand - 1) / FALLS_OVER for stand in range(FALLS_OVER + 2)]


@lru_cache(maxsize=64)
def _doubts_allowed(first: float, last: float) -> list[float]:
    return [1.0 - (first - (first - last) * fallen**FALL_POWER) for fallen in _FALL]


def doubts_allowed(rule: Certain, count: int) -> list[float]:
    """1 - certainty after 0 to ``count - 1`` kept results. The first value is never used."""
    return _doubts_allowed(rule.first, rule.last)[:count] + [1.0 - rule.last] * (count - len(_FALL))


def by_vectors(distance: FloatMatrix, largest: FloatMatrix | float) -> FloatMatrix:
    """The doubt (n, m) from relative distances (n, m). ``largest``: the distance beyond which vectors may be close by chance, one of all or one of
    each pair.

    Equal vectors are copies. An infinite distance stays infinite.
    """
    near = distance <= np.minimum(largest, np.float32(reach_of_vectors()))
    doubt = np.where(np.isinf(distance), distance, np.float32(1.0))
    if near.any():
        equal_odds = probability(logarithm(distance[near].astype(np.float64)))
        doubt[near] = 1.0 - np.where(equal_odds >= VECTORS_LEAST, equal_odds, 0.0)
        doubt[distance == 0.0] = 0.0
    return doubt.astype(np.float32, copy=False)


@lru_cache(maxsize=1)
def reach_of_vectors() -> float:
    """The distance beyond which no pair is removed by its vectors alone."""
    distances = np.geomspace(NEAREST, FARTHEST, 1024)
    reached = (probability(logarithm(distances)) >= VECTORS_LEAST).nonzero()[0]
    if not len(reached):
        return 0.0
    return float(distances[reached[-1] + 1]) if reached[-1] + 1 < len(distances) else math.inf


def logarithm(distance: Pairs) -> Pairs:
    """The logarithm of relative distances (p,), clipped to the range NEAREST to FARTHEST."""
    return np.log(np.minimum(np.maximum(distance, NEAREST), FARTHEST))


def probability(logarithms: Pairs) -> Pairs:
    """The probability (p,) that pairs are copies, from the logarithms of their distances."""
    logit = (
        VECTORS["one"] + VECTORS["far"] * np.maximum(logarithms, KNEE) + VECTORS["near"] * np.minimum(logarithms, KNEE)
    )
    odds: Pairs = 1.0 / (1.0 + np.exp(-logit))
    return odds

"""When vectors alone may not decide: they would collapse most of a pool whose scores clearly differ.

Copies of one thing are scored alike by any ranking. Where most of a pool seems to be copies and those copies are scored far
apart, the vectors lie in a space that the cut does not understand, such as a few coordinates stretched over hundreds of
dimensions. Then the backend's answer is left alone. This holds whatever the cut is and however distances are measured.

Texts that say something are better evidence, so a pool that has any is not looked at here.
"""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.selection.policy import Fixed, Policy, When
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices

# Scores of copies that differ by rounding differ too, but by little of what they are.
CLEARLY = 0.05

# Of a pool: with this share collapsed there is no telling what is left.
MOST = 0.5

# Of the pool's range of scores, between a candidate and what it would collapse into, in the middle of those collapsed.
# Measured: releases of documentation 0.02 to 0.06, overlapping chunks of several pipelines 0.11 to 0.14; clouds of 2 to 8
# dimensions within 64 or 384 0.20 to 0.37. Below a quarter real copies without texts are lost too (0.2: 2 points of 55).
APART = 0.25


def may_be_restrained(policy: Policy) -> bool:
    """Whether the policy leaves room for it: neither a fixed cut, which somebody named, nor a selection that always acts."""
    return policy.when is When.REDUNDANT and not isinstance(policy.threshold, Fixed)


def is_implausible(representative: Indices, distances: FloatMatrix, scores: FloatVector) -> bool:
    """Whether these clusters, made by vectors alone, are to be disbelieved; False where a score is not finite.

    All (n,). ``distances``: to the representative, by vectors; equal vectors are copies whatever their scores.
    """
    collapsed = ((representative != np.arange(len(representative))) & (distances > 0.0)).nonzero()[0]
    if len(collapsed) <= MOST * len(representative) or not np.isfinite(scores).all():
        return False
    span = float(np.ptp(scores))
    if span <= CLEARLY * float(np.abs(scores).max()):
        return False
    apart = np.abs(scores[collapsed] - scores[representative[collapsed]])
    return float(np.median(apart)) > APART * span

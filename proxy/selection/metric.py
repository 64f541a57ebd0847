"""The metric by which a pool was ranked, derived from the pool: neither requests nor replies name it.

If the query vector is known, each metric predicts the score of every candidate, up to the form in which its backend writes it (a distance
or a similarity, squared or not). A prediction that holds for all of the first candidates is the metric. After fusion, a formula or boosting
none holds, and the metric is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .policy import Fixed, Policy, When
from .values import FloatMatrix, FloatVector, Indices, Metric

LOOKED_AT = 8  # candidates: one score could agree by chance, eight of different values do not
# The number of tolerances that the middle scores of a pool must span: another vector's score is then within one tolerance in 2 cases of
# 100. Scores may have few different values, as those of vectors of zeros and ones do, and one far candidate increases the tolerance of
# distances. So the pairs of a pool whose scores are within the tolerance although their vectors differ are counted, too: CHANCE of all pairs
# at most. Vectors differ by more than a share of the typical squared distance (DIFFERENT), the median from COMPARED candidates to all, and by
# more than float32 loses (LOST).
TELLING, CHANCE, DIFFERENT, LOST, COMPARED = 100.0, 0.02, 1e-3, 1e-5, 16
TOLERANCE = 1e-3  # scores are float32, of vectors that may be stored in half precision

# Cosine collections store or return unit vectors; float16 and quantised storage change the length by about this much.
UNIT_TOLERANCE = 1e-3


Reals = npt.NDArray[np.floating[Any]]


def metric_of(query: FloatMatrix | None, vectors: FloatMatrix, scores: FloatVector) -> Metric:
    """The metric. ``query``: (d,) or None. ``vectors``: (n, d). ``scores``: (n,).

    If all vectors have length 1, every metric orders as cosine does, so cosine is returned.
    """
    if not vectors.shape[1]:
        return Metric.UNKNOWN
    if is_unit(vectors):
        return Metric.COSINE
    if query is None or query.shape != vectors.shape[1:]:
        return Metric.UNKNOWN
    rows = vectors[:LOOKED_AT].astype(np.float64)
    seen = scores[:LOOKED_AT]
    known = np.isfinite(rows).all(axis=1) & rows.any(axis=1) & np.isfinite(seen)
    direction = query.astype(np.float64)
    if not known.any() or not np.isfinite(direction).all() or not direction.any():
        return Metric.UNKNOWN
    for metric, form in _FORMS:
        expected = form(direction, rows[known])
        if np.all(np.abs(expected - seen[known]) <= TOLERANCE * np.abs(expected).max()):
            return metric
    return Metric.UNKNOWN


def scoring_of(query: FloatMatrix, vectors: FloatMatrix, scores: FloatVector, tolerance: float) -> int | None:
    """The form in which the scores (n,) follow from ``query`` (d,) and ``vectors`` (n, d), as a number for ``scores_fit``; None if none
    holds for all of them, or if a score is missing.
    """
    forms = range(len(_FORMS))
    return next((form for form in forms if scores_fit(form, query, vectors, scores, tolerance)), None)


def metric_by(form: int) -> Metric:
    """The metric of a form of ``scoring_of``."""
    return _FORMS[form][0]


def scores_fit(
    form: int,
    query: FloatMatrix,
    vectors: FloatMatrix,
    scores: FloatVector,
    tolerance: float,
    squares: FloatMatrix | None = None,
) -> bool:
    """Whether the scores (n,) have this form.

    ``tolerance``: relative to 1 for a cosine, to the lengths for an inner product, to the largest score for a distance. ``squares``: the
    squared lengths (n,) of the vectors, if known.
    """
    metric, expect = _FORMS[form]
    if squares is not None and metric is Metric.COSINE:
        cosines = (vectors @ query) / np.sqrt(squares * (query @ query))
        return bool(np.all(np.abs(_OF_COSINES[form](cosines) - scores) <= tolerance))
    with np.errstate(all="ignore"):
        expected = expect(query, vectors)
        return bool(np.all(np.abs(expected - scores) <= tolerance * _unit(metric, query, vectors, expected)))


def scores_distinguish(
    form: int, query: FloatMatrix, vectors: FloatMatrix, scores: FloatVector, tolerance: float
) -> bool:
    """Whether scores (n,) of this form tell vectors of such a collection apart: they differ so much that two within ``tolerance`` are rare.
    Far from the origin all cosines are nearly 1, and any vector would fit them.
    """
    metric, expect = _FORMS[form]
    with np.errstate(all="ignore"):
        low, high = np.quantile(scores, (0.1, 0.9))
        return bool(high - low >= TELLING * tolerance * _unit(metric, query, vectors, expect(query, vectors)))


def scores_prove(
    form: int, query: FloatMatrix, vectors: FloatMatrix, scores: FloatVector, tolerance: float, squares: FloatMatrix
) -> bool:
    """Whether another vector in the place of one of these would rarely pass ``scores_fit``, whose parameters these are. The scores (n,) fit."""
    metric = _FORMS[form][0]
    reach = tolerance * _unit(metric, query, vectors, scores)
    most = CHANCE * len(scores) * (len(scores) - 1) / 2
    ordered = np.sort(scores)
    if int((ordered.searchsorted(ordered + reach, "right") - np.arange(1, len(ordered) + 1)).sum()) <= most:
        return True
    rows = vectors / np.sqrt(squares)[:, None] if metric is Metric.COSINE else vectors
    rows = rows - rows[0]
    lengths = np.einsum("ij,ij->i", rows, rows)
    sums = np.add.outer(lengths, lengths)
    apart = sums - 2.0 * (rows @ rows.T)
    some = apart[:: -(-len(rows) // COMPARED)]
    differ = apart > np.maximum(DIFFERENT * np.median(some), LOST * sums)
    is_equal = np.abs(np.subtract.outer(scores, scores)) <= reach
    return int(np.count_nonzero(differ & is_equal)) <= 2 * most  # each pair twice


def _unit(metric: Metric, query: FloatMatrix, vectors: FloatMatrix, expected: Reals) -> float:
    """The value to which a tolerance of scores is relative."""
    if metric is Metric.COSINE:
        return 1.0
    if metric is Metric.DOT:
        return float(np.sqrt((query @ query) * np.einsum("ij,ij->i", vectors, vectors).max(initial=0.0)))
    return float(np.abs(expected).max(initial=0.0))


def is_unit(vectors: FloatMatrix) -> bool:
    """Whether all usable rows of ``vectors`` (n, d) have length 1."""
    if not vectors.size:
        return True
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    squares = squares[squares > 0.0]  # comparisons with a row of NaN are false
    return bool((np.abs(np.sqrt(squares) - 1.0) <= UNIT_TOLERANCE).all())


def _products(query: Reals, rows: Reals) -> Reals:
    products: Reals = rows @ query
    return products


def _squares(query: Reals, rows: Reals) -> Reals:
    apart = rows - query
    squares: Reals = np.einsum("ij,ij->i", apart, apart)
    return squares


def _cosines(query: Reals, rows: Reals) -> Reals:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    cosines: Reals = (rows @ query) / (lengths * np.sqrt(query @ query))
    return cosines


# For each number of a form.
_OF_COSINES: Mapping[int, Callable[[Reals], Reals]] = {
    5: lambda cosine: cosine,
    6: lambda cosine: 1.0 - cosine,
    7: lambda cosine: (1.0 + cosine) / 2.0,
}

# The predicted scores, in every form that a backend uses.
_FORMS: tuple[tuple[Metric, Callable[[Reals, Reals], Reals]], ...] = (
    (Metric.EUCLIDEAN, _squares),
    (Metric.EUCLIDEAN, lambda query, rows: -_squares(query, rows)),
    (Metric.EUCLIDEAN, lambda query, rows: np.sqrt(_squares(query, rows))),
    (Metric.EUCLIDEAN, lambda query, rows: -np.sqrt(_squares(query, rows))),
    (Metric.MANHATTAN, lambda query, rows: np.abs(rows - query).sum(axis=1)),
    (Metric.COSINE, lambda query, rows: _OF_COSINES[5](_cosines(query, rows))),
    (Metric.COSINE, lambda query, rows: _OF_COSINES[6](_cosines(query, rows))),
    (Metric.COSINE, lambda query, rows: _OF_COSINES[7](_cosines(query, rows))),
    (Metric.DOT, _products),
    (Metric.DOT, lambda query, rows: -_products(query, rows)),
    (Metric.DOT, lambda query, rows: 1.0 - _products(query, rows)),
)

# When clusters by vectors alone are rejected: if they would collapse most of a pool whose scores clearly differ.
#
# In any ranking, copies have nearly equal scores. If most of a pool seems to be copies and their scores differ widely, the distances do not
# mean what the cut assumes, as with a few coordinates repeated over hundreds of dimensions. Then the backend's answer is not changed. This
# rule does not depend on the cut or on how distances are measured.
#
# Texts are better evidence, so the rule applies only to pools without texts.

# Scores of copies that differ by rounding differ by less than this share.
CLEARLY = 0.05

# The share of a pool: if more is collapsed, too little is left to judge by.
MOST = 0.5

# The share of the pool's range of scores: the median difference between a collapsed candidate and its representative. Measured: releases of
# documentation 0.02 to 0.06, overlapping chunks of several pipelines 0.11 to 0.14; clouds of 2 to 8 dimensions within 64 or 384 0.20 to
# 0.37. Below a quarter, real copies without texts are lost too (at 0.2: 2 points of 55).
APART = 0.25


def may_be_restrained(policy: Policy) -> bool:
    """Whether the policy allows the rule: not with a fixed cut, which was chosen explicitly, nor with a selection that always acts."""
    return policy.when is When.REDUNDANT and not isinstance(policy.threshold, Fixed)


# How far the farthest of some positions are says nothing about the others, so their range of scores is that of the clusters.
POSITIONS = frozenset({Metric.EUCLIDEAN, Metric.MANHATTAN, Metric.DOT})


def is_implausible(representative: Indices, distances: FloatMatrix, scores: FloatVector, metric: Metric) -> bool:
    """Whether these clusters, made by vectors alone, must be rejected; False if a score is not finite.

    All (n,). ``distances``: to the representative, by vectors; equal vectors are copies whatever their scores.
    """
    collapsed = ((representative != np.arange(len(representative))) & (distances > 0.0)).nonzero()[0]
    if len(collapsed) <= MOST * len(representative) or not np.isfinite(scores).all():
        return False
    among = scores[np.union1d(collapsed, representative[collapsed])] if metric in POSITIONS else scores
    span = float(np.ptp(among))
    if span <= CLEARLY * float(np.abs(among).max()):
        return False
    apart = np.abs(scores[collapsed] - scores[representative[collapsed]])
    return float(np.median(apart)) > APART * span

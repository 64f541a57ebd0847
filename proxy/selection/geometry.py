"""Distances of candidates from one Gram matrix.

Lengths are taken from the Gram matrix's own diagonal instead of normalising the rows first. That saves two passes over the vectors, which
are most of the data, and it is more exact: rounding affects the product of a row with itself and with its exact copy equally, so copies
have distance 0.

Two candidates that cannot be compared (one has no usable vector) are infinitely far apart. No finite threshold reaches infinity, so users
of a distance matrix need no mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .values import FloatMatrix, FloatVector, Indices

# The error of a cosine distance computed in float32. Measured between exact and scaled copies: below 1e-6 for embedding-like rows of 1 to
# 65,536 dimensions; for rows whose components are all equal (people do test with [0.1] * 1536), where all roundings go the same way, up to
# 1.2e-5 with numpy 2.4 and 1.5e-5 with 2.5, whose OpenBLAS sums in another order. So a smaller distance is zero, and two distances this
# close are equal. This loses nothing: an edit that a model notices changes a distance by far more, and rounding a vector to float16 by less
# than 1e-6.
NOISE = 2e-5

# Bounds of squared lengths: between them, neither products of two rows nor partial sums leave float32's range (Cauchy and Schwarz), and
# squares that underflow do not affect the sum. Other rows are rescaled first.
SMALLEST_SQUARE = 1e-20
LARGEST_SQUARE = 1e30

# For pools of up to this size, which includes the default, the positions of pairs are cached: one megabyte in all.
REMEMBERED = 64

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows whose products are in range: the true row i is ``values[i] * 2**exponents[i]``.

    ``values``: (n, d) float32, unusable rows are zero. ``squares``: (n,) float32, their squared lengths. ``exponents``: (n,) int32.
    ``usable``: (n,) bool.
    """

    values: FloatMatrix
    squares: FloatMatrix
    exponents: npt.NDArray[np.int32]
    usable: Mask

    def at(self, which: slice | Indices) -> Rows:
        """Some of the rows; a slice does not copy them."""
        return Rows(self.values[which], self.squares[which], self.exponents[which], self.usable[which])


@dataclass(frozen=True, slots=True)
class Geometry:
    """The pool's distances.

    ``distance``: (n, n) float32 in [0, 2], symmetric, zero on the diagonal, infinite if one side is not usable. ``usable``: (n,) bool,
    whether the candidate has a finite vector that is not zero.
    """

    distance: FloatMatrix
    usable: Mask


def measure(vectors: FloatMatrix, *, magnitude: bool) -> Geometry:
    """Distances of all pairs of ``vectors`` (n, d) float32; with ``magnitude``, length counts as well as direction."""
    # A row of NaN, or one whose square overflows, affects only its own products; it is corrected below.
    with np.errstate(all="ignore"):
        products = vectors @ vectors.T
    squares = products.diagonal().copy()
    if _are_safe(squares):
        rows = _as_they_are(vectors, squares)
    else:
        rescaled_rows = rescaled(vectors)
        products = rescaled_rows.values @ rescaled_rows.values.T
        rows = replace(rescaled_rows, squares=products.diagonal().copy())
    distance = _read(products, rows, rows, magnitude=magnitude)
    distance.flat[:: len(distance) + 1] = 0.0
    return Geometry(distance, rows.usable)


def rows_of(vectors: FloatMatrix) -> Rows:
    """``vectors`` (n, d) float32 as rows in range. The result for a row depends on that row only."""
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    return _as_they_are(vectors, squares) if _are_safe(squares) else rescaled(vectors)


def rescaled(vectors: FloatMatrix) -> Rows:
    """Divide each row by the power of two at its largest component, which changes no bit of its direction."""
    with np.errstate(all="ignore"):
        peaks = np.abs(vectors).max(axis=1, initial=0.0)
    usable = np.isfinite(peaks) & (peaks > 0.0)  # abs and max propagate NaN and infinity
    exponents = np.where(usable, np.frexp(np.where(usable, peaks, 1.0))[1], 0).astype(np.int32)
    values = np.ldexp(np.where(usable[:, None], vectors, np.float32(0.0)), -exponents[:, None])
    return Rows(values, np.einsum("ij,ij->i", values, values), exponents, usable)


def across(left: Rows, right: Rows, *, magnitude: bool) -> FloatMatrix:
    """Distances (n, m) float32 of every left row to every right row, on the same scale as ``measure``."""
    return _read(left.values @ right.values.T, left, right, magnitude=magnitude)


def pairs(square: FloatMatrix) -> FloatMatrix:
    """The entries (m * (m - 1) / 2,) of ``square`` (m, m) above the diagonal, row by row, as a copy."""
    return square[above(len(square))]


def below(m: int) -> Mask:
    """The entries below the diagonal of a square (m, m). Read-only."""
    return _below(m) if m <= REMEMBERED else _below.__wrapped__(m)


def above(m: int) -> Mask:
    """The entries above the diagonal of a square (m, m). Read-only."""
    return _above(m) if m <= REMEMBERED else _above.__wrapped__(m)


@lru_cache(maxsize=REMEMBERED + 1)
def _above(m: int) -> Mask:
    return ~np.tri(m, dtype=np.bool_)


@lru_cache(maxsize=REMEMBERED + 1)
def _below(m: int) -> Mask:
    return np.tri(m, k=-1, dtype=np.bool_)


def _as_they_are(vectors: FloatMatrix, squares: FloatMatrix) -> Rows:
    return Rows(vectors, squares, np.zeros(len(vectors), np.int32), np.ones(len(vectors), np.bool_))


def _are_safe(squares: FloatMatrix) -> bool:
    # NaN stays NaN here, and all comparisons with it are false.
    return bool(squares.min(initial=1.0) > SMALLEST_SQUARE and squares.max(initial=1.0) < LARGEST_SQUARE)


def _read(products: FloatMatrix, left: Rows, right: Rows, *, magnitude: bool) -> FloatMatrix:
    """Turn inner products into distances, in place.

    Plain: cosine distance, 1 - x.y / (|x||y|). With ``magnitude``: |x - y|^2 / (|x|^2 + |y|^2), which is 1 - 2 x.y / (|x|^2 + |y|^2): the
    same with the arithmetic mean of the squared lengths instead of the geometric one. For equal lengths the two agree, so one threshold
    serves both; the more the lengths differ, the closer it is to 1. For the same direction, twice the length is 0.2, three times is 0.4.
    """
    with np.errstate(all="ignore"):  # an unusable row has length zero; its distances are overwritten below
        # One factor per pair, by a commutative operation: symmetric to the last bit.
        inverse = 1.0 / np.sqrt(left.squares)
        products *= np.multiply.outer(inverse, inverse if right is left else 1.0 / np.sqrt(right.squares))
        if magnitude:
            lengths, others = _lengths(left)[:, None], _lengths(right)[None, :]
            products *= (2.0 * lengths * others / (lengths**2 + others**2)).astype(np.float32)
        distance = np.subtract(np.float32(1.0), products, out=products)
        distance[distance < NOISE] = 0.0
        np.minimum(distance, np.float32(2.0), out=distance)
    if not (left.usable.all() and right.usable.all()):
        distance[~left.usable] = np.inf
        distance[:, ~right.usable] = np.inf
    return distance


def _lengths(rows: Rows) -> FloatVector:
    """True lengths (n,) in float64, which holds the square of every float32 length."""
    return np.ldexp(np.sqrt(rows.squares.astype(np.float64)), rows.exponents)


# The scale is computed from at most this many candidates, so that a larger pool does not change what "near" means.
SCALE_FROM = 50


def median_distance(geometry: Geometry) -> float:
    """Median of the pairwise distances of the first 50 usable candidates; 0.0 when there are fewer than two."""
    chosen = geometry.usable.nonzero()[0][:SCALE_FROM]
    m = len(chosen)
    if m < 2:
        return 0.0
    distance = geometry.distance[:m, :m] if chosen[-1] == m - 1 else geometry.distance[np.ix_(chosen, chosen)]
    return median_of(pairs(distance))


def median_of(values: npt.NDArray[np.floating[Any]]) -> float:
    """np.median without 20 microseconds of overhead. ``values``: not empty, finite; they are reordered."""
    middle = len(values) // 2
    if len(values) % 2:
        values.partition(middle)
        return float(values[middle])
    values.partition((middle - 1, middle))
    return (float(values[middle - 1]) + float(values[middle])) / 2.0

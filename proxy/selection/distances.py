"""The distances by which one pool is clustered: relative to the pool's typical distance, or cosine distances for fixed cuts.

Relative distances are squared Euclidean distances divided by the pool's typical one, so 1.0 means "as far apart as two candidates usually
are". They are taken between

- directions, where the collection is searched by cosine (half the squared distance of two unit vectors is 1 - cosine);
- positions, where it is searched by Euclidean or Manhattan distance: moving the origin changes no difference of two
  vectors. Manhattan distance is within a factor of sqrt(d) of the Euclidean one and as free of the origin; it would cost
  ten times as much;
- both, the larger of the two, where it is searched by dot product or the metric is not known: whatever either of them tells apart stays
  apart. Of vectors whose lengths differ much, as those of items by popularity do, the short ones are near each other in any direction.

So no constant depends on a model's usual distances, on the length of its vectors or on where the origin lies. How much of the typical
distance is near by chance is bounded by the number of free dimensions: one fewer for directions.

A fixed cut is a cosine distance by its definition, and is compared with cosine distances (geometry.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .geometry import (
    LARGEST_SQUARE,
    NOISE,
    SCALE_FROM,
    SMALLEST_SQUARE,
    Geometry,
    Mask,
    Rows,
    across,
    below,
    measure,
    median_distance,
    pairs,
    rows_of,
)
from .values import FloatMatrix, Indices, Metric

# The distance within which two results may be by chance. No merge by vectors alone exceeds this bound.
#
# In few dimensions two points are often near by chance. The squared distance of two independent points of a d-dimensional normal cloud,
# divided by its median, is a chi-squared variable with d degrees of freedom, divided by its median. At d = 8 one pair in seventy is within
# half the typical distance; at d = 384 practically none is. So a share of the typical distance indicates a copy only where that share is
# improbable in a pool without copies, and this depends on d.
#
# d is the number of dimensions of the collection. An intrinsic dimension estimated from the pool would be lower where there are copies: the
# more copies, the fewer would be found.
#
# The reference is a normal cloud, because its differences are normal too, whatever its mean. Pages over normal, uniform and Laplace clouds
# come back unchanged (tests/laws/test_metrics.py). Of clouds with very heavy tails (Cauchy) or with dimensions of very unequal variance some
# pages lose a result.
#
# A collection is rarely one cloud. Where it has many tight clusters, as of products by class, the pool's typical distance is that between
# clusters, and everything within one is near by comparison. So a pair without texts must also be nearer than by chance in its
# neighbourhood, whose typical distance is that to the eighth nearest candidate. Of a cluster with nine candidates or more nothing is
# removed then, and up to eight copies of one result still have a far eighth neighbour. Measured with vectors alone on the labelled sets: the
# redundancy removed is the same with the eighth, twelfth and sixteenth neighbour and without the rule, and .004 less with the fourth.

# From this many dimensions on the bound is wider than any cut in use (0.75), so it is not computed.
ENOUGH_DIMENSIONS = 512


@lru_cache(maxsize=2 * ENOUGH_DIMENSIONS)
def nearest_by_chance(dimensions: int, chance: float) -> float:
    """The squared distance, as a share of the median one, within which two independent points are with this probability.

    ``dimensions``: in which the points can vary; <= 0: the result is 0.0, which admits equal points only. ``chance``: in [0, 1).
    """
    freedom = min(dimensions, ENOUGH_DIMENSIONS)
    if freedom <= 0 or chance <= 0.0:
        return 0.0
    return _quantile(freedom, chance) / _quantile(freedom, 0.5)


def _quantile(freedom: int, probability: float) -> float:
    """The quantile of a chi-squared variable for this probability, by bisection on its logarithm."""
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


Reals = npt.NDArray[np.floating[Any]]
Which = slice | Indices

# If most candidates are copies of each other, the median distance is that of copies. Then the scale is a tenth of a large distance of the
# pool, so that copies that differ by rounding still merge. The squared distances of clouds without copies have a 95th percentile of 8.4
# times their median in one dimension, 4.3 in two, less in more, so this rule never applies to them.
WIDE = 0.95
WIDE_SHARE = 0.1
# Positions can be any distance away: one record of zeros among twenty would make copies of all others. So the twentieth of the candidates
# that is farthest from the others is left out.
FEW = 0.05

# Squared distances below this share of the squared lengths, or in few dimensions, are computed in float64, because float32 products lose
# the difference. The bound keeps float32's noise (2e-5) below 0.04 % of the typical distance.
COARSE = 0.05
FEW_DIMENSIONS = 32

# Vectors within this squared distance over squared length are equal: half a unit in float32's last place, by which a vector and a multiple
# of it may differ.
EQUAL = 1e-15

# See the neighbourhood above. A pool of at most twice as many candidates tells no neighbourhood from the whole.
NEIGHBOURS = 8

# Candidates that differ by less than this share of the typical squared distance are copies, in any neighbourhood: so much do quantised or
# newly computed vectors of one thing differ. A dimension in which they differ by less than the second share does not count. float32's noise
# stays below.
FLAT = 5e-3
NO_DIMENSION = 1e-3

# Vectors within this share of the typical squared distance are nearly equal: by so much do quantised or newly computed vectors of one thing differ.
# Rounding to int8 moves a vector of d dimensions by a 20,000th of its squared length, to float16 by less; two of them by twice that.
NEARLY_EQUAL = 2e-4

# From this many dimensions on float32 can always tell points apart, so it is not checked.
RESOLVED = 0.1

# The largest relative distance. Distances between it and UNKNOWN of grouping.py need not be told apart.
FARTHEST = 1e8


@dataclass(frozen=True, slots=True)
class CosineDistances:
    """1 - cosine, or with ``magnitude`` the same with a term for length (geometry.py). Members as in RelativeDistances."""

    vectors: FloatMatrix
    rows: Rows
    magnitude: bool
    median: float
    unit: float = 1.0
    display_unit: float = 1.0
    slack: float = NOISE
    largest: float = math.inf

    @property
    def typical(self) -> float:
        """The median."""
        return self.median

    def inside(self, start: int, stop: int) -> Geometry:
        """All pairs of the candidates from ``start`` to ``stop``."""
        return measure(self.vectors[start:stop], magnitude=self.magnitude)

    def back(self, start: int, stop: int, others: Indices) -> FloatMatrix:
        """The candidates from ``start`` to ``stop`` against each of ``others`` (m,): (stop - start, m), infinite if one side is not usable."""
        return across(self.rows.at(slice(start, stop)), self.rows.at(others), magnitude=self.magnitude)


def cosine_distances(vectors: FloatMatrix, *, magnitude: bool) -> CosineDistances:
    """Distances for fixed cuts. ``vectors``: (n, d) float32."""
    first = measure(vectors[:SCALE_FROM], magnitude=magnitude)
    return CosineDistances(vectors, rows_of(vectors), magnitude, median_distance(first))


@dataclass(frozen=True, slots=True)
class _View:
    """Vectors prepared for one kind of distance; an unusable row is zero.

    ``rows``: (n, d) float32 or float64. ``factors``: (n,) scale a row to length 1; None: rows are used as they are. ``halves``: half the
    squared lengths of what is compared. ``floors``: two rows closer than the sum of their floors are equal. Both (n,), or one number for
    all rows. ``least``: the smallest distance of unequal rows.
    """

    rows: Reals
    factors: Reals | None
    halves: Reals | np.float32
    floors: Reals | np.float32
    least: float = 0.0

    def half_squares(self, a: slice, b: Which) -> Reals:
        """Half the squared distances of rows ``a`` to rows ``b``; 0 for rows that are equal within the precision."""
        products: Reals = self.rows[a] @ self.rows[b].T
        if self.factors is not None:
            # One factor per pair, by a commutative operation: symmetric to the last bit.
            products *= self.factors[a][:, None] * self.factors[b]
        halves = self.halves[a][:, None] + self.halves[b] if isinstance(self.halves, np.ndarray) else 2 * self.halves
        floors = self.floors[a][:, None] + self.floors[b] if isinstance(self.floors, np.ndarray) else 2 * self.floors
        distance: Reals = np.subtract(halves, products, out=products)
        np.putmask(distance, distance <= floors, 0.0)
        return np.maximum(distance, self.least, out=distance) if self.least else distance


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A view, the distances of its first candidates (m, m), their ``median``, and their typical distance, 0.0 if there is none."""

    view: _View
    first: Reals
    median: float
    unit: float

    @property
    def is_coarse(self) -> bool:
        """Whether float32 may have lost what is to be measured."""
        usual = self.median if self.view.factors is None else self.unit
        return usual < COARSE * _mean(self.view.halves)

    def relative(self, a: slice, b: Which) -> FloatMatrix:
        """Distances of rows ``a`` to rows ``b`` divided by the typical one."""
        is_first = isinstance(b, slice) and a == b == slice(0, len(self.first))
        distance = self.first if is_first else self.view.half_squares(a, b)
        relative: Reals = distance / (self.unit or 1.0)
        return np.minimum(relative, FARTHEST).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class RelativeDistances:
    """Distances divided by the typical distance of the pool's first candidates; of several kinds the larger.

    ``usable``: (n,) bool, which candidates have a vector. ``metric``: what is compared. ``free``: in how many dimensions candidates can
    differ. ``largest``: the distance beyond which candidates may be close by chance.
    """

    kinds: tuple[_Scaled, ...]
    usable: Mask
    metric: Metric
    free: int
    largest: float

    @property
    def median(self) -> float:
        """The typical distance in the metric's own measure (1 - cosine, or half the squared distance); 0.0 without one."""
        return self.kinds[-1].unit

    @property
    def unit(self) -> float:
        """The value of 1.0 in the metric's own measure."""
        return self.median or 1.0

    @property
    def display_unit(self) -> float:
        """The value of 1.0 in the unit shown to people: 1 - cosine if that is the metric, else the typical distance."""
        return self.unit if self.metric is Metric.COSINE else 1.0

    @property
    def typical(self) -> float:
        """The typical distance in this unit."""
        return 1.0

    @property
    def slack(self) -> float:
        """The possible error of a distance: equal vectors have exactly 0."""
        return 0.0

    def inside(self, start: int, stop: int) -> Geometry:
        """All pairs of the candidates from ``start`` to ``stop``."""
        distance = self._between(slice(start, stop), slice(start, stop))
        distance.flat[:: len(distance) + 1] = 0.0
        return Geometry(distance, self.usable[start:stop])

    def back(self, start: int, stop: int, others: Indices) -> FloatMatrix:
        """The candidates from ``start`` to ``stop`` against each of ``others`` (m,): (stop - start, m), infinite if one side is not usable."""
        return self._between(slice(start, stop), others)

    def narrowed(self, vectors: FloatMatrix, chance: float | None) -> RelativeDistances:
        """The same with a lower ``largest`` if the vectors span fewer dimensions than they have numbers."""
        if chance is None:
            return self
        known = [spanned for kind in self.kinds if (spanned := _spanned(kind, self.usable)) is not None]
        spanned = min(known, default=self.free)
        if spanned >= self.free:
            return self
        largest = nearest_by_chance(spanned - _lost(self.metric), chance)
        # With so small a bound, float32's noise would matter.
        kinds = tuple(
            _scaled(_exact(vectors, self.usable, is_direction=kind.view.factors is not None), self.usable)
            for kind in self.kinds
        )
        return replace(self, kinds=tuple(_resolved(kind, largest) for kind in kinds), largest=largest)

    def _between(self, a: slice, b: Which) -> FloatMatrix:
        distance = self.kinds[0].relative(a, b)
        for kind in self.kinds[1:]:
            np.maximum(distance, kind.relative(a, b), out=distance)
        np.minimum(distance, np.float32(FARTHEST), out=distance)
        if np.count_nonzero(self.usable) < len(self.usable):
            distance[~self.usable[a]] = np.inf
            distance[:, ~self.usable[b]] = np.inf
        return distance


Distances = CosineDistances | RelativeDistances


def relative_distances(
    vectors: FloatMatrix, metric: Metric, *, chance: float | None, squares: FloatMatrix | None = None
) -> RelativeDistances:
    """Distances for cuts that are a share of the pool's typical distance.

    ``vectors``: (n, d) float32. ``chance``: the probability with which two independent points may be within a cut; None: unbounded.
    ``squares``: (n,) float32 the vectors' squared lengths, if known.
    """
    if squares is None:
        with np.errstate(all="ignore"):
            squares = np.einsum("ij,ij->i", vectors, vectors)
    # NaN stays NaN here, and all comparisons with it are false.
    is_plain = bool(squares.min(initial=1.0) > SMALLEST_SQUARE and squares.max(initial=1.0) < LARGEST_SQUARE)
    usable = np.ones(len(vectors), np.bool_) if is_plain else _usable(vectors)
    free = _free(vectors[:SCALE_FROM])
    largest = math.inf if chance is None else nearest_by_chance(free - _lost(metric), chance)
    directions = {Metric.COSINE: (True,), Metric.UNKNOWN: (True, False), Metric.DOT: (True, False)}.get(
        metric, (False,)
    )
    kinds = []
    for is_direction in directions:
        kind = None
        if is_plain and free > FEW_DIMENSIONS:
            kind = _scaled(_quick(vectors, squares, is_direction=is_direction), usable)
        if kind is None or kind.is_coarse:
            kind = _scaled(_exact(vectors, usable, is_direction=is_direction), usable)
        kinds.append(_resolved(kind, largest))
    return RelativeDistances(tuple(kinds), usable, metric, free, largest)


def neighbourhoods(apart: FloatMatrix, start: int = 0) -> FloatMatrix:
    """How far its eighth nearest of the pool's first candidates is from each candidate (n,), infinite in a small pool.

    ``apart``: (n, m) the distances of the candidates from rank ``start`` to the first m.
    """
    rows, columns = apart.shape
    if columns <= 2 * NEIGHBOURS:
        return np.full(rows, np.inf, np.float32)
    others = apart.copy()
    if start < columns:
        np.fill_diagonal(others[:, start:], np.inf)
    nearest: FloatMatrix = np.partition(others, NEIGHBOURS - 1, axis=1)[:, NEIGHBOURS - 1]
    return nearest


def bare_bounds(rows: FloatMatrix, columns: FloatMatrix, largest: float) -> FloatMatrix:
    """How near candidates (n, m) must be to be copies by their vectors alone: nearer than by chance in the pool and in both neighbourhoods.

    ``rows`` (n,), ``columns`` (m,): neighbourhoods. ``largest``: as in RelativeDistances.
    """
    near, bound = np.minimum(rows[:, None], columns), np.float32(largest)
    if np.isinf(bound):
        return np.full(near.shape, bound)
    return np.minimum(np.maximum(np.minimum(near, np.float32(FARTHEST)) * bound, np.float32(FLAT)), bound)


def _mean(halves: Reals | np.float32) -> float:
    return float(halves[:SCALE_FROM].mean() if isinstance(halves, np.ndarray) else halves)


def _free(vectors: FloatMatrix) -> int:
    """In how many dimensions vectors can differ: the usual number of their non-zero components.

    A sparse vector over a thousand terms that has ten of them is close to another by chance as often as one of ten dimensions.
    """
    if not vectors.size:
        return 0
    is_zero = vectors == 0.0
    if not np.count_nonzero(is_zero):
        return int(vectors.shape[1])
    zeros = np.count_nonzero(is_zero[:, is_zero.any(axis=0)], axis=1)  # few columns have any
    return int(vectors.shape[1]) - int(np.sort(zeros)[(len(zeros) - 1) // 2])


def _lost(metric: Metric) -> int:
    """How many dimensions fewer: directions have no length."""
    return int(metric in {Metric.COSINE, Metric.UNKNOWN})


def _usable(vectors: FloatMatrix) -> Mask:
    usable: Mask = np.logical_and(np.isfinite(vectors).all(axis=1), vectors.any(axis=1))
    return usable


def _quick(vectors: FloatMatrix, squares: FloatMatrix, *, is_direction: bool) -> _View:
    """In float32, if all vectors are usable."""
    if not is_direction:
        return _View(vectors, None, squares / 2, squares * np.float32(NOISE / 2))
    return _View(vectors, 1.0 / np.sqrt(squares), np.float32(0.5), np.float32(0.5 * NOISE))


def _exact(vectors: FloatMatrix, usable: Mask, *, is_direction: bool) -> _View:
    """In float64, with the first usable vector as the origin."""
    rows = np.where(usable[:, None], vectors, np.float32(0.0)).astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)
    if is_direction:
        rows /= np.sqrt(np.where(usable, squares, 1.0))[:, None]
        squares = usable.astype(np.float64)
    floors = squares * EQUAL
    if np.count_nonzero(usable):
        rows -= rows[int(usable.argmax())].copy()
        rows[~usable] = 0.0
    factors = np.ones(len(rows)) if is_direction else None
    return _View(rows, factors, np.einsum("ij,ij->i", rows, rows) / 2, floors)


def _scaled(view: _View, usable: Mask) -> _Scaled:
    head = slice(min(len(usable), SCALE_FROM))
    first = view.half_squares(head, head)
    chosen = usable[head].nonzero()[0]
    among = first if len(chosen) == len(first) else first[np.ix_(chosen, chosen)]
    return _Scaled(view, first, *_typical(among, is_direction=view.factors is not None))


def _resolved(kind: _Scaled, largest: float) -> _Scaled:
    """If float32 separates so few points that two vectors are equal by chance, equal ones get the same distance as others."""
    if largest > RESOLVED or 2.0 * float(np.max(kind.view.floors, initial=0.0)) <= largest * kind.unit:
        return kind
    least = kind.unit * min(2.0 * largest, 1.0)
    return replace(kind, view=replace(kind.view, least=least), first=np.maximum(kind.first, least))


def _spanned(kind: _Scaled, usable: Mask) -> int | None:
    """How many dimensions the first candidates span; None if each of them adds one, so that the number is unknown.

    Copies do not hide a dimension: of nearly equal candidates one is used.
    """
    if not kind.unit:
        return None
    distance = kind.first / kind.unit
    spread = usable[: len(distance)] & ~((distance <= FLAT) & below(len(distance))).any(axis=1)
    apart = (distance if np.count_nonzero(spread) == len(spread) else distance[spread][:, spread]).astype(np.float64)
    if len(apart) < 3:
        return None
    # With the first of them as the origin: x.y = (|x|^2 + |y|^2 - |x - y|^2) / 2.
    gram = apart[0, 1:, None] + apart[0, 1:] - apart[1:, 1:]
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] -= NO_DIMENSION
    try:
        np.linalg.cholesky(shifted)  # a tenth of the time of the eigenvalues
    except np.linalg.LinAlgError:
        return int((np.linalg.eigvalsh(gram) > NO_DIMENSION).sum())
    return None


def _typical(apart: Reals, *, is_direction: bool) -> tuple[float, float]:
    """The median of the pairs' distances (m, m), and the typical distance: the median, or a share of a large one if most pairs are copies. 0.0
    without any distance.
    """
    values = pairs(apart)
    if not len(values):
        return 0.0, 0.0
    values.sort()  # faster than selecting three places
    half = len(values) // 2
    middle = float(values[half]) if len(values) % 2 else (float(values[half - 1]) + float(values[half])) / 2.0
    if is_direction:
        return middle, max(middle, WIDE_SHARE * _at(values, WIDE)) or WIDE_SHARE * float(values[-1])
    near = np.argsort(np.median(apart, axis=1), kind="stable")[: len(apart) - math.ceil(FEW * len(apart))]
    among = np.sort(pairs(apart[np.ix_(near, near)]))
    return middle, max(middle, WIDE_SHARE * _at(among, WIDE)) or WIDE_SHARE * _at(values[values > 0.0], 0.5)


def _at(ascending: Reals, share: float) -> float:
    return float(ascending[int(share * (len(ascending) - 1))]) if len(ascending) else 0.0

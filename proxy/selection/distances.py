"""The distances that one pool is clustered by: relative to the pool's own, or as cosines where a cut is a fixed number.

Relative distances are squared Euclidean distances divided by the pool's typical one, so 1.0 means "as far apart as two
candidates usually are". They are taken between

- directions, where the collection is searched by cosine (half the squared distance of two unit vectors is 1 - cosine);
- positions, where it is searched by Euclidean, Manhattan or dot product: moving the origin changes no difference of two
  vectors. Manhattan distance is within a factor of sqrt(d) of the Euclidean one and as free of the origin; it would cost
  ten times as much;
- both, the larger of the two, where the metric is not known: whatever either of them tells apart stays apart.

So no constant depends on a model's usual distances, on the length of its vectors or on where the origin lies. How much of
the typical distance is near by chance is what chance.py bounds, by the number of free dimensions: one fewer for directions.

A fixed cut is a cosine distance by its definition, and is compared with cosine distances (geometry.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.chance import nearest_by_chance
from vecsieve.proxy.selection.geometry import (
    LARGEST_SQUARE,
    NOISE,
    SMALLEST_SQUARE,
    Geometry,
    Mask,
    Rows,
    across,
    measure,
    pairs,
    rows_of,
)
from vecsieve.proxy.selection.thresholds import SCALE_FROM, median_distance, median_of
from vecsieve.proxy.selection.values import FloatMatrix, Indices, Metric

Reals = npt.NDArray[np.floating[Any]]
Which = slice | Indices

# Where most candidates are copies of each other, the median distance is that of copies. Then the scale is a tenth of a wide
# distance of the pool, so that copies which differ by rounding still merge. The squared distances of clouds without copies
# have a 95th percentile of at most six times their median (two dimensions), so this changes nothing for them.
WIDE = 0.95
WIDE_SHARE = 0.1

# Squared distances below this share of the squared lengths, or in few dimensions, are computed in float64: there float32
# products lose what is to be measured. The bound leaves float32's noise (2e-5) below 0.2 % of the typical distance.
COARSE = 0.01
FEW_DIMENSIONS = 32

# Vectors this near to one another, in squared distance over squared length, are equal: half a unit in float32's last place, by
# which a vector and a multiple of it may differ.
EQUAL = 1e-15

# What a number stored in float32 may be off by, in parts of it: the noise of dimensions that are none.
ROUNDING = 1.2e-7

# Relative distances end here; beyond it, and below UNKNOWN of evidence.py, nothing is told apart.
FARTHEST = 1e8


@dataclass(frozen=True, slots=True)
class CosineDistances:
    """1 - cosine, or with ``magnitude`` the same with a term for length (geometry.py). Members as in RelativeDistances."""

    vectors: FloatMatrix
    rows: Rows
    magnitude: bool
    median: float
    unit: float = 1.0
    shown_unit: float = 1.0
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
        """Each of those to each of ``others`` (m,): (stop - start, m), infinite where one side is not usable."""
        return across(self.rows.at(slice(start, stop)), self.rows.at(others), magnitude=self.magnitude)


def cosine_distances(vectors: FloatMatrix, *, magnitude: bool) -> CosineDistances:
    """Distances for fixed cuts. ``vectors``: (n, d) float32."""
    first = measure(vectors[:SCALE_FROM], magnitude=magnitude)
    return CosineDistances(vectors, rows_of(vectors), magnitude, median_distance(first))


@dataclass(frozen=True, slots=True)
class _View:
    """Vectors as one kind of distance needs them; row i is unusable where ``usable`` (n,) is False, and zero then.

    ``rows``: (n, d) float32 or float64. ``halves``: (n,) half the squared lengths. ``floors``: (n,) two rows that are nearer
    than the sum of their floors are equal. ``first``: (m, m) half the squared distances of the first m candidates.
    ``unit``: the typical one of them, 0.0 where there is none. ``is_direction``: rows of length 1. ``least``: none is
    nearer than this.
    """

    rows: Reals
    halves: Reals
    floors: Reals
    first: Reals
    unit: float
    is_direction: bool
    least: float = 0.0

    def relative(self, a: slice, b: Which) -> FloatMatrix:
        """Distances of rows ``a`` to rows ``b`` over the typical one."""
        is_first = isinstance(b, slice) and a == b == slice(0, len(self.first))
        distance = self.first if is_first else _half_squares(self.rows, self.halves, self.floors, a, b)
        if self.least:
            distance = np.maximum(distance, self.least)
        return (distance / (self.unit or 1.0)).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class RelativeDistances:
    """Distances over the typical distance of the pool's first candidates; of several kinds the larger.

    ``usable``: (n,) bool, who has a vector. ``free``: in how many dimensions candidates may differ. ``median``: the typical distance in the metric's own measure (1 - cosine, or half
    the squared distance), 0.0 where there is none. ``unit``: that, or 1.0. ``shown_unit``: what 1.0 stands for in what people
    are shown. ``largest``: beyond this distance nearness is chance (chance.py). ``typical``: the
    typical distance in this unit. ``slack``: by how much a distance may be off.
    """

    views: tuple[_View, ...]
    usable: Mask
    free: int
    median: float
    unit: float
    shown_unit: float
    largest: float
    typical: float = 1.0
    slack: float = 0.0

    def inside(self, start: int, stop: int) -> Geometry:
        """All pairs of the candidates from ``start`` to ``stop``."""
        distance = self._between(slice(start, stop), slice(start, stop))
        distance.flat[:: len(distance) + 1] = 0.0
        return Geometry(distance, self.usable[start:stop])

    def back(self, start: int, stop: int, others: Indices) -> FloatMatrix:
        """Each of those to each of ``others`` (m,): (stop - start, m), infinite where one side is not usable."""
        return self._between(slice(start, stop), others)

    def narrowed(self, vectors: FloatMatrix, chance: float | None) -> RelativeDistances:
        """The same with what chance allows where vectors lie in a plane of fewer dimensions than they have numbers.

        Copies do not hide a dimension: equal ones are left out, and those that differ by more than rounding span one each.
        """
        if chance is None:
            return self
        kinds = [view.is_direction for view in self.views]
        spanned = min(_spanned(view, self.usable) for view in self.views) - int(any(kinds))
        if spanned >= self.free:
            return self
        largest = nearest_by_chance(spanned, chance)
        # float32's noise would count for much where so little is near.
        views = tuple(_exact(vectors, self.usable, largest, is_direction=kind) for kind in kinds)
        return replace(self, views=views, largest=largest)

    def _between(self, a: slice, b: Which) -> FloatMatrix:
        distance = self.views[0].relative(a, b)
        for view in self.views[1:]:
            np.maximum(distance, view.relative(a, b), out=distance)
        np.minimum(distance, np.float32(FARTHEST), out=distance)
        if not (self.usable[a].all() and self.usable[b].all()):
            distance[~self.usable[a]] = np.inf
            distance[:, ~self.usable[b]] = np.inf
        return distance


Distances = CosineDistances | RelativeDistances


def relative_distances(vectors: FloatMatrix, metric: Metric, *, chance: float | None) -> RelativeDistances:
    """Distances for cuts that are a share of the pool's typical distance.

    ``vectors``: (n, d) float32. ``chance``: with which probability two independent points may be within a cut; None: any.
    """
    usable: Mask = np.logical_and(np.isfinite(vectors).all(axis=1), vectors.any(axis=1))
    kinds = {Metric.COSINE: (True,), Metric.UNKNOWN: (True, False)}.get(metric, (False,))
    free = vectors.shape[1] - (1 if metric in {Metric.COSINE, Metric.UNKNOWN} else 0)
    largest = math.inf if chance is None else nearest_by_chance(free, chance)
    views = tuple(_view(vectors, usable, largest, is_direction=kind) for kind in kinds)
    median = views[-1].unit
    unit = median or 1.0
    shown = unit if metric is Metric.COSINE else 1.0
    return RelativeDistances(views, usable, free, median=median, unit=unit, shown_unit=shown, largest=largest)


def _view(vectors: FloatMatrix, usable: Mask, largest: float, *, is_direction: bool) -> _View:
    """In float32 where that is enough, else in float64 from the first usable vector as the origin."""
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    known = squares[usable]
    is_safe = bool(((known > SMALLEST_SQUARE) & (known < LARGEST_SQUARE)).all())
    if is_safe and vectors.shape[1] > FEW_DIMENSIONS:
        rows = vectors if usable.all() else np.where(usable[:, None], vectors, np.float32(0.0))
        squares = squares if rows is vectors else np.where(usable, squares, np.float32(0.0))
        if is_direction:
            rows = rows / np.sqrt(np.where(usable, squares, np.float32(1.0)))[:, None]
            squares = usable.astype(np.float32)
        view = _with_unit(rows, squares / 2, squares * np.float32(NOISE / 2), usable, is_direction=is_direction)
        mean = float(view.halves[:SCALE_FROM].mean()) if len(rows) else 0.0
        if view.unit >= COARSE * mean:
            return view
    return _exact(vectors, usable, largest, is_direction=is_direction)


def _exact(vectors: FloatMatrix, usable: Mask, largest: float, *, is_direction: bool) -> _View:
    rows = np.where(usable[:, None], vectors, np.float32(0.0)).astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)
    if is_direction:
        rows /= np.sqrt(np.where(usable, squares, 1.0))[:, None]
        squares = usable.astype(np.float64)
    floors = squares * EQUAL
    if usable.any():
        rows -= rows[int(usable.argmax())].copy()
        rows[~usable] = 0.0
        squares = np.einsum("ij,ij->i", rows, rows)
    view = _with_unit(rows, squares / 2, floors, usable, is_direction=is_direction)
    # Where float32 tells so few places apart that two vectors are equal by chance, equal ones are as far apart as others.
    resolution = 2.0 * float(floors.max(initial=0.0))
    return view if resolution <= largest * view.unit else replace(view, least=view.unit * min(2.0 * largest, 1.0))


def _with_unit(rows: Reals, halves: Reals, floors: Reals, usable: Mask, *, is_direction: bool) -> _View:
    head = slice(min(len(rows), SCALE_FROM))
    first = _half_squares(rows, halves, floors, head, head)
    chosen = usable[head].nonzero()[0]
    values = pairs(first if len(chosen) == len(first) else first[np.ix_(chosen, chosen)])
    return _View(rows, halves, floors, first, _typical(values), is_direction)


def _half_squares(rows: Reals, halves: Reals, floors: Reals, a: slice, b: Which) -> Reals:
    """Half the squared distances of rows ``a`` to rows ``b``; 0 for what is equal as far as can be told."""
    products: Reals = rows[a] @ rows[b].T
    distance: Reals = np.subtract(np.add.outer(halves[a], halves[b]), products, out=products)
    distance[distance <= np.add.outer(floors[a], floors[b])] = 0.0
    return distance


def _spanned(view: _View, usable: Mask) -> int:
    """How many dimensions the first candidates span; all that there are where each of them adds one."""
    m = len(view.first)
    equal = np.tril(view.first <= 0.0, -1).any(axis=1)  # to one that stands before
    rows = view.rows[:m][usable[:m] & ~equal].astype(np.float64)
    if len(rows) < 3:
        return int(view.rows.shape[1])
    apart = rows[1:] - rows[0]
    values = np.linalg.eigvalsh(apart @ apart.T)
    floor = (ROUNDING * np.abs(rows).max()) ** 2 * rows.shape[1] * len(apart)
    rank = int((values > max(floor, float(values[-1]) * 1e-12)).sum())
    return rank if rank < len(apart) else int(view.rows.shape[1])


def _typical(values: Reals) -> float:
    """The median of the pairs' distances, or a share of a wide one where most pairs are copies; 0.0 without a distance."""
    if not len(values):
        return 0.0
    place = int(WIDE * (len(values) - 1))
    middle = median_of(values)
    values.partition(place)
    wide = float(values[place])
    return max(middle, WIDE_SHARE * wide) or WIDE_SHARE * float(values.max())

"""The similarities of candidates' vectors, pair by pair; the matrix of selection/geometry.py would compare all points with all.

A batch holds thousands of pairs of almost as many points: all distances would be a thousand times as many as needed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...selection.distances import EQUAL
from ...selection.geometry import NOISE, rows_of
from ...selection.values import FloatMatrix, Indices


def similarities(
    vectors: FloatMatrix, rows: Indices, has_vector: npt.NDArray[np.bool_], *, magnitude: bool
) -> FloatMatrix:
    """(p,) float32 of the pairs ``rows`` (p, 2) of ``vectors`` (k, d): 1 - the distance of selection/geometry.py; NaN without both vectors.

    ``magnitude``: whether the length of a vector matters.
    """
    first, second = rows[:, 0], rows[:, 1]
    prepared = rows_of(vectors)
    with np.errstate(all="ignore"):
        products = np.einsum("ij,ij->i", prepared.values[first], prepared.values[second])
        lengths = np.ldexp(np.sqrt(prepared.squares.astype(np.float64)), prepared.exponents)
        one, other = lengths[first], lengths[second]
        scale = np.ldexp(1.0, prepared.exponents[first] + prepared.exponents[second])
        middle = (one**2 + other**2) / 2.0 if magnitude else one * other
        cosines: FloatMatrix = (products * scale / middle).astype(np.float32)
    usable = prepared.usable & has_vector
    cosines[~(usable[first] & usable[second])] = np.nan
    return cosines


def distances(similarities: FloatMatrix) -> FloatMatrix:
    """Of ``similarities``: infinite without both vectors, zero below the noise of float32."""
    far: FloatMatrix = np.where(np.isnan(similarities), np.float32(np.inf), np.float32(1.0) - similarities)
    far[far < NOISE] = 0.0
    return far


def are_equal(
    vectors: FloatMatrix, rows: Indices, has_vector: npt.NDArray[np.bool_], *, magnitude: bool
) -> npt.NDArray[np.bool_]:
    """(p,) whether both points of the pairs ``rows`` (p, 2) have the same vector, but for rounding; without ``magnitude``, whatever its length."""
    one, other = (vectors[rows[:, side]].astype(np.float64) for side in (0, 1))
    with np.errstate(all="ignore"):
        if not magnitude:
            one, other = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (one, other))
        apart = np.square(one - other).sum(axis=1)
        close = apart <= EQUAL * (np.square(one).sum(axis=1) + np.square(other).sum(axis=1))
    equal: npt.NDArray[np.bool_] = close & has_vector[rows].all(axis=1)
    return equal

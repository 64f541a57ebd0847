"""Sketches of vectors: short hashes that two near ones are likely to share, so that not every point must be compared with every other.

The hashes of a vector are the signs of its products with random directions (Charikar 2002). Two vectors at an angle t agree in one sign
with probability 1 - t/pi, and in all signs of a band of w with the w-th power of that. Relative to the centre of the collection, 48 bands
of 24 signs bring two vectors of cosine .98 together with probability .9999, of .96 with .994, of .92 with .84, and unrelated ones once in
350,000 pairs.

Points that share a band are candidates, no more: each job compares their vectors itself. All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...selection.values import FloatMatrix
from .fingerprints import TEXT_BANDS, Hashes

VECTOR_BANDS = 48
# Signs per band. With too few for the collection's size, unrelated points share bands: with four more than its size has bits, each point
# has a handful of unrelated candidates.
FEWEST_SIGNS, MOST_SIGNS = 12, 28
SPARE_SIGNS = 4
COPIES = 0.02  # the distance of a sweep's copies
_SEED = 20260101  # of the directions: any number will do, but a continued run needs the same directions

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Directions:
    """``planes``: (d, VECTOR_BANDS * width) float32. ``centre``: (d,), the mean of the collection. It is needed because embeddings lie in a narrow
    cone, which planes through the origin would not divide.
    """

    planes: FloatMatrix
    centre: FloatMatrix
    width: int


def directions(sample: FloatMatrix, points: int) -> Directions:
    """The directions for a collection of ``points`` points. ``sample``: (s, d), spread over it. The same arguments give the same directions."""
    centre = _units(sample).mean(axis=0)
    spread = 1.0 - float(centre @ centre)  # the mean distance of unit vectors with this mean
    if spread / 2.0 <= COPIES:
        # Nearly all points are copies. Their common direction must count, so it is not subtracted.
        centre = np.zeros_like(centre)
    width = min(max(points.bit_length() + SPARE_SIGNS, FEWEST_SIGNS), MOST_SIGNS)
    # RandomState is the only generator whose numbers numpy guarantees across versions.
    planes = np.random.RandomState(_SEED).standard_normal((sample.shape[1], VECTOR_BANDS * width))
    return Directions(planes.astype(np.float32), centre, width)


def vector_bands(vectors: FloatMatrix, by: Directions) -> Hashes:
    """The bands (m, VECTOR_BANDS) uint64 of ``vectors`` (m, d), whose lengths do not matter."""
    signs = (_units(vectors) - by.centre) @ by.planes > 0
    bits = signs.reshape(len(vectors), VECTOR_BANDS, by.width)
    powers = np.left_shift(np.uint64(1), np.arange(by.width, dtype=np.uint64))
    bands = (bits * powers).sum(axis=2, dtype=np.uint64)
    # Equal numbers in different bands become different; the bands of texts come first.
    which = np.arange(TEXT_BANDS, TEXT_BANDS + VECTOR_BANDS, dtype=np.uint64)
    return _mixed(bands + _mixed((which + np.uint64(1)) * _ODD)[None, :])


def _mixed(values: Hashes) -> Hashes:
    """Every bit of the result depends on every bit of the value, one to one (the finaliser of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values *= np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values


def _units(vectors: FloatMatrix) -> FloatMatrix:
    """Rows of length one; a row without a direction stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32, copy=False)

"""Sketches of vectors: short hashes that two near ones are likely to share, so that not every point must be compared with every other.

The hashes of a vector are the signs of its products with random directions (Charikar 2002). Two vectors at an angle t agree in one sign
with probability 1 - t/pi, and in all signs of a band of w with the w-th power of that. Relative to the centre of the collection, 48 bands
of 24 signs bring two vectors of cosine .98 together with probability .9999, of .96 with .994, of .92 with .84, and unrelated ones once in
350,000 pairs.

A job that looks for wider copies needs shorter bands, or more of them (``directions``). Points that share a band are candidates, no more: each
job compares their vectors itself. All functions are pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...selection.values import FloatMatrix
from .fingerprints import TEXT_BANDS, Hashes

VECTOR_BANDS = 48
# Signs per band. With too few for the collection's size, unrelated points share bands: with four more than its size has bits, each point
# has a handful of unrelated candidates; with two more, four times as many.
FEWEST_SIGNS, MOST_SIGNS = 12, 28
SPARE_SIGNS, LEAST_SPARE_SIGNS = 4, 2
COPIES = 0.02  # the distance of a sweep's copies
RECALL = 0.95  # share of the pairs at the distance that a job names
MOST_BANDS = 240  # with the bands of texts, the number of a band fits into a byte
MOST_ROWS = 24_000_000  # bands of all points that a job may add for wider copies: 1 GB of hashes and their join
_SEED = 20260101  # of the directions: any number will do, but a continued run needs the same directions

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Directions:
    """``planes``: (d, bands * width) float32. ``centre``: (d,), the mean of the collection. It is needed because embeddings lie in a narrow
    cone, which planes through the origin would not divide.
    """

    planes: FloatMatrix
    centre: FloatMatrix
    width: int

    @property
    def bands(self) -> int:
        return int(self.planes.shape[1]) // self.width

    def chance(self, distance: float) -> float:
        """The probability that two points at this distance (1 - cosine) share a band, if their distance from the centre is the average."""
        return _chance(_agreement(distance, self.centre), self.bands, self.width)


def directions(sample: FloatMatrix, points: int, distance: float | None = None) -> Directions:
    """The directions for a collection of ``points`` points. ``sample``: (s, d), spread over it. The same arguments give the same directions.

    ``distance``: the largest distance of the pairs to find, as far as the cost allows. None: cosine 0.98, with the fewest bands.
    """
    centre = _units(sample).mean(axis=0)
    if (COPIES if distance is None else distance) >= _spread(centre) / 2.0:
        # Nearly all points are copies. Their common direction must count, so it is not subtracted.
        centre = np.zeros_like(centre)
    bands, width = VECTOR_BANDS, _width(points, SPARE_SIGNS)
    if distance is not None:
        bands, width = _sized(_agreement(distance, centre), points)
    # RandomState is the only generator whose numbers numpy guarantees across versions.
    planes = np.random.RandomState(_SEED).standard_normal((sample.shape[1], bands * width))
    return Directions(planes.astype(np.float32), centre, width)


def _spread(centre: FloatMatrix) -> float:
    """The mean distance of unit vectors with this mean."""
    return 1.0 - float(centre @ centre)


def _agreement(distance: float, centre: FloatMatrix) -> float:
    """The probability that one sign is equal, relative to ``centre``."""
    spread = _spread(centre)
    cosine = 1.0 - distance / spread if spread > 0.0 else -1.0
    return 1.0 - math.acos(min(max(cosine, -1.0), 1.0)) / math.pi


def _chance(agreement: float, bands: int, width: int) -> float:
    return 1.0 - (1.0 - agreement**width) ** bands


def _width(points: int, spare: int) -> int:
    return min(max(points.bit_length() + spare, FEWEST_SIGNS), MOST_SIGNS)


def _sized(agreement: float, points: int) -> tuple[int, int]:
    """The number of bands, and of signs per band. The bands are as long as the permitted number of bands allows, because longer bands have
    fewer unrelated candidates.
    """
    most = min(max(MOST_ROWS // max(points, 1), VECTOR_BANDS), MOST_BANDS)
    for spare in range(SPARE_SIGNS, LEAST_SPARE_SIGNS - 1, -1):
        signs = _width(points, spare)
        enough = (each for each in range(VECTOR_BANDS, most + 1) if _chance(agreement, each, signs) >= RECALL)
        if (sized := next(enough, None)) is not None:
            return sized, signs
    return most, _width(points, LEAST_SPARE_SIGNS)


def vector_bands(vectors: FloatMatrix, by: Directions) -> Hashes:
    """The bands (m, by.bands) uint64 of ``vectors`` (m, d), whose lengths do not matter."""
    signs = (_units(vectors) - by.centre) @ by.planes > 0
    bits = signs.reshape(len(vectors), by.bands, by.width)
    powers = np.left_shift(np.uint64(1), np.arange(by.width, dtype=np.uint64))
    return _distinguished((bits * powers).sum(axis=2, dtype=np.uint64))


def _distinguished(bands: Hashes) -> Hashes:
    """Make equal numbers in different bands different; the bands of texts come first."""
    which = np.arange(TEXT_BANDS, TEXT_BANDS + bands.shape[1], dtype=np.uint64)
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

"""Sketches: short hashes that two copies are likely to share, so that nobody has to compare every point with every other.

A vector gives the signs of its products with random directions (Charikar 2002). Two vectors at an angle t agree in one sign with
probability 1 - t/pi, and in all signs of a band of w with the w-th power of that. Seen from the middle of the collection, 48 bands
of 24 signs bring two vectors of cosine .98 together with probability .9999, of .96 with .994, of .92 with .84, and unrelated ones
once in 350,000 pairs. A text gives its MinHash
(selection/text/signals/minhash.py): 16 bands of 8 bring two texts of Jaccard similarity .92 together with probability .99999.

Points that share a band are candidates, no more: families.py looks at their vectors and texts. All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...selection.text.shingles import grams
from ...selection.text.signals.minhash import BANDS as TEXT_BANDS
from ...selection.text.signals.minhash import ROWS, signatures
from ...selection.text.tokens import Hashes, hashed, mixed
from ...selection.values import FloatMatrix

VECTOR_BANDS = 48
# Signs of a band. With fewer than the collection needs, unrelated points meet: four more than its size has bits leave each point
# with a handful of strangers.
FEWEST_SIGNS, MOST_SIGNS, SPARE_SIGNS = 12, 28, 4
_SEED = 20260101  # of the directions: any number does, but a run must go on with the same ones

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Directions:
    """``planes``: (d, VECTOR_BANDS * width) float32. ``centre``: (d,), the middle of the collection: embeddings lie in a narrow cone,
    in which directions through the origin would tell nothing apart.
    """

    planes: FloatMatrix
    centre: FloatMatrix
    width: int


def directions(sample: FloatMatrix, points: int) -> Directions:
    """For a collection of so many points, with ``sample`` (s, d) spread over it. The same for the same sample."""
    width = min(max(points.bit_length() + SPARE_SIGNS, FEWEST_SIGNS), MOST_SIGNS)
    # RandomState: the one generator whose numbers numpy promises not to change.
    planes = np.random.RandomState(_SEED).standard_normal((sample.shape[1], VECTOR_BANDS * width))
    return Directions(planes.astype(np.float32), _units(sample).mean(axis=0), width)


def vector_bands(vectors: FloatMatrix, by: Directions) -> Hashes:
    """The bands (m, VECTOR_BANDS) uint64 of ``vectors`` (m, d), whose lengths do not matter."""
    signs = (_units(vectors) - by.centre) @ by.planes > 0
    bits = signs.reshape(len(vectors), VECTOR_BANDS, by.width)
    powers = np.left_shift(np.uint64(1), np.arange(by.width, dtype=np.uint64))
    return _told_apart((bits * powers).sum(axis=2, dtype=np.uint64), 0)


def text_bands(canonical: list[str]) -> Hashes:
    """The bands (t, TEXT_BANDS) uint64 of canonical texts, none of them empty."""
    rows = signatures(grams(hashed(canonical))).reshape(len(canonical), TEXT_BANDS, ROWS)
    found = np.zeros(rows.shape[:2], np.uint64)
    for row in range(ROWS):
        found = mixed(found * _ODD + rows[:, :, row])
    return _told_apart(found, VECTOR_BANDS)


def _told_apart(bands: Hashes, first: int) -> Hashes:
    """Equal numbers in different bands are no meeting."""
    which = np.arange(first, first + bands.shape[1], dtype=np.uint64)
    return mixed(bands + mixed((which + np.uint64(1)) * _ODD)[None, :])


def _units(vectors: FloatMatrix) -> FloatMatrix:
    """Rows of length one; a row without a direction stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32, copy=False)

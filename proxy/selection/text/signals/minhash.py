"""MinHash with banding (Broder 1997; Indyk and Motwani 1998): which texts may have a high Jaccard similarity.

128 permutations as 16 bands of 8 rows. Two texts of similarity s meet in some band with probability 1 - (1 - s^8)^16: one
half at .71, .99999 at .92. For the pairs that meet, the exact Jaccard similarity decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xxhash

from ...geometry import Mask
from ...values import Link
from ..shingles import Grams
from ..tokens import Hashes
from .comparison import Comparison, Near, Signal, at_least
from .overlap import jaccard

BANDS = 16
ROWS = 8

# Values that are permuted at a time: 8 MB.
_BLOCK = 8192


def _factors() -> Hashes:
    """One odd number (128,) per permutation: x -> x * number modulo 2^64 is one to one. Any stable source of bits would do.

    Multiplying is enough, because the 3-grams are well mixed already; mixing once more takes ten times as long.
    """
    return np.array([xxhash.xxh64_intdigest(b"permutation", seed=i) | 1 for i in range(BANDS * ROWS)], np.uint64)


_FACTORS = _factors()
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


def signatures(found: Grams) -> Hashes:
    """The smallest permuted 3-gram (t, 128) of each text; all ones for a text without 3-grams."""
    least = np.full((found.texts, BANDS * ROWS), _NONE, np.uint64)
    for first in range(0, len(found.values), _BLOCK):
        part = slice(first, first + _BLOCK)
        owners = found.owners[part]
        permuted = found.values[part, None] * _FACTORS[None, :]
        heads = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
        of = owners[heads]
        least[of] = np.minimum(least[of], np.minimum.reduceat(permuted, heads, axis=0))
    return least


def meet(found: Hashes) -> Mask:
    """Which texts (t, t) agree in all rows of at least one band; texts without 3-grams agree with none."""
    bands = found.reshape(len(found), BANDS, ROWS)
    numbers = _numbered(bands)
    meets: Mask = (numbers[:, None, :] == numbers[None, :, :]).any(axis=2)
    empty = (found == _NONE).all(axis=1)
    meets[empty] = False
    meets[:, empty] = False
    return meets


def _numbered(bands: Hashes) -> npt.NDArray[np.intp]:
    """A number (t, bands) for each band: equal bands, equal numbers."""
    numbers = np.empty(bands.shape[:2], np.intp)
    for band in range(bands.shape[1]):
        numbers[:, band] = np.unique(bands[:, band], axis=0, return_inverse=True)[1].reshape(-1)
    return numbers


def _verified(texts: Comparison, least: float) -> Near:
    met = meet(signatures(texts.few))[np.ix_(texts.rows, texts.columns)]
    return at_least(texts.block(jaccard(texts.shared)), least, texts.present & met)


SIGNALS = {"minhash": Signal(_verified, Link.MINHASH)}

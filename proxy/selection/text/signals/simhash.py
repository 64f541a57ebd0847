"""SimHash (Charikar 2002): 64 bits per text; similar texts differ in few of them.

Each bit is the majority of that bit in the hashes of the text's different word 3-grams. On real edits, one or two changed words in a
hundred move four to six bits. So the usual bound of three bits finds little more than equal texts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...values import Link
from ..shingles import Grams, distinct
from ..tokens import Hashes, mixed
from .comparison import Comparison, Near, Signal

BITS = 64


def simhash(found: Grams) -> Hashes:
    """The fingerprints (t,). A bit that is set and clear equally often is not set; a text without 3-grams has none set."""
    values, owners = distinct(found)
    # Mixed again, because the lowest bits were replaced by the owner's number.
    order = np.argsort(owners, kind="stable")
    bits = np.unpackbits(mixed(values[order]).astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    counts = np.bincount(owners, minlength=found.texts)
    ones = np.zeros((found.texts, BITS), np.int64)
    has_grams = np.flatnonzero(counts)
    if len(has_grams):
        starts = (np.cumsum(counts) - counts)[has_grams]
        ones[has_grams] = np.add.reduceat(bits, starts, axis=0, dtype=np.int64)
    packed = np.packbits(2 * ones > counts[:, None], axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64).ravel()


def hamming(left: Hashes, right: Hashes) -> npt.NDArray[np.int64]:
    """The number of the 64 bits in which fingerprints differ, (n, m)."""
    bits = np.bitwise_xor.outer(left, right)
    # Added up in pairs, fours and eights, then all eights at once: an eighth of the memory of one byte per bit.
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    bits *= np.uint64(0x0101010101010101)
    different: npt.NDArray[np.int64] = (bits >> np.uint64(56)).astype(np.int64)
    return different


def _close(texts: Comparison, most_bits: float) -> Near:
    prints = simhash(texts.few)
    different = hamming(prints[texts.rows], prints[texts.columns])
    return Near(texts.fingerprinted() & (different <= most_bits), (1.0 - different / BITS).astype(np.float32))


SIGNALS = {"simhash": Signal(_close, Link.SIMHASH)}

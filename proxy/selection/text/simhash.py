"""SimHash (Charikar 2002): 64 bits a text, of which similar texts differ in few.

Each bit is the majority of that bit in the hashes of the text's different word 3-grams. Seen on real edits: one or two
changed words in a hundred already move four to six bits, so the usual bound of three finds little beside equal texts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.text.shingles import Grams, distinct
from vecsieve.proxy.selection.text.word_hashes import Hashes, mixed

BITS = 64


def simhash(found: Grams) -> Hashes:
    """The fingerprints (t,). A bit that is as often set as not is not set; a text without 3-grams has none set."""
    values, owners = distinct(found)
    # Mixed again: the lowest bits were cut off where the owner's number was.
    bits = np.unpackbits(mixed(values).astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=found.texts)
    sums = np.zeros((len(order) + 1, BITS), np.int64)
    np.cumsum(bits[order], axis=0, out=sums[1:])
    ends = np.cumsum(counts)
    ones = sums[ends] - sums[ends - counts]
    packed = np.packbits(2 * ones > counts[:, None], axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64).ravel()


def hamming(left: Hashes, right: Hashes) -> npt.NDArray[np.int64]:
    """In how many of their 64 bits fingerprints differ, (n, m)."""
    difference = np.bitwise_xor.outer(left, right)
    bits = np.unpackbits(difference[..., None].view(np.uint8), axis=2)
    different: npt.NDArray[np.int64] = bits.sum(axis=2, dtype=np.int64)
    return different

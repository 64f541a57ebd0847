"""Words as 64-bit numbers: all words of many texts at once, the same number for the same word in every process.

A polynomial over the word's characters modulo 2^64, read off one running sum over all characters, then mixed. A call of
a hash function for each word would cost more than all the rest of the text work, and Python's own hash changes from
process to process.

The numbers stand for words in counts of shared n-grams. Two different words share one with a probability of about 2^-64;
whoever crafts such words makes a text look like a copy, which copying the text would do as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.text.tokens import Words, cut

Hashes = npt.NDArray[np.uint64]

# Digits of pi: nothing up the sleeve. Odd, so that it has an inverse modulo 2^64.
_BASE = 0x243F6A8885A308D3
_INVERSE = pow(_BASE, -1, 1 << 64)

# Texts are read in batches of so many characters (a longer text is one of its own), for which the powers are kept: a
# megabyte in all, and enough for a usual pool in one go.
_BATCH = 1 << 16


def _powers(base: int, count: int) -> Hashes:
    """1, base, base^2 … (count,) modulo 2^64."""
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    return np.multiply.accumulate(factors)


_POWERS = _powers(_BASE, _BATCH)
_INVERSE_POWERS = _powers(_INVERSE, _BATCH)


def hashed(texts: Sequence[str]) -> list[Hashes]:
    """For each canonical text the hashes (w,) of its words, in their order."""
    found: list[Hashes] = []
    batch: list[str] = []
    length = 0
    for text in texts:
        if batch and length + len(text) >= _BATCH:
            found += _of(cut(batch))
            batch, length = [], 0
        batch.append(text)
        length += len(text) + 1
    return found + _of(cut(batch)) if batch else found


def _of(words: Words) -> list[Hashes]:
    count = len(words.codes)
    is_small = count <= _BATCH
    powers = _POWERS[:count] if is_small else _powers(_BASE, count)
    inverses = _INVERSE_POWERS if is_small else _powers(_INVERSE, count)
    values = words.codes.astype(np.uint64)
    values += np.uint64(1)  # no character counts as nothing
    values *= powers
    sums = np.zeros(count + 1, np.uint64)
    np.cumsum(values, out=sums[1:])
    hashes = mixed((sums[words.ends] - sums[words.starts]) * inverses[words.starts])
    borders = words.borders.tolist()
    # Copies, because they are remembered one by one, and a view would hold on to the whole batch.
    return [hashes[start:end].copy() for start, end in pairwise(borders)]


def mixed(values: Hashes) -> Hashes:
    """Every bit of the outcome depends on every bit of the value, one to one (the finaliser of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values *= np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values

"""The words that short texts share, each weighted by how rare it is among the pool's first texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..geometry import Mask, ahead
from ..values import Indices
from .reading import Texts, Words, numbered, weight

# Repetition of a pool's short texts: the overlap of rare words that a tenth of their pairs exceed. It is .14 in pools of tickets with one
# frequent intent, .06 to .09 in claims and arguments on one topic. It is bounded, and a pool counts as if it had at least FEWEST_PAIRS pairs:
# two similar texts among few say nothing about the others.
EXCEEDED_BY = 0.1
MOST_REPETITION = 0.2
FEWEST_PAIRS = 190

# Texts per matrix product.
BLOCK = 128

Numbers = npt.NDArray[np.float64]


def rare_overlaps(texts: Texts, first: Indices, second: Indices) -> tuple[Numbers, Numbers, float]:
    """For p pairs of short texts, the weight of their shared words as a share of both texts' words (p,), and as a share of the lighter
    text's (p,). And the repetition of all short texts.
    """
    used = texts.is_short
    if len(texts) > BLOCK:
        used = np.zeros(len(texts), np.bool_)
        used[first] = used[second] = True
    place = used.cumsum() - 1
    left, right = place.take(first), place.take(second)
    sums, counts, repetition = texts.once(_short_words, used)
    if len(texts) > BLOCK:
        sums, counts = _word_weights(texts, used)
    both = counts.ravel().take(left * len(sums) + right)
    mine, theirs = sums.take(left), sums.take(right)
    by_all = both / np.maximum(mine + theirs - both, 1e-6)
    by_lighter = both / np.maximum(np.minimum(mine, theirs), 1e-6)
    return by_all, by_lighter, repetition


def _short_words(texts: Texts, used: Mask) -> tuple[Numbers, Numbers, float]:
    """As _word_weights, for all short texts of a pool of up to BLOCK texts, else for the first ones. And the repetition of the first ones."""
    known = np.array([i for i in texts.first_different if texts.is_short[i]], np.intp)
    if len(texts) > BLOCK:
        used = np.zeros(len(texts), np.bool_)
        used[known] = True
    sums, counts = _word_weights(texts, used)
    rows = (used.cumsum() - 1).take(known)
    return sums, counts, _repetition(sums.take(rows), counts.take(rows, axis=0).take(rows, axis=1))


def _repetition(sums: Numbers, counts: Numbers) -> float:
    """The repetition of t texts. ``sums`` (t,), ``counts`` (t, t): from _word_weights."""
    first, second = ahead(len(sums))[:2]
    fewer = int(EXCEEDED_BY * max(len(first), FEWEST_PAIRS))
    if len(first) <= fewer:
        return 0.0
    both = counts[first, second]
    shares = both / np.maximum(sums.take(first) + sums.take(second) - both, 1e-6)
    return min(float(np.partition(shares, -1 - fewer)[-1 - fewer]), MOST_REPETITION)


def _word_weights(texts: Texts, used: Mask) -> tuple[Numbers, Numbers]:
    """The weight of the different words of each of u texts (u,), and of the words that each two share (u, u)."""
    which = used.nonzero()[0].tolist()
    words, lengths = texts.vocabularies(which)
    owners = np.arange(len(lengths)).repeat(lengths)
    values, codes = numbered(words)
    counts = np.bincount(codes)
    weights = _rarity(texts, used, owners, values, codes)
    sums: Numbers = np.bincount(owners, weights.take(codes), len(lengths)).astype(np.float64, copy=False)
    if len(lengths) <= BLOCK:
        return sums, _weights_shared(owners, codes, weights, counts >= 2, slice(None), len(lengths))
    shared = np.zeros((len(lengths), len(lengths)))
    for start in range(0, len(lengths), BLOCK):
        # Only words of the block can be shared with it, so the matrices stay small for any number of texts.
        of_block = np.zeros(len(values), np.bool_)
        of_block[codes[(owners >= start) & (owners < start + BLOCK)]] = True
        block = slice(start, start + BLOCK)
        shared[block] = _weights_shared(owners, codes, weights, of_block, block, len(lengths))
    return sums, shared


def _rarity(texts: Texts, used: Mask, owners: Indices, values: Words, codes: Indices) -> Numbers:
    """The weight of each of ``values``. ``codes``: the words of the ``used`` texts, as places in ``values``; ``owners``: the text of each word."""
    known = texts.first_different
    if not known or not used.take(known).all():
        return texts.rarity(values)
    # All first texts are among these, so their words are known.
    is_known = np.zeros(len(used), np.bool_)
    is_known[known] = True
    counts = np.bincount(codes[is_known[used].take(owners)], minlength=len(values))
    return weight(len(known), np.maximum(counts, 1))


def _weights_shared(
    owners: Indices, codes: Indices, weights: Numbers, which: Mask, block: slice, texts: int
) -> Numbers:
    """The weight of the words ``which`` that each text of ``block`` shares with each of all ``texts``."""
    met = which.take(codes).nonzero()[0]
    places, weights = (which.cumsum() - 1).take(codes.take(met)), weights[which]
    every = np.zeros((texts, len(weights)))
    every.ravel()[owners.take(met) * len(weights) + places] = 1.0
    shared: Numbers = (every[block] * weights) @ every.T
    return shared

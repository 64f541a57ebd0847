"""Which pairs of texts are near copies, by each of the signals that a policy switches on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vecsieve.proxy.selection.geometry import Mask
from vecsieve.proxy.selection.policy import TextRules
from vecsieve.proxy.selection.text.bounds import FINGERPRINTED_WORDS, POOL_WORDS
from vecsieve.proxy.selection.text.indel import ratios
from vecsieve.proxy.selection.text.minhash import meet, signatures
from vecsieve.proxy.selection.text.shingles import Grams, Shared, containment, grams, jaccard, shared
from vecsieve.proxy.selection.text.simhash import BITS, hamming, simhash
from vecsieve.proxy.selection.text.word_hashes import Hashes
from vecsieve.proxy.selection.values import FloatMatrix, Indices, Link


@dataclass(frozen=True, slots=True)
class Signal:
    """``passed``: (n, m) whether the pair is a near copy by this ``link``'s threshold. ``similarity``: (n, m) float32."""

    link: Link
    passed: Mask
    similarity: FloatMatrix


def signals(
    texts: Sequence[Hashes], rows: Indices, columns: Indices, compared: Mask, rules: TextRules
) -> Iterator[Signal]:
    """The signals that are switched on, in the order of Link.

    ``texts``: hashes of each text's words, none for what has no text. ``rows``, ``columns``: which of them are compared,
    as far as ``compared`` (n, m) allows. A signal compares the best-ranked texts, up to so many words together as it can
    read in some 25 ms: the others are as without words.
    """
    block = np.ix_(rows, columns)
    known = _Grams(_first(texts, POOL_WORDS))
    present = compared & (known.sizes[rows] > 0)[:, None] & (known.sizes[columns] > 0)[None, :]
    if rules.containment is not None:
        yield _at_least(Link.CONTAINMENT, containment(known.shared)[block], rules.containment, present)
    if rules.jaccard is not None:
        yield _at_least(Link.JACCARD, jaccard(known.shared)[block], rules.jaccard, present)
    if rules.indel is not None:
        yield _at_least(Link.INDEL, ratios(known.texts, rows, columns, present, rules.indel), rules.indel, present)
    if rules.minhash is not None:
        met = meet(signatures(known.few))[block]
        yield _at_least(Link.MINHASH, jaccard(known.shared)[block], rules.minhash, present & met)
    if rules.simhash is not None:
        prints = simhash(known.few)
        present &= (known.few_sizes[rows] > 0)[:, None] & (known.few_sizes[columns] > 0)[None, :]
        different = hamming(prints[rows], prints[columns])
        similarity = (1.0 - different / BITS).astype(np.float32)
        yield Signal(Link.SIMHASH, present & (different <= rules.simhash), similarity)


class _Grams:
    """The 3-grams of all texts, and what they share, found when the first signal asks for them."""

    def __init__(self, texts: Sequence[Hashes]) -> None:
        self.texts = texts
        self._few = _first(texts, FINGERPRINTED_WORDS)
        self.sizes = np.fromiter(map(len, texts), np.intp, len(texts))
        self.few_sizes = np.fromiter(map(len, self._few), np.intp, len(texts))

    @cached_property
    def grams(self) -> Grams:
        return grams(self.texts)

    @cached_property
    def few(self) -> Grams:
        """Of the texts that are fingerprinted."""
        return self.grams if self._few is self.texts else grams(self._few)

    @cached_property
    def shared(self) -> Shared:
        return shared(self.grams)


def _first(texts: Sequence[Hashes], most_words: int) -> Sequence[Hashes]:
    """The texts, of which those behind the first ``most_words`` words have none."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    count = int(ends.searchsorted(most_words, side="right"))
    return texts if count == len(texts) else [*texts[:count], *(words[:0] for words in texts[count:])]


def _at_least(link: Link, similarity: FloatMatrix, least: float, among: Mask) -> Signal:
    # Both are ratios of whole numbers below 2^24: four fifths in float32 must not fall below four fifths in float64.
    return Signal(link, among & (similarity >= np.float32(least)), similarity)

"""The texts that near-text signals compare. Values that several signals need are computed once, when first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...geometry import Mask
from ...values import FloatMatrix, Indices, Link
from ..bounds import FINGERPRINTED_WORDS, POOL_WORDS
from ..shingles import Grams, Shared, grams, shared
from ..tokens import Hashes


class Comparison:
    """Candidates ``rows`` (n,) and ``columns`` (m,) of t texts, compared where ``present`` (n, m).

    ``texts``: hashes of each text's words. A missing text has none, nor has a text beyond the words that signals can read in some 25 ms.
    ``present``: allowed by the caller, and only pairs of which both have words.
    """

    def __init__(self, texts: Sequence[Hashes], rows: Indices, columns: Indices, compared: Mask) -> None:
        self.rows, self.columns = rows, columns
        self.texts = _first(texts, POOL_WORDS)
        self._few = _first(self.texts, FINGERPRINTED_WORDS)
        self.present = compared & self._have_words(self.texts)

    @cached_property
    def grams(self) -> Grams:
        """The word 3-grams of all texts."""
        return grams(self.texts)

    @cached_property
    def few(self) -> Grams:
        """The word 3-grams of the texts that are fingerprinted: the best-ranked ones."""
        return self.grams if self._few is self.texts else grams(self._few)

    @cached_property
    def shared(self) -> Shared:
        """How many different 3-grams each two texts share."""
        return shared(self.grams)

    def fingerprinted(self) -> Mask:
        """The present pairs (n, m) of which both texts are fingerprinted."""
        return self.present & self._have_words(self._few)

    def block(self, matrix: FloatMatrix) -> FloatMatrix:
        """The entries (n, m) for rows and columns of a matrix (t, t) for all texts."""
        return matrix[np.ix_(self.rows, self.columns)]

    def _have_words(self, texts: Sequence[Hashes]) -> Mask:
        known = np.fromiter(map(len, texts), np.intp, len(texts)) > 0
        return known[self.rows][:, None] & known[self.columns][None, :]


@dataclass(frozen=True, slots=True)
class Near:
    """``passed``: (n, m) whether the pair is a near copy by the signal. ``similarity``: (n, m) float32."""

    passed: Mask
    similarity: FloatMatrix


@dataclass(frozen=True, slots=True)
class Signal:
    """``compare``: the signal for a comparison at the policy's threshold. ``link``: how its pairs are reported."""

    compare: Callable[[Comparison, float], Near]
    link: Link = Link.NEAR_TEXT


def at_least(similarity: FloatMatrix, least: float, among: Mask) -> Near:
    """The pairs ``among`` with a similarity of at least ``least``.

    Compared in float32: similarities are ratios of whole numbers below 2^24, and 4/5 in float32 is below 4/5 in float64.
    """
    return Near(among & (similarity >= np.float32(least)), similarity)


def _first(texts: Sequence[Hashes], most_words: int) -> Sequence[Hashes]:
    """The texts. Those beyond the first ``most_words`` words have no words."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    count = int(ends.searchsorted(most_words, side="right"))
    return texts if count == len(texts) else [*texts[:count], *(words[:0] for words in texts[count:])]

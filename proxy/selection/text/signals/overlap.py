"""Containment and Jaccard similarity over word 3-grams (Broder 1997).

Containment is the useful one for chunks. A passage inside a longer one, and chunks of one text that are cut at different
places, share most of the shorter side, whatever the longer one adds.
"""

from __future__ import annotations

import numpy as np

from ...values import FloatMatrix, Link
from ..shingles import Shared
from .comparison import Comparison, Near, Signal, at_least

# The fewest different 3-grams of the smaller text for its containment to count: eight are a sentence of ten words. A heading, a name or
# "see the next section" occurs in many longer texts and is a copy of none. Measured on short tickets at containment .8: 91 % of the pairs
# are copies without this bound, 82 % from four on, all of them from eight on; chunks of a hundred words are not affected.
CONTAINED_AT_LEAST = 8

# The share of the later-ranked text that the earlier one must have: a long text behind a short one that it contains says more, and would be
# lost. Measured on chunks cut at different places, at containment .8: 3.1 % of the pairs were no copies without this bound, 1.9 % with it,
# for 0.4 % of the copies.
COVERED_AT_LEAST = np.float32(0.5)


def containment(known: Shared) -> FloatMatrix:
    """Share (t, t) float32 of the smaller text's 3-grams that the larger one has too, of texts in rank order.

    0 if the smaller text has too few 3-grams, or the later one has too many of its own.
    """
    smaller = np.minimum(known.sizes[:, None], known.sizes[None, :])
    rank = np.arange(len(known.sizes))
    later = known.sizes[np.maximum(rank[:, None], rank[None, :])]
    counts = (smaller >= CONTAINED_AT_LEAST) & (known.counts >= COVERED_AT_LEAST * later)
    return np.where(counts, known.counts / np.maximum(smaller, 1.0), np.float32(0.0))


def jaccard(known: Shared) -> FloatMatrix:
    """The share (t, t) float32 of both texts' 3-grams that both have; 0 if neither has any."""
    together = known.sizes[:, None] + known.sizes[None, :] - known.counts
    share: FloatMatrix = known.counts / np.maximum(together, 1.0)
    return share


def _contained(texts: Comparison, least: float) -> Near:
    return at_least(texts.block(containment(texts.shared)), least, texts.present)


def _alike(texts: Comparison, least: float) -> Near:
    return at_least(texts.block(jaccard(texts.shared)), least, texts.present)


SIGNALS = {"containment": Signal(_contained, Link.CONTAINMENT), "jaccard": Signal(_alike, Link.JACCARD)}

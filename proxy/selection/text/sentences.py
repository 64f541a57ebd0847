"""How many of a text's sentences another text has.

Chunks that overlap by half share half of their words, but a sentence at the border is complete in only one of them. A reader who gets one
of two such chunks misses the sentences of the other, not its words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from ..values import FloatMatrix, FloatVector, Indices, Steps
from .bounds import portions
from .canonical import folded
from .features import Form
from .reading import Texts
from .shingles import grams
from .tokens import Hashes, hashed

# After the marks that end a sentence, with a blank if the script has blanks; and line ends.
_ENDS = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？।؟])\s*|\n+")

# Characters that are read of a longer text: 50 such texts take some 20 ms. And its sentences: of one letter each there are 4,000, and the cost
# of a sentence is that of 100 characters.
MOST_CHARACTERS, MOST_SENTENCES, SENTENCE_COST = 12_288, 512, 100
_MARKS = ".!?\n。！？।؟"

# A sentence of fewer words counts by its share of this number: pieces at a border, numbers of a list.
WHOLE_WORDS = 10

# The share of a sentence's 3-grams from which on another text has the sentence.
HALF = 0.5


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of t texts, one text after another. ``values`` (g,): their 3-grams, ``owners`` (g,): the sentence of each, ascending.
    ``needed`` (s,): how many of a sentence's 3-grams another text must have; ``weights`` (s,): the weight of each sentence. ``borders`` (t
    + 1,): text i has the sentences borders[i] to borders[i + 1].
    """

    values: npt.NDArray[np.uint32]
    owners: Indices
    needed: FloatVector
    weights: FloatVector
    borders: Indices

    @property
    def gram_borders(self) -> Indices:
        """Text i has the 3-grams gram_borders[i] to gram_borders[i + 1] (t + 1,)."""
        return self.owners.searchsorted(self.borders)

    @property
    def sizes(self) -> Indices:
        """The number of each text's 3-grams (t,)."""
        return np.diff(self.gram_borders)


def sentences_of(forms: Sequence[Form]) -> Sentences:
    """The sentences of texts that were read, computed together."""
    parts: list[str] = []
    borders = [0]
    for form in forms:
        body = form.body[:MOST_CHARACTERS]
        # In ASCII only case is left to fold: words are searched, whatever blanks are between them.
        own = _ENDS.split(body.lower()) if body.isascii() else map(folded, _ENDS.split(body))
        parts += islice((part for part in own if part and not part.isspace()), MOST_SENTENCES)
        borders.append(len(parts))
    words = hashed(parts)
    found = grams(words)
    lengths = np.fromiter(map(len, words), np.float64, len(words))
    return Sentences(
        values=(found.values >> np.uint64(32)).astype(np.uint32),
        owners=found.owners,
        needed=(HALF * np.bincount(found.owners, minlength=len(words))).astype(np.float64, copy=False),
        weights=np.minimum(lengths / WHOLE_WORDS, 1.0),
        borders=np.array(borders, np.intp),
    )


def sentence_shares(texts: Texts, first: Indices, second: Indices) -> Steps[FloatMatrix]:
    """For p pairs of candidates that both have a text: the share of the later-ranked text's sentences that the earlier one has (p, 1). In
    steps, each of a bounded number of characters that are read and of 3-grams that are looked up.
    """
    later, earlier = np.maximum(first, second), np.minimum(first, second)
    found = np.zeros((len(first), 1), np.float32)
    forms = {place: form for place in np.unique(later).tolist() if (form := texts.form(place)) is not None}
    prices = [0] * len(texts)
    for place, form in forms.items():
        prices[place] = _price(form.body[:MOST_CHARACTERS])
    steps = list(portions(prices, list(forms)))
    for portion in steps:
        if len(steps) > 1:
            yield
        known = sentences_of([forms[place] for place in portion])
        pairs = np.isin(later, portion).nonzero()[0]
        which = np.searchsorted(portion, later[pairs])
        for number, part in enumerate(portions(known.sizes[which].tolist(), range(len(pairs)))):
            if number:
                yield
            found[pairs[part], 0] = _shares(known, which[part], texts, earlier[pairs[part]])
    return found


def _price(body: str) -> int:
    """The cost of finding these sentences, in units of a character."""
    return len(body) + SENTENCE_COST * min(MOST_SENTENCES, sum(map(body.count, _MARKS)))


def _shares(known: Sentences, which: Indices, texts: Texts, earlier: Indices) -> FloatMatrix:
    """The share (p,) of the sentences of the ``which`` (p,) of the known texts that candidates ``earlier`` (p,) have."""
    held, other = np.unique(earlier, return_inverse=True)
    grams_held, sizes = texts.grams_of(held.tolist())
    packed = _packed(np.arange(len(held)).repeat(sizes), grams_held)
    # Each pair's 3-grams, and then each pair's sentences, one pair after another.
    gram_borders = known.gram_borders
    pair, place = _ranges(gram_borders[which], gram_borders[which + 1])
    wanted = _packed(other[pair], known.values[place])
    is_met = packed.take(packed.searchsorted(wanted), mode="clip") == wanted
    own_pair, sentence = _ranges(known.borders[which], known.borders[which + 1])
    begins = own_pair.searchsorted(np.arange(len(which)))
    met = np.bincount(begins[pair] + known.owners[place] - known.borders[which][pair], is_met, len(sentence))
    weights = known.weights[sentence]
    have = np.bincount(own_pair, weights * (met >= known.needed[sentence]), len(which))
    return (have / np.maximum(np.bincount(own_pair, weights, len(which)), 1e-9)).astype(np.float32)


def _packed(owners: Indices, values: npt.NDArray[np.uint32]) -> Hashes:
    """Owner and 3-gram packed into one number each."""
    return (owners.astype(np.uint64) << np.uint64(32)) | values


def _ranges(starts: Indices, stops: Indices) -> tuple[Indices, Indices]:
    """The numbers from each start to its stop, one range after another, and the range of each."""
    sizes = stops - starts
    which = np.arange(len(sizes)).repeat(sizes)
    return which, np.arange(len(which)) - (sizes.cumsum() - sizes - starts)[which]

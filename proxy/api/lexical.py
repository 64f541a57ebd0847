"""What texts alone say about chunks: which are equal, and how many words two of them share.

Everything is prefix-stable: what is said of a chunk depends on it and on those before it, never on those behind it. So a stream
says the same as a whole list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.text.bounds import POOL_COST, cost
from vecsieve.proxy.selection.text.features import Form, Text, learn_words
from vecsieve.proxy.selection.text.shingles import counted
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector

Vocabulary = npt.NDArray[np.uint32]

# What may stand at the edges of a word without being part of what it says. A question mark is not here, since a question is not
# its answer; nor are signs of numbers, units and names ("-5", "$5", "C++", ".NET").
_BEFORE, _BEHIND = "\"'“”‘’«»‹›„‚([{¿¡", "\"'“”‘’«»‹›)]}.,;:!…。、，；：！"
_NO_WORDS: Vocabulary = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Words:
    """What is read of one text. ``key``: equal for equal texts, "" of a text that says nothing. ``vocabulary``: the hash of each
    different word, ascending; empty of a text that is not read.
    """

    key: str
    vocabulary: Vocabulary


class Reader:
    """Reads texts in rank order until the budget of a pool is spent (bounds.py). A text behind that is equal to its exact copies
    and shares no words.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = POOL_COST

    def read(self, texts: Sequence[str]) -> list[Words]:
        forms = [Text(text).unwrap() if self._affords(text) else None for text in texts]
        learn_words([form for form in forms if form is not None])
        return [
            Words(text, _NO_WORDS) if form is None else _words(form) for text, form in zip(texts, forms, strict=True)
        ]

    def _affords(self, text: str) -> bool:
        if self._left < 0:
            return False
        price = cost(text)
        self._left -= len(text) if price is None else price
        return price is not None and self._left >= 0


def _words(form: Form) -> Words:
    canonical = form.canonical
    return Words(bare(canonical), np.frombuffer(form.vocabulary or b"", np.uint32) if canonical else _NO_WORDS)


def bare(canonical: str) -> str:
    """A canonical text without quotes, brackets and sentence punctuation around its words; itself, where nothing else is in it."""
    words = [
        word if word.isalnum() else word.lstrip(_BEFORE).rstrip(_BEHIND)  # most words have neither
        for word in canonical.split(" ")
    ]
    return " ".join(filter(None, words)) or canonical


def jaccard(vocabularies: Sequence[Vocabulary]) -> FloatMatrix:
    """The Jaccard coefficient of each two (n, n) float32: 0 where one has no words, 1 on the diagonal of all others."""
    sizes = np.fromiter(map(len, vocabularies), np.intp, len(vocabularies))
    owners = np.arange(len(sizes), dtype=np.intp).repeat(sizes)
    values = np.concatenate((_NO_WORDS, *vocabularies)).astype(np.uint64)
    order = values.argsort(kind="stable")
    shared = counted(values[order], owners[order], len(sizes))
    np.fill_diagonal(shared, sizes)
    union = sizes[:, None] + sizes[None, :] - shared
    found: FloatMatrix = (shared / np.maximum(union, 1)).astype(np.float32)
    return found


class Lexicon:
    """The vocabularies of chunks, one behind the other."""

    __slots__ = ("_borders", "_joined")

    def __init__(self) -> None:
        self._joined = _NO_WORDS
        self._borders: list[int] = [0]

    def add(self, vocabulary: Vocabulary) -> None:
        self._joined = np.concatenate((self._joined, vocabulary))
        self._borders.append(len(self._joined))

    def jaccards(self, vocabulary: Vocabulary) -> FloatVector:
        """The Jaccard coefficient of a text with each chunk (m,), 0 where one has no words."""
        shared = self._sums(_among(self._joined, vocabulary).astype(np.float64))
        union = np.diff(self._borders) + len(vocabulary) - shared
        return shared / np.maximum(union, 1)

    def cosines(self, vocabulary: Vocabulary) -> FloatVector:
        """The TF-IDF cosine of a text with each chunk (m,), 0 where one has no words.

        A word counts once in a text, and weighs log((1 + texts) / (1 + texts with it)) + 1. The texts are the chunks and this one.
        """
        words, places = np.unique(np.concatenate((self._joined, vocabulary)), return_inverse=True)
        with_it = np.bincount(places, minlength=len(words))
        squares = (np.log((1 + len(self._borders)) / (1 + with_it)) + 1.0) ** 2
        each = squares[places]
        own = float(each[len(self._joined) :].sum())
        lengths = self._sums(each[: len(self._joined)])
        shared = self._sums(np.where(_among(self._joined, vocabulary), each[: len(self._joined)], 0.0))
        return shared / np.sqrt(np.maximum(lengths * own, 1.0))

    def shares(self, vocabulary: Vocabulary) -> FloatVector:
        """Which share of a text's words each chunk has (m,)."""
        return self._sums(_among(self._joined, vocabulary).astype(np.float64)) / max(len(vocabulary), 1)

    def _sums(self, values: FloatVector) -> FloatVector:
        """The sum of the values of each chunk's words (m,)."""
        before = np.concatenate(([0.0], np.cumsum(values)))
        return np.diff(before[self._borders])


def lexicon_of(vocabularies: Iterable[Vocabulary]) -> Lexicon:
    found = Lexicon()
    for each in vocabularies:
        found.add(each)
    return found


def _among(words: Vocabulary, ascending: Vocabulary) -> npt.NDArray[np.bool_]:
    """Which of the words stand in an ascending list."""
    if not len(ascending):
        return np.zeros(len(words), np.bool_)
    at = np.minimum(ascending.searchsorted(words), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending.take(at) == words
    return found

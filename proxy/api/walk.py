"""A walk down the ranking that decides of each chunk whether it repeats an earlier one, by vectors and by what texts alone say.

exact     the text equals an earlier one but for case, layout and punctuation around words
semantic  nearer to an earlier chunk than the threshold, and the words agree
leader    near one of those that lead a cluster; else it leads one itself

Where both chunks have a usable vector, their distance is the cosine distance. Where one has none, words stand in: 1 - Jaccard. Where
one has no words either, nothing is known of the pair, and they are never merged.

Everything is prefix-stable: what is said of a chunk depends on it and on those before it, never on those behind it. So a stream
says the same as a whole list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ..selection.clustering import lead
from ..selection.geometry import Rows, across, rows_of
from ..selection.text.bounds import POOL_COST, cost
from ..selection.text.features import Form, Text, learn_words
from ..selection.text.shingles import counted
from ..selection.values import FloatMatrix, FloatVector, Indices

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


# How the words must agree where vectors are near: this Jaccard, or this TF-IDF cosine where the vectors are as good as equal.
# The values are those of the endpoint's specification.
AGREEING, AGREEING_COPY, COPY = 0.55, 0.13, 0.001
LEADER_ALONE: FloatMatrix = np.zeros((1, 1), np.float32)


class Stage(StrEnum):
    """Where a chunk left the pool."""

    EXACT = "exact"
    SEMANTIC = "semantic"
    CLUSTER = "cluster"
    TARGET = "target_k"
    BUDGET = "token_budget"


@dataclass(frozen=True, slots=True)
class Repeat:
    """``of``: the number of the earlier chunk, among all that came."""

    stage: Stage
    of: int


class _Table:
    """Safe rows, one behind the other, in arrays with room for more."""

    def __init__(self) -> None:
        self._room = self._empty(0, 1)
        self._size = 0

    @staticmethod
    def _empty(count: int, dimension: int) -> Rows:
        """Rows of which none is usable."""
        zeros = np.zeros(count, np.float32)
        return Rows(
            np.zeros((count, dimension), np.float32), zeros, np.zeros(count, np.int32), np.zeros(count, np.bool_)
        )

    def widen(self, dimension: int) -> None:
        """From now on rows have this dimension; none so far was usable."""
        self._room = self._empty(len(self._room.squares), dimension)

    def row(self, vector: FloatMatrix | None) -> Rows:
        """The vector as a row; not usable where there is none of this dimension."""
        dimension = self._room.values.shape[1]
        if vector is None or len(vector) != dimension:
            return self._empty(1, dimension)
        return rows_of(np.ascontiguousarray(vector[None, :], np.float32))

    def add(self, row: Rows) -> None:
        if self._size == len(self._room.squares):
            larger = self._empty(max(2 * self._size, 16), self._room.values.shape[1])
            _copy(self.rows, larger, slice(self._size))
            self._room = larger
        _copy(row, self._room, slice(self._size, self._size + 1))
        self._size += 1

    @property
    def rows(self) -> Rows:
        return self._room.at(slice(self._size))


def _copy(rows: Rows, into: Rows, at: slice) -> None:
    for name in ("values", "squares", "exponents", "usable"):
        getattr(into, name)[at] = getattr(rows, name)


class Walk:
    """``semantic``: the threshold of the semantic stage. ``dimension``: of the vectors that are compared; None: that of the first."""

    def __init__(self, *, semantic: float, dimension: int | None) -> None:
        self._semantic = semantic
        self._dimension = dimension
        self._came = 0
        self._keys: dict[str, int] = {}
        self._table = _Table()
        if dimension is not None:
            self._table.widen(dimension)
        self._lexicon = Lexicon()
        self._has_words: list[bool] = []
        self.kept: list[int] = []
        """The numbers of the chunks that passed both stages, in their order."""
        self.distances: FloatVector = np.empty(0)
        """From the last survivor to those before it."""

    def step(self, words: Words, vector: FloatMatrix | None) -> Repeat | None:
        """The earlier chunk that the next one repeats; None if it stays. ``vector``: (d,) float32."""
        number, self._came = self._came, self._came + 1
        if words.key:
            first = self._keys.setdefault(words.key, number)
            if first != number:
                return Repeat(Stage.EXACT, first)
        row = self._row(vector)
        distances = self._distances(words, row)
        place = self._copied(words, distances)
        if place is not None:
            return Repeat(Stage.SEMANTIC, self.kept[place])
        self.kept.append(number)
        self.distances = distances
        self._table.add(row)
        self._lexicon.add(words.vocabulary)
        self._has_words.append(len(words.vocabulary) > 0)
        return None

    def _row(self, vector: FloatMatrix | None) -> Rows:
        if self._dimension is None and vector is not None and len(vector):
            self._dimension = len(vector)
            self._table.widen(len(vector))
        return self._table.row(vector)

    def _distances(self, words: Words, row: Rows) -> FloatVector:
        """To each survivor (m,), infinite where nothing is known."""
        if not self.kept:
            return np.empty(0)
        found: FloatVector = across(self._table.rows, row, magnitude=False)[:, 0].astype(np.float64)
        unknown = np.isinf(found)
        if unknown.any() and len(words.vocabulary):
            by_words = np.where(self._has_words, 1.0 - self._lexicon.jaccards(words.vocabulary), np.inf)
            found[unknown] = by_words[unknown]
        return found

    def _copied(self, words: Words, distances: FloatVector) -> int | None:
        """The first survivor of the ranking that the chunk repeats."""
        near = distances < self._semantic
        if not near.any() or not len(words.vocabulary):
            return None
        agrees = self._lexicon.jaccards(words.vocabulary) >= AGREEING
        copies = near & (distances <= COPY) & ~agrees
        if copies.any():
            agrees |= copies & (self._lexicon.cosines(words.vocabulary) >= AGREEING_COPY)
        found = np.flatnonzero(near & agrees)
        return int(found[0]) if len(found) else None


class Leaders:
    """Clusters of the survivors of a walk: each follows the nearest leader before it within the cut, or leads."""

    def __init__(self, cut: float) -> None:
        self._cut = cut
        self._places: list[int] = []

    def step(self, distances: FloatVector) -> int:
        """The number of the next survivor's cluster. ``distances``: (m,) to the survivors before it."""
        back = distances[self._places][None, :].astype(np.float32)
        head = int(lead(LEADER_ALONE, [self._cut] * (len(self._places) + 1), back)[0])
        if head < 0:
            return -1 - head
        self._places.append(len(distances))
        return len(self._places) - 1


def labels_of(distances: list[FloatVector], cut: float) -> Indices:
    """The clusters (m,) of survivors by ``Leaders``. ``distances``: of each to those before it."""
    leaders = Leaders(cut)
    labels: npt.NDArray[np.intp] = np.array([leaders.step(each) for each in distances], np.intp)
    return labels

"""Goes down the ranking and decides for each chunk whether it repeats an earlier one, by vectors and by words.

exact     the text equals an earlier one, ignoring case, layout and punctuation around words
semantic  the distance to an earlier chunk is below the threshold, and the words agree
leader    the chunk joins the nearest leader of a cluster within the cut; if there is none, it becomes a leader

The distance of two chunks is the cosine distance if both have a usable vector. Else it is 1 - Jaccard of their words. If one of them has
no words either, the distance is unknown, and they are never merged.

All decisions are prefix-stable: they depend on the chunk and earlier chunks, never on later ones. So a stream and a whole list give the
same result.
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

# Punctuation around a word that does not change its meaning. It excludes the question mark, because a question differs from a statement,
# and signs of numbers, units and names ("-5", "$5", "C++", ".NET").
_BEFORE, _BEHIND = "\"'“”‘’«»‹›„‚([{¿¡", "\"'“”‘’«»‹›)]}.,;:!…。、，；：！"
_NO_WORDS: Vocabulary = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Words:
    """The features of one text. ``key``: equal for equal texts; "" for a text without content. ``vocabulary``: the hashes of its distinct
    words, ascending; empty for a text that was not read.
    """

    key: str
    vocabulary: Vocabulary


class Reader:
    """Reads texts in rank order until the budget of a pool is spent (bounds.py). Later texts are compared only for byte equality; they
    share no words with others.
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
    """A canonical text without quotes, brackets and sentence punctuation around words; unchanged if nothing would remain."""
    words = [
        word if word.isalnum() else word.lstrip(_BEFORE).rstrip(_BEHIND)  # the fast path: most words need no stripping
        for word in canonical.split(" ")
    ]
    return " ".join(filter(None, words)) or canonical


def jaccard(vocabularies: Sequence[Vocabulary]) -> FloatMatrix:
    """The Jaccard coefficients of all pairs (n, n) float32: 0 if one text has no words; else 1 on the diagonal."""
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
    """The vocabularies of chunks in one concatenated array."""

    __slots__ = ("_borders", "_joined")

    def __init__(self) -> None:
        self._joined = _NO_WORDS
        self._borders: list[int] = [0]

    def add(self, vocabulary: Vocabulary) -> None:
        self._joined = np.concatenate((self._joined, vocabulary))
        self._borders.append(len(self._joined))

    def jaccards(self, vocabulary: Vocabulary) -> FloatVector:
        """The Jaccard coefficient of a text with each chunk (m,); 0 if one has no words."""
        shared = self._sums(_among(self._joined, vocabulary).astype(np.float64))
        union = np.diff(self._borders) + len(vocabulary) - shared
        return shared / np.maximum(union, 1)

    def cosines(self, vocabulary: Vocabulary) -> FloatVector:
        """The TF-IDF cosine of a text with each chunk (m,); 0 if one has no words.

        A word counts once per text. Its weight is log((1 + texts) / (1 + texts with it)) + 1, over the chunks and this text.
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
        """The share of a text's words that each chunk has (m,)."""
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
    """Which of the words are in an ascending list."""
    if not len(ascending):
        return np.zeros(len(words), np.bool_)
    at = np.minimum(ascending.searchsorted(words), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending.take(at) == words
    return found


# Near vectors are not enough: words must have the Jaccard coefficient AGREEING. At a distance of at most COPY, the TF-IDF cosine
# AGREEING_COPY is enough. The values are part of the endpoint's specification.
AGREEING, AGREEING_COPY, COPY = 0.55, 0.13, 0.001
LEADER_ALONE: FloatMatrix = np.zeros((1, 1), np.float32)


class Stage(StrEnum):
    """The stage that removed a chunk."""

    EXACT = "exact"
    SEMANTIC = "semantic"
    CLUSTER = "cluster"
    TARGET = "target_k"
    BUDGET = "token_budget"


@dataclass(frozen=True, slots=True)
class Repeat:
    """``of``: the number of the earlier chunk, counted over all chunks."""

    stage: Stage
    of: int


class _Table:
    """A growing table of rows, in arrays with spare capacity."""

    def __init__(self) -> None:
        self._room = self._empty(0, 1)
        self._size = 0

    @staticmethod
    def _empty(count: int, dimension: int) -> Rows:
        """Rows that are all unusable."""
        zeros = np.zeros(count, np.float32)
        return Rows(
            np.zeros((count, dimension), np.float32), zeros, np.zeros(count, np.int32), np.zeros(count, np.bool_)
        )

    def widen(self, dimension: int) -> None:
        """Set the dimension of further rows. All rows so far must be unusable."""
        self._room = self._empty(len(self._room.squares), dimension)

    def row(self, vector: FloatMatrix | None) -> Rows:
        """The vector as a row; unusable if it is missing or has another dimension."""
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
    """``semantic``: threshold of the semantic stage. ``dimension``: of the compared vectors; None: that of the first vector."""

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
        """The numbers of the survivors, which passed both stages, in rank order."""
        self.distances: FloatVector = np.empty(0)
        """The distances from the last survivor to earlier survivors."""

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
        """The distances to all survivors (m,); infinite if unknown."""
        if not self.kept:
            return np.empty(0)
        found: FloatVector = across(self._table.rows, row, magnitude=False)[:, 0].astype(np.float64)
        unknown = np.isinf(found)
        if unknown.any() and len(words.vocabulary):
            by_words = np.where(self._has_words, 1.0 - self._lexicon.jaccards(words.vocabulary), np.inf)
            found[unknown] = by_words[unknown]
        return found

    def _copied(self, words: Words, distances: FloatVector) -> int | None:
        """The best-ranked survivor that the chunk repeats."""
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
    """Clusters of the survivors of a walk: each joins the nearest earlier leader within the cut, or becomes a leader."""

    def __init__(self, cut: float) -> None:
        self._cut = cut
        self._places: list[int] = []

    def step(self, distances: FloatVector) -> int:
        """The cluster number of the next survivor. ``distances``: (m,) to earlier survivors."""
        back = distances[self._places][None, :].astype(np.float32)
        head = int(lead(LEADER_ALONE, [self._cut] * (len(self._places) + 1), back)[0])
        if head < 0:
            return -1 - head
        self._places.append(len(distances))
        return len(self._places) - 1


def labels_of(distances: list[FloatVector], cut: float) -> Indices:
    """The cluster numbers (m,) of survivors by ``Leaders``. ``distances``: of each survivor to earlier ones."""
    leaders = Leaders(cut)
    labels: npt.NDArray[np.intp] = np.array([leaders.step(each) for each in distances], np.intp)
    return labels

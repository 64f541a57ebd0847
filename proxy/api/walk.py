"""A walk down the ranking that decides of each chunk whether it repeats an earlier one, by what is known when it comes.

exact     the text equals an earlier one but for case, layout and punctuation around words
semantic  nearer to an earlier chunk than the threshold, and the words agree
leader    near one of those that lead a cluster; else it leads one itself

Where both chunks have a usable vector, their distance is the cosine distance. Where one has none, words stand in: 1 - Jaccard. Where
one has no words either, nothing is known of the pair, and they are never merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.api.lexical import Lexicon, Words
from vecsieve.proxy.selection.clustering import lead
from vecsieve.proxy.selection.geometry import Rows, across, rows_of
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices

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
        """Who survived both stages, by the order in which they came."""
        self.distances: FloatVector = np.empty(0)
        """From the last survivor to those before it."""

    def step(self, words: Words, vector: FloatMatrix | None) -> Repeat | None:
        """Whom the next chunk repeats; None for a survivor. ``vector``: (d,) float32."""
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
        """Which survivor the chunk repeats: the first one of the ranking."""
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

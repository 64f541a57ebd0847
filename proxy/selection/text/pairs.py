"""What two texts have in common, cached by pair: shared 3-grams, the differences of their figures and names, their common opening, and the
share of one's sentences that the other has.

Candidates that are close to one another occur together in other pools. Cached values depend on the two texts only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice, repeat

import numpy as np
import numpy.typing as npt

from ..values import FloatMatrix, FloatVector, Indices, Steps
from .bounds import LONGEST_WORD, STEP_PAIRS, portions
from .features import Tokens
from .reading import Texts, ones
from .sentences import sentence_shares
from .shingles import counted

# The cost of comparing two texts beside their tokens, of which each costs 1, as a share of the cost of a step: two sets of 2,048 tokens take up to
# 0.2 ms, two short texts 5 µs.
PAIR_COST = 64
# Characters of a text that are compared with the beginning of another. By default short texts have no more.
BEGINNING = 30 * LONGEST_WORD
# The most pairs that are cached of each of three kinds: some 22 MB in all.
MOST = 1 << 16

_LOW, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd

Keys = npt.NDArray[np.uint64]


class _Memory:
    """The rows of pairs by key. A row is written before its key, and never again, so threads can share it."""

    __slots__ = ("_free", "_places", "_rows")

    def __init__(self, columns: int) -> None:
        self._rows = np.empty((MOST, columns), np.float32)  # its pages use memory when written
        self._places: dict[int, int] = {}
        self._free = count()

    def get(self, keys: Keys) -> tuple[FloatMatrix, Indices]:
        """The rows (p, columns) of pairs, and which of them are unknown."""
        places = np.fromiter(map(self._places.get, keys.tolist(), repeat(-1)), np.intp, len(keys))
        return self._rows.take(places, axis=0, mode="wrap"), (places < 0).nonzero()[0]

    def keep(self, keys: Keys, rows: FloatMatrix) -> bool:
        """Store rows; False if there is no room left."""
        places = list(islice(self._free, len(keys)))
        if places[-1] >= MOST:
            return False
        self._rows[places] = rows
        self._places.update(zip(keys.tolist(), places, strict=True))
        return True


class _Remembered:
    """The rows of pairs, cached."""

    __slots__ = ("_columns", "_memory")

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._memory = _Memory(columns)

    def of(self, keys: Keys, compare: Callable[[Indices], Steps[FloatMatrix]]) -> Steps[FloatMatrix]:
        """The rows (p, columns). ``compare``: computes those of the pairs at these places. With many pairs each stage is a step."""
        found, missing = self._memory.get(keys)
        if not len(missing):
            return found
        are_many = len(missing) > STEP_PAIRS
        if are_many:
            yield
        found[missing] = yield from compare(missing)
        if are_many:
            yield
        if not self._memory.keep(keys[missing], found[missing]):
            self.forget()
        if are_many:
            yield
        return found

    def forget(self) -> None:
        """Forget all pairs."""
        self._memory = _Memory(self._columns)


SHARED, DIFFERENCES, SENTENCES = _Remembered(1), _Remembered(5), _Remembered(1)


def keys_of(texts: Texts, first: Indices, second: Indices) -> Keys:
    """The cache keys of p pairs of candidates that both have a text."""
    one, other = texts.numbers.take(first), texts.numbers.take(second)
    return np.minimum(one, other).view(np.uint64) * _LOW + np.maximum(one, other).view(np.uint64) * _HIGH


def keys_by_rank(texts: Texts, first: Indices, second: Indices) -> Keys:
    """The same, for pairs in which the order of rank matters."""
    later, earlier = texts.numbers.take(np.maximum(first, second)), texts.numbers.take(np.minimum(first, second))
    return later.view(np.uint64) * _LOW + earlier.view(np.uint64) * _HIGH


def most_shared(texts: Texts, first: Indices, second: Indices) -> FloatVector:
    """An upper bound of the 3-grams that p pairs share (p,): the bits that both maps have, and the 3-grams without a bit of their own."""
    bits = texts.bits
    both = bits.take(first, axis=0)
    both &= bits.take(second, axis=0)
    return ones(both).astype(np.float64) + np.minimum(texts.doubled.take(first), texts.doubled.take(second))


def shared(texts: Texts, keys: Keys, first: Indices, second: Indices) -> Steps[FloatVector]:
    """How many different 3-grams p pairs share (p,). In steps."""
    found = yield from SHARED.of(keys, lambda pairs: _shared(texts, first[pairs], second[pairs]))
    return found[:, 0].astype(np.float64)


def _shared(texts: Texts, first: Indices, second: Indices) -> Steps[FloatMatrix]:
    """The same (p, 1), in a single step: each text's 3-grams are sorted once for all pairs."""
    yield from ()
    used, places = texts.numbered(first, second)
    values, lengths = texts.grams_of(used.tolist())
    owners = np.repeat(np.arange(len(used), dtype=np.uint64), lengths)
    packed = (values.astype(np.uint64) << np.uint64(32)) | owners
    packed.sort()
    found = counted(packed >> np.uint64(32), (packed & np.uint64(0xFFFFFFFF)).astype(np.intp), len(used))
    np.fill_diagonal(found, lengths)
    return found[places[first], places[second]][:, None]


def differences(texts: Texts, keys: Keys, first: Indices, second: Indices) -> Steps[FloatMatrix]:
    """The differences of the figures and then of the names of p pairs (p, 5): 1 - Jaccard similarity of both texts', 0 if neither has any,
    and whether each has one that the other lacks. Last, the share of the shorter text that is a common opening. In steps.
    """
    return (yield from DIFFERENCES.of(keys, lambda pairs: _differences(texts, first[pairs], second[pairs])))


def _differences(texts: Texts, first: Indices, second: Indices) -> Steps[FloatMatrix]:
    found = np.zeros((len(first), 5), np.float32)
    marks, beginnings = dict[int, tuple[Tokens, Tokens]](), dict[int, str]()
    readings = list(texts.portions(np.union1d(first, second).tolist()))
    for reading in readings:
        if len(readings) > 1:
            yield
        for place in reading:
            marks[place] = texts.marks(place)
            beginnings[place] = (texts.canonical(place) or "")[:BEGINNING]
    sizes = {place: len(figures) + len(names) for place, (figures, names) in marks.items()}
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    costs = [PAIR_COST + sizes[one] + sizes[other] for one, other in pairs]
    for number, part in enumerate(portions(costs, range(len(pairs)))):
        if number or len(readings) > 1:
            yield
        for place in part:
            one, other = pairs[place]
            found[place, 4] = _begins_alike(beginnings[one], beginnings[other])
            if sizes[one] or sizes[other]:
                (figures, names), (their_figures, their_names) = marks[one], marks[other]
                found[place, :4] = *_difference(figures, their_figures), *_difference(names, their_names)
    return found


def _difference(mine: Tokens, theirs: Tokens) -> tuple[float, float]:
    if mine == theirs:
        return 0.0, 0.0
    common = len(mine & theirs)
    apart = 1.0 - common / (len(mine) + len(theirs) - common)
    return apart, float(common < len(mine) and common < len(theirs))


def _begins_alike(one: str, other: str) -> float:
    """The share of the shorter text that is a common opening."""
    shorter = min(len(one), len(other))
    alike, apart = 0, shorter + 1  # the lengths of an equal prefix, and of an unequal one
    while apart - alike > 1:
        middle = (alike + apart) // 2
        alike, apart = (middle, apart) if one[:middle] == other[:middle] else (alike, middle)
    return alike / shorter if shorter else 0.0


def sentences(texts: Texts, first: Indices, second: Indices) -> Steps[FloatMatrix]:
    """The share of the later-ranked text's sentences that the earlier one has (p, 1), in steps."""
    keys = keys_by_rank(texts, first, second)
    return (yield from SENTENCES.of(keys, lambda pairs: sentence_shares(texts, first[pairs], second[pairs])))

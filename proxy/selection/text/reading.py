"""The texts of a pool, each in the form that is compared in this pool, and their features as arrays.

Features are cached with the text (features.py). Only the margins are learned from the pool (margins.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..policy import TextRules
from ..values import FloatVector, Indices, Metadata, Steps
from .bounds import POOL_WORDS, lengths_of, portions, readable, short
from .features import MOST_TOKENS, NOTHING, RECORD, Form, Tokens, complete, learn_words
from .margins import Margins, learn
from .tokens import Hashes

# The cost of a token with a digit, of which there may be MOST_TOKENS: 1.1 to 1.8 µs.
TOKEN_COST = 16

# The rarity of words is computed from at most this many texts, as distances are scaled by this many candidates.
SCALE_FROM = 50


def weight(texts: int, counts: Indices) -> FloatVector:
    """The weight of words (w,), of which ``counts`` (w,) of this many texts have each."""
    weights: FloatVector = np.log((texts + 1) / counts)
    return weights


Found = TypeVar("Found")

# The hashes of words, in 32 bits.
Words = npt.NDArray[np.uint32]

_NO_WORDS: Hashes = np.empty(0, np.uint64)
_NO_TOKENS: Tokens = frozenset()


class Texts:
    """The texts of n candidates. Known values never change; others are computed when needed.

    ``given``: the metadata's texts, None for those that are not read: too long, too expensive, or beyond the pool's budget. ``documents``
    and ``spans``: the metadata's, for chunks of one document; None if not used. ``short_words``: a text of at most this many words is
    short.
    """

    def __init__(self, metadata: Metadata, learn_from: slice, rules: TextRules) -> None:
        size = max((len(known) for known in (metadata.texts, metadata.documents) if known is not None), default=0)
        has_spans = rules.span is not None or rules.stitch is not None
        self.documents: Sequence[str | None] | None = metadata.documents if has_spans else None
        self.spans: FloatVector | None = metadata.spans if has_spans else None
        self.given, self._costs = readable(metadata.texts if metadata.texts is not None else (None,) * size)
        self.short_words = rules.short_words
        self._learn_from = learn_from
        self._needs_hashes = bool(rules.near) or rules.stitch is not None
        self._is_read = False
        self._margins: Margins | None = None
        self._forms: list[Form | None] = [None] * size
        self._found: Any = None
        self._rarity: tuple[int, Words, Indices] | None = None

    def __len__(self) -> int:
        return len(self.given)

    def form(self, i: int) -> Form | None:
        """The form of candidate i's text; None if it is not read."""
        found, text = self._forms[i], self.given[i]
        if found is None and text is not None:
            found = self._forms[i] = text.within(self._learnt())
        return found

    def canonical(self, i: int) -> str | None:
        """The canonical form of candidate i's text; None if there is none, if it has no visible character, or if it is too long."""
        form = self.form(i)
        return None if form is None else form.canonical or None

    def hashes(self, which: Sequence[int]) -> list[Hashes]:
        """For each candidate of ``which`` the hashes (w,) of its words, empty if it has no text."""
        forms = [self.form(i) for i in which]
        complete([form for form in forms if form is not None], hashes=True)
        return [_NO_WORDS if form is None or form.hashes is None else form.hashes for form in forms]

    def reading(self, which: Sequence[int]) -> Steps[None]:
        """Compute ``records`` for these candidates, and their margins before, in steps."""
        if self._is_read or self._has_been_read():
            return
        missing = [i for i in which if self._lacks(i)]
        if missing and self._margins is None:
            for portion in portions(self._costs, range(len(self))[self._learn_from]):
                with_lines = [text for i in portion if (text := self.given[i]) is not None and text.has_lines]
                is_new = any(text.whole is None for text in with_lines)
                for text in with_lines:
                    text.unwrap()
                if is_new and len(portion) < len(missing):
                    yield
        for number, portion in enumerate(portions(self._costs, missing)):
            if number:
                yield
            complete([form for i in portion if (form := self.form(i)) is not None], hashes=self._needs_hashes)
        self._is_read = len(which) == len(self)

    def _has_been_read(self) -> bool:
        """Whether all texts were already read for other pools, so that their records are only gathered."""
        if self._margins is None and None not in [True if text is None else text.whole for text in self.given]:
            self._forms = self._all_forms()
            known = [NOTHING if form is None else form.record or b"" for form in self._forms]
            self._is_read = b"" not in known and not self._needs_hashes
            if self._is_read:
                self.records = np.frombuffer(b"".join(known), RECORD)
        return self._is_read

    def _all_forms(self) -> list[Form | None]:
        """The forms of texts that are cached."""
        margins = self._learnt()
        if not (margins.headers or margins.footers):
            return [None if text is None else text.whole for text in self.given]
        headers, footers = margins.headers, margins.footers
        return [
            None
            if text is None
            else text.whole
            if (known := text.edges) is None or (known.head not in headers and known.tail not in footers)
            else text.within(margins)
            for text in self.given
        ]

    def _lacks(self, i: int) -> bool:
        form = self._forms[i]
        if form is None:
            return self.given[i] is not None
        return form.record is None or (self._needs_hashes and form.hashes is None)

    @cached_property
    def records(self) -> npt.NDArray[np.void]:
        """The RECORD of each text (n,), all zero without a text."""
        if None in self._forms:
            self._forms = [self.form(i) for i in range(len(self))]
        if not self._is_read:
            complete([form for form in self._forms if form is not None])
        joined = b"".join([NOTHING if form is None else form.record or NOTHING for form in self._forms])
        return np.frombuffer(joined, RECORD)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Equal for equal texts (n,), 0 without a text."""
        return self.records["number"].copy()

    @cached_property
    def word_counts(self) -> npt.NDArray[np.int64]:
        """The number of words of each text (n,), -1 without a text."""
        counts = self.records["words"].astype(np.int64)
        counts[counts == 0] = -1
        counts.setflags(write=False)
        return counts

    @cached_property
    def is_short(self) -> npt.NDArray[np.bool_]:
        """Which texts are short (n,)."""
        few = self.word_counts <= self.short_words
        return short(lengths_of(self.given), self.word_counts, self.short_words) if few.any() else few

    @cached_property
    def has_short(self) -> bool:
        """Whether any text is short."""
        return bool(self.is_short.any())

    @cached_property
    def grams(self) -> FloatVector:
        """The number of different 3-grams of each text (n,); 1 without a text, since it is used as a divisor."""
        sizes: FloatVector = np.maximum(self.records["grams"], 1.0)
        return sizes

    @cached_property
    def bits(self) -> npt.NDArray[np.uint64]:
        """The map of each text's 3-grams (n, 8)."""
        return np.ascontiguousarray(self.records["bits"])

    @cached_property
    def doubled(self) -> FloatVector:
        """The number of 3-grams of each text that have no bit of their own (n,)."""
        return self.records["doubled"].astype(np.float64)

    @cached_property
    def has_equal(self) -> bool:
        """Whether any two texts are equal."""
        numbers: list[int] = self.numbers.tolist()
        return len(set(numbers) - {0}) < len(numbers) - numbers.count(0)

    def once(self, find: Callable[[Texts, npt.NDArray[np.bool_]], Found], among: npt.NDArray[np.bool_]) -> Found:
        """The result of ``find`` for these texts; it is called once, and always with the same ``among``."""
        if self._found is None:
            self._found = find(self, among)
        found: Found = self._found
        return found

    @cached_property
    def words(self) -> int:
        """The number of words of all texts."""
        return int(self.records["words"].sum(dtype=np.int64))

    def words_of(self, first: Indices, second: Indices) -> int:
        """The number of words of the texts of these pairs."""
        return int(self.word_counts[self._involved(first, second)].sum())

    def compared(self, first: Indices, second: Indices, *, but: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which pairs (p,) are within the first POOL_WORDS words of all pairs except ``but`` (p,)."""
        involved = self._involved(first[~but], second[~but])
        within = np.zeros(len(self), np.bool_)
        within[involved[np.cumsum(self.word_counts[involved]) <= POOL_WORDS]] = True
        found: npt.NDArray[np.bool_] = within[first] & within[second]
        return found

    def numbered(self, first: Indices, second: Indices) -> tuple[Indices, Indices]:
        """The candidates of these pairs (u,), ascending, and of each candidate its place among them (n,), 0 for others."""
        used = self._involved(first, second)
        places = np.zeros(len(self), np.intp)
        places[used] = np.arange(len(used))
        return used, places

    def _involved(self, first: Indices, second: Indices) -> Indices:
        used = np.zeros(len(self), np.bool_)
        used[first] = used[second] = True
        return np.flatnonzero(used)

    def grams_of(self, which: Sequence[int]) -> tuple[npt.NDArray[np.uint32], Indices]:
        """The different 3-grams of each candidate of ``which``, one after another, and the number of each."""
        forms = [self.form(i) for i in which]
        complete([form for form in forms if form is not None and form.grams is None])
        known = [b"" if form is None else form.grams or b"" for form in forms]
        return np.frombuffer(b"".join(known), np.uint32), np.array([len(each) // 4 for each in known], np.intp)

    def portions(self, which: Sequence[int]) -> Iterator[list[int]]:
        """These candidates in portions that take one step each to find their marks."""
        tokens = np.minimum(self.records["words"], MOST_TOKENS).astype(np.int64)
        return portions((np.array(self._costs, np.int64) + TOKEN_COST * tokens).tolist(), which)

    def marks(self, i: int) -> tuple[Tokens, Tokens]:
        """The figures and the names of candidate i's text."""
        form = self.form(i)
        return (_NO_TOKENS, _NO_TOKENS) if form is None else form.marks

    def vocabularies(self, which: Sequence[int]) -> tuple[Words, Indices]:
        """The different words of each candidate of ``which``, one after another, and the number of each."""
        forms = [self._forms[i] or self.form(i) for i in which]
        learn_words([form for form in forms if form is not None and form.vocabulary is None])
        known = [b"" if form is None else form.vocabulary or b"" for form in forms]
        return np.frombuffer(bytearray().join(known), np.uint32), np.fromiter(map(len, known), np.intp, len(known)) // 4

    @cached_property
    def first_different(self) -> list[int]:
        """The first texts that differ from one another."""
        first = range(len(self))[self._learn_from][:SCALE_FROM]
        numbers = self.numbers.tolist()
        if not self.has_equal and 0 not in numbers:
            return list(first)
        return sorted({numbers[i]: i for i in reversed(first) if numbers[i]}.values())

    def rarity(self, words: Words) -> FloatVector:
        """The rarity of the ``words`` (w,), given by hash, among the first texts: log((t + 1) / texts with it) of t.

        Equal texts count once. A word that none of them has counts as occurring in one.
        """
        if self._rarity is None:
            known = self.vocabularies(self.first_different)[0]
            known.sort()
            places = _new(known).nonzero()[0]
            self._rarity = len(self.first_different), known[places], np.diff(places, append=len(known))
        texts, values, counts = self._rarity
        if not texts:
            return np.ones(len(words))
        at = np.minimum(values.searchsorted(words), len(values) - 1)
        found = np.where(values.take(at) == words, counts.take(at), 1)
        return weight(texts, found)

    def _learnt(self) -> Margins:
        if self._margins is None:
            teachers = [text for text in self.given[self._learn_from] if text is not None and text.has_lines]
            for text in teachers:
                if text.whole is None:
                    text.unwrap()
            self._margins = learn([text.edges for text in teachers if text.edges is not None])
        return self._margins


def numbered(values: Words) -> tuple[Words, Indices]:
    """The different ``values`` (v,), ascending, and the index of each value: np.unique without its overhead."""
    order = values.argsort()
    ascending = values.take(order)
    is_new = _new(ascending)
    codes = np.empty(len(values), np.intp)
    codes[order] = is_new.cumsum() - 1
    return ascending[is_new], codes


def _new(ascending: Words) -> npt.NDArray[np.bool_]:
    """Which of the values (v,) differ from the one before."""
    found = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=found[1:])
    return found


_FOUR = np.uint64(0x00FF00FF00FF00FF)
_SUM = np.uint64(0x0001000100010001)


def ones(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The number of bits set in each row (p, 8): (p,)."""
    eight = _bit_counts(bits).view(np.uint64).ravel()  # one byte for each of a row's numbers
    four = (eight & _FOUR) + ((eight >> np.uint64(8)) & _FOUR)
    return (four * _SUM) >> np.uint64(48)


def _bit_counts(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """The number of bits set in each number. numpy has a function for it from 2.0 on."""
    counts: npt.NDArray[np.uint8]
    if hasattr(np, "bitwise_count"):
        counts = np.bitwise_count(bits)
        return counts
    counts = _BYTES.take(bits.view(np.uint8)).reshape(*bits.shape, 8).sum(axis=-1, dtype=np.uint8)
    return counts


_BYTES = np.array([byte.bit_count() for byte in range(256)], np.uint8)


def read(metadata: Metadata, rules: TextRules, *, learn_from: slice = slice(None)) -> Texts:
    """The texts of the candidates, and their spans if ``rules`` use spans.

    ``learn_from``: the candidates from which header and footer lines are learned: a list that is read page by page must not change its
    earlier pages, so it learns from its first block only.
    """
    return Texts(metadata, learn_from, rules)

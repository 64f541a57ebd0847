"""Which candidates are copies by their texts, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.geometry import Mask
from vecsieve.proxy.selection.policy import Require, TextRules
from vecsieve.proxy.selection.text.bounds import FINGERPRINTED_WORDS, POOL_WORDS, STEP_WORDS
from vecsieve.proxy.selection.text.indel import ratios
from vecsieve.proxy.selection.text.minhash import meet, signatures
from vecsieve.proxy.selection.text.reading import Texts
from vecsieve.proxy.selection.text.shingles import Grams, Shared, containment, grams, jaccard, shared
from vecsieve.proxy.selection.text.simhash import BITS, hamming, simhash
from vecsieve.proxy.selection.text.tokens import Hashes
from vecsieve.proxy.selection.values import FloatMatrix, FloatVector, Indices, Link, Steps

# Which pairs of texts are near copies, by each of the signals that a policy switches on.


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


# Chunks of one document that cover the same part of it: overlap is read off the spans, without looking at the text.


def shares(documents: Sequence[str | None], spans: FloatVector, rows: Indices, columns: Indices) -> FloatMatrix:
    """Share (n, m) float32 in [0, 1] of the shorter span that both cover, for candidates ``rows`` and ``columns``.

    ``documents``: of all candidates. ``spans``: (all, 2) float64, [start, end). 0 where the documents differ or one is not
    known, and where a span is not known, infinite, empty or turned round.
    """
    numbers = _numbered_documents(documents)
    same = (numbers[rows][:, None] == numbers[columns][None, :]) & (numbers[rows][:, None] >= 0)
    if not same.any():
        return np.zeros(same.shape, np.float32)
    # Halved: the length of any finite span is finite then.
    start, end = spans[:, 0] / 2.0, spans[:, 1] / 2.0
    with np.errstate(invalid="ignore"):
        length = end - start
        known = np.isfinite(length) & (length > 0.0)
        both = np.minimum(end[rows][:, None], end[columns][None, :])
        both -= np.maximum(start[rows][:, None], start[columns][None, :])
        shorter = np.minimum(length[rows][:, None], length[columns][None, :])
    same &= known[rows][:, None] & known[columns][None, :]
    share = np.zeros(same.shape, np.float64)
    np.divide(both, shorter, out=share, where=same)
    return np.clip(share, 0.0, 1.0).astype(np.float32)


def _numbered_documents(documents: Sequence[str | None]) -> Indices:
    """Documents as numbers (n,): equal documents, equal numbers; -1 where there is none."""
    known: dict[str, int] = {}
    numbers = [-1 if name is None else known.setdefault(name, len(known)) for name in documents]
    return np.array(numbers, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Matches:
    """``links``: (n, m) int8 Link, NONE where texts do not make the pair copies. ``similarities``: (n, m) float32, the share
    or ratio by the rule of the link, 1.0 for IDENTICAL, 1 - bits / 64 for SIMHASH; NaN where there is no link.
    """

    links: npt.NDArray[np.int8]
    similarities: FloatMatrix

    def add(self, link: Link, passed: Mask, similarity: FloatMatrix | np.float32) -> None:
        """Lay a rule's pairs over what weaker rules found."""
        self.links[passed] = link
        self.similarities[passed] = similarity[passed] if isinstance(similarity, np.ndarray) else similarity


def matches(texts: Texts, rows: Indices, columns: Indices, compared: Mask, rules: TextRules) -> Steps[Matches]:
    """The copies among candidates ``rows`` (n,) and ``columns`` (m,), of the pairs that ``compared`` (n, m) allows.

    Rows and columns without a pair cost nothing. Whether the two sides are the same candidates is the caller's business: a
    candidate is a copy of itself if it is asked.
    """
    found = _nothing(compared.shape)
    active = np.flatnonzero(compared.any(axis=1)), np.flatnonzero(compared.any(axis=0))
    if not len(active[0]) or not len(texts):
        return found
    block = np.ix_(*active)
    inner = yield from _of(texts, rows[active[0]], columns[active[1]], compared[block], rules)
    found.links[block] = inner.links
    found.similarities[block] = inner.similarities
    return found


def _of(texts: Texts, rows: Indices, columns: Indices, compared: Mask, rules: TextRules) -> Steps[Matches]:
    found = _nothing(compared.shape)
    yield from _near(found, texts, rows, columns, compared, rules)
    if rules.span is not None and texts.documents is not None and texts.spans is not None:
        share = shares(texts.documents, texts.spans, rows, columns)
        found.add(Link.SPAN, compared & (share > 0.0) & (share >= np.float32(rules.span)), share)
    if rules.identical:
        left, right = _numbered(texts, rows, columns)
        same = (left[:, None] == right[None, :]) & (left >= 0)[:, None]
        found.add(Link.IDENTICAL, compared & same, np.float32(1.0))
    return found


def _near(
    found: Matches, texts: Texts, rows: Indices, columns: Indices, compared: Mask, rules: TextRules
) -> Steps[None]:
    """Add the pairs that pass one signal, or all of them; of several the first in the order of Link is named."""
    if all(each is None for each in (rules.containment, rules.jaccard, rules.indel, rules.minhash, rules.simhash)):
        return
    involved, places = np.unique(np.concatenate((rows, columns)), return_inverse=True)
    hashes = texts.hashes(involved.tolist())
    is_large = sum(map(len, hashes)) > STEP_WORDS
    seen: list[Signal] = []
    for signal in signals(hashes, places[: len(rows)], places[len(rows) :], compared, rules):
        seen.append(signal)
        if is_large:
            yield
    if rules.require is Require.ALL:
        passed = np.logical_and.reduce([each.passed for each in seen])
        seen = [Signal(seen[0].link, passed, seen[0].similarity)]
    for signal in reversed(seen):
        found.add(signal.link, signal.passed, signal.similarity)


def _numbered(texts: Texts, rows: Indices, columns: Indices) -> tuple[Indices, Indices]:
    """Canonical texts as numbers, of the rows (n,) and of the columns (m,): equal texts, equal numbers; -1 without text."""
    known: dict[str, int] = {}
    numbers = [
        np.array(
            [-1 if (form := texts.canonical(i)) is None else known.setdefault(form, len(known)) for i in side.tolist()],
            dtype=np.intp,
        )
        for side in (rows, columns)
    ]
    return numbers[0], numbers[1]


def _nothing(shape: tuple[int, ...]) -> Matches:
    return Matches(np.zeros(shape, np.int8), np.full(shape, np.nan, np.float32))

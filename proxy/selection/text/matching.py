"""Which candidates are copies by their texts, and by which rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.geometry import Mask
from vecsieve.proxy.selection.policy import Require, TextRules
from vecsieve.proxy.selection.steps import Steps
from vecsieve.proxy.selection.text.bounds import STEP_WORDS
from vecsieve.proxy.selection.text.near import Signal, signals
from vecsieve.proxy.selection.text.reading import Texts
from vecsieve.proxy.selection.text.spans import shares
from vecsieve.proxy.selection.values import FloatMatrix, Indices, Link


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

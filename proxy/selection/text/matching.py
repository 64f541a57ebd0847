"""Which candidates are copies by text, and by which rule: equal texts, overlapping spans, near-text signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..geometry import Mask
from ..policy import Require, TextRules
from ..values import FloatMatrix, FloatVector, Indices, Link, Steps
from .bounds import STEP_WORDS
from .reading import Texts
from .seams import of_spans, same_document
from .signals import SIGNALS
from .signals.comparison import Comparison, Near


def shares(documents: Sequence[str | None], spans: FloatVector, rows: Indices, columns: Indices) -> FloatMatrix:
    """The share (n, m) float32 in [0, 1] of the shorter span that both cover, for candidates ``rows`` and ``columns``.

    ``documents``: of all candidates. ``spans``: (all, 2) float64, [start, end). 0 if the documents differ or one is unknown, or if a span
    is unknown, infinite, empty or reversed.
    """
    same = same_document(documents, rows, columns)
    if not same.any():
        return np.zeros(same.shape, np.float32)
    share: FloatMatrix = np.where(same, np.nan_to_num(of_spans(spans, rows, columns)), np.float32(0.0))
    return np.minimum(share, np.float32(1.0))


@dataclass(frozen=True, slots=True)
class Matches:
    """``links``: (n, m) int8 Link, NONE if texts do not make the pair copies. ``similarities``: (n, m) float32, the share or ratio by the
    rule of the link, 1.0 for IDENTICAL, 1 - bits / 64 for SIMHASH; NaN without a link.
    """

    links: npt.NDArray[np.int8]
    similarities: FloatMatrix

    def add(self, link: Link, passed: Mask, similarity: FloatMatrix | np.float32) -> None:
        """Set a rule's pairs, replacing those of weaker rules."""
        self.links[passed] = link
        self.similarities[passed] = similarity[passed] if isinstance(similarity, np.ndarray) else similarity


def matches(texts: Texts, rows: Indices, columns: Indices, compared: Mask, rules: TextRules) -> Steps[Matches]:
    """The copies among candidates ``rows`` (n,) and ``columns`` (m,), for the pairs in ``compared`` (n, m).

    Rows and columns without a pair cost nothing. A candidate compared with itself is a copy; callers exclude such pairs.
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
        found.add(Link.IDENTICAL, compared & equal(texts, rows[:, None], columns), np.float32(1.0))
    return found


def _near(
    found: Matches, texts: Texts, rows: Indices, columns: Indices, compared: Mask, rules: TextRules
) -> Steps[None]:
    """Add the pairs that pass one signal, or all of them. Of several signals the first in the policy's order is reported."""
    if not rules.near:
        return
    involved, places = np.unique(np.concatenate((rows, columns)), return_inverse=True)
    hashes = texts.hashes(involved.tolist())
    is_large = sum(map(len, hashes)) > STEP_WORDS // 4  # signals take up to 0.5 µs a word, each
    compared_texts = Comparison(hashes, places[: len(rows)], places[len(rows) :], compared)
    seen: list[tuple[Link, Near]] = []
    for name, threshold in rules.near:
        signal = SIGNALS[name]
        seen.append((signal.link, signal.compare(compared_texts, threshold)))
        if is_large:
            yield
    if rules.require is Require.ALL:
        link, first = seen[0]
        seen = [(link, Near(np.logical_and.reduce([near.passed for _, near in seen]), first.similarity))]
    for link, near in reversed(seen):
        found.add(link, near.passed, near.similarity)


def equal(texts: Texts, first: Indices, second: Indices) -> Mask:
    """Which pairs are equal texts. ``first``, ``second``: candidates, in broadcastable shapes."""
    one, other = texts.numbers.take(first), texts.numbers.take(second)
    same: Mask = (one == other) & (one != 0)
    return same


def _nothing(shape: tuple[int, ...]) -> Matches:
    return Matches(np.zeros(shape, np.int8), np.full(shape, np.nan, np.float32))

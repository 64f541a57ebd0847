"""The texts of a pool. Each is read once, and only as far as it is needed.

What is derived from a text depends on that text alone, except for its margins, which are learnt from the pool (margins.py).
So the results of all other steps are cached by content across searches, in bounded memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.policy import TextRules
from vecsieve.proxy.selection.text.bounds import LONGEST, portions, readable
from vecsieve.proxy.selection.text.canonical import folded, unwrapped
from vecsieve.proxy.selection.text.margins import Edges, Margins, body, edges, learn
from vecsieve.proxy.selection.text.memo import Memo
from vecsieve.proxy.selection.text.tokens import Hashes, hashed, words
from vecsieve.proxy.selection.values import FloatVector, Metadata, Steps

# A text of a hundred words takes some 2 kB in each: four thousand of them are remembered.
_BOUND_BYTES = 8 << 20

_Piece = tuple[str, Edges | None]


def _piece_bytes(text: str, piece: _Piece) -> int:
    lines = () if piece[1] is None else (*piece[1].lines, piece[1].head, piece[1].tail)
    return sum(map(sys.getsizeof, (text, piece[0], *lines)))


_PIECES: Memo[str, _Piece] = Memo(_BOUND_BYTES, _piece_bytes)
_FOLDED: Memo[str, str] = Memo(_BOUND_BYTES, lambda text, form: sys.getsizeof(text) + sys.getsizeof(form))
_HASHES: Memo[str, Hashes] = Memo(_BOUND_BYTES, lambda form, hashes: sys.getsizeof(form) + hashes.nbytes)

_NO_WORDS: Hashes = np.empty(0, np.uint64)


class Texts:
    """The texts of n candidates. Nothing changes once it is known; what nobody asks for is not made.

    ``raw``: the metadata's texts, None for those that are not read: too long, too dear, or behind the pool's budget.
    ``documents`` and ``spans`` are the metadata's, for chunks of one document; None where nobody looks at them.
    """

    __slots__ = ("_canonical", "_counts", "_hashes", "_learn_from", "_margins", "documents", "raw", "spans")

    def __init__(self, metadata: Metadata, learn_from: slice, *, with_spans: bool) -> None:
        size = max((len(known) for known in (metadata.texts, metadata.documents) if known is not None), default=0)
        self.documents: Sequence[str | None] | None = metadata.documents if with_spans else None
        self.spans: FloatVector | None = metadata.spans if with_spans else None
        self.raw = readable(metadata.texts) if metadata.texts is not None else (None,) * size
        self._learn_from = learn_from
        self._margins: Margins | None = None
        self._canonical: list[str | None] = [""] * size  # empty: not looked at yet
        self._hashes: list[Hashes | None] = [None] * size
        self._counts: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def canonical(self, i: int) -> str | None:
        """The canonical form of candidate i's text; None where there is none, or nothing that can be seen, or too much."""
        known = self._canonical[i]
        if known == "":
            known = self._canonical[i] = self._read(self.raw[i])
        return known

    def words(self, i: int) -> tuple[str, ...]:
        """The words of candidate i's canonical text, none where there is no text."""
        known = self.canonical(i)
        return () if known is None else words(known)

    def hashes(self, which: Sequence[int]) -> list[Hashes]:
        """For each candidate of ``which`` the hashes (w,) of its words, empty where it has no text."""
        missing: dict[str, list[int]] = {}
        for i in which:
            if self._hashes[i] is None:
                known = self.canonical(i)
                found = _NO_WORDS if known is None else _HASHES.get(known)
                if found is None and known is not None:
                    missing.setdefault(known, []).append(i)
                self._hashes[i] = found
        for text, found in zip(missing, hashed(list(missing)), strict=True):
            _HASHES.keep(text, found)
            for i in missing[text]:
                self._hashes[i] = found
        return [found for i in which if (found := self._hashes[i]) is not None]

    def reading(self, which: Sequence[int]) -> Steps[None]:
        """Find what ``hashes`` gives, and the header lines before, in steps."""
        missing = [i for i in which if self._hashes[i] is None]
        if missing and self._margins is None:
            for portion in portions(self.raw, range(len(self))[self._learn_from]):
                with_lines = [text for i in portion if (text := self.raw[i]) is not None and _has_lines(text)]
                for text in with_lines:
                    _piece(text)
                if with_lines and len(portion) < len(missing):
                    yield
        for number, portion in enumerate(portions(self.raw, missing)):
            if number:
                yield
            self.hashes(portion)

    @property
    def word_counts(self) -> npt.NDArray[np.int64]:
        """How many words each text has (n,), -1 where there is no text."""
        if self._counts is None:
            counts = [len(found) or -1 for found in self.hashes(range(len(self)))]
            self._counts = np.array(counts, dtype=np.int64)
            self._counts.setflags(write=False)
        return self._counts

    def _read(self, text: str | None) -> str | None:
        if text is None:
            return None
        whole, known = _piece(text)
        if len(whole) > LONGEST:
            return None  # composing made it longer
        if known is not None:
            whole = body(whole, known, self._learnt())
        form = _FOLDED.get(whole)
        if form is None:
            form = folded(whole)
            _FOLDED.keep(whole, form)
        return form or None

    def _learnt(self) -> Margins:
        if self._margins is None:
            teachers = (text for text in self.raw[self._learn_from] if text is not None and _has_lines(text))
            self._margins = learn(known for text in teachers if (known := _piece(text)[1]) is not None)
        return self._margins


def read(metadata: Metadata, rules: TextRules, *, learn_from: slice = slice(None)) -> Texts:
    """The texts of the candidates, and their spans where ``rules`` look at spans.

    ``learn_from``: the candidates whose header and footer lines teach what a header is: a list that is read page by page
    must not change its mind about earlier pages, so it learns from its first block alone.
    """
    return Texts(metadata, learn_from, with_spans=rules.span is not None)


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _piece(text: str) -> _Piece:
    if text.isascii() and not _has_lines(text):
        return text, None  # nothing to do, which is quicker than to remember
    found = _PIECES.get(text)
    if found is None:
        whole = unwrapped(text)
        found = whole, edges(whole)
        _PIECES.keep(text, found)
    return found
